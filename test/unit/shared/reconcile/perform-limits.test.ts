/** One reconcile at its limits: its deadline, a full ledger, zones that join meanwhile, and the time of the next reconcile. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { actOn, eventPolicy } from "../../../../functions/advance-zone-rollout/act.ts";
import type { RolloutTarget } from "../../../../functions/advance-zone-rollout/decide-pods.ts";
import type { GroupView } from "../../../../functions/shared/cache/cache.ts";
import { take, wait } from "../../../../functions/shared/contract/verdict.ts";
import { type GroupReconciler, reconcileGroup } from "../../../../functions/shared/reconcile/perform.ts";
import type { GroupObservation } from "../../../../functions/shared/transaction/observe-group.ts";
import { asStatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import { reserved } from "../../functions/evaluate-eviction/group-commit/reviews.ts";
import { Harness, key, namespace, played, refused } from "./harness.ts";

const by = "advance-zone-rollout";
const podKey = (name: string) => ({ namespace, name });

/** Views that read StatefulSets only for a reconcile that may permit something, as views from watches do. */
function watchLike(harness: Harness, received: (view: GroupView, mayPermit: boolean) => GroupView): void {
  const { cache } = harness.context;
  harness.use({
    ...cache,
    read: async (group, need) => {
      const view = await cache.read(group, need);
      if (need.consistent || need.settledThrough === undefined) return view;
      const mayPermit = need.permitSinceMs !== undefined;
      const statefulSetsReadMs = mayPermit ? view.statefulSetsReadMs : undefined;
      return received({ ...view, statefulSetsReadMs, consistentAt: undefined }, mayPermit);
    },
  });
}

/** A group that has been rolled out once, so that its ledger names its zones, and that wants another revision. */
async function threeZones(): Promise<Harness> {
  const harness = await new Harness({ zones: ["a", "b", "c"], replicas: 2 }).prepare("app:1");
  await harness.run();
  await harness.goOn(60_000);
  harness.changeImage("app:2");
  await harness.goOn(100);
  harness.forget();
  return harness;
}

test("no act is sent later than 5 s after the read of the StatefulSets on which it rests (R9)", async () => {
  for (const [listMs, deleted] of [
    [4_900, 1],
    [5_100, 0],
  ] as const) {
    const harness = await new Harness().prepare();
    harness.interfere = async ({ verb, resource }) => {
      // Called after the StatefulSets were read, and before the ledger is written.
      if (verb === "list" && resource === "pods" && harness.count("list pods") === 1) await harness.goOn(listMs);
    };
    await harness.run();
    assert.equal(harness.acts[0]?.result, deleted === 1 ? "done" : "late");
    assert.equal(harness.count("delete pods"), deleted);
  }
});

test("without the time of that read the five seconds count from the write (R9)", async () => {
  for (const [writeMs, deleted] of [
    [4_900, 1],
    [5_100, 0],
  ] as const) {
    const harness = await new Harness().prepare();
    const { cache } = harness.context;
    harness.use({
      ...cache,
      read: async (...given) => ({ ...(await cache.read(...given)), statefulSetsReadMs: undefined }),
    });
    harness.interfere = async ({ verb, resource }) => {
      if (verb === "patch" && resource === "leases") await harness.goOn(writeMs);
    };
    await harness.run();
    assert.equal(harness.count("delete pods"), deleted);
  }
});

test("zone-joined: a zone that only the second read, before a permit, has found also keeps it from permitting (R4)", async () => {
  const harness = await threeZones();
  harness.writeLedger({ "sluice.dev/members": JSON.stringify(["group-a", "group-b"]) });
  harness.restart();
  watchLike(harness, (view, mayPermit) => ({
    ...view,
    workloads: view.workloads.filter(({ name }) => mayPermit || name !== "group-c"),
  }));
  await harness.run();
  assert.equal(harness.guard, "zone-joined");
  assert.deepEqual([harness.acts, reserved(harness)], [[], []]);
});

