/** The chart as `npm run render` writes it: that it is what is committed, and what its data and its schema promise. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { suite, test } from "node:test";
import { load } from "js-yaml";
import type { Setting } from "../../functions/shared/base/settings.ts";
import { isStandard } from "../../functions/shared/contract/definition.ts";
import { handWritten, renderChart } from "../../knative/render/chart/chart.ts";
import { type ChoiceData, choiceData } from "../../knative/render/chart/choice.ts";
import { schemaOf, settingsSchema } from "../../knative/render/chart/settings-schema.ts";
import { chartSources } from "../../knative/render/chart/sources.ts";
import { parseKinds } from "../../knative/render/kinds.ts";
import { settingsTable } from "../../triggers/settings/settings.ts";
import {
  admissionFunctions,
  alwaysServed,
  cronFunctions,
  groupFunctions,
  presets,
  statusFunctions,
  table,
} from "../../triggers/table.ts";

const knative = join(import.meta.dirname, "../../knative");
const folder = join(knative, "chart");
const kinds = parseKinds(readFileSync(join(knative, "kinds.yaml"), "utf8"));
const functions = { groupFunctions, admissionFunctions, cronFunctions, statusFunctions, kinds };
const rendered = renderChart(chartSources(functions));

interface Schema {
  readonly type?: readonly string[];
  readonly pattern?: string;
  readonly enum?: readonly unknown[];
  readonly minimum?: number;
  readonly maximum?: number;
}

/** Whether a schema takes a text, and a number that is written as one. */
function takes({ enum: words, pattern, minimum = -Infinity, maximum = Infinity }: Schema, text: string): boolean {
  if (words !== undefined) return words.includes(text);
  if (pattern !== undefined && !new RegExp(pattern, "u").test(text)) return false;
  return !/^\d+$/.test(text) || (Number(text) >= minimum && Number(text) <= maximum);
}

suite("the rendered chart", () => {
  test("what is committed is what is rendered, and what is written by hand, file by file", () => {
    const entries = globSync("**/*", { cwd: folder, withFileTypes: true }).filter((entry) => entry.isFile());
    const committed = entries.map(({ parentPath, name }) => relative(folder, join(parentPath, name)));
    const visible = handWritten.filter((path) => !path.startsWith("."));
    assert.deepEqual(committed.sort(), [...rendered.keys(), ...visible].sort(), "run npm run render");
    for (const [path, text] of rendered) assert.equal(readFileSync(join(folder, path), "utf8"), text, path);
  });

  test("no template asks the cluster: what is rendered without one is what is installed", () => {
    const templates = globSync("templates/*", { cwd: folder });
    assert.ok(templates.length > 8);
    for (const path of templates) assert.doesNotMatch(readFileSync(join(folder, path), "utf8"), /\blookup\b/, path);
  });

  test("every standard function can be chosen, and each is in a preset or served in any case", () => {
    const data = load(rendered.get("files/functions.yaml") ?? "") as ChoiceData;
    const standard = table.filter(isStandard).map(({ name }) => name);
    assert.deepEqual(data.functions.map(({ name }) => name).sort(), [...standard].sort());
    const chosen = new Set([...Object.values(data.presets).flat(), ...data.alwaysServed]);
    const left = standard.filter((name) => !chosen.has(name));
    assert.deepEqual(left, [], "put it into a preset, or say here why it is in none");
  });

  test("a preset of a function that is not in the table is refused, and so is a right with a wildcard", () => {
    const first = groupFunctions.find(isStandard) ?? assert.fail();
    const others = groupFunctions.filter((one) => one !== first);
    const few = { ...functions, groupFunctions: others };
    assert.throws(() => choiceData(few, { presets, alwaysServed }), new RegExp(`a preset has ${first.name}`));
    const wild = { ...first, needs: [{ group: "", resource: "*", verbs: ["get"] }] };
    const careless = { ...functions, groupFunctions: [wild, ...others] };
    assert.throws(() => choiceData(careless, { presets, alwaysServed }), /is a wildcard/);
  });

  test("the README of the chart lists each preset with its functions, and each function with its rights", () => {
    const readme = readFileSync(join(folder, "README.md"), "utf8");
    for (const [preset, chosen] of Object.entries(presets)) {
      const [, row = ""] = new RegExp(`^\\| \`${preset}\` \\|(.*)\\|$`, "m").exec(readme) ?? [];
      assert.deepEqual(
        [...row.matchAll(/\[([a-z-]+)\]\(/g)].map(([, name = ""]) => name).sort(),
        chosen.map(({ name }) => name).sort(),
        preset,
      );
    }
    const data = load(rendered.get("files/functions.yaml") ?? "") as ChoiceData;
    for (const { name, role, processRole, clusterRole, ownWebhooks } of data.functions) {
      const [, row = ""] = new RegExp(`^\\| \`${name}\` \\|(.*)\\|$`, "m").exec(readme) ?? [];
      const written = [...row.matchAll(/`([a-z/]+)`: ([a-z, ]+)/g)].map(
        ([, resource, verbs]) => `${resource}: ${verbs?.trim()}`,
      );
      const rules = [...role, ...processRole, ...clusterRole, ...ownWebhooks] as {
        resources: string[];
        verbs: string[];
      }[];
      const merged = Map.groupBy(rules, ({ resources }) => resources.join());
      const needed = [...merged].map(
        ([resource, all]) => `${resource}: ${[...new Set(all.flatMap(({ verbs }) => verbs))].join(", ")}`,
      );
      assert.deepEqual(written.sort(), needed.sort(), name);
    }
  });
});

test("the alert on a webhook that may be passed over leaves out the one that is shipped so", () => {
  const shipped = admissionFunctions.filter(({ registration }) => registration.failurePolicy === "Ignore");
  assert.deepEqual(
    shipped.map(({ registration }) => registration.webhook),
    ["zpdb-validation"],
  );
  const [, pattern = assert.fail()] = /webhook=~"([^"]+)"/.exec(rendered.get("files/alerts.yaml") ?? "") ?? [];
  const isSent = (webhook: string) => new RegExp(`^(?:${pattern})$`).test(`${webhook}-mimir`);
  assert.deepEqual([isSent("pod-eviction"), isSent("zpdb-validation")], [true, false]);
});

