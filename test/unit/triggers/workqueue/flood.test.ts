/** Any client in a cluster can post events: the cost of floods of them, in virtual time. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { advanceZoneRollout } from "../../../../functions/advance-zone-rollout/function.ts";
import { keepLedgers } from "../../../../functions/keep-ledgers/function.ts";
import type { GroupCache, ViewNeed } from "../../../../functions/shared/cache/cache.ts";
import { type FunctionDefinition, isStandard } from "../../../../functions/shared/contract/definition.ts";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import type { GroupKey } from "../../../../functions/shared/workloads/statefulsets.ts";
import { groupFunctions } from "../../../../triggers/table.ts";
import { KnownGroups, mostKnown } from "../../../../triggers/workqueue/known-groups.ts";
import { limitTicks } from "../../../../triggers/workqueue/sweep.ts";
import { createVirtualClock } from "../../shared/kubernetes/virtual-clock.ts";
import { createTestWorld, isOfSchedule, type TestWorldOptions } from "../server/world.ts";

const lists: TestWorldOptions = { settings: { views: "list" } };

/** Servers after their first sweep, with the recorded calls cleared. */
async function started(options: TestWorldOptions) {
  const testWorld = createTestWorld(options);
  const standalone = testWorld.start();
  await testWorld.goTo(30);
  testWorld.calls.length = 0;
  const statefulSet = (namespace: string, name: string) =>
    standalone.enqueuer.changed("statefulsets", { namespace, name });
  /** Sends one event each millisecond for ten seconds, with the names of `nameOf`. */
  const flood = async (nameOf: (event: number) => string): Promise<Record<string, number>> => {
    const results: Record<string, number> = {};
    for (let event = 0; event < 10_000; event++) {
      const result = statefulSet("app", nameOf(event));
      results[result] = (results[result] ?? 0) + 1;
      await testWorld.goTo(30 + event / 1_000);
    }
    return results;
  };
  return { ...testWorld, standalone, flood };
}

test("a flood of events for missing StatefulSets causes a limited number of reads, and leaves the rest to the sweep", async () => {
  const { flood, calls, standalone, goTo } = await started(lists);
  const results = await flood((event) => `forged-${event}`);
  assert.deepEqual(Object.keys(results).sort(), ["deferred", "queued"]);
  assert.ok(standalone.enqueuer.keys <= 501, `${standalone.enqueuer.keys} keys are kept`);
  const reads = calls.filter(({ verb, name }) => verb === "get" && name.startsWith("forged-"));
  assert.ok(reads.length > 200 && reads.length <= 100 + 10 * 20 + 1, `${reads.length} reads in ten seconds`);
  assert.equal(calls.filter((call) => !isOfSchedule(call)).length, reads.length);
  await goTo(90);
  assert.equal(standalone.enqueuer.keys, 0);
});

test("a flood of events for one missing StatefulSet costs each function a read in five seconds", async () => {
  const { flood, calls } = await started(lists);
  assert.deepEqual(await flood(() => "forged"), { queued: 10_000 });
  assert.ok(calls.length <= 3 * groupFunctions.length, `${calls.length} reads in ten seconds`);
});

test("a flood of events for a group's own StatefulSet causes a limited number of reconciles", async () => {
  const { flood, calls } = await started(lists);
  assert.deepEqual(await flood(() => "ingester-a"), { queued: 10_000 });
  const harness = calls.filter(({ verb, resource }) => verb === "list" && resource === "statefulsets").length;
  assert.ok(harness > 100 && harness <= 100 + 10 * 10 + groupFunctions.length, `${harness} reconciles in ten seconds`);
  // A function whose keys are not groups looks the StatefulSet up.
  const others = calls.filter(({ verb }) => verb !== "list").map(({ verb, name }) => `${verb} ${name}`);
  assert.ok(others.length <= 3 && others.every((call) => call === "get ingester-a"), others.join());
});

