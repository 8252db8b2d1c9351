/** Finds all objects that a claim names (rules R10a and R21). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { readClaimedObjects } from "../../../../functions/shared/transaction/claimed-objects.ts";
import { claimOf } from "../../functions/advance-zone-rollout/given.ts";
import { Harness, namespace, played, refused } from "../reconcile/harness.ts";

async function found(harness: Harness, claim: Parameters<typeof readClaimedObjects>[2]) {
  return played(harness.timeline, readClaimedObjects(harness.cluster, namespace, claim));
}

test("the StatefulSet and the pods of a claim are read from the API server, and no other zone's", async () => {
  const harness = new Harness({ replicas: 3 });
  const { statefulSet, pods } = await found(harness, claimOf("group-a:1-7", "scale-down"));
  assert.equal(statefulSet?.name, "group-a");
  assert.deepEqual(
    [...pods.values()].map(({ name }) => name),
    ["group-a-1", "group-a-2"],
  );
  assert.deepEqual(harness.requests.sort(), ["get statefulsets", "list pods"]);
  const [list] = harness.calls.filter(({ verb }) => verb === "list");
  assert.deepEqual(list?.given[1], { namespace }, "a consistent LIST");
});

test("a StatefulSet that is gone leaves the pods that exist", async () => {
  const { statefulSet, pods } = await found(new Harness(), claimOf("gone:0", "scale-down"));
  assert.deepEqual([statefulSet, pods.size], [undefined, 0]);
});

test("an anchor counts while it names the claim, and not if it is gone, names another one, or names none (R10a)", async () => {
  const harness = new Harness();
  const claim = claimOf("group-a:0", "process", {
    anchor: { resource: "pods", name: "group-a-0", annotation: "example.dev/claim" },
  });
  const isAnchored = async (value: string | null) => {
    harness.world.annotate({ namespace, name: "group-a-0" }, { "example.dev/claim": value }, "pods");
    return (await found(harness, claim)).isAnchored;
  };
  assert.equal(await isAnchored(claim.id), true);
  assert.equal(await isAnchored("another"), false);
  assert.equal(await isAnchored(null), false);
  const gone = { ...claim, anchor: { resource: "leases", name: "no-such-fence", annotation: "example.dev/claim" } };
  assert.equal((await found(harness, gone)).isAnchored, false);
  assert.equal((await found(harness, claimOf("group-a:0", "scale-down"))).isAnchored, false);
});

test("an anchor of a type that only a later version knows counts, and its path is not requested (R10a)", async () => {
  for (const resource of ["fences", "constructor", "__proto__", "/api/v1/secrets"]) {
    const harness = new Harness();
    const anchor = { resource, name: "group-a-0", annotation: "example.dev/claim" };
    assert.equal((await found(harness, claimOf("group-a:0", "process", { anchor }))).isAnchored, true);
    assert.deepEqual(harness.requests.sort(), ["get statefulsets", "list pods"]);
  }
});

test("an API server that does not answer does not prove that an anchor is gone", async () => {
  const harness = new Harness();
  harness.interfere = ({ verb, resource }) => {
    if (verb === "get" && resource === "leases") throw refused(503);
  };
  await assert.rejects(found(harness, claimOf("group-a:0", "node")), { code: 503 });
});
