/** Stamps of a clock that was ahead of the API server's count from when they were first seen. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { clockSkewMs } from "../../../../functions/shared/clock/skew.ts";
import { dropAfterMs, type StoredLedger } from "../../../../functions/shared/ledger/reservation.ts";
import { mendStamps } from "../../../../functions/shared/ledger/stamps.ts";
import { nowMs, reservation } from "../../functions/advance-zone-rollout/given.ts";
import { governedGroup, Replica, reserved } from "../../functions/evaluate-eviction/group-commit/reviews.ts";
import { Harness, key, namespace, played, refused } from "../reconcile/harness.ts";

const hourMs = 3_600_000;

function ledgerOf(changes: Partial<StoredLedger>): StoredLedger {
  const identity = {
    kind: "stored",
    key,
    name: "sluice-group",
    uid: "uid",
    resourceVersion: "7",
    createdMs: 0,
  } as const;
  const through = { settledThrough: 1, membersThrough: 1 };
  return {
    ...identity,
    ...through,
    othersBytes: 0,
    reservations: [],
    claims: [],
    refusals: [],
    verdicts: {},
    ...changes,
  };
}

/** Reserves a pod with the stamp of a clock that was an hour ahead, for a function that no longer acts on it. */
function reserveAhead(harness: Harness, pod: string, by = "evaluate-eviction"): void {
  const { uid } = harness.world.store.get("pods", { namespace, name: pod }).metadata;
  const [statefulSet = "", ordinal = ""] = pod.split(/-(?=\d+$)/);
  const entry = [uid, by, harness.cluster.serverTimeMs() + hourMs];
  harness.writeLedger({ "sluice.dev/reservations": JSON.stringify({ [statefulSet]: { [ordinal]: entry } }) });
}

test("a ledger whose stamps are ahead by no more than clocks may differ is not changed", () => {
  const verdict = { guard: "budget", zone: "a", sentence: "a", since: nowMs - 5, at: nowMs + clockSkewMs };
  const ledger = ledgerOf({
    reservations: [reservation("a-0", { stampMs: nowMs + clockSkewMs, sinceMs: nowMs - 100_000 })],
    refusals: [{ uid: "u", pod: "a-1", message: "no", stampMs: nowMs + clockSkewMs }],
    verdicts: { rollout: verdict },
  });
  assert.equal(mendStamps(ledger, nowMs), ledger);
});

test("a stamp that is further ahead is replaced by the current time, and nothing else is changed", () => {
  const aheadMs = nowMs + clockSkewMs + 1;
  const fine = reservation("a-1");
  const ledger = ledgerOf({
    reservations: [
      fine,
      reservation("a-0", { stampMs: aheadMs, sinceMs: nowMs - 9_000 }),
      reservation("b-0", { stampMs: aheadMs + 5, sinceMs: aheadMs }),
      reservation("c-0", { stampMs: aheadMs, sinceMs: nowMs }),
    ],
    refusals: [{ uid: "u", pod: "a-1", message: "no", stampMs: aheadMs, by: "evaluate-eviction" }],
    verdicts: { rollout: { guard: "budget", zone: "a", sentence: "a", since: aheadMs, at: aheadMs } },
  });
  assert.deepEqual(mendStamps(ledger, nowMs), {
    ...ledger,
    reservations: [
      fine,
      reservation("a-0", { stampMs: nowMs, sinceMs: nowMs - 9_000 }),
      reservation("b-0", { stampMs: nowMs }),
      reservation("c-0", { stampMs: nowMs }),
    ],
    refusals: [{ uid: "u", pod: "a-1", message: "no", stampMs: nowMs, by: "evaluate-eviction" }],
    verdicts: { rollout: { guard: "budget", zone: "a", sentence: "a", since: nowMs, at: nowMs } },
  });
});

test("a record of being overdue is removed if its clock has gone back since, or if the reservation gets another stamp", () => {
  const aheadMs = nowMs + clockSkewMs + 1;
  const ledger = ledgerOf({
    reservations: [
      reservation("a-0", { stampMs: nowMs - 9_000, overdueSeenMs: aheadMs }),
      reservation("b-0", { stampMs: aheadMs, overdueSeenMs: aheadMs + 200_000 }),
      reservation("c-0", { stampMs: nowMs - 9_000, overdueSeenMs: nowMs - 5 }),
    ],
  });
  assert.deepEqual(mendStamps(ledger, nowMs).reservations, [
    reservation("a-0", { stampMs: nowMs - 9_000 }),
    reservation("b-0", { stampMs: nowMs }),
    reservation("c-0", { stampMs: nowMs - 9_000, overdueSeenMs: nowMs - 5 }),
  ]);
});