test("a new budget gets the ledger of StatefulSets without a group, and a flood of forged ones causes a limited number of reads", async () => {
  const { standalone, calls, goTo, world } = await started({ ...lists, definitions: [keepLedgers] });
  const changed = (name: string) =>
    standalone.enqueuer.changed("zoneawarepoddisruptionbudgets", { namespace: "app", name });
  const labels = { "rollout-group": null };
  world.store.patch("statefulsets", { namespace: "app", name: "ingester-c" }, { metadata: { labels } });
  const spec = { maxUnavailable: 1, selector: { matchLabels: { "rollout-group": "ingester" } } };
  world.store.create("zoneawarepoddisruptionbudgets", "app", { metadata: { name: "loose" }, spec });
  assert.equal(changed("loose"), "queued");
  await goTo(31);
  const groups = world.store.list("leases").items.map(({ metadata }) => metadata.annotations?.["sluice.dev/group"]);
  assert.deepEqual(groups.sort(), ["budget:loose", "ingester"]);
  calls.length = 0;
  const results = new Set<string>();
  for (let event = 0; event < 10_000; event++) results.add(changed(`forged-${event}`));
  await goTo(41);
  assert.deepEqual([...results].sort(), ["deferred", "queued"]);
  const rounds = calls.filter(({ verb, resource }) => verb === "get" && resource === "leases").length;
  assert.ok(rounds > 100 && rounds <= 100 + 10 * 20 + 1, `${rounds} reads in ten seconds`);
});

test("while a watch reports changes, a flood of events costs no request", async () => {
  const { flood, calls } = await started({});
  assert.deepEqual(await flood((event) => `forged-${event}`), { ignored: 10_000 });
  assert.deepEqual(await flood(() => "ingester-a"), { queued: 10_000 });
  assert.deepEqual(
    calls.filter((call) => !isOfSchedule(call)),
    [],
  );
});

test("a rollout goes on through a flood, triggered by its own events, and the sweep runs", async () => {
  const { changeTemplates, isRolled, goTo, standalone, lines, world } = await started(lists);
  const statefulSet = (namespace: string, name: string) =>
    standalone.enqueuer.changed("statefulsets", { namespace, name });
  changeTemplates("app:2");
  let seconds = 30;
  for (let event = 0; !isRolled() && seconds < 300; event++) {
    for (let forged = 0; forged < 20; forged++) statefulSet("app", `forged-${event}-${forged}`);
    if (event % 10 === 0) {
      for (const { metadata } of world.store.list("statefulsets").items) {
        assert.equal(statefulSet("app", metadata.name), "queued");
      }
    }
    seconds += 0.02;
    await goTo(seconds);
  }
  assert.equal(isRolled(), true);
  assert.ok(seconds < 100, `it took ${seconds - 30} s`);
  standalone.enqueuer.sweep();
  await goTo(seconds + 1);
  assert.equal(lines.filter(({ msg }) => msg === "swept 1 groups").length, 2);
});

test("when the queue is full, events of other groups are refused, and the sweep is not", async () => {
  const rollout = advanceZoneRollout;
  const hanging: FunctionDefinition<GroupKey> = {
    ...rollout,
    async reconcile(context, key) {
      await context.cache.read(key, { settledThrough: undefined, permitSinceMs: undefined, consistent: true });
      return new Promise(() => {});
    },
  };
  const testWorld = createTestWorld({ definitions: [hanging], settings: { views: "list", queueKeys: 2 } });
  testWorld.world.addGroup({ namespace: "app", group: "second", zones: ["x"], replicas: 1 });
  testWorld.world.addGroup({ namespace: "app", group: "third", zones: ["x"], replicas: 1 });
  const { enqueuer } = testWorld.start();
  await testWorld.goTo(1);
  const results = ["ingester-a", "second-x", "third-x"].map((name) =>
    enqueuer.changed("statefulsets", { namespace: "app", name }),
  );
  assert.deepEqual(results.toSorted(), ["queued", "queued", "refused"]);
  testWorld.calls.length = 0;
  assert.equal(enqueuer.sweep(), true);
  await testWorld.goTo(60);
  assert.ok(testWorld.calls.some(({ verb, resource }) => verb === "list" && resource === "statefulsets"));
});

