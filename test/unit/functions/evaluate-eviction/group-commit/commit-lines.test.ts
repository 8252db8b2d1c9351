/**
 * Reviews that wait for one group: which are decided, which reservations are withdrawn, and that nothing is read without a
 * review.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { EvictionSnapshot } from "../../../../../functions/evaluate-eviction/decide.ts";
import type { BatchDecider } from "../../../../../functions/evaluate-eviction/group-commit/commit.ts";
import type { Decision } from "../../../../../functions/evaluate-eviction/group-commit/sort-decisions.ts";
import type { Cluster } from "../../../../../functions/shared/kubernetes/cluster.ts";
import { type Call, Harness, refused } from "../../../shared/reconcile/harness.ts";
import { addBudget, governedGroup, Replica, reservationOf, reserved } from "./reviews.ts";

const by = "evaluate-eviction";
const isWrite = ({ verb, resource }: Call) => verb === "patch" && resource === "leases";
const allowed = { allowed: true, guard: "allowed", warnings: [] } as const;

/** Asks for a pod and gets the answer too late, so that the reservation must be withdrawn. */
async function askTooLate(replica: Replica, ...pods: readonly string[]): Promise<void> {
  replica.interfere = (call) => (isWrite(call) ? replica.cluster.sleep(1_000) : undefined);
  const deadlineMs = replica.cluster.monotonicMs() + 500;
  const guards = await replica.guards(...pods.map((pod) => replica.submit(pod, { deadlineMs })));
  assert.deepEqual([...new Set(guards)], ["late"]);
  replica.interfere = () => {};
  await replica.harness.goOn(2_000);
}

/** A process that allows and reserves every pod that it is asked for. */
function generous(harness: Harness, changes: Partial<BatchDecider<EvictionSnapshot>> = {}): Replica {
  const decide = ({ asked }: EvictionSnapshot): Decision[] =>
    asked.map(({ eviction: { name, uid } }) => {
      const [statefulSet = "", ordinal = ""] = name.split(/-(?=\d+$)/);
      return { answer: allowed, reserve: { statefulSet, ordinal: Number(ordinal), uid } };
    });
  return new Replica(harness, () => ({}), { decide, ...changes });
}

test("the next write withdraws only the reservation of the late answer: others of the same write stay, and so do earlier ones", async () => {
  const harness = await governedGroup({ maxUnavailable: 4 }, { replicas: 8 });
  const replica = new Replica(harness);
  await replica.guards(replica.submit("group-a-7"));
  replica.interfere = (call) => (isWrite(call) ? replica.cluster.sleep(1_000) : undefined);
  const first = replica.submit("group-a-7");
  const deadlineMs = replica.cluster.monotonicMs() + 1_500;
  const [late, inTime] = [replica.submit("group-a-0", { deadlineMs }), replica.submit("group-a-1")];
  assert.deepEqual(await replica.guards(first, late, inTime), ["allowed", "late", "allowed"]);
  replica.interfere = () => {};
  assert.equal(reservationOf(harness, "group-a-0")?.stampMs, reservationOf(harness, "group-a-1")?.stampMs);
  assert.deepEqual(await replica.guards(replica.submit("group-a-2")), ["allowed"]);
  assert.deepEqual(
    reserved(harness),
    ["group-a-1", "group-a-2", "group-a-7"].map((pod) => `${pod} by ${by}`),
  );
});

test("a reservation that another process has renewed meanwhile is not withdrawn, because that eviction is under way (R12)", async () => {
  const harness = await governedGroup({ maxUnavailable: 2 });
  const one = new Replica(harness);
  const two = new Replica(harness);
  await askTooLate(one, "group-a-0");
  assert.deepEqual(await two.guards(two.submit("group-a-0")), ["allowed"]);
  const renewed = reservationOf(harness, "group-a-0");
  one.context.memoryOf(harness.ledger.key).copy.ledger = undefined;
  assert.deepEqual(await one.guards(one.submit("group-a-1")), ["allowed"]);
  assert.deepEqual(reservationOf(harness, "group-a-0"), renewed);
});

