/** What GitOps tools are told to ignore: objects that ship, and fields that Sluice writes there and no manifest does. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { load, loadAll } from "js-yaml";
import { renderManifests } from "../../knative/render/manifests.ts";
import { settingsTable } from "../../triggers/settings/settings.ts";
import {
  admissionFunctions,
  cronFunctions,
  groupFunctions,
  presets,
  statusFunctions,
  table,
} from "../../triggers/table.ts";

interface Rendered {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
}

interface Ignored {
  readonly group?: string;
  readonly kind: string;
  readonly name?: string;
  readonly paths: readonly string[];
}

const root = join(import.meta.dirname, "../..");
const text = readFileSync(join(root, "knative/gitops.md"), "utf8");
const [argo, flux] = [...text.matchAll(/```yaml\n([^`]*)```/g)].map(([, block = ""]) => load(block)) as [
  { spec: { ignoreDifferences: (Omit<Ignored, "paths"> & Record<string, string[]>)[] } },
  { spec: { driftDetection: { ignore: { target: Omit<Ignored, "paths">; paths: string[] }[] } } },
];
const files = renderManifests({ groupFunctions, admissionFunctions, cronFunctions, statusFunctions });
const rendered = ["standalone", "webhooks"].flatMap((folder) =>
  [...files].filter(([path]) => path.startsWith(`${folder}/`)).flatMap(([, file]) => loadAll(file) as Rendered[]),
);
const examples = loadAll(readFileSync(join(root, "knative/examples/zones.yaml"), "utf8")) as Rendered[];

/** What stands at a JSON pointer, or at a path of jq, of which every list is taken as a whole. */
function valuesAt(object: unknown, path: string): unknown[] {
  const parts = path.startsWith("/") ? path.slice(1).split("/") : path.slice(1).replaceAll("[]", ".*").split(".");
  const step = (values: unknown[], part: string): unknown[] =>
    values.flatMap((value) => {
      const fields = (value ?? {}) as Record<string, unknown>;
      const found = part === "*" ? Object.values(fields) : [fields[part]];
      return found.filter((one) => one !== undefined);
    });
  return parts.reduce(step, [object]);
}

const ignored: readonly Ignored[] = [
  ...argo.spec.ignoreDifferences.map(({ group, kind, name, jqPathExpressions = [], jsonPointers = [] }) => ({
    ...{ group: group ?? "", kind, ...(name === undefined ? {} : { name }) },
    paths: [...jqPathExpressions, ...jsonPointers],
  })),
  ...flux.spec.driftDetection.ignore.map(({ target, paths }) => ({ ...target, paths })),
];

/** What functions write, by their own definitions: `RESOURCE PATH`. */
const written = new Set(
  table.flatMap(({ needs }) =>
    needs.flatMap(({ resource, changes = [] }) => changes.map((path) => `${resource} ${path}`)),
  ),
);

test("each field that a tool ignores is one of an object that ships, and Sluice alone writes it, but for paths and sizes", () => {
  assert.equal(ignored.length, 7);
  for (const { group, kind, name, paths } of ignored) {
    const objects = [...rendered, ...examples].filter(
      (one) =>
        one.kind === kind &&
        (group === undefined || one.apiVersion.split("/").toReversed()[1] === (group || undefined)) &&
        (name === undefined || one.metadata.name === name),
    );
    for (const path of paths) {
      const field = path
        .slice(1)
        .replace(/\[\]|\/0(?=\/)/, "[*]")
        .replaceAll("/", ".");
      assert.ok(written.has(`${kind.toLowerCase()}s ${field}`), `no function writes ${field} of a ${kind}`);
    }
    assert.ok(objects.length > 0 && paths.length > 0, `no object that ships is a ${kind} ${name ?? ""}`);
    for (const [object, path] of objects.flatMap((one) => paths.map((path) => [one, path] as const))) {
      const isWritten = valuesAt(object, path).length > 0;
      const parent = path.replace(/[/.][^/.]*$/, "");
      assert.ok(parent === "" || valuesAt(object, parent).length > 0, `${object.metadata.name} has no ${parent}`);
      assert.equal(isWritten, /path$|replicas$/.test(path), `${object.metadata.name}: ${path}`);
    }
  }
});

test("a pointer to the first webhook of a configuration reaches all that it has", () => {
  const configurations = rendered.filter(({ kind }) => kind.endsWith("WebhookConfiguration"));
  assert.equal(configurations.length, 4);
  for (const one of configurations) assert.equal(valuesAt(one, ".webhooks[]").length, 1, one.metadata.name);
});

test("settings, files and objects that the page names are there", () => {
  const [, names = ""] = /Set `(\w+=\w+` and `\w+=\w+)`/.exec(text) ?? [];
  const variables = Object.values(settingsTable).map(({ name }): string => name);
  for (const [, variable = ""] of names.matchAll(/(\w+)=/g)) assert.ok(variables.includes(variable), variable);
  assert.equal([...names.matchAll(/=/g)].length, 2);
  assert.match(
    readFileSync(join(root, "knative/chart/values.yaml"), "utf8"),
    /^webhooks:\n(?: {2}#.*\n)* {2}enabled: true$/m,
  );
  assert.ok(presets["rollout-operator"]?.some(({ name }) => name === "follow-replicas"));
  const [, label = ""] = /take the label `([^`]+)`/.exec(text) ?? [];
  for (const one of rendered.filter(({ kind }) => kind.endsWith("WebhookConfiguration")))
    assert.equal(
      valuesAt(one, "/metadata/labels").map((labels) => (labels as Record<string, string>)[label])[0],
      "true",
    );
});
