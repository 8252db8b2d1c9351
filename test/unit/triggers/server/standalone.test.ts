import assert from "node:assert/strict";
import { test } from "node:test";
import { guardDownscale } from "../../../../functions/guard-downscale/function.ts";
import { askAgain } from "../../../../functions/shared/admission/answers.ts";
import type { AdmissionRequest } from "../../../../functions/shared/admission/definition.ts";
import { type FunctionDefinition, listGroupKeys } from "../../../../functions/shared/contract/definition.ts";
import { groupOfPod, groupOfStatefulSet, type ObjectRef } from "../../../../functions/shared/contract/keys.ts";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import type { GroupKey } from "../../../../functions/shared/workloads/statefulsets.ts";
import { createTestWorld, type TestWorldOptions } from "./world.ts";

function forbidden(verb: string, resource: string): ClusterError {
  const message = `${resource} is forbidden: User "sluice" cannot ${verb} resource "${resource}" in the namespace "app"`;
  return new ClusterError({ code: 403, reason: "Forbidden", message, verb, resource });
}

function unanswered(verb: string, resource: string): ClusterError {
  return new ClusterError({ code: 0, reason: "ConnectionFailed", message: "connection refused", verb, resource });
}

/** A function that remembers its reconciles. */
function createRecorder(run?: FunctionDefinition<GroupKey>["reconcile"]) {
  const harness: string[] = [];
  const swept: string[][] = [];
  const definition: FunctionDefinition<GroupKey> = {
    name: "record",
    concern: "remember passes",
    guards: {},
    keyedBy: "groups",
    watches: [
      { resource: "statefulsets", keysOf: groupOfStatefulSet },
      { resource: "pods", keysOf: groupOfPod },
    ],
    listKeys: listGroupKeys,
    needs: [],
    reads: [],
    writes: [],
    async reconcile(context, key, trigger) {
      harness.push(`${key.namespace}/${key.group}${trigger.sweep ? " sweep" : ""}`);
      return (await run?.(context, key, trigger)) ?? { requeueAfterMs: undefined, pendingActs: undefined };
    },
    async sweep(_context, groups) {
      swept.push(groups.map(({ namespace, group }) => `${namespace}/${group}`));
    },
  };
  return { harness, swept, definition };
}

async function started(options: TestWorldOptions) {
  const testWorld = createTestWorld(options);
  const standalone = testWorld.start();
  await testWorld.goTo(1);
  return { ...testWorld, standalone };
}

test("a watch triggers the function: a change of the template is rolled out without a sweep", async () => {
  const { goTo, changeTemplates, isRolled, lines } = await started({});
  await goTo(20);
  changeTemplates("app:2");
  await goTo(60);
  assert.equal(isRolled(), true);
  assert.equal(lines.filter(({ msg }) => String(msg).startsWith("swept")).length, 1);
});

test("a process that only answers reviews watches, lists and waits for nothing", async () => {
  const { goTo, calls, cluster, standalone } = await started({ definitions: [] });
  assert.equal(standalone.notReady(), undefined);
  await goTo(600);
  assert.deepEqual(calls, []);
  assert.equal(await standalone.stop(cluster.monotonicMs() + 1_000), true);
});

test("a process of a function that is keyed by Nodes watches these alone, and looks at its own keys every ten seconds", async () => {
  const reconciled: string[] = [];
  const node = (name: string): ObjectRef => ({ resource: "nodes", namespace: "", name });
  const ofNodes: FunctionDefinition<ObjectRef> = {
    ...{ name: "record", concern: "remember nodes", guards: {}, isOptIn: true, needs: [], reads: [], writes: [] },
    keyedBy: "nodes",
    watches: [{ resource: "nodes", keysOf: ({ name }) => [node(name)] }],
    listKeys: async () => [],
    schedule: { everySeconds: 10, listDue: async () => [node("due")] },
    async reconcile(_context, { name }) {
      reconciled.push(name);
      return { requeueAfterMs: undefined, pendingActs: undefined };
    },
  };
  const { goTo, calls, world, cluster, standalone } = await started({ definitions: [ofNodes as FunctionDefinition] });
  assert.equal(standalone.notReady(), undefined);
  world.store.create("nodes", "", { metadata: { name: "node-1" } });
  await goTo(2);
  assert.deepEqual(reconciled, ["due", "node-1"]);
  await goTo(62);
  assert.equal(reconciled.filter((name) => name === "due").length, 7);
  assert.deepEqual(
    calls.map(({ verb, resource }) => `${verb} ${resource}`),
    ["list nodes"],
  );
  assert.equal(await standalone.stop(cluster.monotonicMs() + 1_000), true);
});

test("with VIEWS=list, events and sweeps roll out a group", async () => {
  const { goTo, changeTemplates, isRolled, standalone } = await started({ settings: { views: "list" } });
  assert.equal(standalone.notReady(), undefined);
  await goTo(20);
  changeTemplates("app:2");
  await goTo(21);
  assert.equal(standalone.enqueuer.changed("statefulsets", { namespace: "app", name: "ingester-a" }), "queued");
  await goTo(22);
  assert.equal(isRolled(), false);
  await goTo(900);
  assert.equal(isRolled(), true);
});

