/**
 * The functions of one process share one copy of a group's ledger: a write of one causes no conflict for the next
 * write of another.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { evaluateEviction } from "../../../../functions/evaluate-eviction/function.ts";
import { createLedgerCopies, createMemory } from "../../../../functions/shared/contract/memory.ts";
import { forgetLedger, knownLedger, loadLedger } from "../../../../functions/shared/transaction/ledger-copy.ts";
import { askedOf } from "../../../support/asked-eviction.ts";
import { governedGroup, Replica, reserved } from "../../functions/evaluate-eviction/group-commit/reviews.ts";
import { createTestWorld } from "../../triggers/server/world.ts";
import { type Call, key, played } from "../reconcile/harness.ts";

const isWrite = ({ verb, resource }: Call) => verb === "patch" && resource === "leases";

/** A rollout and an eviction function of one process, with the same connection, views and copy of the ledger. */
async function oneProcess(replicas = 4) {
  const harness = await governedGroup({ maxUnavailable: 2 }, { replicas, maxUnavailable: 2 });
  const cache = await harness.watch();
  const copyOf = createLedgerCopies();
  harness.restart({ cluster: harness.cluster, cache, memoryOf: createMemory(copyOf) });
  const rollout = harness.context;
  const replica = new Replica(harness, () => ({ ...rollout, memoryOf: createMemory(copyOf) }));
  const evict = (pod: string) => replica.submit(pod, { deadlineMs: harness.cluster.monotonicMs() + 9_000 });
  return { harness, rollout, evict, evicted: async (pod: string) => (await replica.answer(evict(pod))).guard };
}

test("a rollout and evictions in one process write one ledger without a conflict, and all of them end", async () => {
  const { world, cluster, start, goTo, changeTemplates, isRolled, calls, reporting } = createTestWorld({
    admissions: [evaluateEviction],
    // A review gets its answer at once, because an eviction that waits would be decided during a reconcile.
    settings: { evictionWaitMs: 0 },
  });
  world.store.create("zoneawarepoddisruptionbudgets", "app", {
    metadata: { name: "budget" },
    spec: { selector: { matchLabels: { "rollout-group": "ingester" } }, maxUnavailable: 1 },
  });
  const [admission] = start().admissions;
  await goTo(45);
  changeTemplates("app:2");
  let evicted = 0;
  for (let second = 46; second < 120; second++) {
    // Between two reconciles, as reviews and events come: nothing runs at the same time.
    await goTo(second + 0.5);
    const name = `ingester-${"abc"[second % 3]}-${second % 2}`;
    const pod = world.store.find("pods", { namespace: "app", name });
    if (pod === undefined) continue;
    const deadlineMs = cluster.monotonicMs() + 9_000;
    const review = askedOf({ namespace: "app", name }, { uid: `review-${second}`, deadlineMs });
    const asked = admission?.handler.review(review);
    await goTo(second + 0.9);
    const answer = await asked;
    if (answer?.guard !== "allowed") continue;
    evicted++;
    world.store.delete("pods", { namespace: "app", name }, { preconditions: { uid: pod.metadata.uid } });
  }
  await goTo(200);
  assert.ok(isRolled() && evicted >= 3, `${evicted} evicted`);
  assert.ok(calls.filter(({ verb, resource }) => verb === "patch" && resource === "leases").length >= 12);
  const { values } = await reporting.metrics.conflicts.get();
  assert.deepEqual(
    values.filter(({ value }) => value > 0),
    [],
  );
});

test("after another function's write, a permit needs StatefulSets that are read after it (R5)", async () => {
  const { harness, rollout, evicted } = await oneProcess();
  harness.changeImage("app:2");
  await harness.goOn(100);
  harness.forget();
  assert.equal(await evicted("group-a-0"), "allowed");
  const [written] = [harness.ledger.resourceVersion];
  assert.equal(
    knownLedger(rollout, rollout.memoryOf(key))?.resourceVersion,
    written,
    "the rollout learns of it without a request",
  );
  harness.forget();
  await harness.run();
  assert.deepEqual([harness.count("get leases"), harness.count("get statefulsets"), harness.conflicts], [0, 2, 0]);
  assert.deepEqual(reserved(harness), ["group-a-0 by evaluate-eviction", "group-a-1 by advance-zone-rollout"]);
});

test("a failed write discards the copy on which it rested, but not what another function has written since", async () => {
  const { harness, rollout, evicted } = await oneProcess();
  const memory = rollout.memoryOf(key);
  await played(harness.timeline, loadLedger(rollout, key, memory));
  const stale = knownLedger(rollout, memory);
  assert.equal(await evicted("group-a-0"), "allowed");
  forgetLedger(memory, stale);
  assert.equal(knownLedger(rollout, memory)?.resourceVersion, harness.ledger.resourceVersion);
  forgetLedger(memory, knownLedger(rollout, memory));
  assert.equal(knownLedger(rollout, memory), undefined);
});

test("a conflict with another function of the process is resolved without another read of the ledger", async () => {
  const { harness, evict, evicted } = await oneProcess();
  assert.equal(await evicted("group-a-0"), "allowed");
  harness.changeImage("app:2");
  await harness.goOn(100);
  harness.forget();
  let isFirst = true;
  harness.interfere = async (call) => {
    if (!isWrite(call) || !isFirst) return;
    isFirst = false;
    assert.equal((await evict("group-a-0")).guard, "allowed");
  };
  await harness.run();
  assert.deepEqual([harness.conflicts, harness.count("get leases")], [1, 0]);
  assert.equal(harness.ledger.reservations.length, 2);
});

test("an answer that another function's write has overtaken does not restore the older ledger", async () => {
  const { harness, rollout, evicted } = await oneProcess();
  const memory = rollout.memoryOf(key);
  forgetLedger(memory);
  const slow = { ...rollout.protocol };
  slow.readLedger = async (...given) => {
    const read = await rollout.protocol.readLedger(...given);
    await harness.cluster.sleep(1_000);
    return read;
  };
  const loading = loadLedger({ ...rollout, protocol: slow }, key, memory);
  assert.equal(await evicted("group-a-0"), "allowed");
  const loaded = await played(harness.timeline, loading);
  assert.equal(loaded?.resourceVersion, harness.ledger.resourceVersion);
  assert.equal(memory.ledgerReadMs, harness.cluster.monotonicMs(), "StatefulSets are read after it");
});
