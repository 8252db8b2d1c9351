/** Several processes at once, and processes that end anywhere: one rebalance runs at a time, and each comes to an end. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { played, refused } from "../../shared/reconcile/harness.ts";
import { Brokers, balanced, namespace, settleMs, stateKey, usual, wish } from "./brokers.ts";

/** A cluster whose minute is over: the next process that reconciles asks for a rebalance. */
async function due(): Promise<Brokers> {
  const brokers = new Brokers();
  await brokers.process().run();
  await brokers.goOn(settleMs + 1);
  brokers.harness.forget();
  return brokers;
}

test("of eight processes that reconcile at the same moment one asks, and the others wait for it", async () => {
  const brokers = await due();
  brokers.slowMs = 1_400;
  const processes = Array.from({ length: 8 }, () => brokers.process());
  await played(brokers.harness.timeline, Promise.all(processes.map((process) => process.start())));
  assert.deepEqual(brokers.pods, ["group-a-0"]);
  const guards = brokers.harness.verdicts.map(({ guard }) => guard).sort();
  assert.deepEqual(guards, ["rebalanced", ...Array(7).fill("state-contended")]);
  for (const process of processes) await process.goOn(120_000);
  assert.deepEqual(brokers.pods, ["group-a-0"]);
});

test("rebalance-under-way: while one process asks, a second that reconciles later waits for it", async () => {
  const brokers = await due();
  brokers.slowMs = 1_500;
  const asking = brokers.process().start();
  await brokers.goOn(2_000);
  assert.equal(await brokers.process().run(), "rebalance-under-way");
  await played(brokers.harness.timeline, asking);
  assert.equal(await brokers.process().run(), "done");
  assert.deepEqual(brokers.pods, ["group-a-0"]);
});

/** The calls of a reconcile that rebalances. A process may end before any of them is sent, or after it, without an answer. */
const calls = [
  "get statefulsets",
  "list pods",
  "patch statefulsets",
  "get secrets",
  "patch statefulsets",
  "create events",
];

for (const [index, call] of calls.entries()) {
  for (const moment of ["before", "after"] as const) {
    test(`a process that ends ${moment} ${call} (${index + 1} of ${calls.length}) leaves what another one ends, and never two at a time`, async () => {
      const brokers = await due();
      const dying = brokers.process();
      const dead = new Promise<never>(() => {});
      let sent = 0;
      dying.interfere = () => {
        sent++;
        if (moment === "before" ? sent > index : sent > index + 1) return dead;
      };
      void dying.start();
      await brokers.goOn(5_000);
      assert.deepEqual(dying.requests, calls.slice(0, moment === "before" ? index + 1 : index + 2));
      const before = brokers.asked.length;
      const other = brokers.process();
      await other.goOn(300_000);
      assert.equal(await other.run(), "done");
      assert.equal(brokers.state?.claimedMs, undefined);
      // A rebalance that was requested and not recorded is requested again, but not before a claim is over.
      assert.ok(brokers.asked.length >= 1 && brokers.asked.length <= before + 1, `${brokers.asked.length}`);
      const [first, second] = brokers.asked;
      assert.ok(second === undefined || second.atMs - (first?.atMs ?? 0) >= 59_000);
      if (before === 1 && index >= 4 && moment === "after") assert.equal(brokers.asked.length, 1);
    });
  }
}

test("a process that dies at each request asks again after longer and longer pauses", async () => {
  const brokers = await due();
  for (let second = 0; second < 3_600; second += 10) {
    const dying = brokers.process();
    let patches = 0;
    dying.interfere = ({ verb }) => {
      if (verb === "patch" && ++patches > 1) return new Promise<never>(() => {});
    };
    void dying.start();
    await brokers.goOn(10_000);
  }
  assert.ok(brokers.asked.length >= 5 && brokers.asked.length <= 10, `${brokers.asked.length}`);
  assert.deepEqual(new Set(brokers.pods), new Set(["group-a-0", "group-a-1", "group-a-2"]));
});

