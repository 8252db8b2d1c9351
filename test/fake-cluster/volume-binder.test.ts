/**
 * Cases of volumes that the contract cannot cover: volumes that the fake cluster creates by itself. The others are in
 * `test/contract`.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Store } from "./store.ts";
import { VirtualTimeline } from "./timeline.ts";
import { bytesOf } from "./volumes.ts";
import { createWorld } from "./world.ts";

const claims = "persistentvolumeclaims";
const key = { namespace: "test", name: "data" };

function make(): { readonly store: Store; play(): void } {
  const timeline = new VirtualTimeline();
  const { store } = createWorld({ timeline, provisionedClass: "fast" });
  return { store, play: () => timeline.runUntil(timeline.nowMs() + 1_000) };
}

function createClaim(store: Store, storageClassName: string): string {
  const spec = { accessModes: ["ReadWriteOnce"], storageClassName, resources: { requests: { storage: "3Gi" } } };
  return store.create(claims, key.namespace, { metadata: { name: key.name }, spec }).metadata.uid;
}

test("a claim of the provisioned class gets a volume of its own, which goes when the claim is gone", () => {
  const { store, play } = make();
  const uid = createClaim(store, "fast");
  play();
  const [volume, ...more] = store.list("persistentvolumes").items;
  assert.deepEqual([volume?.metadata.name, volume?.spec?.claimRef?.uid, more], [`pvc-${uid}`, uid, []]);
  assert.deepEqual([volume?.status?.phase, store.get(claims, key).status?.phase], ["Bound", "Bound"]);
  store.delete(claims, key);
  play();
  assert.deepEqual([store.find(claims, key), store.list("persistentvolumes").items], [undefined, []]);
  const next = createClaim(store, "fast");
  play();
  assert.equal(store.get(claims, key).spec?.volumeName, `pvc-${next}`);
});

test("a claim of another class gets no volume, and one whose volume was removed by force is Lost", () => {
  const { store, play } = make();
  createClaim(store, "slow");
  play();
  assert.deepEqual([store.get(claims, key).status?.phase, store.list("persistentvolumes").items], ["Pending", []]);
  store.delete(claims, key);
  play();
  createClaim(store, "fast");
  play();
  const name = { namespace: "", name: store.get(claims, key).spec?.volumeName ?? "" };
  store.patch("persistentvolumes", name, { metadata: { finalizers: null } });
  store.delete("persistentvolumes", name);
  play();
  assert.equal(store.get(claims, key).status?.phase, "Lost");
});

test("quantities are whole numbers with a unit", () => {
  assert.deepEqual([bytesOf(), bytesOf("5"), bytesOf("2k"), bytesOf("1Gi")], [0, 5, 2_000, 2 ** 30]);
  for (const quantity of ["1.5Gi", "1e3", "Gi", "1Xi", "-1"]) assert.throws(() => bytesOf(quantity), /cannot read/);
});
