/** Group commit: the reviews of a group are decided together, written once, and answered in time or not at all. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Call, Harness, namespace, refused } from "../../../shared/reconcile/harness.ts";
import { addBudget, governedGroup, Replica, reservationOf, reserved } from "./reviews.ts";

const by = "evaluate-eviction";
const isWrite = ({ verb, resource }: Call) => verb === "patch" && resource === "leases";

/** A process with one review under way, so that further reviews gather behind it. */
async function busyReplica(maxUnavailable: number, replicas = 8) {
  const harness = await governedGroup({ maxUnavailable }, { replicas });
  const replica = new Replica(harness);
  return { harness, replica, first: replica.submit("group-a-0") };
}

test("reviews that come while others are decided are decided together, in their order, with one write", async () => {
  const { harness, replica, first } = await busyReplica(4);
  const others = ["group-a-5", "group-b-0", "group-a-2", "group-a-7", "group-a-1"].map((pod) => replica.submit(pod));
  const expected = ["allowed", "allowed", "zones-down", "allowed", "allowed", "zone-budget"];
  assert.deepEqual(await replica.guards(first, ...others), expected);
  assert.equal(replica.count("patch leases"), 2, "one for the first, one for all that came after it");
  const pods = ["group-a-0", "group-a-2", "group-a-5", "group-a-7"];
  assert.deepEqual(
    reserved(harness),
    pods.map((pod) => `${pod} by ${by}`),
  );
});

test("reservations are in the ledger before any review is answered", async () => {
  const { harness, replica, first } = await busyReplica(1);
  await replica.answer(first);
  assert.deepEqual(reserved(harness), [`group-a-0 by ${by}`]);
  const [made] = harness.ledger.reservations;
  assert.equal(made?.uid, replica.uidOf("group-a-0"));
  assert.ok(Math.abs((made?.stampMs ?? 0) - harness.timeline.nowMs()) <= 1_000);
});

test("settled-through becomes the largest revision of a pod in the view, and nothing else raises it (R8)", async () => {
  const harness = await governedGroup();
  harness.world.annotate({ namespace, name: "group-b-1" }, { seen: "yes" }, "pods");
  harness.world.store.create("leases", "elsewhere", { metadata: { name: "noise" } });
  const replica = new Replica(harness);
  assert.deepEqual(await replica.guards(replica.submit("group-a-0")), ["allowed"]);
  const revisions = harness.world.store.list("pods").items.map(({ metadata }) => Number(metadata.resourceVersion));
  assert.equal(harness.ledger.settledThrough, Math.max(...revisions));
});

test("if watches report pods, the decision reads StatefulSets after the ledger, and lists a view that has received nothing (R5)", async () => {
  const harness = await governedGroup({ maxUnavailable: 3 });
  const cache = await harness.watch();
  const replica = new Replica(harness, () => ({ cache }));
  harness.forget();
  assert.deepEqual(await replica.guards(replica.submit("group-a-0")), ["allowed"]);
  assert.deepEqual([harness.count("get statefulsets"), harness.count("list pods")], [2, 0]);
  assert.deepEqual(await replica.guards(replica.submit("group-a-1")), ["allowed"]);
  assert.equal(harness.count("get statefulsets"), 2, "no other process has written since");
  await harness.goOn(31_000);
  harness.forget();
  assert.deepEqual(await replica.guards(replica.submit("group-a-2")), ["allowed"]);
  assert.deepEqual([harness.count("list statefulsets"), harness.count("list pods")], [1, 2]);
  await cache.stop();
});

test("a write keeps what others have written in the ledger", async () => {
  const harness = await governedGroup();
  harness.writeLedger({ "sluice.dev/refusals": `{"uid":["group-a-1","no",${harness.timeline.nowMs()}]}` });
  const { verdicts, refusals } = harness.ledger;
  const replica = new Replica(harness);
  assert.deepEqual(await replica.guards(replica.submit("group-a-0")), ["allowed"]);
  assert.ok(verdicts["advance-zone-rollout"] !== undefined && refusals.length === 1);
  assert.deepEqual([harness.ledger.verdicts, harness.ledger.refusals], [verdicts, refusals]);
});

