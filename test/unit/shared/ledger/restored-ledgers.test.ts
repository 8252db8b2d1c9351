/** Ledgers with revisions that this cluster has not reached: from a backup, or from another cluster (H3). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { governedGroup, Replica, reserved } from "../../functions/evaluate-eviction/group-commit/reviews.ts";
import { Harness, key, played, refused } from "../reconcile/harness.ts";

const elsewhere = "900000000";
const tooLarge = () => refused(504, "Too large resource version: 900000000, current: 77");

/** A real API server answers so to a request for a state that is newer than its own. */
function refusesTheFuture(harness: Harness): void {
  harness.interfere = ({ verb, given }) => {
    const { notOlderThan } = given[1] as { notOlderThan?: string };
    if (verb === "list" && notOlderThan === elsewhere) throw tooLarge();
  };
}

test("ledger-elsewhere: a rollout waits ten seconds, begins such a ledger anew, and goes on", async () => {
  for (const annotation of ["sluice.dev/settled-through", "sluice.dev/members-through"]) {
    for (const watches of [false, true]) {
      const harness = await new Harness({ replicas: 2, maxUnavailable: 1 }).prepare();
      const cache = watches ? await harness.watch() : undefined;
      refusesTheFuture(harness);
      harness.writeLedger({ [annotation]: elsewhere });
      harness.context.memoryOf(key).copy.ledger = undefined;
      await harness.run(!watches);
      assert.equal(harness.guard, "ledger-elsewhere");
      assert.match(harness.verdicts.at(-1)?.message ?? "", /sluice-group names revisions .+ has not reached/);
      await harness.goOn(9_900);
      await harness.run(true);
      assert.deepEqual([harness.guard, harness.acts], ["ledger-elsewhere", []]);
      await harness.goOn(200);
      await harness.run(true);
      assert.equal(harness.guard, "rolling");
      assert.ok((harness.ledger.settledThrough ?? 0) < 10_000 && (harness.ledger.membersThrough ?? 0) < 10_000);
      await harness.goOn(20_000);
      harness.forget();
      await harness.run();
      assert.equal(harness.guard, "rolling");
      if (cache !== undefined) await played(harness.timeline, cache.stop());
    }
  }
});

test("ledger-elsewhere: evictions are refused with 429 for ten seconds, and then decided", async () => {
  const harness = await governedGroup({ maxUnavailable: 1 }, { replicas: 4 });
  const replica = new Replica(harness);
  const uid = replica.uidOf("group-a-3");
  const reservations = JSON.stringify({
    "group-a": { 3: [uid, "evaluate-eviction", harness.cluster.serverTimeMs()] },
  });
  harness.writeLedger({ "sluice.dev/settled-through": elsewhere, "sluice.dev/reservations": reservations });
  replica.interfere = ({ verb, given }) => {
    const { notOlderThan } = given[1] as { notOlderThan?: string };
    if (verb === "list" && notOlderThan === elsewhere) throw tooLarge();
  };
  const answer = await replica.answer(replica.review("group-a-3"));
  assert.deepEqual([answer.guard, answer.allowed ? 0 : answer.code], ["ledger-elsewhere", 429]);
  await harness.goOn(10_100);
  // Its reservations count, whichever cluster has written it.
  assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["zone-budget"]);
  assert.deepEqual(await replica.guards(replica.review("group-a-3")), ["allowed"]);
  assert.deepEqual(reserved(harness), ["group-a-3 by evaluate-eviction"]);
  assert.ok((harness.ledger.settledThrough ?? 0) < 10_000);
});

test("a ledger that is restored twice waits ten seconds each time", async () => {
  const harness = await new Harness({ replicas: 2, maxUnavailable: 1 }).prepare();
  for (let time = 0; time < 2; time++) {
    harness.writeLedger({ "sluice.dev/settled-through": elsewhere });
    await harness.run(true);
    assert.equal(harness.guard, "ledger-elsewhere");
    await harness.goOn(10_100);
    await harness.run(true);
    assert.equal(harness.guard, "rolling");
    await harness.goOn(20_000);
  }
});

test("an API server that is behind for a moment does not make a ledger count as one from elsewhere", async () => {
  const harness = await new Harness({ replicas: 2, maxUnavailable: 1 }).prepare();
  harness.interfere = ({ verb, given }) => {
    if (verb === "list" && (given[1] as { notOlderThan?: string }).notOlderThan !== undefined) throw tooLarge();
  };
  await harness.run();
  assert.equal(harness.guard, "rolling");
  assert.ok(harness.requests.includes("list pods"));
});

test("a ledger that is restored twice waits each time, also in a process that has not begun it anew the first time", async () => {
  const harness = await governedGroup({ maxUnavailable: 1 }, { replicas: 4 });
  const [writer, onlooker] = [new Replica(harness), new Replica(harness)];
  const restore = () => harness.writeLedger({ "sluice.dev/settled-through": elsewhere });
  restore();
  assert.deepEqual(await writer.guards(writer.review("group-a-0")), ["ledger-elsewhere"]);
  assert.deepEqual(await onlooker.guards(onlooker.review("group-a-0")), ["ledger-elsewhere"]);
  await harness.goOn(10_100);
  assert.deepEqual(await writer.guards(writer.review("group-a-0")), ["allowed"]);
  await harness.goOn(1_000);
  assert.deepEqual(await onlooker.guards(onlooker.review("group-b-0")), ["zones-down"]);
  restore();
  assert.deepEqual(await onlooker.guards(onlooker.review("group-a-0")), ["ledger-elsewhere"]);
});
