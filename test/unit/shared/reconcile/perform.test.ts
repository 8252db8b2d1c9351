/** One reconcile, from the ledger to the acts, in a fake cluster. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Harness, ledgerKey, namespace, refused } from "./harness.ts";

const by = "advance-zone-rollout";
const podKey = (name: string) => ({ namespace, name });

test("ledger-new: the first reconcile creates the ledger, and for 10 s it takes no pod and writes nothing (R4)", async () => {
  const harness = new Harness();
  harness.changeImage("app:2");
  await harness.goOn(100);
  const requeueAfterMs = await harness.run();
  assert.equal(harness.guard, "ledger-new");
  assert.ok(requeueAfterMs !== undefined && requeueAfterMs > 9_000 && requeueAfterMs <= 10_000, String(requeueAfterMs));
  await harness.goOn(9_000);
  await harness.run();
  assert.equal(harness.guard, "ledger-new");
  assert.deepEqual(
    [harness.count("create leases"), harness.count("patch leases"), harness.count("delete pods")],
    [1, 0, 0],
  );
  await harness.goOn(1_000);
  await harness.run();
  assert.equal(harness.guard, "rolling");
  assert.equal(harness.count("delete pods"), 1);
});

test("a process that starts beside a ledger that is certainly old enough does not wait", async () => {
  const harness = await new Harness().prepare();
  await harness.goOn(45_000);
  harness.restart();
  await harness.run();
  assert.equal(harness.guard, "rolling");
});

test("a new ledger's first decision uses consistent LISTs (R4)", async () => {
  const harness = await new Harness().prepare();
  await harness.run();
  const lists = harness.calls.filter(({ verb, resource }) => verb === "list" && resource === "pods");
  assert.equal(lists.length, 3, "of each zone, and of orphaned pods");
  for (const { given } of lists) assert.equal((given[1] as { notOlderThan?: string }).notOlderThan, undefined);
  harness.forget();
  await harness.run();
  const later = harness.calls.filter(({ verb, resource }) => verb === "list" && resource === "pods");
  const revisions = later.map(({ given }) => (given[1] as { notOlderThan?: string }).notOlderThan);
  const { settledThrough } = harness.ledger;
  // The pods that departed zones left behind are read in their current state.
  assert.deepEqual(revisions, [String(settledThrough), String(settledThrough), undefined]);
});

test("a pod is reserved before it is deleted (R8), and deleted by its uid (R9)", async () => {
  const harness = await new Harness().prepare();
  const { uid } = harness.world.store.get("pods", podKey("group-a-0")).metadata;
  await harness.run();
  const acts = harness.requests.filter((word) => word === "patch leases" || word === "delete pods");
  assert.deepEqual(acts, ["patch leases", "delete pods"]);
  const [deletion] = harness.calls.filter(({ verb }) => verb === "delete");
  assert.deepEqual(deletion?.given[2], { uid });
  const [reserved, ...others] = harness.ledger.reservations;
  assert.equal(others.length, 0);
  assert.deepEqual([reserved?.statefulSet, reserved?.ordinal, reserved?.uid], ["group-a", 0, uid]);
  assert.equal(reserved?.by, by);
  assert.ok(Math.abs((reserved?.stampMs ?? 0) - harness.timeline.nowMs()) <= 1_000);
});

test("settled-through is the largest revision of a pod in the view, and nothing else raises it (R8)", async () => {
  const harness = await new Harness().prepare();
  await harness.run();
  harness.world.settle();
  const revisions = harness.world.store.list("pods").items.map(({ metadata }) => Number(metadata.resourceVersion));
  harness.world.store.create("leases", "elsewhere", { metadata: { name: "noise" } });
  await harness.run();
  assert.equal(harness.guard, "rolling");
  assert.equal(harness.ledger.settledThrough, Math.max(...revisions));
});

test("no act is sent later than 5 s after the write that stamped the reservation was sent (R9)", async () => {
  const harness = await new Harness().prepare();
  harness.interfere = async ({ verb, resource }) => {
    if (verb === "patch" && resource === "leases") await harness.goOn(5_001);
  };
  const requeueAfterMs = await harness.run();
  assert.equal(harness.count("delete pods"), 0);
  assert.equal(harness.acts[0]?.result, "late");
  assert.equal(requeueAfterMs, 7_000);
  assert.equal(harness.ledger.reservations.length, 1);
});

test("a reservation without an act is finished after 7 s, with a new stamp (R10)", async () => {
  const harness = await new Harness().prepare();
  harness.interfere = ({ verb, resource }) => {
    if (verb === "delete" && resource === "pods") throw refused(503);
  };
  assert.equal(await harness.run(), 7_000);
  assert.equal(harness.acts[0]?.result, "failed");
  const [before] = harness.ledger.reservations;
  harness.interfere = () => {};
  await harness.goOn(5_000);
  await harness.run();
  assert.equal(harness.guard, "budget");
  await harness.goOn(3_000);
  await harness.run();
  const [after] = harness.ledger.reservations;
  assert.equal(after?.uid, before?.uid);
  assert.ok((after?.stampMs ?? 0) >= (before?.stampMs ?? 0) + 7_000);
  assert.equal(harness.acts.at(-1)?.result, "done");
});

test("a conflict on the ledger starts the reconcile again (R3)", async () => {
  const harness = await new Harness().prepare();
  let writes = 0;
  harness.interfere = ({ verb, resource }) => {
    if (verb === "patch" && resource === "leases" && ++writes <= 4) harness.writeLedger({ other: String(writes) });
  };
  await harness.run();
  assert.equal(harness.conflicts, 4);
  assert.equal(harness.count("delete pods"), 1);
  assert.equal(harness.verdicts.length, 1);
});

test("after five conflicts the group is left to a later reconcile, and nothing is done (R3)", async () => {
  const harness = await new Harness().prepare();
  let writes = 0;
  harness.interfere = ({ verb, resource }) => {
    if (verb === "patch" && resource === "leases") harness.writeLedger({ other: String(++writes) });
  };
  assert.equal(await harness.run(), 1_000);
  assert.equal(harness.conflicts, 5);
  assert.equal(writes, 5);
  assert.equal(harness.count("delete pods"), 0);
});

test("a ledger that was deleted, or deleted and recreated, is also a conflict, and is not restored (R3)", async () => {
  for (const again of [true, false]) {
    const harness = await new Harness().prepare();
    let done = false;
    harness.interfere = ({ verb, resource }) => {
      if (done || verb !== "patch" || resource !== "leases") return;
      done = true;
      harness.world.store.delete("leases", ledgerKey);
      const annotations = { "sluice.dev/group": "group" };
      const metadata = { name: ledgerKey.name, labels: { "app.kubernetes.io/managed-by": "sluice" }, annotations };
      if (again) harness.world.store.create("leases", namespace, { metadata });
    };
    await harness.run();
    assert.equal(harness.conflicts, 1);
    assert.equal(harness.guard, "ledger-new");
    assert.equal(harness.count("delete pods"), 0);
    assert.deepEqual(harness.ledger.reservations, []);
  }
});

test("ledger-unreadable: a malformed ledger permits nothing, is not overwritten, and is read again", async () => {
  const harness = await new Harness().prepare();
  harness.writeLedger({ "sluice.dev/reservations": "{" });
  assert.equal(await harness.run(), 30_000);
  assert.equal(harness.guard, "ledger-unreadable");
  assert.match(harness.verdicts[0]?.message ?? "", /Correct it, or delete it/);
  assert.equal(harness.count("delete pods"), 0);
  const { annotations } = harness.world.store.get("leases", ledgerKey).metadata;
  assert.equal(annotations?.["sluice.dev/reservations"], "{");
  harness.writeLedger({ "sluice.dev/reservations": "{}" });
  await harness.run();
  assert.equal(harness.guard, "rolling");
});

/** `count` reservations of ordinals that nothing settles. */
function reservationsOf(count: number): string {
  const stamp = Date.UTC(2026, 0, 1, 0, 1);
  const zone = Object.fromEntries(Array.from({ length: count }, (_, at) => [100 + at, [`uid-${at}`, "other", stamp]]));
  return JSON.stringify({ "group-a": zone });
}

