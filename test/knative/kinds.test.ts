/** The kinds that users may name: what may be listed, and that nothing is granted that is not. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { load, loadAll } from "js-yaml";
import type { FunctionDefinition } from "../../functions/shared/contract/definition.ts";
import { type ListedKind, needsOfKinds, parseKinds } from "../../knative/render/kinds.ts";
import { renderManifests } from "../../knative/render/manifests.ts";
import { admissionFunctions, cronFunctions, groupFunctions } from "../../triggers/table.ts";

const knative = join(import.meta.dirname, "../../knative");
const listed = (...kinds: readonly unknown[]) => parseKinds(JSON.stringify({ kinds }));
const templates: ListedKind = { plural: "replicatemplates", group: "rollout-operator.grafana.com" };

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

/** The rules of all Roles and ClusterRoles where each function of the table needs this of listed kinds. */
function rulesWith(kindNeeds: FunctionDefinition["kindNeeds"], kinds: readonly ListedKind[]): Rule[] {
  const needing = <D extends object>(definitions: readonly D[]) =>
    definitions.map((one) => ({ ...one, kindNeeds: kindNeeds ?? [] }));
  const files = renderManifests({
    groupFunctions: needing(groupFunctions),
    admissionFunctions: needing(admissionFunctions),
    cronFunctions: needing(cronFunctions),
    kinds,
  });
  const objects = [...files.values()].flatMap((text) => loadAll(text) as unknown as { rules?: Rule[] }[]);
  return objects.flatMap(({ rules = [] }) => rules);
}

test("a kind is listed as `kubectl get crd` does, and one of the core group by its plural alone", () => {
  assert.deepEqual(listed("replicatemplates.rollout-operator.grafana.com"), [templates]);
  assert.deepEqual(listed("deployments.apps", "configmaps"), [
    { plural: "deployments", group: "apps" },
    { plural: "configmaps", group: "" },
  ]);
  assert.deepEqual(listed(), []);
});

test("what cannot be granted is refused with a message that names it", () => {
  const wildcard = /is a wildcard: list each kind by itself/;
  for (const name of ["*", "*.example.com", "replicatemplates.*", "replica*.example.com"]) {
    assert.throws(() => listed(name), wildcard, name);
    assert.throws(() => listed(name), { message: new RegExp(`^"${name.replaceAll("*", "\\*")}"`) });
  }
  for (const name of [
    "ReplicaTemplate.rollout-operator.grafana.com",
    "",
    "a b.example.com",
    "pods/exec",
    "a.",
    7,
    null,
  ])
    assert.throws(() => listed(name), /is not PLURAL\.GROUP, as `kubectl get crd` lists a kind/, String(name));
  assert.throws(() => listed("nodes"), /"nodes" is of no namespace/);
  assert.throws(() => listed("secrets"), /"secrets" are credentials/);
  for (const text of ["kinds:", "kinds: all", "kind: []", "null"]) assert.throws(() => parseKinds(text), /no list/);
});

test("each listed kind adds exactly the rights that a function says it needs to it; without a list, or a need, none is added", () => {
  const kindNeeds = [
    { subresource: "scale", verbs: ["get", "patch"], changes: ["spec.replicas"] },
    { verbs: ["get"] },
  ] as const;
  const without = rulesWith(undefined, [templates]);
  assert.deepEqual(rulesWith(kindNeeds, []), without);
  const apiGroups = [templates.group];
  const added = [
    { apiGroups, resources: ["replicatemplates/scale"], verbs: ["get", "patch"] },
    { apiGroups, resources: ["replicatemplates"], verbs: ["get"] },
  ];
  const roles = groupFunctions.length + cronFunctions.length + ["admission", "standalone"].length;
  const known = new Set(without.map((rule) => JSON.stringify(rule)));
  const news = rulesWith(kindNeeds, [templates]).filter((rule) => !known.has(JSON.stringify(rule)));
  assert.deepEqual(news, Array(roles).fill(added).flat());
});

test("a right that is a wildcard is not rendered, whether a function or a list asks for it", () => {
  const kind = { plural: "things", group: "example.com" };
  for (const [needs, kinds] of [
    [[{ verbs: ["*"] }], [kind]],
    [[{ verbs: ["get"] }], [{ ...kind, plural: "*" }]],
    [[{ verbs: ["get"] }], [{ ...kind, group: "*" }]],
  ] as const) {
    assert.equal(needsOfKinds(needs, kinds).length, 1);
    assert.throws(() => rulesWith(needs, kinds), /^Error: a right to .+ is a wildcard: name what is needed$/);
  }
});

test("the list that is shipped names no kind, and its comment and the README show one that can be listed", () => {
  const shipped = readFileSync(join(knative, "kinds.yaml"), "utf8");
  assert.deepEqual(parseKinds(shipped), []);
  const shown = shipped.replace(/^#(?= {3})/gm, "").replace(/^kinds: \[\]$/m, "");
  assert.deepEqual(parseKinds(shown), [templates]);
  const readme = readFileSync(join(knative, "README.md"), "utf8");
  const [, block = ""] = /```yaml\n(kinds:\n[^`]*)```/.exec(readme) ?? [];
  assert.deepEqual(parseKinds(block), [templates]);
  const { spec } = load(readFileSync(join(knative, "base/crds/replicatemplates.yaml"), "utf8")) as {
    spec: { group: string; names: { plural: string } };
  };
  assert.deepEqual(templates, { plural: spec.names.plural, group: spec.group });
});
