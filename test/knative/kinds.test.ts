/** The kinds that users may name: what may be listed, and that nothing is granted that is not. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { load, loadAll } from "js-yaml";
import { type FunctionDefinition, isStandard } from "../../functions/shared/contract/definition.ts";
import { type ListedKind, type ListedKinds, needsOfKinds, parseKinds } from "../../knative/render/kinds.ts";
import { renderManifests } from "../../knative/render/manifests.ts";
import { admissionFunctions, cronFunctions, groupFunctions, statusFunctions } from "../../triggers/table.ts";

const knative = join(import.meta.dirname, "../../knative");
const listed = (...mirrored: readonly unknown[]) =>
  parseKinds(JSON.stringify({ mirrored, owners: [], machines: [] })).mirrored;
const templates: ListedKind = { plural: "replicatemplates", group: "rollout-operator.grafana.com" };
const sets: ListedKind = { plural: "statefulsets", group: "apps" };
const deployments: ListedKind = { plural: "deployments", group: "apps" };
const brokers: ListedKind = { plural: "brokers", group: "example.com" };
const machines: ListedKind = { plural: "machines", group: "cluster.x-k8s.io" };
const none: ListedKinds = { mirrored: [], owners: [], machines: [] };

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

/** The rules of all Roles and ClusterRoles where each function of the table needs this of listed kinds. */
function rulesWith(kindNeeds: FunctionDefinition["kindNeeds"], kinds: ListedKinds): Rule[] {
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
  assert.throws(() => parseKinds("{ mirrored: [], owners: [secrets], machines: [] }"), /"secrets" are credentials/);
});

test("all lists but the newest must be there, and no other field: the one list of earlier versions says where its kinds go", () => {
  for (const text of ["mirrored:\nowners: []", "{ mirrored: all, owners: [] }", "owners: []", "null"])
    assert.throws(() => parseKinds(text), /`mirrored` is no list: write `mirrored: \[\]`/, text);
  assert.throws(() => parseKinds("mirrored: []"), /`owners` is no list: write `owners: \[\]`/);
  const older = { mirrored: [], owners: [], machines: [] };
  assert.deepEqual(parseKinds("{ mirrored: [], owners: [] }"), older, "a file of an earlier version");
  assert.throws(
    () => parseKinds("{ mirrored: [], owners: [], machines: }"),
    /`machines` is no list: write `machines: \[\]`/,
  );
  assert.throws(
    () => parseKinds("{ mirrored: [], owner: [] }"),
    /the field `owner`: its lists are mirrored, owners, machines/,
  );
  for (const text of ["kinds: []", "{ kinds: [a.example.com], mirrored: [], owners: [] }"])
    assert.throws(() => parseKinds(text), /one list `kinds`: move each kind to `mirrored`, or to `owners`/);
});

test("each listed kind adds exactly the rights that a function says it needs to it; without a list, or a need, none is added", () => {
  const kindNeeds = [
    { list: "mirrored", subresource: "scale", verbs: ["get", "patch"], changes: ["spec.replicas"] },
    { list: "mirrored", verbs: ["get"] },
  ] as const;
  const kinds = { ...none, mirrored: [templates], owners: [brokers] };
  const without = rulesWith(undefined, kinds);
  assert.deepEqual(rulesWith(kindNeeds, { ...none, owners: [brokers] }), without);
  const apiGroups = [templates.group];
  const added = [
    { apiGroups, resources: ["replicatemplates/scale"], verbs: ["get", "patch"] },
    { apiGroups, resources: ["replicatemplates"], verbs: ["get"] },
  ];
  const roles =
    groupFunctions.filter(isStandard).length +
    cronFunctions.length +
    ["admission", "standalone", "operator-account", "fencing", "fencing-knative"].length;
  const known = new Set(without.map((rule) => JSON.stringify(rule)));
  const news = rulesWith(kindNeeds, kinds).filter((rule) => !known.has(JSON.stringify(rule)));
  assert.deepEqual(news, Array(roles).fill(added).flat());
});

test("a kind of a group that a function leaves out gets no right to that, and a kind of its plural in another group does", () => {
  const [need] = [{ list: "mirrored", subresource: "status", verbs: ["patch"], exceptGroups: ["apps"] }] as const;
  const others = { ...sets, group: "example.com" };
  const granted = needsOfKinds([need], { ...none, mirrored: [sets, deployments, templates, others] });
  assert.deepEqual(
    granted.map(({ group, resource }) => `${resource}.${group}`),
    [`replicatemplates/status.${templates.group}`, "statefulsets/status.example.com"],
  );
});

test("a right that is a wildcard is not rendered, whether a function or a list asks for it", () => {
  const kind = { plural: "things", group: "example.com" };
  for (const [needs, kinds] of [
    [[{ list: "mirrored", verbs: ["*"] }], { ...none, mirrored: [kind] }],
    [[{ list: "mirrored", verbs: ["get"] }], { ...none, mirrored: [{ ...kind, plural: "*" }] }],
    [[{ list: "owners", verbs: ["get"] }], { ...none, owners: [{ ...kind, group: "*" }] }],
  ] as const) {
    assert.equal(needsOfKinds(needs, kinds).length, 1);
    assert.throws(() => rulesWith(needs, kinds), /^Error: a right to .+ is a wildcard: name what is needed$/);
  }
});