test("a zone that has joined is listed again before a permit, because a watch may be late", async () => {
  const harness = await threeZones();
  harness.writeLedger({ "sluice.dev/members": JSON.stringify(["group-a", "group-b"]) });
  harness.restart();
  await harness.run();
  assert.equal(harness.guard, "zone-joined");
  await harness.goOn(10_000);
  const before = await played(
    harness.timeline,
    harness.context.cache.read(key, { settledThrough: undefined, permitSinceMs: undefined, consistent: true }),
  );
  const { cache } = harness.context;
  harness.use({
    ...cache,
    read: async (group, need) => (need.consistent ? cache.read(group, need) : { ...before, consistentAt: undefined }),
  });
  harness.world.kubelet.breakPod(podKey("group-c-1"));
  harness.world.kubelet.breakPod(podKey("group-b-1"));
  await harness.goOn(10);
  await harness.run();
  assert.ok(harness.acts.every(({ action }) => action !== "delete"));
  assert.deepEqual(reserved(harness), []);
});

test("while a zone that has joined is waited for, it is not listed again, which each reconcile would do", async () => {
  const harness = await threeZones();
  harness.writeLedger({ "sluice.dev/members": JSON.stringify(["group-a", "group-b"]) });
  harness.restart();
  const asked: boolean[] = [];
  const { cache } = harness.context;
  harness.use({
    ...cache,
    read: async (group, need) => {
      asked.push(need.consistent);
      return { ...(await cache.read(group, need)), consistentAt: undefined };
    },
  });
  await harness.run();
  assert.equal(harness.guard, "zone-joined");
  assert.deepEqual(asked, [false]);
});

test("under a new ledger a group reports its own reason to wait, or that it is done", async () => {
  const done = new Harness();
  await done.run();
  assert.equal(done.guard, "done");
  const paused = new Harness({ paused: true });
  paused.changeImage("app:2");
  await paused.goOn(100);
  await paused.run();
  assert.equal(paused.guard, "paused");
  assert.equal(paused.count("patch leases"), 0);
});

/** As many reservations as a ledger may have, of ordinals of a zone that nothing settles. */
function fill(harness: Harness): void {
  const stamp = harness.cluster.serverTimeMs();
  const zone = Object.fromEntries(Array.from({ length: 1_000 }, (_, at) => [100 + at, [`uid-${at}`, "other", stamp]]));
  harness.writeLedger({ "sluice.dev/reservations": JSON.stringify({ "group-a": zone }) });
}

test("ledger-full: a broken pod is still replaced, because it needs no reservation, and no other pod goes (R2, R13)", async () => {
  const harness = new Harness({ zones: ["a"], replicas: 3, maxUnavailable: 5_000 }, (shipped) => ({
    ...shipped,
    isSettled: () => false,
  }));
  await harness.prepare();
  harness.world.kubelet.breakPod(podKey("group-a-1"));
  fill(harness);
  await harness.goOn(100);
  harness.restart();
  await harness.run();
  await harness.goOn(45_000);
  harness.forget();
  await harness.run();
  assert.deepEqual(
    harness.acts.map(({ action, object }) => `${action} ${object}`),
    ["repair group-a-1"],
  );
  assert.equal(harness.ledger.reservations.length, 1_000);
});

test("a reconcile that only replaces broken pods reserves and writes nothing, and reports no start of a zone", async () => {
  const harness = await new Harness({ paused: false, replicas: 2 }).prepare();
  for (const name of ["group-a-0", "group-b-0"]) harness.world.kubelet.breakPod(podKey(name));
  await harness.goOn(100);
  await harness.run();
  const acts = harness.acts.map(({ action }) => action);
  assert.deepEqual(acts, ["repair", "repair"]);
  assert.equal(harness.count("patch leases"), 0);
  assert.deepEqual(
    harness.events.filter((event) => event.startsWith("RolloutStarted")),
    [],
  );
});

test("the start of a zone is reported with its first pod", async () => {
  const harness = await new Harness({ replicas: 2 }).prepare();
  await harness.run();
  assert.equal(harness.count("delete pods"), 1);
  assert.deepEqual(
    harness.events.filter((event) => event.startsWith("RolloutStarted")).map((event) => event.split(":")[0]),
    ["RolloutStarted group-a"],
  );
});