test("the process is not ready before its first lists have come", async () => {
  const testWorld = createTestWorld();
  const standalone = testWorld.start();
  assert.match(standalone.notReady() ?? "", /have not come yet/);
  await testWorld.goTo(1);
  assert.equal(standalone.notReady(), undefined);
});

test("a sweep of all groups runs at the start, and then at least as often as the setting says", async () => {
  const { definition, harness, swept } = createRecorder();
  const { goTo, world } = await started({
    definitions: [definition],
    settings: { views: "list", sweepIntervalMs: 60_000 },
  });
  world.addGroup({ namespace: "db", group: "etcd", zones: ["a"], replicas: 1 });
  await goTo(59);
  assert.deepEqual(harness, ["app/ingester sweep"]);
  await goTo(61);
  assert.deepEqual(harness.slice(1).sort(), ["app/ingester sweep", "db/etcd sweep"]);
  assert.deepEqual(swept, [["app/ingester"], ["app/ingester", "db/etcd"]]);
});

test("a sweep that is queued or runs is not started again", async () => {
  const { definition, swept } = createRecorder();
  const { goTo, standalone } = await started({ definitions: [definition], settings: { views: "list" } });
  for (let tick = 0; tick < 5; tick++) assert.equal(standalone.enqueuer.sweep(), true);
  await goTo(2);
  assert.equal(swept.length, 2);
});

/** A group that no sweep has reported yet. */
function addLate({ world }: Pick<ReturnType<typeof createTestWorld>, "world">): void {
  world.addGroup({ namespace: "app", group: "late", zones: ["a"], replicas: 1 });
}

test("a burst of events of one StatefulSet costs one read and one reconcile; a missing object costs one read", async () => {
  const { definition, harness } = createRecorder();
  const testWorld = await started({ definitions: [definition], settings: { views: "list" } });
  const { goTo, standalone, calls } = testWorld;
  addLate(testWorld);
  calls.length = 0;
  harness.length = 0;
  for (let event = 0; event < 3; event++)
    standalone.enqueuer.changed("statefulsets", { namespace: "app", name: "late-a" });
  standalone.enqueuer.changed("statefulsets", { namespace: "app", name: "gone" });
  await goTo(2);
  assert.deepEqual(calls.map(({ verb, name }) => `${verb} ${name}`).sort(), ["get gone", "get late-a"]);
  assert.deepEqual(harness, ["app/late"]);
});

test("a StatefulSet that cannot be read is read again later, and no change is lost", async () => {
  let away = false;
  const { definition, harness } = createRecorder();
  const testWorld = await started({
    definitions: [definition],
    settings: { views: "list" },
    beforeCall({ verb, resource }) {
      if (away) throw unanswered(verb, resource);
    },
  });
  const { goTo, standalone, lines } = testWorld;
  addLate(testWorld);
  harness.length = 0;
  away = true;
  standalone.enqueuer.changed("statefulsets", { namespace: "app", name: "late-a" });
  await goTo(10);
  assert.deepEqual(harness, []);
  assert.ok(lines.some(({ level, object, reason }) => level === "warn" && object === "late-a" && reason));
  away = false;
  await goTo(45);
  assert.deepEqual(harness, ["app/late"]);
});

test("a start without the API server is no crash, and the first sweep is tried until it succeeds", async () => {
  let away = true;
  const { definition, harness } = createRecorder();
  const { goTo, standalone } = await started({
    definitions: [definition],
    beforeCall({ verb, resource }) {
      if (away) throw unanswered(verb, resource);
    },
  });
  await goTo(60);
  assert.match(standalone.notReady() ?? "", /have not come yet/);
  away = false;
  await goTo(95);
  assert.equal(standalone.notReady(), undefined);
  assert.ok(harness.includes("app/ingester sweep"));
});

test("the failure of one function in a sweep does not keep the groups of others from being triggered", async () => {
  const { definition, harness } = createRecorder();
  const failing = { ...definition, sweep: () => Promise.reject(forbidden("create", "leases")) };
  const { lines } = await started({ definitions: [failing], settings: { views: "list" } });
  assert.deepEqual(harness, ["app/ingester sweep"]);
  assert.ok(lines.some(({ level, msg }) => level === "warn" && String(msg).includes("leases is forbidden")));
});

test("a missing right is reported by an Event on a StatefulSet and a log line with verb and resource, and tried every 30 s", async () => {
  let granted = false;
  const { definition, harness } = createRecorder(async (_, { group }) => {
    if (group === "ingester" && !granted) throw forbidden("patch", "leases");
    return { requeueAfterMs: undefined, pendingActs: undefined };
  });
  const { goTo, world, lines, calls } = await started({ definitions: [definition], settings: { views: "list" } });
  world.addGroup({ namespace: "app", group: "other", zones: ["a"], replicas: 1 });
  await goTo(29);
  assert.deepEqual(harness, ["app/ingester sweep"]);
  await goTo(100);
  assert.equal(harness.length, 4);
  const events = world.store.list("events").items as {
    reason?: string;
    message?: string;
    involvedObject?: { name: string };
  }[];
  const missing = events.filter(({ reason }) => reason === "RightMissing");
  assert.equal(missing.length, 1);
  assert.equal(calls.filter(({ verb, resource }) => verb === "create" && resource === "events").length, 1);
  assert.match(missing[0]?.message ?? "", /^Sluice lacks the right to patch leases: /);
  assert.equal(missing[0]?.involvedObject?.name, "ingester-a");
  const line = lines.find(({ msg }) => String(msg).startsWith("Sluice lacks the right to patch leases"));
  assert.deepEqual([line?.level, line?.namespace, line?.group], ["warn", "app", "ingester"]);
  granted = true;
  await goTo(131);
  assert.equal(harness.length, 5);
});