suite("the schema of the settings", () => {
  const settings: readonly Setting<unknown>[] = Object.values(settingsTable);
  const { properties } = settingsSchema(settings) as { properties: Readonly<Record<string, Schema>> };
  const texts = [
    ..."0 1 10 50 100 1024 65535 10000000 -1 1.5 +5s 5s 1m30s 1.5h 20us 7d 1w soon true false TRUE all act shadow keep".split(
      " ",
    ),
    ..."remove off info debug warn error none watch awake list a,b example.com/* mimir cluster.local. /tmp/file".split(
      " ",
    ),
  ];

  test("it refuses nothing that the process would take", () => {
    for (const setting of settings) {
      const schema = schemaOf(setting) as Schema;
      const wrong = [...texts, setting.fallback].filter(
        (text) => setting.parse(text) !== undefined && !takes(schema, text),
      );
      assert.deepEqual(wrong, [], setting.name);
    }
  });

  test("it refuses words that are none, numbers out of bounds, and what is no duration", () => {
    const refused = (name: string) => texts.filter((text) => !takes(properties[name] ?? assert.fail(name), text));
    assert.ok(refused("SLUICE_MODE").includes("keep") && !refused("SLUICE_MODE").includes("shadow"));
    assert.ok(refused("CONCURRENCY").includes("0") && refused("CONCURRENCY").includes("soon"));
    assert.ok(refused("SWEEP_INTERVAL").includes("soon") && !refused("SWEEP_INTERVAL").includes("1m30s"));
    assert.ok(refused("UPDATE_CA_BUNDLE").includes("TRUE") && !refused("UPDATE_CA_BUNDLE").includes("true"));
  });

  test("it has each setting but for those that other values make", () => {
    const left = settings.map(({ name }) => name).filter((name) => !(name in properties));
    assert.ok(left.includes("FUNCTION") && left.includes("TLS_SECRET_NAME"));
    assert.ok(Object.keys(properties).length > 15, Object.keys(properties).join());
  });
});