test("ledger-full: a ledger of 1,000 reservations takes no more, and one of 999 takes one (R2)", async () => {
  const make = async (count: number) => {
    const harness = new Harness({ zones: ["a"], maxUnavailable: 5_000 }, (shipped) => ({
      ...shipped,
      isSettled: () => false,
    }));
    await harness.prepare();
    harness.writeLedger({ "sluice.dev/reservations": reservationsOf(count), "sluice.dev/settled-through": "1" });
    harness.restart();
    await harness.run();
    await harness.goOn(10_100);
    harness.forget();
    await harness.run();
    return harness;
  };
  const full = await make(1_000);
  assert.equal(full.guard, "ledger-full");
  assert.deepEqual([full.ledger.reservations.length, full.count("delete pods")], [1_000, 0]);
  const almost = await make(999);
  assert.equal(almost.guard, "rolling");
  assert.deepEqual([almost.ledger.reservations.length, almost.count("delete pods")], [1_000, 1]);
});

test("shadow mode decides and reports, and writes nothing, with a ledger or without (R16)", async () => {
  const bare = new Harness();
  bare.changeImage("app:2");
  await bare.goOn(100);
  const prepared = await new Harness({ maxUnavailable: "half" }).prepare();
  for (const harness of [bare, prepared]) {
    harness.restart({ mode: "shadow" });
    const revision = harness.world.store.list("pods").resourceVersion;
    await harness.run();
    await harness.goOn(15_000);
    await harness.run();
    await harness.run(true);
    assert.deepEqual([...new Set(harness.requests.filter((word) => !/^(get|list) /.test(word)))], []);
    assert.equal(harness.world.store.list("pods").resourceVersion, revision);
    assert.equal(harness.guard, "rolling");
    assert.ok(harness.verdicts.every(({ shadow }) => shadow));
  }
  assert.equal(bare.world.store.find("leases", ledgerKey), undefined);
});