test("one stamp of any kind that is ahead is corrected, and the others stay", () => {
  const aheadMs = nowMs + clockSkewMs + 1;
  const fine = { guard: "budget", zone: "a", sentence: "a", since: nowMs - 5, at: nowMs };
  const refusal = { uid: "u", pod: "a-1", message: "no", stampMs: nowMs };
  const blocked = [reservation("a-0"), reservation("a-1")];
  const base = { reservations: blocked, refusals: [refusal], verdicts: { rollout: fine } };
  const mended = (changes: Partial<StoredLedger>) => mendStamps(ledgerOf({ ...base, ...changes }), nowMs);
  const ahead = { ...refusal, uid: "v", stampMs: aheadMs };
  assert.deepEqual(mended({ refusals: [refusal, ahead] }).refusals, [refusal, { ...ahead, stampMs: nowMs }]);
  const verdicts = { rollout: fine, other: { ...fine, at: aheadMs } };
  assert.deepEqual(mended({ verdicts }).verdicts, { rollout: fine, other: fine });
  const began = { rollout: fine, other: { ...fine, since: aheadMs } };
  assert.equal(mended({ verdicts: began }).verdicts.other?.since, nowMs);
  const [first] = blocked;
  const late = mended({ reservations: [...blocked, reservation("b-0", { stampMs: aheadMs })] }).reservations;
  assert.deepEqual(late, [first, blocked[1], reservation("b-0", { stampMs: nowMs })]);
});

test("a reservation of a clock an hour ahead blocks a rollout for three minutes at most, and is corrected at once", async () => {
  for (const by of ["evaluate-eviction", "advance-zone-rollout"]) {
    const harness = await governedGroup();
    harness.changeImage("app:2");
    reserveAhead(harness, "group-b-0", by);
    harness.restart();
    const startMs = harness.timeline.nowMs();
    await harness.run();
    const [mended] = harness.ledger.reservations;
    assert.ok((mended?.stampMs ?? 0) <= harness.cluster.serverTimeMs(), "by the first reconcile");
    while (harness.acts.length === 0 && harness.timeline.nowMs() - startMs < 2 * hourMs) {
      await harness.goOn(5_000);
      await harness.run();
    }
    const tookMs = harness.timeline.nowMs() - startMs;
    assert.ok(tookMs <= dropAfterMs + clockSkewMs, `${by}: ${tookMs} ms`);
  }
});

test("without a reconcile, a refused eviction corrects the stamp once; a dry run does not (R16)", async () => {
  const harness = await governedGroup();
  reserveAhead(harness, "group-b-0");
  const replica = new Replica(harness);
  assert.deepEqual(await replica.guards(replica.submit("group-a-0", { dryRun: true })), ["zones-down"]);
  assert.deepEqual(replica.writes, []);
  const startMs = harness.timeline.nowMs();
  let answer: string | undefined;
  for (; answer !== "allowed" && harness.timeline.nowMs() - startMs < 2 * hourMs; await harness.goOn(5_000)) {
    [answer] = await replica.guards(replica.submit("group-a-0"));
  }
  assert.ok(harness.timeline.nowMs() - startMs <= dropAfterMs + clockSkewMs, "it goes on in time");
  assert.deepEqual(replica.writes, ["patch leases", "patch leases"], "the stamp, and the allowance");
  assert.deepEqual(reserved(harness), ["group-a-0 by evaluate-eviction"]);
});

test("in shadow mode no stamp is corrected (R16)", async () => {
  const harness = await governedGroup();
  reserveAhead(harness, "group-b-0");
  const replica = new Replica(harness, () => ({ mode: "shadow" }));
  await replica.guards(replica.submit("group-a-0"));
  assert.deepEqual(replica.writes, []);
});

