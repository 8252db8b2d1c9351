/** An answer that ends a drain (400, 403, 404, 409) rests on what the API server reports now, and on no cache. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { GroupCache, GroupView } from "../../../../functions/shared/cache/cache.ts";
import { createListReader } from "../../../../functions/shared/cache/listing.ts";
import { governedGroup, Replica } from "../../functions/evaluate-eviction/group-commit/reviews.ts";
import { type Harness, key, namespace, played } from "../reconcile/harness.ts";

/** A process whose cache shows the same old objects until a caller asks for a consistent read. */
async function forgetful(harness: Harness): Promise<Replica> {
  const listing = createListReader(harness.cluster, undefined);
  const need = { settledThrough: 1, permitSinceMs: undefined, consistent: false };
  const old: GroupView = await played(harness.timeline, listing.read(key, need));
  const budgets = await played(harness.timeline, listing.budgets(namespace));
  const cache: GroupCache = {
    ...listing,
    read: async (wanted, needed) => (needed.consistent ? listing.read(wanted, needed) : old),
    budgets: async () => budgets,
  };
  return new Replica(harness, () => ({ cache }));
}

test("a cache that has not received the second zone's return does not lead to too-few-zones", async () => {
  const harness = await governedGroup();
  const { metadata, spec } = harness.world.store.get("statefulsets", { namespace, name: "group-b" });
  harness.world.removeStatefulSet(metadata);
  await harness.goOn(5_000);
  const replica = await forgetful(harness);
  assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["too-few-zones"]);
  const { name, labels, annotations } = metadata;
  harness.world.store.create("statefulsets", namespace, { metadata: { name, labels, annotations }, spec });
  harness.world.settle();
  assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["allowed"]);
});

test("a cache with an old budget does not lead to never-possible after the budget was raised", async () => {
  const harness = await governedGroup({ maxUnavailable: 0 });
  const replica = await forgetful(harness);
  assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["never-possible"]);
  const budget = { namespace, name: "budget" };
  harness.world.store.patch("zoneawarepoddisruptionbudgets", budget, { spec: { maxUnavailable: 1 } });
  assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["allowed"]);
});

test("a cache with an old second budget does not lead to several-budgets after that budget was deleted", async () => {
  const harness = await governedGroup();
  const { spec } = harness.world.store.get("zoneawarepoddisruptionbudgets", { namespace, name: "budget" });
  harness.world.store.create("zoneawarepoddisruptionbudgets", namespace, { metadata: { name: "second" }, spec });
  const replica = await forgetful(harness);
  assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["several-budgets"]);
  harness.world.store.delete("zoneawarepoddisruptionbudgets", { namespace, name: "second" });
  assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["allowed"]);
});

test("a refusal that the caller retries is answered from memory, without a LIST", async () => {
  const harness = await governedGroup();
  const cache = await harness.watch();
  const replica = new Replica(harness, () => ({ cache }));
  await replica.guards(replica.review("group-a-0"));
  harness.forget();
  assert.deepEqual(await replica.guards(replica.review("group-b-0")), ["zones-down"]);
  assert.equal(harness.requests.filter((word) => word.startsWith("list ")).length, 0);
  await played(harness.timeline, cache.stop());
});