test("the next reconcile comes when the verdict requires it, or by an event alone if nothing is due", async () => {
  const harness = await new Harness({ paused: true }).prepare();
  assert.equal(await harness.run(), undefined, "written at once, and a pause ends with an event");
  assert.equal(harness.ledger.verdicts[by]?.guard, "paused");
  assert.equal(await harness.run(), undefined);
  await harness.goOn(6_000);
  harness.world.kubelet.breakPod(podKey("group-a-0"));
  assert.equal(await harness.run(), 30_000);
  assert.equal(harness.ledger.verdicts[by]?.guard, "paused-zone-down", "written at once");
});

test("a reconcile that takes pods requeues when its verdict says, or in time to finish its reservations", async () => {
  for (const requeueAfterMs of [1_500, undefined]) {
    const harness = await new Harness().prepare();
    const reconciler: GroupReconciler<GroupObservation, RolloutTarget> = {
      name: by,
      eventPolicy,
      actOn,
      observe: (observed) => observed,
      decide: ({ zones: [zone] }) => {
        const pod = zone?.pods[0];
        if (zone === undefined || pod === undefined) return assert.fail();
        return take([{ action: "delete", statefulSet: asStatefulSet(zone.workload), pod }], "it goes", {
          requeueAfterMs,
        });
      },
    };
    const outcome = await played(harness.timeline, reconcileGroup(harness.context, reconciler, key, { sweep: false }));
    assert.equal(outcome.requeueAfterMs, requeueAfterMs ?? 7_000);
    await harness.goOn(1_000);
  }
});

test("a wait that ends within a millisecond is read again after it, because no event may report its end", async () => {
  const harness = await new Harness().prepare();
  const decide = () => wait("budget", "for a moment", { requeueAfterMs: 1 });
  const reconciler: GroupReconciler<GroupObservation, RolloutTarget> = {
    name: by,
    eventPolicy,
    actOn,
    observe: (observed) => observed,
    decide,
  };
  for (const written of [1, 1]) {
    const outcome = await played(harness.timeline, reconcileGroup(harness.context, reconciler, key, { sweep: false }));
    assert.deepEqual([outcome.requeueAfterMs, harness.count("patch leases")], [1, written]);
  }
});

test("a verdict that may not be written yet is read again as soon as it may, and has no Event before", async () => {
  const harness = await new Harness({ paused: true }).prepare();
  await harness.run();
  harness.world.kubelet.breakPod(podKey("group-a-0"));
  harness.world.kubelet.breakPod(podKey("group-b-0"));
  await harness.goOn(100);
  const requeueAfterMs = await harness.run();
  assert.equal(harness.guard, "zones-down");
  assert.ok(requeueAfterMs !== undefined && requeueAfterMs > 0 && requeueAfterMs <= 5_000, `${requeueAfterMs} ms`);
  const warned = () => harness.events.filter((event) => event.includes("zones-down"));
  await harness.goOn(1_000);
  assert.deepEqual([harness.ledger.verdicts[by]?.guard, warned()], ["paused", []]);
  await harness.goOn(4_000);
  await harness.run();
  await harness.goOn(1_000);
  assert.deepEqual([harness.ledger.verdicts[by]?.guard, warned().length], ["zones-down", 1]);
});

test("a ledger that cannot be used is reported as such, in shadow mode as well (R16)", async () => {
  for (const mode of ["act", "shadow"] as const) {
    const harness = await new Harness().prepare();
    harness.writeLedger({ "sluice.dev/reservations": "{" });
    harness.restart({ mode });
    await harness.run();
    const [report] = harness.verdicts;
    assert.deepEqual([report?.guard, report?.shadow], ["ledger-unreadable", mode === "shadow"]);
  }
});

test("a warning about a malformed annotation that could not be sent is reported, and sent by the next reconcile", async () => {
  const harness = new Harness({ maxUnavailable: "5 %" });
  harness.interfere = ({ verb, resource }) => {
    if (verb === "create" && resource === "events") throw refused(503);
  };
  await harness.run();
  await harness.goOn(5_000);
  assert.deepEqual(harness.problems.toSorted(), [
    "no Event could be sent about group-a",
    "no Event could be sent about group-b",
  ]);
  const warnings = () => harness.events.filter((event) => event.startsWith("MalformedAnnotation"));
  assert.equal(warnings().length, 0);
  harness.interfere = () => {};
  await harness.run();
  await harness.goOn(1_000);
  assert.equal(warnings().length, 2);
});
