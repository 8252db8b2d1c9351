/** Ledgers that tell of revisions which this cluster has not got to: from a backup, or from another cluster (H3). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { governedGroup, Replica, reserved } from "../../functions/evaluate-eviction/group-commit/reviews.ts";
import { key, Passes, played, refused } from "../reconcile/passes.ts";

const elsewhere = "900000000";
const tooLarge = () => refused(504, "Too large resource version: 900000000, current: 77");

/** A real API server answers so when it is asked for a state that is newer than its own. */
function refusesTheFuture(passes: Passes): void {
  passes.interfere = ({ verb, given }) => {
    const { notOlderThan } = given[1] as { notOlderThan?: string };
    if (verb === "list" && notOlderThan === elsewhere) throw tooLarge();
  };
}

test("ledger-elsewhere: a rollout begins such a ledger anew after ten seconds, and goes on", async () => {
  for (const annotation of ["sluice.dev/settled-through", "sluice.dev/members-through"]) {
    for (const watches of [false, true]) {
      const passes = await new Passes({ replicas: 2, maxUnavailable: 1 }).prepare();
      const cache = watches ? await passes.watch() : undefined;
      refusesTheFuture(passes);
      passes.writeLedger({ [annotation]: elsewhere });
      passes.context.memoryOf(key).copy.ledger = undefined;
      await passes.run(!watches);
      assert.equal(passes.guard, "ledger-elsewhere");
      assert.match(passes.verdicts.at(-1)?.message ?? "", /sluice-group names revisions .+ has not reached/);
      await passes.goOn(9_900);
      await passes.run(true);
      assert.deepEqual([passes.guard, passes.acts], ["ledger-elsewhere", []]);
      await passes.goOn(200);
      await passes.run(true);
      assert.equal(passes.guard, "rolling");
      assert.ok((passes.ledger.settledThrough ?? 0) < 10_000 && (passes.ledger.membersThrough ?? 0) < 10_000);
      await passes.goOn(20_000);
      passes.forget();
      await passes.run();
      assert.equal(passes.guard, "rolling");
      if (cache !== undefined) await played(passes.timeline, cache.stop());
    }
  }
});

test("ledger-elsewhere: evictions are refused with 429 for ten seconds, and not for ever", async () => {
  const passes = await governedGroup({ maxUnavailable: 1 }, { replicas: 4 });
  const replica = new Replica(passes);
  const uid = replica.uidOf("group-a-3");
  const reservations = JSON.stringify({
    "group-a": { 3: [uid, "evaluate-eviction", passes.cluster.serverTimeMs()] },
  });
  passes.writeLedger({ "sluice.dev/settled-through": elsewhere, "sluice.dev/reservations": reservations });
  replica.interfere = ({ verb, given }) => {
    const { notOlderThan } = given[1] as { notOlderThan?: string };
    if (verb === "list" && notOlderThan === elsewhere) throw tooLarge();
  };
  const answer = await replica.answer(replica.review("group-a-3"));
  assert.deepEqual([answer.guard, answer.allowed ? 0 : answer.code], ["ledger-elsewhere", 429]);
  await passes.goOn(10_100);
  // What it reserves counts, whatever cluster wrote it.
  assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["zone-budget"]);
  assert.deepEqual(await replica.guards(replica.review("group-a-3")), ["allowed"]);
  assert.deepEqual(reserved(passes), ["group-a-3 by evaluate-eviction"]);
  assert.ok((passes.ledger.settledThrough ?? 0) < 10_000);
});

test("a ledger that was restored twice waits ten seconds twice", async () => {
  const passes = await new Passes({ replicas: 2, maxUnavailable: 1 }).prepare();
  for (let time = 0; time < 2; time++) {
    passes.writeLedger({ "sluice.dev/settled-through": elsewhere });
    await passes.run(true);
    assert.equal(passes.guard, "ledger-elsewhere");
    await passes.goOn(10_100);
    await passes.run(true);
    assert.equal(passes.guard, "rolling");
    await passes.goOn(20_000);
  }
});

test("an API server that is behind for a moment makes no ledger one from elsewhere", async () => {
  const passes = await new Passes({ replicas: 2, maxUnavailable: 1 }).prepare();
  passes.interfere = ({ verb, given }) => {
    if (verb === "list" && (given[1] as { notOlderThan?: string }).notOlderThan !== undefined) throw tooLarge();
  };
  await passes.run();
  assert.equal(passes.guard, "rolling");
  assert.ok(passes.words.includes("list pods"));
});

test("one that was restored twice waits ten seconds twice in a process that did not begin it anew the first time", async () => {
  const passes = await governedGroup({ maxUnavailable: 1 }, { replicas: 4 });
  const [writer, onlooker] = [new Replica(passes), new Replica(passes)];
  const restore = () => passes.writeLedger({ "sluice.dev/settled-through": elsewhere });
  restore();
  assert.deepEqual(await writer.guards(writer.review("group-a-0")), ["ledger-elsewhere"]);
  assert.deepEqual(await onlooker.guards(onlooker.review("group-a-0")), ["ledger-elsewhere"]);
  await passes.goOn(10_100);
  assert.deepEqual(await writer.guards(writer.review("group-a-0")), ["allowed"]);
  await passes.goOn(1_000);
  assert.deepEqual(await onlooker.guards(onlooker.review("group-b-0")), ["zones-down"]);
  restore();
  assert.deepEqual(await onlooker.guards(onlooker.review("group-a-0")), ["ledger-elsewhere"]);
});