test("a group that is gone gets no ledger", async () => {
  const harness = new Harness();
  for (const { metadata } of harness.world.store.list("statefulsets").items) harness.world.removeStatefulSet(metadata);
  await harness.goOn(2_000);
  assert.equal(await harness.run(), undefined);
  assert.equal(harness.world.store.find("leases", ledgerKey), undefined);
  assert.deepEqual(harness.verdicts, []);
});

test("another function's reservation without an act is dropped after 150 s, once a GET shows its pod unharmed (R10)", async () => {
  const harness = await new Harness().prepare();
  await harness.goOn(45_000);
  const { uid } = harness.world.store.get("pods", podKey("group-a-1")).metadata;
  const stamp = harness.timeline.nowMs();
  harness.writeLedger({
    "sluice.dev/reservations": JSON.stringify({ "group-a": { 1: [uid, "evaluate-eviction", stamp] } }),
  });
  await harness.run(true);
  assert.equal(harness.guard, "budget");
  await harness.goOn(149_000);
  await harness.run(true);
  assert.equal(harness.guard, "budget");
  assert.equal(harness.count("get pods"), 0);
  await harness.goOn(2_000);
  await harness.run(true);
  assert.equal(harness.count("get pods"), 1);
  assert.equal(harness.guard, "rolling");
  assert.deepEqual(
    harness.ledger.reservations.map(({ ordinal }) => ordinal),
    [0],
  );
});

test("a reservation of a StatefulSet that has left the group is settled by a GET of its pod", async () => {
  const harness = await new Harness().prepare();
  const stamp = harness.timeline.nowMs();
  harness.writeLedger({ "sluice.dev/reservations": JSON.stringify({ "group-gone": { 0: ["u", "other", stamp] } }) });
  await harness.run(true);
  assert.equal(harness.count("get pods"), 1);
  assert.deepEqual(
    harness.ledger.reservations.map(({ statefulSet }) => statefulSet),
    ["group-a"],
  );
});

