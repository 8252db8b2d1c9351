/** One pass, from the ledger to the acts, over a small world. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ledgerKey, namespace, Passes, refused } from "./passes.ts";

const by = "advance-zone-rollout";
const podKey = (name: string) => ({ namespace, name });

test("ledger-new: the first pass makes the ledger, and for 10 s nothing is taken and nothing written to it (R4)", async () => {
  const passes = new Passes();
  passes.changeImage("app:2");
  await passes.goOn(100);
  const requeueAfterMs = await passes.run();
  assert.equal(passes.guard, "ledger-new");
  assert.ok(requeueAfterMs !== undefined && requeueAfterMs > 9_000 && requeueAfterMs <= 10_000, String(requeueAfterMs));
  await passes.goOn(9_000);
  await passes.run();
  assert.equal(passes.guard, "ledger-new");
  assert.deepEqual(
    [passes.count("create leases"), passes.count("patch leases"), passes.count("delete pods")],
    [1, 0, 0],
  );
  await passes.goOn(1_000);
  await passes.run();
  assert.equal(passes.guard, "rolling");
  assert.equal(passes.count("delete pods"), 1);
});

test("a process that starts beside a ledger which is old beyond doubt does not wait", async () => {
  const passes = await new Passes().prepare();
  await passes.goOn(45_000);
  passes.restart();
  await passes.run();
  assert.equal(passes.guard, "rolling");
});

test("a new ledger's first decision uses consistent LISTs (R4)", async () => {
  const passes = await new Passes().prepare();
  await passes.run();
  const lists = passes.calls.filter(({ verb, resource }) => verb === "list" && resource === "pods");
  assert.equal(lists.length, 3, "of each zone, and of pods that StatefulSets left behind");
  for (const { given } of lists) assert.equal((given[1] as { notOlderThan?: string }).notOlderThan, undefined);
  passes.forget();
  await passes.run();
  const later = passes.calls.filter(({ verb, resource }) => verb === "list" && resource === "pods");
  const revisions = later.map(({ given }) => (given[1] as { notOlderThan?: string }).notOlderThan);
  const { settledThrough } = passes.ledger;
  // What is left behind of zones that left is asked for as it is now.
  assert.deepEqual(revisions, [String(settledThrough), String(settledThrough), undefined]);
});

test("a pod is reserved before it is deleted (R8), and deleted by its uid (R9)", async () => {
  const passes = await new Passes().prepare();
  const { uid } = passes.world.store.get("pods", podKey("group-a-0")).metadata;
  await passes.run();
  const acts = passes.words.filter((word) => word === "patch leases" || word === "delete pods");
  assert.deepEqual(acts, ["patch leases", "delete pods"]);
  const [deletion] = passes.calls.filter(({ verb }) => verb === "delete");
  assert.deepEqual(deletion?.given[2], { uid });
  const [reserved, ...others] = passes.ledger.reservations;
  assert.equal(others.length, 0);
  assert.deepEqual([reserved?.statefulSet, reserved?.ordinal, reserved?.uid], ["group-a", 0, uid]);
  assert.equal(reserved?.by, by);
  assert.ok(Math.abs((reserved?.stampMs ?? 0) - passes.timeline.nowMs()) <= 1_000);
});

test("settled-through is the largest revision of a pod in the view, and nothing else raises it (R8)", async () => {
  const passes = await new Passes().prepare();
  await passes.run();
  passes.world.settle();
  const revisions = passes.world.store.list("pods").items.map(({ metadata }) => Number(metadata.resourceVersion));
  passes.world.store.create("leases", "elsewhere", { metadata: { name: "noise" } });
  await passes.run();
  assert.equal(passes.guard, "rolling");
  assert.equal(passes.ledger.settledThrough, Math.max(...revisions));
});

test("no act is sent later than 5 s after the write that stamped the reservation was sent (R9)", async () => {
  const passes = await new Passes().prepare();
  passes.interfere = async ({ verb, resource }) => {
    if (verb === "patch" && resource === "leases") await passes.goOn(5_001);
  };
  const requeueAfterMs = await passes.run();
  assert.equal(passes.count("delete pods"), 0);
  assert.equal(passes.acts[0]?.result, "late");
  assert.equal(requeueAfterMs, 7_000);
  assert.equal(passes.ledger.reservations.length, 1);
});

test("a reservation that was never acted on is finished after 7 s, with a new stamp (R10)", async () => {
  const passes = await new Passes().prepare();
  passes.interfere = ({ verb, resource }) => {
    if (verb === "delete" && resource === "pods") throw refused(503);
  };
  assert.equal(await passes.run(), 7_000);
  assert.equal(passes.acts[0]?.result, "failed");
  const [before] = passes.ledger.reservations;
  passes.interfere = () => {};
  await passes.goOn(5_000);
  await passes.run();
  assert.equal(passes.guard, "budget");
  await passes.goOn(3_000);
  await passes.run();
  const [after] = passes.ledger.reservations;
  assert.equal(after?.uid, before?.uid);
  assert.ok((after?.stampMs ?? 0) >= (before?.stampMs ?? 0) + 7_000);
  assert.equal(passes.acts.at(-1)?.result, "done");
});

test("a conflict on the ledger starts the pass again (R3)", async () => {
  const passes = await new Passes().prepare();
  let writes = 0;
  passes.interfere = ({ verb, resource }) => {
    if (verb === "patch" && resource === "leases" && ++writes <= 4) passes.writeLedger({ other: String(writes) });
  };
  await passes.run();
  assert.equal(passes.conflicts, 4);
  assert.equal(passes.count("delete pods"), 1);
  assert.equal(passes.verdicts.length, 1);
});

test("after five conflicts the group is left to a later pass, and nothing was done (R3)", async () => {
  const passes = await new Passes().prepare();
  let writes = 0;
  passes.interfere = ({ verb, resource }) => {
    if (verb === "patch" && resource === "leases") passes.writeLedger({ other: String(++writes) });
  };
  assert.equal(await passes.run(), 1_000);
  assert.equal(passes.conflicts, 5);
  assert.equal(writes, 5);
  assert.equal(passes.count("delete pods"), 0);
});

test("a ledger that was deleted, or deleted and made anew, is a conflict too: it is not brought back (R3)", async () => {
  for (const again of [true, false]) {
    const passes = await new Passes().prepare();
    let done = false;
    passes.interfere = ({ verb, resource }) => {
      if (done || verb !== "patch" || resource !== "leases") return;
      done = true;
      passes.world.store.delete("leases", ledgerKey);
      const annotations = { "sluice.dev/group": "group" };
      const metadata = { name: ledgerKey.name, labels: { "app.kubernetes.io/managed-by": "sluice" }, annotations };
      if (again) passes.world.store.create("leases", namespace, { metadata });
    };
    await passes.run();
    assert.equal(passes.conflicts, 1);
    assert.equal(passes.guard, "ledger-new");
    assert.equal(passes.count("delete pods"), 0);
    assert.deepEqual(passes.ledger.reservations, []);
  }
});

test("ledger-unreadable: a malformed ledger permits nothing, is not overwritten, and is looked at again", async () => {
  const passes = await new Passes().prepare();
  passes.writeLedger({ "sluice.dev/reservations": "{" });
  assert.equal(await passes.run(), 30_000);
  assert.equal(passes.guard, "ledger-unreadable");
  assert.match(passes.verdicts[0]?.message ?? "", /Correct it, or delete it/);
  assert.equal(passes.count("delete pods"), 0);
  const { annotations } = passes.world.store.get("leases", ledgerKey).metadata;
  assert.equal(annotations?.["sluice.dev/reservations"], "{");
  passes.writeLedger({ "sluice.dev/reservations": "{}" });
  await passes.run();
  assert.equal(passes.guard, "rolling");
});

/** `count` reservations at ordinals that nothing settles. */
function reservationsOf(count: number): string {
  const stamp = Date.UTC(2026, 0, 1, 0, 1);
  const zone = Object.fromEntries(Array.from({ length: count }, (_, at) => [100 + at, [`uid-${at}`, "other", stamp]]));
  return JSON.stringify({ "group-a": zone });
}