test("a reservation that another function has taken over at the same moment is not withdrawn", async () => {
  const harness = await governedGroup({ maxUnavailable: 2 });
  const replica = new Replica(harness);
  await askTooLate(replica, "group-a-0");
  const { uid, stampMs } = reservationOf(harness, "group-a-0") ?? {};
  const entry = [uid, "advance-zone-rollout", stampMs];
  harness.writeLedger({ "sluice.dev/reservations": JSON.stringify({ "group-a": { 0: entry } }) });
  replica.context.memoryOf(harness.ledger.key).copy.ledger = undefined;
  assert.deepEqual(await replica.guards(replica.submit("group-a-1")), ["allowed"]);
  assert.deepEqual(reserved(harness), ["group-a-0 by advance-zone-rollout", `group-a-1 by ${by}`]);
});

test("a conflict cancels no withdrawal: the next successful write removes the reservation", async () => {
  const harness = await governedGroup({ maxUnavailable: 2 });
  const replica = new Replica(harness);
  await askTooLate(replica, "group-a-0");
  let writes = 0;
  replica.interfere = (call) => {
    if (isWrite(call) && ++writes === 1) harness.writeLedger({ other: "1" });
  };
  assert.deepEqual(await replica.guards(replica.submit("group-a-1")), ["allowed"]);
  assert.deepEqual([writes, reserved(harness)], [2, [`group-a-1 by ${by}`]]);
});

test("after a write without an answer nothing is withdrawn, because another process may have reserved the same pod", async () => {
  const harness = await governedGroup({ maxUnavailable: 2 });
  const replica = new Replica(harness);
  await askTooLate(replica, "group-a-0");
  replica.interfere = (call) => {
    if (isWrite(call)) throw refused(0, "no answer came");
  };
  assert.deepEqual(await replica.guards(replica.submit("group-a-1")), ["api-server-away"]);
  replica.interfere = () => {};
  assert.deepEqual(await replica.guards(replica.submit("group-a-1")), ["allowed"]);
  assert.deepEqual(
    reserved(harness),
    ["group-a-0", "group-a-1"].map((pod) => `${pod} by ${by}`),
  );
});

test("a reservation renews the one of its own ordinal, whatever else is reserved (R12)", async () => {
  const harness = await governedGroup({ maxUnavailable: 2 });
  const replica = generous(harness);
  const nowMs = harness.cluster.serverTimeMs();
  const entry = (pod: string, sinceMs: number) => [replica.uidOf(pod), by, nowMs - 5_000, sinceMs];
  const zones = {
    "group-a": { 1: entry("group-a-1", nowMs - 40_000) },
    "group-b": { 0: entry("group-b-0", nowMs - 30_000), 1: entry("group-b-1", nowMs - 20_000) },
  };
  harness.writeLedger({ "sluice.dev/reservations": JSON.stringify(zones) });
  assert.deepEqual(await replica.guards(replica.submit("group-b-1")), ["allowed"]);
  const { stampMs = 0, sinceMs } = reservationOf(harness, "group-b-1") ?? {};
  assert.equal(sinceMs, nowMs - 20_000);
  assert.ok(stampMs >= nowMs);
});

test("a review that was answered as too late meanwhile is not decided again, and reserves nothing", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  replica.interfere = async (call) => {
    if (!isWrite(call)) return;
    harness.writeLedger({ other: "1" });
    await replica.cluster.sleep(1_000);
  };
  const deadlineMs = replica.cluster.monotonicMs() + 500;
  assert.deepEqual(await replica.guards(replica.submit("group-a-0", { deadlineMs })), ["late"]);
  await harness.goOn(10_000);
  assert.deepEqual([replica.count("patch leases"), replica.count("get leases")], [1, 1]);
  assert.deepEqual(reserved(harness), []);
});

