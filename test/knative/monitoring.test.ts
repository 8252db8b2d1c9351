/** The rendered alerts and the dashboard: what they ask for exists, is told apart by namespace, and says what to do. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { suite, test } from "node:test";
import { alerts } from "../../knative/render/alerts.ts";
import { renderChart } from "../../knative/render/chart/chart.ts";
import { chartSources } from "../../knative/render/chart/sources.ts";
import { dashboard } from "../../knative/render/dashboard.ts";
import { prometheusRule } from "../../knative/render/monitoring.ts";
import { repositoryOf } from "../../knative/render/package-fields.ts";
import manifest from "../../package.json" with { type: "json" };
import { routeOf } from "../../triggers/server/server.ts";
import { admissionFunctions, cronFunctions, groupFunctions, statusFunctions } from "../../triggers/table.ts";
import { createMetrics } from "../../triggers/telemetry/metrics.ts";
import { ensureAlerting, groupingsOf, queriesOfDashboard } from "./alerting.ts";

const root = join(import.meta.dirname, "../..");

interface RuleAnnotations {
  readonly summary: string;
  readonly description: string;
  readonly runbook_url?: string;
}

function annotationsWith(repository?: string | { readonly url: string }): readonly RuleAnnotations[] {
  const { spec } = prometheusRule({ ...manifest, ...(repository === undefined ? {} : { repository }) }) as unknown as {
    readonly spec: { readonly groups: readonly { readonly rules: readonly { annotations: RuleAnnotations }[] }[] };
  };
  return spec.groups.flatMap(({ rules }) => rules.map(({ annotations }) => annotations));
}

interface Panel {
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly fieldConfig?: {
    readonly defaults: {
      readonly min?: number;
      readonly thresholds?: { readonly steps: readonly { readonly color: string; readonly value: number | null }[] };
    };
  };
  readonly targets?: readonly { readonly expr: string }[];
}

interface Contents {
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly { readonly name: string }[] };
}

const { "sluice.json": json = "" } = dashboard().data as Readonly<Record<string, string>>;
const contents = JSON.parse(json) as Contents;
const panels = contents.panels.filter(({ type }) => type !== "row");

test("alerts and dashboard ask for metrics that Sluice has", () => {
  const exported = createMetrics("0", () => 0).registry.getMetricsAsArray();
  const names = new Set(exported.map(({ name }) => name));
  for (const text of [JSON.stringify(prometheusRule()), json]) {
    const asked = text.match(/\b(sluice|rollout_operator|kube|process)_[a-z_]+/g) ?? [];
    assert.ok(asked.length > 3, `${asked.length} metrics`);
    const unknown = asked.filter((one) => !names.has(one) && !names.has(one.replace(/_(sum|count|bucket)$/, "")));
    assert.deepEqual(unknown, []);
  }
});

test("each alert says what to do first", () => {
  assert.equal(annotationsWith().length, alerts.length);
  for (const { summary, description } of annotationsWith()) {
    const [, first = ""] = /(?:^|[.}] )First: (.+)$/s.exec(description) ?? [];
    assert.match(first, /\bkubectl\b/, summary);
  }
});

test("without a repository no alert names a runbook; with one each names a section of a README that is there", () => {
  assert.equal(repositoryOf(manifest), undefined, "there is none yet");
  assert.deepEqual(
    annotationsWith().filter((annotations) => "runbook_url" in annotations),
    [],
  );
  const repository = { url: "git+https://git.example.com/acme/sluice.git" };
  assert.deepEqual(annotationsWith("https://git.example.com/acme/sluice"), annotationsWith(repository));
  for (const { runbook_url: url = "" } of annotationsWith(repository)) {
    const [, path, section] = /^https:\/\/git\.example\.com\/acme\/sluice\/blob\/main\/(.+)#(.+)$/.exec(url) ?? [];
    const headings = readFileSync(join(root, path ?? assert.fail(url)), "utf8").match(/^#+ .+$/gm) ?? [];
    const anchors = headings.map((heading) =>
      heading
        .replace(/^#+ /, "")
        .toLowerCase()
        .replace(/[^\w\- ]/g, "")
        .replaceAll(" ", "-"),
    );
    assert.ok(anchors.includes(section ?? ""), `${path} has no section ${section}: ${anchors.join(", ")}`);
  }
});

test("the chart has the image and the name of the package, and its alerts have a word for the namespace of the release", () => {
  const { image, chart } = manifest.sluice;
  const rendered = renderChart(chartSources({ groupFunctions, admissionFunctions, cronFunctions, statusFunctions }));
  assert.match(rendered.get("Chart.yaml") ?? "", new RegExp(`^name: ${chart}$`, "m"));
  assert.match(rendered.get("values.yaml") ?? "", new RegExp(`^  repository: ${image}$`, "m"));
  const template = readFileSync(join(root, "knative/chart/templates/monitoring.yaml"), "utf8");
  const [, word = assert.fail()] = /replace "([^"]+)" \.Release\.Namespace/.exec(template) ?? [];
  const rules = rendered.get("files/alerts.yaml") ?? "";
  assert.ok(rules.includes(`absent(sluice_build_info{namespace="${word}"})`), rules);
});

test("each panel says what it shows, and the first one is the table of what waits now", () => {
  assert.deepEqual(
    panels.filter(({ description = "" }) => description === "").map(({ title }) => title),
    [],
  );
  assert.deepEqual([panels[0]?.type, panels[0]?.title], ["table", "Waits now"]);
  const labels = ["namespace", "rollout_group", "zone", "function", "guard"];
  assert.ok(panels[0]?.targets?.[0]?.expr.includes(`by (${labels.join(", ")})`));
  const names = contents.templating.list.map(({ name }) => name);
  assert.deepEqual(names, ["datasource", "namespace", "group"]);
});

test("the panels about reviews show each path that a function answers", () => {
  const filters = [...JSON.stringify(dashboard()).matchAll(/route=~\\*"([^"\\]+)/g)].map(([, filter = ""]) => filter);
  assert.ok(filters.length > 0);
  for (const filter of filters)
    for (const path of admissionFunctions.flatMap(({ paths }) => paths))
      assert.match(routeOf(path), new RegExp(`^(?:${filter})$`), path);
});

test("an expired certificate shows: no axis ends at 0, and what is below it is red", () => {
  const panel = panels.find(({ targets = [] }) => targets.some(({ expr }) => expr.includes("certificate_not_after")));
  const { min, thresholds } = panel?.fieldConfig?.defaults ?? assert.fail();
  assert.equal(min, undefined);
  assert.deepEqual(
    thresholds?.steps.filter(({ value }) => value === null || value <= 0),
    [
      { color: "red", value: null },
      { color: "orange", value: 0 },
    ],
  );
});

const program = await ensureAlerting(console.error).catch((error: Error) => error);
if (program instanceof Error && process.env.CI === "true") throw program;
const skip = program instanceof Error ? `no alerting rules: ${program.message}` : false;

suite("by Prometheus's own parser", { skip }, () => {
  const assertNamespace = async (expressions: readonly string[]) => {
    assert.ok(!(program instanceof Error));
    const groupings = await groupingsOf(program, expressions);
    assert.equal(groupings.length, expressions.length);
    for (const [index, found] of groupings.entries()) {
      const merged = found.filter(({ labels, without }) => without === labels.includes("namespace"));
      assert.deepEqual(merged, [], expressions[index]);
    }
    return groupings.flat().length;
  };

  test("every query of the dashboard parses, and groups by namespace", async () => {
    const queries = queriesOfDashboard();
    assert.ok(queries.length > 30, `${queries.length} queries`);
    assert.ok((await assertNamespace(queries)) >= queries.length);
  });

  test("every alert that groups does it by namespace", async () => {
    assert.ok((await assertNamespace(alerts.map(({ expression }) => expression))) > 10);
  });
});
