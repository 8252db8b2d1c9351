/** Deletions that the API server refuses for good: which reservations their function removes, and which it must keep (R10). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { writeChange } from "../../../../functions/shared/transaction/ledger-copy.ts";
import { observeGroup } from "../../../../functions/shared/transaction/observe-group.ts";
import { governedGroup, Replica, reserved } from "../../functions/evaluate-eviction/group-commit/reviews.ts";
import { type Call, Harness, key, ledgerKey, namespace, played, refused } from "../reconcile/harness.ts";

function isDeletionOf(pod: string, { verb, resource, given }: Call): boolean {
  return verb === "delete" && resource === "pods" && (given[1] as { name: string }).name === pod;
}

/** The answer of a webhook that denies, to the last of this many tries. */
function refusedAfter(attempts: number): ClusterError {
  const refusal = { code: 403, reason: "Forbidden", message: "a webhook said no", verb: "delete", resource: "pods" };
  return new ClusterError({ ...refusal, attempts });
}

/** Runs the rollout until that pod is replaced. Resolves to the milliseconds that this took. */
async function waitFor(harness: Harness, pod: string): Promise<number> {
  const startMs = harness.timeline.nowMs();
  for (let round = 0; round < 400 && harness.imageOf(pod) !== "app:2"; round++) {
    const requeueAfterMs = (await harness.run()) ?? 5_000;
    await harness.goOn(Math.max(20, Math.min(requeueAfterMs, 5_000)));
  }
  return harness.timeline.nowMs() - startMs;
}

test("with a budget of 1 the sibling of a refused pod goes within seconds, because the refused deletion is not under way", async () => {
  const harness = await new Harness().prepare();
  harness.interfere = (call) => {
    if (isDeletionOf("group-a-0", call)) throw refusedAfter(1);
  };
  const tookMs = await waitFor(harness, "group-a-1");
  assert.ok(tookMs < 10_000, `${tookMs} ms`);
  assert.ok(harness.verdicts.every(({ guard }) => guard !== "delete-refused"));
  const tries = harness.calls.filter((call) => isDeletionOf("group-a-0", call));
  assert.equal(tries.length, 1, "the deletion is not tried again for ten minutes");
});

test("if nothing else is left to do, the next write still removes the reservation", async () => {
  const harness = await new Harness({ replicas: 1 }).prepare();
  harness.interfere = (call) => {
    if (isDeletionOf("group-a-0", call) || isDeletionOf("group-b-0", call)) throw refusedAfter(1);
  };
  for (let round = 0; round < 10; round++) {
    await harness.run();
    await harness.goOn(2_000);
  }
  assert.equal(harness.guard, "delete-refused");
  assert.deepEqual(harness.ledger.reservations, []);
  assert.deepEqual(harness.ledger.refusals.map(({ pod }) => pod).sort(), ["group-a-0", "group-b-0"]);
});

test("a refusal after a repeated try withdraws nothing, because the first try may still arrive (R10)", async () => {
  const harness = await new Harness().prepare();
  harness.interfere = (call) => {
    if (isDeletionOf("group-a-0", call)) throw refusedAfter(2);
  };
  const tookMs = await waitFor(harness, "group-a-1");
  assert.ok(tookMs >= 145_000 && tookMs < 170_000, `${tookMs} ms`);
});

test("a refusal withdraws nothing if the reservation renews another one whose deletion got no answer (R10)", async () => {
  const harness = await new Harness().prepare();
  let tries = 0;
  harness.interfere = (call) => {
    if (isDeletionOf("group-a-0", call)) throw ++tries === 1 ? refused(0, "no answer came") : refusedAfter(1);
  };
  const tookMs = await waitFor(harness, "group-a-1");
  assert.equal(tries, 2);
  assert.ok(tookMs >= 145_000 && tookMs < 170_000, `${tookMs} ms`);
});

test("a pod that is reserved again within one tick of the clock keeps its reservation, although the withdrawn one has its stamp", async () => {
  for (const isAnswered of [true, false]) {
    const harness = await governedGroup();
    const { uid } = harness.world.store.get("pods", { namespace, name: "group-a-0" }).metadata;
    const stampMs = harness.cluster.serverTimeMs();
    const made = { statefulSet: "group-a", ordinal: 0, uid, by: "advance-zone-rollout", stampMs };
    const { refusedOnce } = harness.context.memoryOf(key);
    refusedOnce.set(uid, made);
    const need = { permitSinceMs: undefined, consistent: false };
    const observed = await played(harness.timeline, observeGroup(harness.context, harness.ledger, need));
    harness.interfere = ({ verb, given }) => {
      if (verb !== "patch" || isAnswered) return;
      harness.world.store.patch("leases", ledgerKey, given[2] as { readonly metadata: object });
      throw refused(0, "no answer came");
    };
    const { seenThrough, membersThrough } = observed.view;
    const change = { reservations: [made], seenThrough, membersThrough, refusals: [], verdicts: {} };
    await played(harness.timeline, writeChange(harness.context, observed, change)).catch(() => undefined);
    assert.equal(refusedOnce.size, 0);
    harness.interfere = () => {};
    await harness.goOn(6_000);
    await harness.run(true);
    assert.deepEqual(reserved(harness), ["group-a-0 by advance-zone-rollout"]);
  }
});

test("a reservation that the same function has renewed in another process stays, because each stamp is one attempt (R10)", async () => {
  const harness = await governedGroup();
  const { uid } = harness.world.store.get("pods", { namespace, name: "group-a-0" }).metadata;
  const stampMs = harness.cluster.serverTimeMs();
  const by = "advance-zone-rollout";
  const { refusedOnce } = harness.context.memoryOf(key);
  refusedOnce.set(uid, { statefulSet: "group-a", ordinal: 0, uid, by, stampMs: stampMs - 1 });
  harness.writeLedger({ "sluice.dev/reservations": JSON.stringify({ "group-a": { 0: [uid, by, stampMs] } }) });
  harness.changeImage("app:2");
  await harness.goOn(100);
  await harness.run(true);
  assert.deepEqual(reserved(harness), ["group-a-0 by advance-zone-rollout"]);
  assert.deepEqual([harness.acts, refusedOnce.size], [[], 0]);
});

test("a reservation that another function has renewed meanwhile stays, because it has another stamp", async () => {
  const harness = await governedGroup({ maxUnavailable: 1 });
  harness.changeImage("app:2");
  await harness.goOn(100);
  const webhook = new Replica(harness);
  harness.interfere = async (call) => {
    if (!isDeletionOf("group-a-0", call)) return;
    assert.equal((await webhook.submit("group-a-0")).guard, "allowed");
    throw refusedAfter(1);
  };
  await harness.run();
  await harness.goOn(1_000);
  await harness.run();
  assert.deepEqual(reserved(harness), ["group-a-0 by evaluate-eviction"]);
  assert.equal(harness.imageOf("group-a-1"), "app:1");
  assert.equal(harness.context.memoryOf(key).refusedOnce.size, 0, "it is no longer remembered");
});
