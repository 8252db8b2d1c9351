/** When a group commit answers its reviews beside slow writes, slow confirmations and other writers of the ledger. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Call, namespace } from "../../../shared/reconcile/harness.ts";
import { governedGroup, Replica, reserved } from "./reviews.ts";

const by = "evaluate-eviction";
const isWrite = ({ verb, resource }: Call) => verb === "patch" && resource === "leases";

/** A process that confirms each pod after the write: either of the two may take long. */
async function confirming(times: { readonly confirmMs: number; readonly writeMs: number }) {
  const harness = await governedGroup({ maxUnavailable: 2 });
  const asked: string[] = [];
  const replica = new Replica(harness, () => ({}), {
    confirm: async (_context, _key, eviction) => {
      asked.push(eviction.name);
      await replica.cluster.sleep(times.confirmMs);
      return undefined;
    },
  });
  replica.interfere = (call) => (isWrite(call) ? replica.cluster.sleep(times.writeMs) : undefined);
  return { harness, replica, asked };
}

test("a review whose deadline passes while its pod is confirmed is late, and the next write withdraws its reservation", async () => {
  const { harness, replica, asked } = await confirming({ confirmMs: 1_000, writeMs: 0 });
  const deadlineMs = replica.cluster.monotonicMs() + 500;
  assert.deepEqual(await replica.guards(replica.submit("group-a-0", { deadlineMs })), ["late"]);
  await harness.goOn(2_000);
  assert.deepEqual([asked, reserved(harness)], [["group-a-0"], [`group-a-0 by ${by}`]]);
  assert.deepEqual(await replica.guards(replica.submit("group-a-1")), ["allowed"]);
  assert.deepEqual(reserved(harness), [`group-a-1 by ${by}`]);
});

test("a pod whose review is answered as late during the write is not confirmed", async () => {
  const { harness, replica, asked } = await confirming({ confirmMs: 0, writeMs: 1_000 });
  const deadlineMs = replica.cluster.monotonicMs() + 500;
  assert.deepEqual(await replica.guards(replica.submit("group-a-0", { deadlineMs })), ["late"]);
  await harness.goOn(2_000);
  assert.deepEqual(asked, []);
  assert.deepEqual(await replica.guards(replica.submit("group-a-1")), ["allowed"]);
  assert.deepEqual(asked, ["group-a-1"]);
});

test("a refused review that cannot wait gets its answer before the write that reserves for others", async () => {
  const harness = await governedGroup({ maxUnavailable: 2 });
  const replica = new Replica(harness);
  const startMs = replica.cluster.monotonicMs();
  const first = replica.submit("group-a-0");
  replica.interfere = (call) => (isWrite(call) ? replica.cluster.sleep(1_000) : undefined);
  const answeredMs = new Map<string, number>();
  const asked = ["group-a-1", "group-b-0"].map(async (pod) => {
    const answer = await replica.submit(pod);
    answeredMs.set(`${pod} ${answer.guard}`, replica.cluster.monotonicMs() - startMs);
    return answer;
  });
  await replica.guards(first, ...asked);
  assert.deepEqual([...answeredMs.keys()], ["group-b-0 zones-down", "group-a-1 allowed"]);
  const [refusedMs = 0, allowedMs = 0] = answeredMs.values();
  assert.ok(allowedMs - refusedMs >= 1_000, `${allowedMs - refusedMs} ms between the two`);
});

test("after five conflicts a change causes no attempt for a quarter of a second, because others are writing the ledger (R3)", async () => {
  const harness = await governedGroup({ maxUnavailable: 1 });
  const cache = await harness.watch();
  const replica = new Replica(harness, () => ({ cache, settings: {} }));
  const writtenMs: number[] = [];
  replica.interfere = (call) => {
    if (!isWrite(call)) return;
    writtenMs.push(replica.cluster.monotonicMs());
    if (writtenMs.length <= 5) harness.writeLedger({ other: String(writtenMs.length) });
  };
  const waits = replica.review("group-a-0");
  await harness.goOn(100);
  assert.equal(writtenMs.length, 5);
  const budget = { namespace, name: "budget" };
  harness.world.store.patch("zoneawarepoddisruptionbudgets", budget, { spec: { maxUnavailable: 2 } });
  assert.deepEqual(await replica.guards(waits), ["allowed"]);
  const quietMs = (writtenMs[5] ?? 0) - (writtenMs[4] ?? 0);
  assert.ok(quietMs >= 250 && quietMs < 400, `${quietMs} ms`);
  await cache.stop();
});