test("ledger-full: a ledger of 1,000 reservations takes no more, and one of 999 takes one (R2)", async () => {
  const make = async (count: number) => {
    const passes = new Passes({ zones: ["a"], maxUnavailable: 5_000 }, (shipped) => ({
      ...shipped,
      isSettled: () => false,
    }));
    await passes.prepare();
    passes.writeLedger({ "sluice.dev/reservations": reservationsOf(count), "sluice.dev/settled-through": "1" });
    passes.restart();
    await passes.run();
    await passes.goOn(10_100);
    passes.forget();
    await passes.run();
    return passes;
  };
  const full = await make(1_000);
  assert.equal(full.guard, "ledger-full");
  assert.deepEqual([full.ledger.reservations.length, full.count("delete pods")], [1_000, 0]);
  const almost = await make(999);
  assert.equal(almost.guard, "rolling");
  assert.deepEqual([almost.ledger.reservations.length, almost.count("delete pods")], [1_000, 1]);
});

test("shadow mode decides and reports, and writes nothing, with a ledger or without (R16)", async () => {
  const bare = new Passes();
  bare.changeImage("app:2");
  await bare.goOn(100);
  const prepared = await new Passes({ maxUnavailable: "half" }).prepare();
  for (const passes of [bare, prepared]) {
    passes.restart({ mode: "shadow" });
    const revision = passes.world.store.list("pods").resourceVersion;
    await passes.run();
    await passes.goOn(15_000);
    await passes.run();
    await passes.run(true);
    assert.deepEqual([...new Set(passes.words.filter((word) => !/^(get|list) /.test(word)))], []);
    assert.equal(passes.world.store.list("pods").resourceVersion, revision);
    assert.equal(passes.guard, "rolling");
    assert.ok(passes.verdicts.every(({ shadow }) => shadow));
  }
  assert.equal(bare.world.store.find("leases", ledgerKey), undefined);
});