test("a reservation that is too late for the five seconds is written once, and not again and again (R9)", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  replica.interfere = (call) => (isWrite(call) ? replica.cluster.sleep(5_010) : undefined);
  const deadlineMs = replica.cluster.monotonicMs() + 27_000;
  assert.deepEqual(await replica.guards(replica.submit("group-a-0", { deadlineMs })), ["late"]);
  await harness.goOn(30_000);
  assert.equal(replica.count("patch leases"), 1);
});

test("a review is not allowed exactly at its deadline, and nothing is written a second time for it (R9)", async () => {
  const harness = await governedGroup();
  let stoppedMs: number | undefined;
  const replica = new Replica(harness, (cluster) => ({
    cluster: { ...cluster, monotonicMs: () => stoppedMs ?? cluster.monotonicMs() },
  }));
  const deadlineMs = replica.cluster.monotonicMs() + 4_000;
  replica.interfere = (call) => {
    if (isWrite(call)) stoppedMs = deadlineMs;
  };
  assert.deepEqual(await replica.guards(replica.submit("group-a-0", { deadlineMs })), ["late"]);
  await harness.goOn(1_000);
  assert.equal(replica.count("patch leases"), 1);
});

test("if a view does not say when its StatefulSets were read, the five seconds count from the write (R9)", async () => {
  for (const [writeMs, guard] of [
    [4_900, "allowed"],
    [5_100, "late"],
  ] as const) {
    const harness = await governedGroup();
    const { cache } = harness.context;
    const read: typeof cache.read = async (...given) => ({
      ...(await cache.read(...given)),
      statefulSetsReadMs: undefined,
    });
    const replica = new Replica(harness, () => ({ cache: { ...cache, read } }));
    replica.interfere = (call) => (isWrite(call) ? replica.cluster.sleep(writeMs) : undefined);
    const deadlineMs = replica.cluster.monotonicMs() + 27_000;
    assert.deepEqual(await replica.guards(replica.submit("group-a-0", { deadlineMs })), [guard]);
  }
});

test("one write has at most 500 reviews: the others are decided next", async () => {
  const harness = await governedGroup();
  const sizes: number[] = [];
  const replica = generous(harness, {
    decide: ({ asked }) => {
      sizes.push(asked.length);
      return asked.map(() => ({ answer: allowed }));
    },
  });
  const asked = Array.from({ length: 502 }, () => replica.submit("group-a-0"));
  await replica.guards(...asked);
  assert.deepEqual(sizes, [1, 500, 1]);
});

test("if one of several reviews is refused for good, all are decided again from a consistent LIST", async () => {
  const harness = await governedGroup();
  await harness.goOn(1_000);
  const final = { allowed: false, guard: "no", message: "", zone: "", code: 403, reason: "", cause: "", field: "" };
  let decisions = 0;
  const replica = generous(harness, {
    decide: ({ asked }) => {
      decisions++;
      return asked.map(({ eviction }) => ({ answer: eviction.name === "group-a-1" ? final : allowed }) as Decision);
    },
  });
  const first = replica.submit("group-a-0");
  const others = [replica.submit("group-a-1"), replica.submit("group-a-2")];
  assert.deepEqual(await replica.guards(first, ...others), ["allowed", "no", "allowed"]);
  assert.equal(decisions, 3);
  const lists = replica.calls.filter(({ verb, resource }) => verb === "list" && resource === "pods");
  const isConsistent = ({ given }: Call) => (given[1] as { notOlderThan?: string }).notOlderThan === undefined;
  assert.deepEqual(lists.map(isConsistent).slice(-2), [true, true]);
});

test("a dry run beside an eviction does not prevent the creation of its ledger (R4, R16)", async () => {
  const harness = new Harness();
  addBudget(harness);
  const replica = new Replica(harness);
  const first = replica.submit("group-b-0", { dryRun: true });
  const others = [replica.submit("group-a-0", { dryRun: true }), replica.submit("group-a-0")];
  assert.deepEqual(await replica.guards(first, ...others), ["allowed", "ledger-new", "ledger-new"]);
  assert.deepEqual(replica.writes, ["create leases"]);
});

