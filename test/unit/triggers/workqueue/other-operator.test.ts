/** A process beside rollout-operator, over the fake cluster: it writes only Events until the operator is gone. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { evaluateEviction } from "../../../../functions/evaluate-eviction/function.ts";
import { prepareDownscale } from "../../../../functions/prepare-downscale/function.ts";
import { releaseNamespace } from "../../../../functions/release-namespace/function.ts";
import {
  type FunctionDefinition,
  isStandard,
  listGroupKeys,
} from "../../../../functions/shared/contract/definition.ts";
import type { Key, ObjectRef } from "../../../../functions/shared/contract/keys.ts";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { groupFunctions } from "../../../../triggers/table.ts";
import type { VirtualTimeline } from "../../../fake-cluster/timeline.ts";
import { played } from "../../shared/reconcile/harness.ts";
import { createTestWorld, type TestWorldOptions } from "../server/world.ts";

const operator = { namespace: "app", name: "rollout-operator-5d4-x7k2p" };
const waits: TestWorldOptions["settings"] = { otherOperator: "wait" };
const guards = "sluice_verdicts_total";

function worldWithOperator(options: TestWorldOptions) {
  const testWorld = createTestWorld(options);
  const { world, calls, reporting } = testWorld;
  world.store.create("pods", operator.namespace, {
    metadata: { name: operator.name, labels: { name: "rollout-operator" } },
    spec: { containers: [{ name: "operator", image: "grafana/rollout-operator:v0.40.0" }] },
  });
  const page = () => played(world.timeline as VirtualTimeline, reporting.metrics.registry.metrics());
  return {
    ...testWorld,
    /** What was written, except Events. */
    writes: () =>
      calls.filter(({ verb, resource }) => !/^(get|list|watch)$/.test(verb) && resource !== "events").map(textOf),
    events: () => world.store.list("events").items,
    shown: async () => (await page()).split("\n").filter((line) => line.startsWith("sluice_other_operator{")),
    counted: async (guard: string) => (await page()).split("\n").filter((line) => line.includes(`guard="${guard}"`)),
    end: () => world.store.delete("pods", operator, { gracePeriodSeconds: 0 }),
  };
}

function textOf({ verb, resource }: { readonly verb: string; readonly resource: string }): string {
  return `${verb} ${resource}`;
}

test("while the operator runs Sluice writes one Event and nothing else, and rolls the group out 30 s after its pod is gone", async () => {
  const { start, goTo, changeTemplates, isRolled, writes, events, shown, counted, end } = worldWithOperator({
    settings: waits,
  });
  start();
  changeTemplates("app:2");
  await goTo(100);
  assert.deepEqual(writes(), []);
  const sent = events().filter(({ reason }) => reason === "StandingBy");
  assert.equal(sent.length, 1, "all functions of a process send one");
  assert.match(sent[0]?.metadata.name ?? "", /^ingester-a\./);
  assert.match(
    sent[0]?.message ?? "",
    /^other-operator: rollout-operator runs as pod app\/rollout-operator-5d4-x7k2p,/,
  );
  assert.deepEqual(await shown(), [`sluice_other_operator{namespace="app",pod="${operator.name}"} 1`]);
  const waiting = await counted("other-operator");
  assert.ok(waiting.some((line) => line.startsWith(`${guards}{function="advance-zone-rollout"`)));
  assert.ok(
    waiting.some((line) => line.startsWith("sluice_waiting_since_timestamp_seconds{")),
    "the time since when is shown",
  );
  end();
  await goTo(129);
  assert.deepEqual(writes(), [], "its pod has been gone for less than 30 s");
  await goTo(400);
  assert.equal(isRolled(), true);
  assert.deepEqual(await shown(), []);
  const later = await counted("other-operator");
  assert.deepEqual(
    later.filter((line) => line.startsWith("sluice_waiting_since")),
    [],
  );
});

for (const [how, settings] of [
  ["OTHER_OPERATOR=ignore", { otherOperator: "ignore" }],
  ["shadow mode", { ...waits, mode: "shadow" }],
] as const)
  test(`with ${how} Sluice does not wait for the operator`, async () => {
    const { start, goTo, changeTemplates, isRolled, writes, counted, shown } = worldWithOperator({ settings });
    start();
    await goTo(1);
    changeTemplates("app:2");
    await goTo(200);
    assert.equal(isRolled(), how !== "shadow mode");
    assert.equal(writes().length > 0, how !== "shadow mode");
    assert.deepEqual([await counted("other-operator"), await shown()], [[], []]);
    assert.notEqual((await counted("rolling")).length, 0);
  });