/** The functions whose Roles name a resource of this group, with what they may do to it. */
function namingIn(kinds: ListedKinds, group: string): Readonly<Record<string, readonly string[]>> {
  const files = renderManifests({ groupFunctions, admissionFunctions, cronFunctions, statusFunctions, kinds });
  const named = [...files].flatMap(([path, text]) => {
    const [, name] = /^functions\/([a-z-]+)\.yaml$/.exec(path) ?? [];
    const objects = loadAll(text) as unknown as { rules?: Rule[] }[];
    const rules = objects.flatMap((object) => object.rules ?? []).filter(({ apiGroups }) => apiGroups.includes(group));
    const rights = rules.map(({ resources, verbs }) => `${resources.join()}: ${verbs.join()}`);
    return name === undefined || rights.length === 0 ? [] : [[name, rights] as const];
  });
  return Object.fromEntries(named);
}

test("a mirrored kind gives rights to the functions that mirror alone, and a kind of owners to those that mark skip labels", () => {
  const kind = { plural: "things", group: "things.example.com" };
  assert.deepEqual(namingIn({ ...none, mirrored: [kind] }, kind.group), {
    "follow-replicas": ["things/scale: get", "things/status: patch"],
    "prepare-delayed-downscale": ["things/scale: get"],
  });
  assert.deepEqual(Object.keys(namingIn({ ...none, owners: [kind] }, kind.group)), ["mark-skip-label"]);
});

test("a kind of machines gives the account of fencing rights in every namespace, a policy that limits them, and no other account anything", () => {
  const kinds = { ...none, machines: [machines] };
  const files = renderManifests({ groupFunctions, admissionFunctions, cronFunctions, statusFunctions, kinds });
  const naming = [...files].filter(([, text]) => text.includes(machines.group)).map(([path]) => path);
  const [folders, policies] = [
    ["fencing", "fencing-knative"],
    ["fencing-node-deletion", "fencing-policy"],
  ];
  assert.deepEqual(
    naming.sort(),
    [...folders.map((folder) => `${folder}/functions.yaml`), ...policies.map((one) => `${one}/policies.yaml`)].sort(),
  );
  for (const folder of folders) {
    const objects = loadAll(files.get(`${folder}/functions.yaml`) ?? "") as unknown as {
      kind: string;
      rules?: Rule[];
    }[];
    const granting = objects.filter(({ rules = [] }) =>
      rules.some(({ apiGroups }) => apiGroups.includes(machines.group)),
    );
    const rule = { apiGroups: [machines.group], resources: ["machines"], verbs: ["get", "list", "patch"] };
    assert.deepEqual(
      granting.map(({ kind, rules }) => [kind, rules?.filter(({ apiGroups }) => apiGroups.includes(machines.group))]),
      [["ClusterRole", [rule]]],
    );
  }
  const without = renderManifests({ groupFunctions, admissionFunctions, cronFunctions, statusFunctions, kinds: none });
  for (const text of without.values()) assert.doesNotMatch(text, /sluice-fencing-machines/);
  for (const folder of policies) {
    const text = files.get(`${folder}/policies.yaml`) ?? "";
    assert.match(text, /kind: ValidatingAdmissionPolicyBinding\nmetadata:\n {2}name: sluice-fencing-machines\n/);
    assert.match(text, /machines\.cluster\.x-k8s\.io': \['metadata\.annotations\[sluice\.dev\/unhealthy\]'\]/);
  }
});

test("a mirrored Deployment or ReplicaSet is read alone: its controller writes its status, as that of a StatefulSet", () => {
  const replicaSets = { plural: "replicasets", group: "apps" };
  const { "follow-replicas": rights = [] } = namingIn({ ...none, mirrored: [deployments, replicaSets] }, "apps");
  const ofThese = rights.filter((right) => /^(deployments|replicasets)/.test(right));
  assert.deepEqual(ofThese, ["deployments/scale: get", "replicasets/scale: get"]);
});

test("the lists that are shipped mirror ReplicaTemplates and StatefulSets, and the README shows them", () => {
  const shipped = parseKinds(readFileSync(join(knative, "kinds.yaml"), "utf8"));
  assert.deepEqual(shipped, { ...none, mirrored: [templates, sets] });
  const readme = readFileSync(join(knative, "README.md"), "utf8");
  const [, block = ""] = /```yaml\n(mirrored:\n[^`]*)```/.exec(readme) ?? [];
  assert.deepEqual(parseKinds(block), { mirrored: [templates, sets], owners: [brokers], machines: [machines] });
  const { spec } = load(readFileSync(join(knative, "base/crds/replicatemplates.yaml"), "utf8")) as {
    spec: { group: string; names: { plural: string } };
  };
  assert.deepEqual(templates, { plural: spec.names.plural, group: spec.group });
});

test("fault b: the standalone overlay may read the scale of a ReplicaTemplate, and write its status, without a word of its user", () => {
  const objects = loadAll(readFileSync(join(knative, "base/standalone/standalone.yaml"), "utf8")) as unknown as {
    kind: string;
    rules?: Rule[];
  }[];
  const rules = objects.flatMap(({ kind, rules: own = [] }) => (kind === "Role" ? own : []));
  const mirrored = rules.filter(({ resources }) => resources.some((one) => one.startsWith("replicatemplates")));
  assert.deepEqual(mirrored, [
    { apiGroups: [templates.group], resources: ["replicatemplates/scale"], verbs: ["get"] },
    { apiGroups: [templates.group], resources: ["replicatemplates/status"], verbs: ["patch"] },
  ]);
});
