/** What the definition of an opt-in function asks for, and that the standard installation has nothing of it. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { loadAll } from "js-yaml";
import { type FunctionDefinition, isStandard } from "../../functions/shared/contract/definition.ts";
import type { ObjectRef } from "../../functions/shared/contract/keys.ts";
import { renderChart } from "../../knative/render/chart/chart.ts";
import { chartSources } from "../../knative/render/chart/sources.ts";
import { sourcesOf, triggerOf } from "../../knative/render/events.ts";
import { concernsNodes } from "../../knative/render/fencing/fencing.ts";
import { renderManifests } from "../../knative/render/manifests.ts";
import type { Manifest } from "../../knative/render/object.ts";
import { rightsOf, union } from "../../knative/render/rights.ts";
import { servingOf } from "../../triggers/serving.ts";
import { parseFunctions, settingsTable } from "../../triggers/settings/settings.ts";
import { admissionFunctions, cronFunctions, groupFunctions, statusFunctions, table } from "../../triggers/table.ts";

/** Keyed by Nodes, every ten seconds, with rights in all three places. */
const watcher: FunctionDefinition<ObjectRef> = {
  name: "watch-everything",
  concern: "look at every node",
  guards: {},
  isOptIn: true,
  keyedBy: "nodes",
  watches: [{ resource: "nodes", keysOf: ({ name }) => [{ resource: "nodes", namespace: "", name }] }],
  listKeys: async () => [],
  schedule: { everySeconds: 10, listDue: async () => [] },
  needs: [
    { group: "", resource: "nodes", verbs: ["get", "patch"], changes: ["spec.taints"] },
    { group: "", resource: "pods", verbs: ["list"], scope: "every-namespace" },
    { group: "", resource: "events", verbs: ["create"], scope: "default" },
    { group: "coordination.k8s.io", resource: "leases", verbs: ["get", "create"], changes: [] },
  ],
  reads: [],
  writes: [],
  reconcile: async () => ({ requeueAfterMs: undefined, pendingActs: undefined }),
};

const standard = { groupFunctions, admissionFunctions, cronFunctions, statusFunctions };
const more = { ...standard, groupFunctions: [...groupFunctions, watcher as FunctionDefinition] };

/** What is not installed with an overlay of opt-in functions. */
function renderedWithout(functions: typeof standard): ReadonlyMap<string, string> {
  return new Map([...renderManifests(functions)].filter(([path]) => !/^(fencing|restart)/.test(path)));
}

interface Role extends Manifest {
  readonly rules?: readonly { readonly resources: readonly string[]; readonly verbs: readonly string[] }[];
  readonly roleRef?: { readonly kind: string; readonly name: string };
  readonly subjects?: readonly { readonly name: string; readonly namespace: string }[];
}

suite("an opt-in function", () => {
  test("leaves no trace in the standard manifests and in the chart", () => {
    assert.deepEqual(renderedWithout(more), renderedWithout(standard));
    assert.deepEqual(renderChart(chartSources(more)), renderChart(chartSources(standard)));
    const asked = { ...standard, groupFunctions: [...groupFunctions, { ...watcher, isOptIn: undefined }] };
    const text = [...renderedWithout(asked as unknown as typeof standard).values()].join("\n");
    assert.ok(text.includes(watcher.name), "without that word it is installed");
  });

  test("has no settings of its own among the values of the chart, but shares those that others have", () => {
    const { podTimeoutMs, zoneTrackerName } = settingsTable;
    const owner = { ...watcher, settings: { podTimeoutMs, zoneTrackerName } } as FunctionDefinition;
    const valuesOf = (functions: typeof standard) => chartSources(functions).settings;
    const left = valuesOf({ ...standard, groupFunctions: [...groupFunctions, owner] });
    assert.deepEqual(
      valuesOf(standard).filter((one) => !left.includes(one)),
      [podTimeoutMs],
    );
  });

  test("is not among `all`, and is served where its name is set", () => {
    const installed = table.filter(isStandard);
    const definitions = [...installed, watcher];
    const names = installed.map(({ name }) => name);
    assert.deepEqual(parseFunctions("all", definitions), names);
    assert.deepEqual(parseFunctions(watcher.name, definitions), [watcher.name]);
    assert.deepEqual(parseFunctions(`${names[0]}, ${watcher.name}`, definitions), [names[0], watcher.name]);
    assert.equal(parseFunctions("watch-nothing", definitions), undefined);
    assert.equal(servingOf({ functions: names }, definitions), "all");
    const swapped = [...names.slice(1), watcher.name];
    assert.equal(servingOf({ functions: swapped }, definitions), swapped.join(","), "as many, but not the same");
  });
});

