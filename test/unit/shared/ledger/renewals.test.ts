/**
 * Something behind Sluice other than a PodDisruptionBudget refuses evictions: the reservation of a pod that is
 * allowed again and again lapses (R10, R12).
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AdmissionAnswer } from "../../../../functions/shared/admission/definition.ts";
import { renewalOf } from "../../../../functions/shared/ledger/renewals.ts";
import { dropAfterMs } from "../../../../functions/shared/ledger/reservation.ts";
import {
  governedGroup,
  Replica,
  reservationOf,
  reserved,
} from "../../functions/evaluate-eviction/group-commit/reviews.ts";
import { type Harness, namespace } from "../reconcile/harness.ts";

const guard = "eviction-not-carried-out";
const by = "evaluate-eviction";

/**
 * Requests a pod's eviction every `everyMs` for this long, at the replicas in turn. Resolves to the guards, with the
 * time of their first answer.
 */
async function pursue(
  replicas: readonly Replica[],
  pod: string,
  { everyMs = 5_000, forMs }: { readonly everyMs?: number; readonly forMs: number },
): Promise<{ firstMs: Map<string, number>; last: AdmissionAnswer | undefined }> {
  const [{ harness } = { harness: undefined as never }] = replicas;
  const startMs = harness.timeline.nowMs();
  const firstMs = new Map<string, number>();
  let last: AdmissionAnswer | undefined;
  for (let turn = 0; harness.timeline.nowMs() - startMs < forMs; turn++) {
    const replica = replicas[turn % replicas.length] as Replica;
    const atMs = harness.timeline.nowMs() - startMs;
    last = await replica.answer(replica.submit(pod));
    if (!firstMs.has(last.guard)) firstMs.set(last.guard, atMs);
    await harness.goOn(startMs + (turn + 1) * everyMs - harness.timeline.nowMs());
  }
  return { firstMs, last };
}

/** The eviction of a pod, carried out as it was allowed. */
function takeAway(harness: Harness, replica: Replica, pod: string): void {
  harness.world.store.delete("pods", { namespace, name: pod }, { preconditions: { uid: replica.uidOf(pod) } });
}

test("eviction-not-carried-out: an eviction that was renewed for a minute and never carried out is refused with 429 and the reason", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  const { firstMs, last } = await pursue([replica], "group-a-0", { forMs: 120_000 });
  assert.deepEqual([...firstMs.keys()], ["allowed", guard]);
  assert.ok((firstMs.get(guard) ?? 0) >= 60_000 && (firstMs.get(guard) ?? 0) <= 70_000, `${firstMs.get(guard)} ms`);
  assert.ok(last !== undefined && !last.allowed);
  assert.deepEqual([last.code, last.cause], [429, "DisruptionBudget"]);
  assert.match(last.message, /^group-a-0 was allowed to go again and again for 6\d s, and is still there: .+ webhook/);
});

test("only the same function for the same pod renews a reservation, and any other begins a new one (R12)", () => {
  const before = { statefulSet: "a", ordinal: 0, uid: "u", by, stampMs: 2_000 };
  assert.deepEqual(renewalOf(before, "u", by), { sinceMs: 2_000 });
  assert.deepEqual(renewalOf({ ...before, sinceMs: 1_000 }, "u", by), { sinceMs: 1_000 });
  assert.deepEqual(renewalOf(before, "of-the-next-pod", by), {});
  assert.deepEqual(renewalOf(before, "u", "advance-zone-rollout"), {});
  assert.deepEqual(renewalOf(undefined, "u", by), {});
});

test("two replicas and a try every 100 ms make that minute neither longer nor shorter", async () => {
  const harness = await governedGroup();
  const replicas = [new Replica(harness), new Replica(harness)];
  const { firstMs } = await pursue(replicas, "group-a-0", { everyMs: 100, forMs: 80_000 });
  assert.ok((firstMs.get(guard) ?? 0) >= 59_000 && (firstMs.get(guard) ?? 0) <= 62_000, `${firstMs.get(guard)} ms`);
});