test("a group that has vanished gets no ledger", async () => {
  const passes = new Passes();
  for (const { metadata } of passes.world.store.list("statefulsets").items) passes.world.removeStatefulSet(metadata);
  await passes.goOn(2_000);
  assert.equal(await passes.run(), undefined);
  assert.equal(passes.world.store.find("leases", ledgerKey), undefined);
  assert.deepEqual(passes.verdicts, []);
});

test("what another function reserved and never did is dropped after 150 s, once a GET shows its pod unharmed (R10)", async () => {
  const passes = await new Passes().prepare();
  await passes.goOn(45_000);
  const { uid } = passes.world.store.get("pods", podKey("group-a-1")).metadata;
  const stamp = passes.timeline.nowMs();
  passes.writeLedger({
    "sluice.dev/reservations": JSON.stringify({ "group-a": { 1: [uid, "evaluate-eviction", stamp] } }),
  });
  await passes.run(true);
  assert.equal(passes.guard, "budget");
  await passes.goOn(149_000);
  await passes.run(true);
  assert.equal(passes.guard, "budget");
  assert.equal(passes.count("get pods"), 0);
  await passes.goOn(2_000);
  await passes.run(true);
  assert.equal(passes.count("get pods"), 1);
  assert.equal(passes.guard, "rolling");
  assert.deepEqual(
    passes.ledger.reservations.map(({ ordinal }) => ordinal),
    [0],
  );
});

test("a reservation of a StatefulSet that has left the group is settled by a GET of its pod", async () => {
  const passes = await new Passes().prepare();
  const stamp = passes.timeline.nowMs();
  passes.writeLedger({ "sluice.dev/reservations": JSON.stringify({ "group-gone": { 0: ["u", "other", stamp] } }) });
  await passes.run(true);
  assert.equal(passes.count("get pods"), 1);
  assert.deepEqual(
    passes.ledger.reservations.map(({ statefulSet }) => statefulSet),
    ["group-a"],
  );
});