test("a refusal writes nothing", async () => {
  const { harness, replica, first } = await busyReplica(1);
  await replica.answer(first);
  const { resourceVersion } = harness.ledger;
  const asked = ["group-a-1", "group-b-0", "group-a-2"].map((pod) => replica.submit(pod));
  assert.deepEqual(await replica.guards(...asked), ["zone-budget", "zones-down", "zone-budget"]);
  assert.equal(harness.ledger.resourceVersion, resourceVersion);
});

test("a dry run is decided, writes nothing, and does not count for those after it (R16)", async () => {
  const { harness, replica, first } = await busyReplica(2);
  const dry = [1, 2, 3].map((ordinal) => replica.submit(`group-a-${ordinal}`, { dryRun: true }));
  const asked = [...dry, replica.submit("group-a-4"), replica.submit("group-a-5", { dryRun: true })];
  const answers = await replica.guards(first, ...asked);
  assert.deepEqual(answers, ["allowed", "allowed", "allowed", "allowed", "allowed", "zone-budget"]);
  assert.deepEqual(reserved(harness), [`group-a-0 by ${by}`, `group-a-4 by ${by}`]);
  const { resourceVersion } = harness.ledger;
  const again = await replica.guards(replica.submit("group-a-0", { dryRun: true }));
  assert.deepEqual(again, ["allowed"], "of a pod that is reserved: nothing is renewed either");
  assert.equal(harness.ledger.resourceVersion, resourceVersion);
});

test("a dry run and shadow mode do not even create a ledger (R16)", async () => {
  for (const mode of ["act", "shadow"] as const) {
    const harness = new Harness();
    addBudget(harness);
    const replica = new Replica(harness, () => ({ mode }));
    const asked = replica.submit("group-a-0", { dryRun: mode === "act" });
    assert.deepEqual(await replica.guards(asked), ["allowed"]);
    assert.deepEqual(replica.writes, []);
    assert.deepEqual(harness.world.store.list("leases").items, []);
  }
});

test("in shadow mode nothing is written, and nothing counts", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness, () => ({ mode: "shadow" }));
  for (const pod of ["group-a-0", "group-a-1", "group-b-0"]) {
    assert.deepEqual(await replica.guards(replica.submit(pod)), ["allowed"]);
  }
  assert.deepEqual(replica.writes, []);
});

test("after a conflict on the ledger the decision starts again, from the new ledger (R3)", async () => {
  const harness = await governedGroup();
  const one = new Replica(harness);
  const two = new Replica(harness);
  let isFirst = true;
  one.interfere = async (call) => {
    if (!isWrite(call) || !isFirst) return;
    isFirst = false;
    assert.equal((await two.submit("group-a-1")).guard, "allowed");
  };
  assert.deepEqual(await one.guards(one.submit("group-a-0")), ["zone-budget"]);
  assert.deepEqual(reserved(harness), [`group-a-1 by ${by}`]);
  assert.equal(harness.conflicts, 1);
});

test("late: an answer after the deadline is a 429, and the next write withdraws what it reserved", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  replica.interfere = (call) => (isWrite(call) ? replica.cluster.sleep(1_000) : undefined);
  const deadlineMs = replica.cluster.monotonicMs() + 610;
  const answer = await replica.answer(replica.submit("group-a-0", { deadlineMs }));
  assert.deepEqual([answer.allowed, answer.guard, !answer.allowed && answer.code], [false, "late", 429]);
  assert.ok(replica.cluster.monotonicMs() - deadlineMs <= 1, "it is given at the deadline");
  replica.interfere = () => {};
  await harness.goOn(2_000);
  assert.deepEqual(reserved(harness), [`group-a-0 by ${by}`]);
  assert.deepEqual(await replica.guards(replica.submit("group-b-3")), ["allowed"]);
  assert.deepEqual(reserved(harness), [`group-b-3 by ${by}`]);
});