test("the pod's sibling goes within four minutes, and the pod itself is then refused at once for ten minutes", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  const startMs = harness.timeline.nowMs();
  const elapsed = () => harness.timeline.nowMs() - startMs;
  let siblingMs: number | undefined;
  while (siblingMs === undefined && elapsed() < 1_000_000) {
    const [, answer] = await replica.guards(replica.submit("group-a-0"), replica.submit("group-a-1"));
    if (answer === "allowed") siblingMs = elapsed();
    else await harness.goOn(5_000);
  }
  assert.ok(siblingMs !== undefined && siblingMs <= 240_000, `${siblingMs} ms`);
  assert.deepEqual(reserved(harness), [`group-a-1 by ${by}`]);
  const [record] = harness.ledger.refusals;
  assert.deepEqual([record?.pod, record?.by, record?.uid], ["group-a-0", by, replica.uidOf("group-a-0")]);
  takeAway(harness, replica, "group-a-1");
  harness.world.settle();
  const { resourceVersion } = harness.ledger;
  const { firstMs } = await pursue([replica], "group-a-0", { everyMs: 10_000, forMs: 560_000 });
  assert.deepEqual([...firstMs.keys()], [guard], "it blocks no other pod");
  assert.equal(harness.ledger.resourceVersion, resourceVersion, "a refusal writes nothing");
  const again = await pursue([replica], "group-a-0", { everyMs: 10_000, forMs: 60_000 });
  assert.ok(again.firstMs.has("allowed"), "then it is tried again");
});

test("without another write, the pod is also refused until ten minutes after its reservation lapsed, and no longer", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  await pursue([replica], "group-a-0", { forMs: 70_000 });
  const { stampMs = 0 } = reservationOf(harness, "group-a-0") ?? {};
  const { resourceVersion } = harness.ledger;
  await harness.goOn(stampMs + dropAfterMs + 599_000 - harness.timeline.nowMs());
  assert.deepEqual(await replica.guards(replica.submit("group-a-0")), [guard]);
  assert.equal(harness.ledger.resourceVersion, resourceVersion);
  await harness.goOn(3_000);
  assert.deepEqual(await replica.guards(replica.submit("group-a-0")), ["allowed"]);
  assert.equal(reservationOf(harness, "group-a-0")?.sinceMs, undefined, "the new reservation is no renewal");
});

test("a rollout of the group ends beside a drain that another webhook refuses and that tries again and again", async () => {
  const harness = await governedGroup({ maxUnavailable: 1 }, { replicas: 2 });
  const replica = new Replica(harness);
  await replica.guards(replica.submit("group-b-1"));
  harness.changeImage("app:2");
  const uid = replica.uidOf("group-b-1");
  const startMs = harness.timeline.nowMs();
  const isDone = () => harness.guard === "done" && harness.imageOf("group-b-1") === "app:2";
  while (!isDone() && harness.timeline.nowMs() - startMs < 3_600_000) {
    if (replica.uidOf("group-b-1") === uid) await replica.guards(replica.submit("group-b-1"));
    await harness.run();
    await harness.goOn(5_000);
  }
  assert.ok(isDone(), harness.verdicts.at(-1)?.message);
  assert.ok(harness.timeline.nowMs() - startMs < 600_000);
});

for (const isLasting of [false, true]) {
  const where = isLasting ? "on a server" : "where processes come and go";
  test(`rollout-first: ${where} a rollout ends although evictions of all pods are requested again and again, and refused`, async () => {
    const harness = await governedGroup({ maxUnavailable: 1 }, { replicas: 5 });
    harness.restart({ cache: { ...harness.context.cache, isLasting } });
    const replica = new Replica(harness);
    const pods = [0, 1, 2, 3, 4].flatMap((ordinal) => [`group-a-${ordinal}`, `group-b-${ordinal}`]);
    harness.changeImage("app:2");
    const startMs = harness.timeline.nowMs();
    const seen = new Set<string>();
    let reconcileAtMs = startMs;
    while (harness.guard !== "done" && harness.timeline.nowMs() - startMs < 3_600_000) {
      const old = pods.filter((pod) => harness.imageOf(pod) === "app:1");
      for (const guard of await replica.guards(...old.map((pod) => replica.submit(pod)))) seen.add(guard);
      if (harness.timeline.nowMs() >= reconcileAtMs)
        reconcileAtMs = harness.timeline.nowMs() + ((await harness.run()) ?? 30_000);
      await harness.goOn(1_000);
    }
    assert.equal(harness.guard, "done");
    assert.ok(harness.timeline.nowMs() - startMs < 1_200_000);
    assert.ok(seen.has("rollout-first") && seen.has(guard), [...seen].join());
  });
}

