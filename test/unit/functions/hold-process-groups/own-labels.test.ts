/** A FoundationDBCluster whose pods and volume claims have labels of its own (`spec.labels`), and what is not found. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { labels } from "../../../support/foundationdb.ts";
import { namespace } from "../../shared/reconcile/passes.ts";
import { claim, claims, FoundationPasses, id } from "./foundation-passes.ts";

const time = "2025-12-31T00:00:00Z";
const own = { matchLabels: { app: "fdb" }, processGroupIDLabels: ["example.com/id"] };
const without = { [labels.cluster]: null, [labels.id]: null };

/** Its volume claim and its pod have these labels, and the operator's usual ones no more. */
function relabelled(given: Readonly<Record<string, string>>, spec: object = { labels: own }): FoundationPasses {
  const passes = new FoundationPasses();
  passes.restart({ settings: { volumeHold: "keep" } } as never);
  passes.change(spec);
  relabel(passes, given);
  return passes;
}

function relabel({ world }: FoundationPasses, given: Readonly<Record<string, string | null>>): void {
  const metadata = { labels: { ...without, ...given } };
  world.store.patch(claims, claim, { metadata } as never);
  world.store.patch("pods", { namespace, name: `orders-${id}` }, { metadata } as never);
}

const blocks = (passes: FoundationPasses) => passes.foundation.spec?.buggify?.blockRemoval ?? [];
const unfound = (passes: FoundationPasses) =>
  passes.told("ProcessGroupWaiting").filter((text) => text.startsWith("volume-unfound: "));

test("a removal is held back, and its volume suspended, where the cluster has labels of its own", async () => {
  const passes = relabelled({ app: "fdb", "example.com/id": id });
  passes.change({ processGroupsToRemove: [id] });
  await passes.pass();
  assert.deepEqual(blocks(passes), [id]);
  passes.status({ processGroupID: id, faultDomain: "zone-1", removalTimestamp: time, exclusionTimestamp: time });
  await passes.pass();
  assert.deepEqual([passes.said("suspend"), passes.said("removal-held")], ["true", "true"]);
  assert.equal(passes.said("drained-at"), undefined, "its pod was found, and is newer than the exclusion");
  passes.world.store.delete("pods", { namespace, name: `orders-${id}` });
  await passes.goOn(60_000);
  await passes.pass();
  assert.equal(passes.said("drained-at"), time);
  assert.deepEqual(unfound(passes), []);
});

test("a volume claim that the cluster owns is found whatever its match labels are", async () => {
  const passes = relabelled({ [labels.id]: id });
  passes.change({ processGroupsToRemove: [id] });
  await passes.pass();
  assert.deepEqual(blocks(passes), [id]);
  assert.equal(passes.said("suspend"), "true");
});

test("volume-unfound: that no volume is found does not let a removal go, and an Event says which has no label, and what to do", async () => {
  const passes = relabelled({ app: "fdb", "example.com/id": id });
  passes.change({ processGroupsToRemove: [id] });
  await passes.pass();
  relabel(passes, { "example.com/id": null });
  await passes.pass();
  assert.deepEqual(blocks(passes), [id], "it stays blocked");
  assert.equal(passes.guard, "volume-unfound");
  const [ofGroup = "", ofCluster = ""] = unfound(passes);
  assert.match(ofGroup, /storage-1 stays: no volume claim of it was found, and one may be there: no label says/);
  assert.match(
    ofCluster,
    /these volume claims are: orders-storage-1-data; each has neither example\.com\/id nor foundationdb/,
  );
  assert.match(ofCluster, /give each the label example\.com\/id with the id of its process group/);
  relabel(passes, { "example.com/id": id });
  await passes.pass();
  assert.deepEqual([blocks(passes), passes.said("suspend")], [[id], "true"]);
});

test("volume-unfound: a removal that begins while a volume claim has no label is held back, too", async () => {
  const passes = relabelled({ app: "fdb" });
  passes.change({ processGroupsToRemove: [id] });
  await passes.pass();
  assert.deepEqual(blocks(passes), [id]);
  assert.ok(unfound(passes).length > 0);
  passes.change({ processGroupsToRemove: null });
  await passes.pass();
  assert.deepEqual(blocks(passes), [], "no list asks for its removal any more");
});

test("labels of wrong types: what the cluster owns is found, and what has no volume waits until a user corrects them", async () => {
  const passes = relabelled(
    { app: "fdb" },
    { labels: { matchLabels: ["app"], processGroupIDLabels: "example.com/id" } },
  );
  passes.change({ processGroupsToRemove: [id] });
  await passes.pass();
  assert.deepEqual(blocks(passes), [id]);
  assert.match(unfound(passes).join(), /spec\.labels\.matchLabels of orders is \["app"\], which Sluice cannot read/);
  passes.change({ labels: null });
  relabel(passes, { [labels.cluster]: "orders", [labels.id]: id });
  await passes.pass();
  assert.deepEqual([blocks(passes), passes.said("suspend")], [[id], "true"]);
});

test("a volume claim whose process group Sluice cannot tell is protected all the same", async () => {
  const passes = relabelled({});
  passes.world.annotate(
    { namespace, name: "orders" },
    { "sluice.dev/protect-volumes": "true" },
    "foundationdbclusters",
  );
  await passes.pass();
  const { finalizers, labels: now } = passes.world.store.get(claims, claim).metadata;
  assert.ok(finalizers?.includes("sluice.dev/volume-protection"));
  assert.equal(now?.["sluice.dev/protected"], "true");
});