/** A function that remembers its reconciles and its sweeps. */
function recorder<K extends Key>(parts: Partial<FunctionDefinition<K>>) {
  const done: string[] = [];
  const definition = {
    ...{ name: "record", concern: "remember", guards: {}, keyedBy: "groups", watches: [] },
    ...{ needs: [], reads: [], writes: [] },
    listKeys: listGroupKeys as never,
    reconcile: async (_context, key) => {
      done.push(`reconcile ${"group" in key ? key.group : `${key.namespace}/${key.name}`}`);
      return { requeueAfterMs: undefined, pendingActs: undefined };
    },
    sweep: async () => void done.push("sweep"),
    ...parts,
  } satisfies FunctionDefinition<K>;
  return { definition: definition as unknown as FunctionDefinition, done };
}

test("a sweep does no additional work while the operator runs, except for functions that do not stand by", async () => {
  for (const namespaces of [["app"], undefined]) {
    const blocked = recorder({});
    const free = recorder({ name: "go-on", standsBy: false });
    const definitions = [blocked.definition, free.definition];
    const settings = { ...waits, sweepIntervalMs: 60_000 };
    const { start, goTo, end } = worldWithOperator({
      settings,
      definitions,
      ...(namespaces === undefined ? {} : { namespaces }),
    });
    start();
    await goTo(50);
    assert.deepEqual([blocked.done, free.done.sort()], [[], ["reconcile ingester", "sweep"]]);
    end();
    await goTo(200);
    assert.ok(blocked.done.includes("reconcile ingester") && blocked.done.includes("sweep"), blocked.done.join());
  }
});

test("a sweep of all namespaces leaves out the one of the operator alone, and is one sweep again when that is gone", async () => {
  const swept: string[] = [];
  const keys = ["app", "other", "other"].map((namespace, index) => ({ namespace, group: `group-${index}` }));
  const { definition } = recorder({
    listKeys: async () => keys,
    sweep: async ({ namespaces }, those) => {
      swept.push(`${namespaces?.join() ?? "all"}: ${those.map((key) => ("group" in key ? key.group : "")).join()}`);
    },
  });
  const settings = { ...waits, sweepIntervalMs: 60_000 };
  const { start, goTo, end } = worldWithOperator({ settings, definitions: [definition] });
  start();
  await goTo(10);
  assert.deepEqual(swept, ["other: group-1,group-2"]);
  end();
  await goTo(200);
  assert.equal(swept.at(-1), "all: group-0,group-1,group-2");
});

test("an object of no namespace waits for every served namespace, and a namespace for itself", async () => {
  const places = [
    ["persistentvolumes", "volume", []],
    ["namespaces", "app", []],
    ["namespaces", "other", ["reconcile /other"]],
  ] as const;
  for (const [resource, name, expected] of places) {
    const keys: readonly ObjectRef[] = [{ resource, namespace: "", name }];
    const { definition, done } = recorder<ObjectRef>({ keyedBy: resource as never, listKeys: async () => keys });
    const bare = { ...definition, sweep: async () => {} };
    const { start, goTo } = worldWithOperator({ settings: waits, definitions: [bare], namespaces: ["app", "other"] });
    start();
    await goTo(10);
    assert.deepEqual(done, expected, `${resource} ${name}`);
  }
});

test("without the right to list pods Sluice writes nothing but one Event that names the right", async () => {
  const message = 'pods is forbidden: User "sluice" cannot list resource "pods" in API group "" in the namespace "app"';
  const { start, goTo, changeTemplates, writes, events } = worldWithOperator({
    settings: { ...waits, views: "list" },
    beforeCall({ verb, resource }) {
      if (verb !== "list" || resource !== "pods") return;
      throw new ClusterError({ code: 403, reason: "Forbidden", message, verb, resource });
    },
  });
  start();
  changeTemplates("app:2");
  await goTo(100);
  assert.deepEqual(writes(), []);
  const [event, ...others] = events().filter(({ reason }) => reason === "StandingBy");
  assert.match(event?.message ?? "", /lacks the right to list pods/);
  assert.deepEqual(others, []);
});

test("each function that stands by has the right to list pods, without which it would stand by for ever", () => {
  const standing = [...groupFunctions.filter(({ standsBy }) => standsBy !== false), evaluateEviction, prepareDownscale];
  const lacking = standing.filter(
    ({ needs }) => !needs.some(({ resource, verbs }) => resource === "pods" && verbs.includes("list")),
  );
  assert.deepEqual(lacking, []);
  assert.ok(standing.length > 10);
});

test("of the standard functions only the one that ends a namespace goes on beside the operator", () => {
  const standard = groupFunctions.filter(isStandard);
  const going = standard.filter(({ standsBy }) => standsBy === false).map(({ name }) => name);
  assert.deepEqual(going, [releaseNamespace.name]);
});