test("if a client writes the StatefulSet during the request, Sluice still writes the end, and a new wish stays", async () => {
  const brokers = await balanced();
  await brokers.goOn(100_000);
  const now = () => new Date(brokers.harness.timeline.nowMs()).toISOString().replace(/\.\d+Z$/, "Z");
  brokers.annotate({ [wish]: now() });
  brokers.slowMs = 1_400;
  const process = brokers.process();
  const asking = process.start();
  await brokers.goOn(3_000);
  brokers.annotate({ others: "1", [wish]: now() });
  const wished = now();
  await played(brokers.harness.timeline, asking);
  assert.equal(brokers.state?.claimedMs, undefined);
  assert.equal(brokers.set.metadata.annotations?.[wish], wished);
  await process.goOn(70_000);
  assert.deepEqual([brokers.asked.length, brokers.set.metadata.annotations?.[wish]], [2, undefined]);
});

test("other processes note nodes that are replaced during the request, and rebalance after it", async () => {
  const brokers = await due();
  brokers.slowMs = 1_400;
  const asking = brokers.process().start();
  await brokers.goOn(50);
  await brokers.replace("group-a-2");
  assert.equal(await brokers.process().run(), "rebalance-under-way");
  assert.equal(brokers.asked.length, 0);
  await played(brokers.harness.timeline, asking);
  const { state } = brokers;
  assert.ok(state?.claimedMs === undefined && state?.balanced !== undefined && state.balanced !== state.members);
  await brokers.process().goOn(70_000);
  assert.equal(brokers.asked.length, 2);
});

test("a process that resumes does not end a claim that another one took over, nor a claim of a StatefulSet that was created again", async () => {
  for (const how of ["taken over", "made again"]) {
    const brokers = await due();
    brokers.slowMs = 1_400;
    const process = brokers.process();
    const asking = process.start();
    await brokers.goOn(3_000);
    const { metadata, spec } = brokers.set;
    if (how === "made again") {
      brokers.harness.world.removeStatefulSet(metadata);
      await brokers.goOn(10);
      const { name, labels, annotations } = metadata;
      brokers.harness.world.store.create("statefulsets", namespace, { metadata: { name, labels, annotations }, spec });
    } else {
      const state = JSON.parse(metadata.annotations?.[stateKey] ?? "");
      const claimedAt = new Date(brokers.harness.timeline.nowMs()).toISOString();
      brokers.annotate({ [stateKey]: JSON.stringify({ ...state, claimedAt }) });
    }
    const before = brokers.set.metadata.annotations?.[stateKey];
    await played(brokers.harness.timeline, asking);
    assert.equal(brokers.set.metadata.annotations?.[stateKey], before, how);
    brokers.slowMs = 1;
    brokers.harness.world.settle();
    await brokers.process().goOn(400_000);
    assert.equal(await brokers.process().run(), "done");
    assert.equal(brokers.asked.length, 2, how);
  }
});

test("state-refused: if Sluice may not write the annotation, it asks no pod, and an Event says who refuses", async () => {
  const brokers = new Brokers(usual);
  const process = brokers.process();
  process.interfere = ({ verb }) => {
    if (verb === "patch") throw refused(403, "admission webhook says no");
  };
  await process.goOn(300_000);
  assert.equal(await process.run(), "state-refused");
  assert.deepEqual(brokers.asked, []);
  const waiting = brokers.events.filter((event) => /^RebalanceWaiting group-a: state-refused: .*says no/.test(event));
  assert.equal(waiting.length, 1);
});

test("a missing right, and an API server that does not answer, make the reconcile fail", async () => {
  for (const [code, message] of [
    [403, 'User "u" cannot patch resource "statefulsets"'],
    [500, "down"],
  ] as const) {
    const brokers = new Brokers();
    const process = brokers.process();
    process.interfere = ({ verb }) => {
      if (verb === "patch") throw refused(code, message);
    };
    await assert.rejects(process.run(), ClusterError);
  }
});