test("a reservation that a late answer had renewed gets its old stamp back, because the earlier eviction may still be under way", async () => {
  const harness = await governedGroup({ maxUnavailable: 2 });
  const replica = new Replica(harness);
  await replica.guards(replica.submit("group-a-0"));
  const before = reservationOf(harness, "group-a-0");
  await harness.goOn(3_000);
  replica.interfere = (call) => (isWrite(call) ? replica.cluster.sleep(1_000) : undefined);
  const deadlineMs = replica.cluster.monotonicMs() + 500;
  assert.deepEqual(await replica.guards(replica.submit("group-a-0", { deadlineMs })), ["late"]);
  replica.interfere = () => {};
  await harness.goOn(2_000);
  assert.notDeepEqual(reservationOf(harness, "group-a-0"), before);
  assert.deepEqual(await replica.guards(replica.submit("group-a-1")), ["allowed"]);
  assert.deepEqual(reservationOf(harness, "group-a-0"), before);
});

test("if two reviews ask for one pod and one is answered too late, the reservation stays", async () => {
  const { harness, replica, first } = await busyReplica(2);
  replica.interfere = (call) => (isWrite(call) ? replica.cluster.sleep(2_000) : undefined);
  const nowMs = replica.cluster.monotonicMs();
  const asked = [replica.submit("group-a-1", { deadlineMs: nowMs + 3_000 }), replica.submit("group-a-1")];
  assert.deepEqual(await replica.guards(first, ...asked), ["allowed", "late", "allowed"]);
  replica.interfere = () => {};
  assert.deepEqual(await replica.guards(replica.submit("group-a-2")), ["zone-budget"]);
  assert.deepEqual(reserved(harness), [`group-a-0 by ${by}`, `group-a-1 by ${by}`]);
});

test("no review is allowed later than 5 s after the write was sent, whatever the deadline (R9)", async () => {
  for (const [writeMs, guard] of [
    [4_980, "allowed"],
    [5_010, "late"],
  ] as const) {
    const harness = await governedGroup();
    const replica = new Replica(harness);
    replica.interfere = (call) => (isWrite(call) ? replica.cluster.sleep(writeMs) : undefined);
    const deadlineMs = replica.cluster.monotonicMs() + 27_000;
    assert.deepEqual(await replica.guards(replica.submit("group-a-0", { deadlineMs })), [guard]);
  }
});

test("no review is allowed later than 5 s after the read of the StatefulSets that it rests on", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  replica.interfere = ({ verb, resource }) => {
    return verb === "list" && resource === "poddisruptionbudgets" ? replica.cluster.sleep(5_010) : undefined;
  };
  const deadlineMs = replica.cluster.monotonicMs() + 27_000;
  assert.deepEqual(await replica.guards(replica.submit("group-a-0", { deadlineMs })), ["late"]);
});

test("a review behind a slow decision is still answered at its deadline", async () => {
  const { replica, first } = await busyReplica(2);
  replica.interfere = (call) => (isWrite(call) ? replica.cluster.sleep(60_000) : undefined);
  const nowMs = replica.cluster.monotonicMs();
  const second = replica.submit("group-a-1", { deadlineMs: nowMs + 700 });
  assert.equal((await replica.answer(second)).guard, "late");
  assert.ok(replica.cluster.monotonicMs() - nowMs <= 950, "and not much later");
  assert.equal((await replica.answer(first)).guard, "late");
});