test("a StatefulSet that joins another group also triggers that group", async () => {
  const { world, goTo, standalone } = await started(lists);
  world.addGroup({ namespace: "app", group: "other", zones: ["x"], replicas: 1 });
  world.settle();
  const labels = { "rollout-group": "other" };
  world.store.patch("statefulsets", { namespace: "app", name: "ingester-c" }, { metadata: { labels } });
  assert.equal(standalone.enqueuer.changed("statefulsets", { namespace: "app", name: "ingester-c" }), "queued");
  await goTo(60);
  const ledger = world.store.find("leases", { namespace: "app", name: "sluice-other" });
  assert.ok(ledger, "the other group has had its first reconcile");
});

test("the process remembers a limited number of StatefulSets that it has read, and forgets one that has left its group", async () => {
  const known = new KnownGroups(() => undefined);
  const named = (name: string, group: string | undefined) => ({
    kind: "StatefulSet",
    namespace: "app",
    name,
    group,
  });
  let workloads = Array.from({ length: mostKnown + 1 }, (_, index) => named(`one-${index}`, "all"));
  const read = async () => ({ workloads, neighbours: [named("other", undefined)] });
  const views = known.learningFrom({ read } as unknown as GroupCache);
  const readView = () => views.read({ namespace: "app", group: "all" }, {} as ViewNeed);
  await readView();
  const groupsOf = (...names: string[]) => names.map((name) => known.groupOf("app", name)?.group);
  assert.deepEqual(groupsOf("one-0", "one-1", `one-${mostKnown}`, "other"), [undefined, "all", "all", undefined]);
  workloads = [];
  await readView();
  assert.deepEqual(groupsOf("one-1"), [undefined]);
});

test("a zone of another owner is not taken for a StatefulSet of the same name", async () => {
  const known = new KnownGroups(() => undefined);
  const group = "owner:FoundationDBCluster.apps.foundationdb.org/orders";
  const zone = { kind: "OwnedZone", namespace: "app", name: "zone-a", group };
  const read = async () => ({ workloads: [zone], neighbours: [] });
  await known.learningFrom({ read } as unknown as GroupCache).read({ namespace: "app", group }, {} as ViewNeed);
  assert.equal(known.groupOf("app", "zone-a"), undefined);
});

test("an object that may not be read is not read again, and is left to the sweep", async () => {
  const message = 'statefulsets.apps "x" is forbidden: User "sluice" cannot get resource "statefulsets"';
  const { standalone, calls, goTo, lines } = await started({
    ...lists,
    beforeCall({ verb, resource }) {
      if (verb === "get" && resource === "statefulsets")
        throw new ClusterError({ code: 403, reason: "Forbidden", message, verb, resource });
    },
  });
  standalone.enqueuer.changed("statefulsets", { namespace: "kube-system", name: "x" });
  await goTo(200);
  const hearing = groupFunctions
    .filter(isStandard)
    .filter(({ watches }) => watches.some(({ resource }) => resource === "statefulsets"));
  assert.equal(calls.filter((call) => !isOfSchedule(call)).length, hearing.length);
  assert.equal(standalone.enqueuer.keys, 0);
  assert.ok(!lines.some(({ level }) => level === "warn"));
});

test("ticks that overlap, come late, or come by the thousand cause one sweep every five seconds, after the first three", async () => {
  const clock = createVirtualClock();
  const sweeps: number[] = [];
  const tick = limitTicks(clock, () => sweeps.push(clock.monotonicMs()));
  for (let ms = 0; ms < 20_000; ms += 10) {
    assert.equal(tick(), true);
    await clock.goTo(ms + 10);
  }
  // The last tick, at 19.99 s, has its sweep.
  assert.deepEqual(sweeps, [0, 10, 20, 5_000, 10_000, 15_000, 20_000]);
  await clock.goTo(3_600_000);
  tick();
  await clock.goTo(3_600_001);
  assert.equal(sweeps.at(-1), 3_600_000);
});