test("a reservation of a StatefulSet that has left the group is kept while its pod stands, and holds the others back", async () => {
  const passes = await new Passes().prepare();
  const { uid } = passes.world.store.get("pods", podKey("group-b-1")).metadata;
  const stamp = passes.timeline.nowMs();
  passes.writeLedger({ "sluice.dev/reservations": JSON.stringify({ "group-b": { 1: [uid, "other", stamp] } }) });
  passes.world.store.patch("statefulsets", podKey("group-b"), { metadata: { labels: { "rollout-group": "next" } } });
  await passes.run(true);
  assert.equal(passes.guard, "zone-departed");
  assert.deepEqual(
    passes.ledger.reservations.map(({ statefulSet }) => statefulSet),
    ["group-b"],
  );
});

test("a pass goes on from the ledger as its own last write left it, and a sweep reads it afresh", async () => {
  const passes = await new Passes().prepare();
  await passes.run();
  passes.forget();
  await passes.run();
  assert.equal(passes.count("get leases"), 0);
  await passes.run(true);
  assert.equal(passes.count("get leases"), 1);
});

test("a broken outdated pod is replaced by uid and resourceVersion, without a reservation (R13)", async () => {
  const passes = await new Passes().prepare();
  passes.world.kubelet.breakPod(podKey("group-b-1"));
  const { uid, resourceVersion } = passes.world.store.get("pods", podKey("group-b-1")).metadata;
  await passes.run();
  const deletions = passes.calls.filter(({ verb }) => verb === "delete");
  const names = deletions.map(({ given }) => (given[1] as { name: string }).name);
  assert.deepEqual(names, ["group-b-1", "group-b-0"].slice(0, names.length));
  assert.deepEqual(deletions[0]?.given[2], { uid, resourceVersion });
  assert.ok(passes.ledger.reservations.every(({ ordinal }) => ordinal !== 1));
});

test("a rollout runs to its end: every pod new, currentRevision written, nothing reserved, one Event for each zone", async () => {
  const passes = await new Passes({ zones: ["a", "b", "c"], replicas: 3, maxUnavailable: 2 }).prepare();
  let worst = 0;
  for (let pass = 0; pass < 300 && passes.guard !== "done"; pass++) {
    await passes.run();
    await passes.goOn(500);
    const pods = passes.world.store.list("pods", { namespace }).items;
    const up = pods.filter(
      ({ status, metadata }) => metadata.deletionTimestamp === undefined && status.phase === "Running",
    );
    worst = Math.max(worst, 9 - up.length);
  }
  assert.equal(passes.guard, "done");
  assert.equal(worst, 2);
  for (const zone of ["a", "b", "c"]) {
    for (const ordinal of [0, 1, 2]) assert.equal(passes.imageOf(`group-${zone}-${ordinal}`), "app:2");
    const { status } = passes.world.store.get("statefulsets", podKey(`group-${zone}`));
    assert.equal(status.currentRevision, status.updateRevision);
  }
  await passes.goOn(6_000);
  await passes.run();
  assert.deepEqual(passes.ledger.reservations, []);
  assert.equal(passes.ledger.verdicts[by]?.guard, "done");
  const started = passes.events.filter((event) => event.startsWith("RolloutStarted"));
  assert.deepEqual(
    started.map((event) => event.slice(0, 22)),
    ["RolloutStarted group-a", "RolloutStarted group-b", "RolloutStarted group-c"],
  );
  assert.equal(passes.events.filter((event) => event.startsWith("RolloutCompleted")).length, 1);
  assert.deepEqual(passes.problems, []);
});

test("when the last step of a zone is done, what holds next is looked at at once, for no event tells of it", async () => {
  const passes = await new Passes({ replicas: 1 }).prepare();
  let requeueAfterMs: number | undefined;
  for (let pass = 0; pass < 100 && passes.count("patch statefulsets") === 0; pass++) {
    requeueAfterMs = await passes.run();
    await passes.goOn(500);
  }
  assert.equal(passes.count("patch statefulsets"), 1);
  assert.ok(requeueAfterMs !== undefined && requeueAfterMs <= 100, `the next look comes in ${requeueAfterMs} ms`);
});