test("a pod that holds a reservation is allowed again only by a write that renews its stamp (R12)", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  await replica.guards(replica.submit("group-a-0"));
  const first = reservationOf(harness, "group-a-0");
  assert.deepEqual(await replica.guards(replica.submit("group-a-0")), ["allowed"]);
  const second = reservationOf(harness, "group-a-0");
  assert.equal(replica.count("patch leases"), 2);
  assert.ok((second?.stampMs ?? 0) > (first?.stampMs ?? 0), "also within one tick of the clock");
  assert.equal(second?.uid, first?.uid);
  await harness.goOn(5_000);
  const other = new Replica(harness);
  assert.deepEqual(await other.guards(other.submit("group-a-0")), ["allowed"]);
  assert.ok((reservationOf(harness, "group-a-0")?.stampMs ?? 0) >= (first?.stampMs ?? 0) + 5_000);
  assert.equal(harness.ledger.reservations.length, 1);
});

test("an eviction takes over the reservation of a rollout for the pod, and a late answer gives it back", async () => {
  const harness = await governedGroup();
  harness.changeImage("app:2");
  await harness.goOn(100);
  harness.interfere = ({ verb, resource }) => {
    if (verb === "delete" && resource === "pods") throw refused(503);
  };
  await harness.run();
  assert.deepEqual(reserved(harness), ["group-a-0 by advance-zone-rollout"]);
  const replica = new Replica(harness);
  assert.deepEqual(await replica.guards(replica.submit("group-a-1")), ["zone-budget"], "it counts for everybody else");
  replica.interfere = (call) => (isWrite(call) ? replica.cluster.sleep(1_000) : undefined);
  const deadlineMs = replica.cluster.monotonicMs() + 500;
  assert.deepEqual(await replica.guards(replica.submit("group-a-0", { deadlineMs })), ["late"]);
  replica.interfere = () => {};
  await harness.goOn(2_000);
  assert.deepEqual(reserved(harness), [`group-a-0 by ${by}`]);
  const raised = { spec: { maxUnavailable: 2 } };
  harness.world.store.patch("zoneawarepoddisruptionbudgets", { namespace, name: "budget" }, raised);
  assert.deepEqual(await replica.guards(replica.submit("group-a-2")), ["allowed"]);
  assert.deepEqual(reserved(harness), ["group-a-0 by advance-zone-rollout", `group-a-2 by ${by}`]);
});

test("a pod that is back is settled by the next write, and no longer counts (R6)", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  await replica.guards(replica.submit("group-a-0"));
  const { uid } = harness.world.store.get("pods", { namespace, name: "group-a-0" }).metadata;
  harness.world.store.delete("pods", { namespace, name: "group-a-0" }, { preconditions: { uid } });
  assert.deepEqual(await replica.guards(replica.submit("group-b-0")), ["zones-down"]);
  harness.world.settle();
  assert.deepEqual(await replica.guards(replica.submit("group-b-0")), ["allowed"]);
  assert.deepEqual(reserved(harness), [`group-b-0 by ${by}`]);
});

test("an allowed eviction that never happens is dropped after two and a half minutes, and no sooner (R10)", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  await replica.guards(replica.submit("group-a-0"));
  await harness.goOn(148_000);
  assert.deepEqual(await replica.guards(replica.submit("group-b-0")), ["zones-down"]);
  await harness.goOn(3_000);
  assert.deepEqual(await replica.guards(replica.submit("group-b-0")), ["allowed"]);
});

test("any number of processes share one budget", async () => {
  const harness = await governedGroup({ maxUnavailable: 3 }, { replicas: 8 });
  const replicas = Array.from({ length: 3 }, () => new Replica(harness));
  const asked = Array.from({ length: 8 }, (_, ordinal) =>
    replicas[ordinal % 3]?.submit(`group-a-${ordinal}`),
  ) as ReturnType<Replica["submit"]>[];
  const guards = (await replicas[0]?.guards(...asked)) ?? [];
  assert.equal(guards.filter((guard) => guard === "allowed").length, 3, guards.join());
  assert.equal(harness.ledger.reservations.length, 3);
});