test("a new ledger is not written to correct the stamps of a clock that was ahead (R4)", async () => {
  const harness = new Harness();
  addBudget(harness);
  const replica = new Replica(harness);
  assert.deepEqual(await replica.guards(replica.submit("group-a-0")), ["ledger-new"]);
  const entry = [replica.uidOf("group-b-0"), "other", harness.cluster.serverTimeMs() + 3_600_000];
  harness.writeLedger({ "sluice.dev/reservations": JSON.stringify({ "group-b": { 0: entry } }) });
  replica.context.memoryOf(harness.ledger.key).copy.ledger = undefined;
  const { resourceVersion } = harness.ledger;
  assert.deepEqual(await replica.guards(replica.submit("group-a-0")), ["zones-down"]);
  await harness.goOn(1_000);
  assert.equal(harness.ledger.resourceVersion, resourceVersion);
});

/** A process that counts how often it sleeps. */
function sleepy(harness: Harness, decider: Partial<BatchDecider<EvictionSnapshot>> = {}) {
  const slept = { times: 0 };
  const counted = (cluster: Cluster): Partial<Cluster> => ({
    sleep: (ms, signal) => {
      slept.times++;
      return cluster.sleep(ms, signal);
    },
  });
  const replica = new Replica(harness, (cluster) => ({ cluster: { ...cluster, ...counted(cluster) } }), decider);
  return { replica, slept };
}

test("one timer serves all waiting reviews, and none runs when all are answered", async () => {
  const harness = await governedGroup();
  const { replica, slept } = sleepy(harness);
  replica.interfere = (call) => (isWrite(call) ? replica.cluster.sleep(1_000) : undefined);
  const asked = Array.from({ length: 100 }, () => replica.submit("group-a-0"));
  await replica.guards(...asked);
  assert.ok(slept.times <= 20, `${slept.times}`);
  await harness.goOn(1_000);
  const { times } = slept;
  await harness.goOn(10_000);
  assert.equal(slept.times, times);
});

test("the timer sleeps until the first deadline, and ends with its last answer", async () => {
  const harness = await governedGroup();
  const { replica, slept } = sleepy(harness);
  replica.interfere = (call) => (isWrite(call) ? replica.cluster.sleep(60_000) : undefined);
  const deadlineMs = replica.cluster.monotonicMs() + 700;
  assert.deepEqual(await replica.guards(replica.submit("group-a-0", { deadlineMs })), ["late"]);
  assert.equal(slept.times, 1);
});

test("a decision that throws leaves no timer behind", async () => {
  const harness = await governedGroup();
  const { replica, slept } = sleepy(harness, {
    decide: () => {
      throw new TypeError("the sky fell");
    },
  });
  await assert.rejects(replica.answer(replica.submit("group-a-0")), /the sky fell/);
  await harness.goOn(1_000);
  const { times } = slept;
  await harness.goOn(5_000);
  assert.equal(slept.times, times);
});

test("a review behind one whose reservation must still be withdrawn is answered by its own deadline", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  await askTooLate(replica, "group-a-0");
  replica.interfere = (call) => (isWrite(call) ? replica.cluster.sleep(60_000) : undefined);
  const deadlineMs = replica.cluster.monotonicMs() + 700;
  assert.deepEqual(await replica.guards(replica.submit("group-a-1", { deadlineMs })), ["late"]);
  assert.ok(replica.cluster.monotonicMs() - deadlineMs <= 1);
});

test("a deadline that comes before the next reconcile is kept to the millisecond", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  replica.interfere = (call) => (isWrite(call) ? replica.cluster.sleep(60_000) : undefined);
  const first = replica.submit("group-a-0");
  await harness.goOn(20);
  const deadlineMs = replica.cluster.monotonicMs() + 20;
  assert.deepEqual(await replica.guards(replica.submit("group-a-1", { deadlineMs })), ["late"]);
  assert.ok(replica.cluster.monotonicMs() - deadlineMs <= 1, `${replica.cluster.monotonicMs() - deadlineMs} ms`);
  assert.deepEqual(await replica.guards(first), ["late"]);
});