suite("rights outside of the own namespace", () => {
  const roles = rightsOf(watcher) as readonly Role[];
  const grantedBy = (kind: string, namespace?: string) =>
    roles
      .filter((one) => one.kind === kind && one.metadata.namespace === namespace)
      .flatMap((one) => one.rules ?? [])
      .map(({ resources, verbs }) => `${resources} ${verbs}`);

  test("what is needed in every namespace is in the ClusterRole, and all else in the Role", () => {
    assert.deepEqual(grantedBy("ClusterRole"), ["nodes get,patch", "pods list"]);
    assert.deepEqual(grantedBy("Role"), ["leases get,create"]);
  });

  test("Events about Nodes are made in the namespace default by a Role there, which is bound to the account", () => {
    assert.deepEqual(grantedBy("Role", "default"), ["events create"]);
    const bound = roles.filter(({ kind, metadata }) => kind === "RoleBinding" && metadata.namespace === "default");
    assert.deepEqual(
      bound.map(({ metadata, roleRef, subjects }) => [
        metadata.name,
        roleRef?.kind,
        roleRef?.name,
        subjects?.[0]?.name,
      ]),
      [["sluice:watch-everything", "Role", "sluice:watch-everything", "watch-everything"]],
    );
    const names = roles.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
    assert.equal(new Set(names).size, names.length, "no name twice, because the process may run in `default` itself");
  });

  test("a right in one place is not taken for the same right in another one", () => {
    const events = { group: "", resource: "events", verbs: ["create"] };
    const needs = [events, { ...events, scope: "default" as const }, { ...events, verbs: ["get"] }];
    assert.deepEqual(union(needs), [
      { ...events, verbs: ["create", "get"] },
      { ...events, scope: "default" },
    ]);
  });
});

test("a function's own schedule of ten seconds is that of a PingSource of its own, beside the sweep of all functions", () => {
  const pings = sourcesOf(watcher as FunctionDefinition).filter(({ kind }) => kind === "PingSource");
  assert.deepEqual(
    pings.map(({ metadata, spec }) => [metadata.name, (spec as { readonly schedule: string }).schedule]),
    [
      ["watch-everything", "*/5 * * * *"],
      ["watch-everything-due", "*/10 * * * * *"],
    ],
  );
  assert.ok(JSON.stringify(triggerOf(watcher as FunctionDefinition)).includes("/pingsources/watch-everything-due"));
});

test("the installation of fencing follows from the definitions: it serves each opt-in function of Nodes, by one Service", () => {
  const served = more.groupFunctions.filter(concernsNodes).map(({ name }) => name);
  assert.deepEqual(served, ["fence-node", "watch-node-health", watcher.name]);
  const withWatcher = renderManifests(more);
  assert.ok(withWatcher.get("fencing/functions.yaml")?.includes(`value: ${served.join(",")}\n`));
  const sources = loadAll(withWatcher.get("fencing-knative/sources.yaml") ?? "") as Manifest[];
  const sinks = sources.flatMap(({ spec }) => (spec as { readonly sink?: object } | undefined)?.sink ?? []);
  assert.equal(sinks.length, 3 * 2 + 2, "two ticks of each, and the events of two");
  const service = { apiVersion: "serving.knative.dev/v1", kind: "Service", name: "fence-node" };
  for (const sink of sinks) assert.deepEqual(sink, { ref: service });
  const without = renderManifests({ ...standard, groupFunctions: groupFunctions.filter((one) => !concernsNodes(one)) });
  assert.deepEqual(
    [...without.keys()].filter((path) => path.startsWith("fencing")),
    [],
  );
});

test("an opt-in function of groups is installed with the overlay of restarts, and leaves all other files as they are", () => {
  const rolling = { ...watcher, name: "roll-by-hand", keyedBy: "groups", watches: [], needs: [] } as const;
  const withIt = renderManifests({ ...standard, groupFunctions: [...groupFunctions, rolling as FunctionDefinition] });
  assert.ok(withIt.get("restart/roll-by-hand.yaml")?.includes("value: roll-by-hand\n"));
  assert.ok(
    withIt.get("restart-knative/roll-by-hand.yaml")?.includes('schedule: "*/10 * * * * *"'.replaceAll('"', "'")),
  );
  const others = [...withIt].filter(([path]) => !path.startsWith("restart"));
  const before = [...renderManifests(standard)].filter(([path]) => !path.startsWith("restart"));
  assert.deepEqual(new Map(others), new Map(before));
});

test("the standard installation has no right to Nodes and VolumeAttachments, and none to another namespace's objects", () => {
  const objects = [...renderedWithout(standard).values()].flatMap((text) => loadAll(text) as Role[]);
  const rules = objects.flatMap((one) => one.rules ?? []);
  assert.ok(rules.length > 10);
  const ofNodes = rules.filter(({ resources }) => resources.some((one) => /^(nodes|volumeattachments)\b/.test(one)));
  assert.deepEqual(ofNodes, []);
  assert.deepEqual(
    objects.filter(({ metadata }) => metadata?.namespace !== undefined),
    [],
  );
  // What lets go of a namespace that ends acts in all of them: `outside.ts` says why, and a policy holds it to that.
  const wide = objects.filter(
    ({ kind, metadata }) => kind === "ClusterRole" && metadata.name !== "sluice:sluice-outside",
  );
  const namespaced = /^(pods|leases|events|statefulsets|persistentvolumeclaims)\b/;
  const found = wide
    .flatMap((one) => one.rules ?? [])
    .filter(({ resources }) => resources.some((one) => namespaced.test(one)));
  assert.deepEqual(found, []);
  const scoped = table.filter(isStandard).flatMap(({ needs }) => needs.filter(({ scope }) => scope !== undefined));
  assert.deepEqual(scoped, []);
});