test("a clock that is set forward by hours lets no reservation lapse that this process has known for less than two minutes (R10)", async () => {
  const harness = await governedGroup({ maxUnavailable: 1 }, { replicas: 3 });
  const cache = await harness.watch();
  const one = new Replica(harness, () => ({ cache }));
  assert.deepEqual(await one.guards(one.review("group-a-0")), ["allowed"]);
  // Another process uses another API server, whose clock has just been set forward. The eviction is still under way.
  const two = new Replica(harness, (cluster) => ({
    cache,
    settings: { evictionWaitMs: 0 },
    cluster: { ...cluster, serverTimeMs: () => cluster.serverTimeMs() + hourMs },
  }));
  assert.deepEqual(await two.guards(two.review("group-b-0")), ["zones-down"]);
  await harness.goOn(119_000);
  assert.deepEqual(await two.guards(two.review("group-b-0")), ["zones-down"]);
  await harness.goOn(1_000);
  assert.deepEqual(await two.guards(two.review("group-b-0")), ["allowed"]);
  assert.deepEqual(reserved(harness), ["group-b-0 by evaluate-eviction"]);
  await played(harness.timeline, cache.stop());
});

test("a refusal of a clock an hour ahead counts for ten minutes, and the verdict's times are corrected", async () => {
  const harness = await new Harness().prepare();
  const { uid } = harness.world.store.get("pods", { namespace, name: "group-a-0" }).metadata;
  const aheadMs = harness.cluster.serverTimeMs() + hourMs;
  const verdict = { guard: "budget", zone: "group-a", sentence: "later", since: aheadMs, at: aheadMs };
  harness.writeLedger({
    "sluice.dev/refusals": JSON.stringify({ [uid]: ["group-a-0", "no", aheadMs] }),
    "sluice.dev/verdicts": JSON.stringify({ "another-function": verdict }),
  });
  harness.restart();
  const startMs = harness.timeline.nowMs();
  const isTaken = () => harness.acts.some(({ object }) => object === "group-a-0");
  for (; !isTaken() && harness.timeline.nowMs() - startMs < 2 * hourMs; await harness.goOn(5_000)) await harness.run();
  const tookMs = harness.timeline.nowMs() - startMs;
  assert.ok(tookMs >= 595_000 && tookMs <= 640_000, `${tookMs} ms`);
  const { at = 0, since = 0 } = harness.ledger.verdicts["another-function"] ?? {};
  assert.ok(Math.max(at, since) <= harness.cluster.serverTimeMs());
});

test("a process also corrects its own refusal and its own wait from before a clock went back an hour", async () => {
  const harness = await new Harness({ replicas: 1 }).prepare();
  let aheadMs = hourMs;
  const serverTimeMs = () => harness.world.timeline.nowMs() + aheadMs;
  harness.restart({ cluster: { ...harness.cluster, serverTimeMs } });
  harness.interfere = ({ verb, resource }) => {
    if (verb === "delete" && resource === "pods") throw refused(403);
  };
  await harness.run();
  await harness.goOn(10_000);
  await harness.run();
  aheadMs = 0;
  const memory = harness.context.memoryOf(key);
  await harness.goOn(10_000);
  await harness.run();
  await harness.goOn(10_000);
  const before = harness.count("patch leases");
  await harness.run();
  await harness.goOn(10_000);
  await harness.run();
  assert.equal(harness.count("patch leases"), before, "it is written once, and ages from then on");
  const stamps = [...memory.refusals.values()].map(({ stampMs }) => stampMs);
  assert.ok([...stamps, memory.waiting?.sinceMs ?? 0].every((ms) => ms <= serverTimeMs()));
});

test("one record of being overdue that is ahead is corrected, although its reservation's stamp is not ahead (R10)", () => {
  const aheadMs = nowMs + clockSkewMs + 1;
  const mended = (...reservations: ReturnType<typeof reservation>[]) => mendStamps(ledgerOf({ reservations }), nowMs);
  const overdue = reservation("a-0", { stampMs: nowMs - 9_000, overdueSeenMs: aheadMs });
  assert.deepEqual(mended(reservation("b-0"), overdue).reservations[1], reservation("a-0", { stampMs: nowMs - 9_000 }));
  const ahead = reservation("a-0", { stampMs: aheadMs, overdueSeenMs: nowMs });
  assert.equal(mended(ahead).reservations[0]?.stampMs, nowMs);
});