test("a reservation of a StatefulSet that has left the group stays while its pod exists, and blocks the other zones", async () => {
  const harness = await new Harness().prepare();
  const { uid } = harness.world.store.get("pods", podKey("group-b-1")).metadata;
  const stamp = harness.timeline.nowMs();
  harness.writeLedger({ "sluice.dev/reservations": JSON.stringify({ "group-b": { 1: [uid, "other", stamp] } }) });
  harness.world.store.patch("statefulsets", podKey("group-b"), { metadata: { labels: { "rollout-group": "next" } } });
  await harness.run(true);
  assert.equal(harness.guard, "zone-departed");
  assert.deepEqual(
    harness.ledger.reservations.map(({ statefulSet }) => statefulSet),
    ["group-b"],
  );
});

test("a reconcile goes on from the ledger as its own last write left it, and a sweep reads it again", async () => {
  const harness = await new Harness().prepare();
  await harness.run();
  harness.forget();
  await harness.run();
  assert.equal(harness.count("get leases"), 0);
  await harness.run(true);
  assert.equal(harness.count("get leases"), 1);
});

test("a broken outdated pod is replaced by uid and resourceVersion, without a reservation (R13)", async () => {
  const harness = await new Harness().prepare();
  harness.world.kubelet.breakPod(podKey("group-b-1"));
  const { uid, resourceVersion } = harness.world.store.get("pods", podKey("group-b-1")).metadata;
  await harness.run();
  const deletions = harness.calls.filter(({ verb }) => verb === "delete");
  const names = deletions.map(({ given }) => (given[1] as { name: string }).name);
  assert.deepEqual(names, ["group-b-1", "group-b-0"].slice(0, names.length));
  assert.deepEqual(deletions[0]?.given[2], { uid, resourceVersion });
  assert.ok(harness.ledger.reservations.every(({ ordinal }) => ordinal !== 1));
});

test("a rollout ends with every pod new, currentRevision written, nothing reserved, and one Event for each zone", async () => {
  const harness = await new Harness({ zones: ["a", "b", "c"], replicas: 3, maxUnavailable: 2 }).prepare();
  let worst = 0;
  for (let round = 0; round < 300 && harness.guard !== "done"; round++) {
    await harness.run();
    await harness.goOn(500);
    const pods = harness.world.store.list("pods", { namespace }).items;
    const up = pods.filter(
      ({ status, metadata }) => metadata.deletionTimestamp === undefined && status.phase === "Running",
    );
    worst = Math.max(worst, 9 - up.length);
  }
  assert.equal(harness.guard, "done");
  assert.equal(worst, 2);
  for (const zone of ["a", "b", "c"]) {
    for (const ordinal of [0, 1, 2]) assert.equal(harness.imageOf(`group-${zone}-${ordinal}`), "app:2");
    const { status } = harness.world.store.get("statefulsets", podKey(`group-${zone}`));
    assert.equal(status.currentRevision, status.updateRevision);
  }
  await harness.goOn(6_000);
  await harness.run();
  assert.deepEqual(harness.ledger.reservations, []);
  assert.equal(harness.ledger.verdicts[by]?.guard, "done");
  const started = harness.events.filter((event) => event.startsWith("RolloutStarted"));
  assert.deepEqual(
    started.map((event) => event.slice(0, 22)),
    ["RolloutStarted group-a", "RolloutStarted group-b", "RolloutStarted group-c"],
  );
  assert.equal(harness.events.filter((event) => event.startsWith("RolloutCompleted")).length, 1);
  assert.deepEqual(harness.problems, []);
});

test("after the last step of a zone the group is read again at once, because no event reports it", async () => {
  const harness = await new Harness({ replicas: 1 }).prepare();
  let requeueAfterMs: number | undefined;
  for (let round = 0; round < 100 && harness.count("patch statefulsets") === 0; round++) {
    requeueAfterMs = await harness.run();
    await harness.goOn(500);
  }
  assert.equal(harness.count("patch statefulsets"), 1);
  assert.ok(requeueAfterMs !== undefined && requeueAfterMs <= 100, `the next reconcile comes in ${requeueAfterMs} ms`);
});