test("without the right to read StatefulSets the Event is about the ledger's Lease", async () => {
  const { definition } = createRecorder(() => Promise.reject(forbidden("list", "statefulsets")));
  const testWorld = createTestWorld({
    definitions: [definition],
    beforeCall({ verb, resource }) {
      if (verb === "list" && resource === "statefulsets") throw forbidden(verb, resource);
    },
    settings: { views: "list" },
  });
  const { enqueuer } = testWorld.start();
  enqueuer.group({ namespace: "app", group: "ingester" }, "statefulsets");
  await testWorld.goTo(1);
  const [event] = testWorld.world.store.list("events").items as { involvedObject?: { kind: string; name: string } }[];
  assert.deepEqual([event?.involvedObject?.kind, event?.involvedObject?.name], ["Lease", "sluice-ingester"]);
});

test("in shadow mode a missing right is logged, and no Event is written", async () => {
  const { definition } = createRecorder(() => Promise.reject(forbidden("patch", "leases")));
  const { world, lines } = await started({ definitions: [definition], settings: { mode: "shadow" } });
  assert.equal(world.store.list("events").items.length, 0);
  assert.ok(lines.some(({ msg }) => String(msg).startsWith("Sluice lacks the right")));
});

test("each function that decides reviews is opened in the mode of its process (R16)", async () => {
  const open = () => ({ review: async () => askAgain("held", "not now") });
  const admissions = [{ ...guardDownscale, open }];
  for (const mode of ["act", "shadow"] as const) {
    const { standalone } = await started({ definitions: [], admissions, settings: { mode } });
    const [admission] = standalone.admissions;
    const answer = await admission?.handler.review({ uid: "review" } as AdmissionRequest);
    assert.equal(answer?.allowed, mode === "shadow", mode);
  }
});

test("shadow mode reports what it would do, and writes nothing", async () => {
  const { goTo, changeTemplates, calls, lines } = await started({ settings: { mode: "shadow" } });
  changeTemplates("app:2");
  await goTo(60);
  assert.ok(calls.every(({ verb }) => verb === "get" || verb === "list"));
  assert.ok(lines.some(({ guard, shadow }) => guard === "rolling" && shadow === true));
});

test("a stop in the middle of a rollout ends what runs, and takes no new work", async () => {
  const { goTo, changeTemplates, calls, standalone, cluster, isRolled } = await started({});
  await goTo(20);
  changeTemplates("app:2");
  await goTo(22);
  const stopped = standalone.stop(cluster.monotonicMs() + 25_000);
  await goTo(24);
  assert.equal(await stopped, true);
  const made = calls.length;
  assert.ok(calls.some(({ verb, resource }) => verb === "delete" && resource === "pods"));
  await goTo(600);
  assert.equal(calls.length, made);
  assert.equal(isRolled(), false);
  assert.equal(standalone.enqueuer.changed("statefulsets", { namespace: "app", name: "ingester-a" }), "refused");
});

test("a reconcile that hangs delays the end of the process only for a limited time", async () => {
  const { definition } = createRecorder(() => new Promise(() => {}));
  const { goTo, standalone, cluster } = await started({ definitions: [definition] });
  const stopped = standalone.stop(cluster.monotonicMs() + 25_000);
  await goTo(27);
  assert.equal(await stopped, false);
});

test("rollout-operator's metrics of reconciles count only functions that reconcile its groups", async () => {
  const { definition } = createRecorder();
  for (const isReconcile of [true, false]) {
    const { reporting, goTo } = await started({ definitions: [{ ...definition, isReconcile }] });
    await goTo(5);
    const { registry } = reporting.metrics;
    const text = await registry.getSingleMetricAsString("rollout_operator_group_reconciles_total");
    assert.equal(/rollout_group="ingester"/.test(text), isReconcile);
  }
});

test("the next sweep removes the series and the memory of groups that are gone", async () => {
  const { goTo, world, reporting } = await started({});
  const scrapeUntil = async (seconds: number) => {
    const scraping = reporting.metrics.registry.metrics();
    await goTo(seconds);
    return await scraping;
  };
  await goTo(5);
  assert.match(await scrapeUntil(8), /rollout_group="ingester"/);
  for (const name of ["ingester-a", "ingester-b", "ingester-c"]) world.removeStatefulSet({ namespace: "app", name });
  await goTo(301);
  assert.doesNotMatch(await scrapeUntil(304), /ingester/);
});