test("a recreated pod of the same name is decided on its own", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  await pursue([replica], "group-a-0", { forMs: 70_000 });
  assert.deepEqual(await replica.guards(replica.submit("group-a-0")), [guard]);
  takeAway(harness, replica, "group-a-0");
  harness.world.settle();
  assert.deepEqual(await replica.guards(replica.submit("group-a-0")), ["allowed"]);
  assert.equal(reservationOf(harness, "group-a-0")?.sinceMs, undefined);
});

test("a dry run of such an eviction is refused as the eviction is, and writes nothing (R16)", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  await pursue([replica], "group-a-0", { forMs: 70_000 });
  const { resourceVersion } = harness.ledger;
  assert.deepEqual(await replica.guards(replica.submit("group-a-0", { dryRun: true })), [guard]);
  await harness.goOn(dropAfterMs);
  const asked = [replica.submit("group-a-0", { dryRun: true }), replica.submit("group-b-0", { dryRun: true })];
  assert.deepEqual(await replica.guards(...asked), [guard, "allowed"]);
  assert.equal(harness.ledger.resourceVersion, resourceVersion);
});

test("an eviction that is only slow is allowed all the time, and counts until it was carried out", async () => {
  for (const slowMs of [20_000, 75_000]) {
    const harness = await governedGroup();
    const replica = new Replica(harness);
    const { firstMs } = await pursue([replica], "group-a-0", { forMs: slowMs });
    assert.equal(firstMs.has(guard), slowMs > 60_000);
    assert.deepEqual(await replica.guards(replica.submit("group-b-0")), ["zones-down"]);
    takeAway(harness, replica, "group-a-0");
    assert.deepEqual(await replica.guards(replica.submit("group-b-0")), ["zones-down"]);
    harness.world.settle();
    assert.deepEqual(await replica.guards(replica.submit("group-b-0")), ["allowed"]);
    assert.deepEqual(harness.ledger.refusals, []);
  }
});

test("a renewal whose answer came too late is withdrawn, and the reservation keeps its age", async () => {
  const harness = await governedGroup({ maxUnavailable: 2 });
  const replica = new Replica(harness);
  await pursue([replica], "group-a-0", { forMs: 20_000 });
  const before = reservationOf(harness, "group-a-0");
  assert.ok(before?.sinceMs !== undefined && before.stampMs - before.sinceMs >= 14_000);
  replica.interfere = ({ verb }) => (verb === "patch" ? replica.cluster.sleep(1_000) : undefined);
  const deadlineMs = replica.cluster.monotonicMs() + 500;
  assert.deepEqual(await replica.guards(replica.submit("group-a-0", { deadlineMs })), ["late"]);
  replica.interfere = () => {};
  await harness.goOn(2_000);
  await replica.guards(replica.submit("group-a-1"));
  assert.deepEqual(reservationOf(harness, "group-a-0"), before);
});

test("an eviction's refusal does not block a rollout, and a rollout's refusal does not block an eviction", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  const uid = replica.uidOf("group-a-0");
  const nowMs = harness.timeline.nowMs();
  const rollout = { [uid]: ["group-a-0", "a webhook said no", nowMs] };
  harness.writeLedger({ "sluice.dev/refusals": JSON.stringify(rollout) });
  assert.deepEqual(await new Replica(harness).guards(new Replica(harness).submit("group-a-0")), ["allowed"]);
  const both = { ...rollout, [`${uid}/${by}`]: ["group-a-0", "it was given up", nowMs, by] };
  harness.writeLedger({ "sluice.dev/refusals": JSON.stringify(both), "sluice.dev/reservations": "{}" });
  assert.deepEqual(await new Replica(harness).guards(new Replica(harness).submit("group-a-0")), [guard]);
  harness.writeLedger({ "sluice.dev/refusals": JSON.stringify({ [`${uid}/${by}`]: both[`${uid}/${by}`] }) });
  harness.restart();
  harness.changeImage("app:2");
  await harness.goOn(100);
  await harness.run(true);
  assert.ok(harness.acts.some(({ object, result }) => object === "group-a-0" && result === "done"));
});
