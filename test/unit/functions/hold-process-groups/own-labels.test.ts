/**
 * A FoundationDBCluster whose pods and volume claims have labels of its own (`spec.labels`), and objects that are not found.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { labels } from "../../../support/foundationdb.ts";
import { namespace } from "../../shared/reconcile/harness.ts";
import { claim, claims, FoundationHarness, id } from "./foundation-harness.ts";

const time = "2025-12-31T00:00:00Z";
const own = { matchLabels: { app: "fdb" }, processGroupIDLabels: ["example.com/id"] };
const without = { [labels.cluster]: null, [labels.id]: null };

/** The volume claim and the pod have these labels instead of the operator's default ones. */
function relabelled(given: Readonly<Record<string, string>>, spec: object = { labels: own }): FoundationHarness {
  const harness = new FoundationHarness();
  harness.restart({ settings: { volumeHold: "keep" } } as never);
  harness.change(spec);
  relabel(harness, given);
  return harness;
}

function relabel({ world }: FoundationHarness, given: Readonly<Record<string, string | null>>): void {
  const metadata = { labels: { ...without, ...given } };
  world.store.patch(claims, claim, { metadata } as never);
  world.store.patch("pods", { namespace, name: `orders-${id}` }, { metadata } as never);
}

const blocks = (harness: FoundationHarness) => harness.foundation.spec?.buggify?.blockRemoval ?? [];
const unfound = (harness: FoundationHarness) =>
  harness.sent("ProcessGroupWaiting").filter((text) => text.startsWith("volume-unfound: "));

test("a removal is blocked, and its volume suspended, also if the cluster has labels of its own", async () => {
  const harness = relabelled({ app: "fdb", "example.com/id": id });
  harness.change({ processGroupsToRemove: [id] });
  await harness.reconcile();
  assert.deepEqual(blocks(harness), [id]);
  harness.status({ processGroupID: id, faultDomain: "zone-1", removalTimestamp: time, exclusionTimestamp: time });
  await harness.reconcile();
  assert.deepEqual([harness.written("suspend"), harness.written("removal-held")], ["true", "true"]);
  assert.equal(harness.written("drained-at"), undefined, "its pod was found, and is newer than the exclusion");
  harness.world.store.delete("pods", { namespace, name: `orders-${id}` });
  await harness.goOn(60_000);
  await harness.reconcile();
  assert.equal(harness.written("drained-at"), time);
  assert.deepEqual(unfound(harness), []);
});

test("a volume claim that the cluster owns is found whatever its match labels are", async () => {
  const harness = relabelled({ [labels.id]: id });
  harness.change({ processGroupsToRemove: [id] });
  await harness.reconcile();
  assert.deepEqual(blocks(harness), [id]);
  assert.equal(harness.written("suspend"), "true");
});

test("volume-unfound: a removal whose volume is not found stays blocked, and an Event names the claim without a label, and what to do", async () => {
  const harness = relabelled({ app: "fdb", "example.com/id": id });
  harness.change({ processGroupsToRemove: [id] });
  await harness.reconcile();
  relabel(harness, { "example.com/id": null });
  await harness.reconcile();
  assert.deepEqual(blocks(harness), [id], "it stays blocked");
  assert.equal(harness.guard, "volume-unfound");
  const [ofGroup = "", ofCluster = ""] = unfound(harness);
  assert.match(ofGroup, /storage-1 stays: no volume claim of it was found, and one may be there: no label says/);
  assert.match(
    ofCluster,
    /these volume claims are: orders-storage-1-data; each has neither example\.com\/id nor foundationdb/,
  );
  assert.match(ofCluster, /give each the label example\.com\/id with the id of its process group/);
  relabel(harness, { "example.com/id": id });
  await harness.reconcile();
  assert.deepEqual([blocks(harness), harness.written("suspend")], [[id], "true"]);
});

test("volume-unfound: a removal that begins while a volume claim has no label is also blocked", async () => {
  const harness = relabelled({ app: "fdb" });
  harness.change({ processGroupsToRemove: [id] });
  await harness.reconcile();
  assert.deepEqual(blocks(harness), [id]);
  assert.ok(unfound(harness).length > 0);
  harness.change({ processGroupsToRemove: null });
  await harness.reconcile();
  assert.deepEqual(blocks(harness), [], "no list asks for its removal any more");
});

test("labels of wrong types: the cluster's own claims are found, and groups without a volume wait until a user corrects the labels", async () => {
  const harness = relabelled(
    { app: "fdb" },
    { labels: { matchLabels: ["app"], processGroupIDLabels: "example.com/id" } },
  );
  harness.change({ processGroupsToRemove: [id] });
  await harness.reconcile();
  assert.deepEqual(blocks(harness), [id]);
  assert.match(unfound(harness).join(), /spec\.labels\.matchLabels of orders is \["app"\], which Sluice cannot read/);
  harness.change({ labels: null });
  relabel(harness, { [labels.cluster]: "orders", [labels.id]: id });
  await harness.reconcile();
  assert.deepEqual([blocks(harness), harness.written("suspend")], [[id], "true"]);
});

test("a volume claim of an unknown process group is still protected", async () => {
  const harness = relabelled({});
  harness.world.annotate(
    { namespace, name: "orders" },
    { "sluice.dev/protect-volumes": "true" },
    "foundationdbclusters",
  );
  await harness.reconcile();
  const { finalizers, labels: now } = harness.world.store.get(claims, claim).metadata;
  assert.ok(finalizers?.includes("sluice.dev/volume-protection"));
  assert.equal(now?.["sluice.dev/protected"], "true");
});
