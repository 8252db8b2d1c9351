/** In a deleted namespace no object keeps a finalizer of ours, and Sluice retains the volumes that must stay. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decide, type KeptObject, ourFinalizers } from "../../../../functions/release-namespace/decide.ts";
import { releaseNamespace } from "../../../../functions/release-namespace/function.ts";
import type { ObjectRef } from "../../../../functions/shared/contract/keys.ts";
import { Harness, namespace, played, refused } from "../../shared/reconcile/harness.ts";

const key: ObjectRef = { resource: "namespaces", namespace: "", name: namespace };
const [volumeHold = "", protection = "", releaseFinalizer = ""] = ourFinalizers;

/** The API server's own finalizer. */
const theirs = "kubernetes.io/pvc-protection";

function world() {
  const harness = new Harness({ zones: ["a"], replicas: 1 });
  const { store } = harness.world;
  if (store.find("namespaces", { namespace: "", name: namespace }) === undefined)
    store.create("namespaces", "", { metadata: { name: namespace }, spec: { finalizers: ["kubernetes"] } });
  const claim = (name: string, annotations: Readonly<Record<string, string>>, finalizers: readonly string[]) => {
    const spec = { volumeName: `pv-${name}` };
    store.create("persistentvolumeclaims", namespace, { metadata: { name, annotations, finalizers }, spec });
    const { uid } = store.get("persistentvolumeclaims", { namespace, name }).metadata;
    const bound = { persistentVolumeReclaimPolicy: "Delete", claimRef: { namespace, name, uid } };
    store.create("persistentvolumes", "", { metadata: { name: `pv-${name}` }, spec: bound });
  };
  claim("suspended", {}, [volumeHold, "example.com/other"]);
  claim("on-hold", { "sluice.dev/hold": "true" }, [volumeHold]);
  claim("retained", { "sluice.dev/retain-pv": "true" }, [protection]);
  store.create("rabbitmqclusters", namespace, {
    metadata: { name: "orders", finalizers: [releaseFinalizer] },
    spec: {},
  });
  const finalizers = (): Record<string, readonly string[] | undefined> => ({
    ...Object.fromEntries(
      store
        .list("persistentvolumeclaims", { namespace })
        .items.map(({ metadata }) => [metadata.name, metadata.finalizers]),
    ),
    orders: store.find("rabbitmqclusters", { namespace, name: "orders" })?.metadata.finalizers,
  });
  const policies = () =>
    store
      .list("persistentvolumes")
      .items.map(({ metadata, spec }) => `${metadata.name} ${spec?.persistentVolumeReclaimPolicy}`);
  const reconcile = () => played(harness.timeline, releaseNamespace.reconcile(harness.context, key, { sweep: false }));
  return { harness, store, claim, finalizers, policies, round: reconcile };
}

test("Sluice writes nothing in a namespace that is not being deleted, and the sweep finds no key", async () => {
  const { harness, round: reconcile, finalizers } = world();
  const before = finalizers();
  assert.equal((await reconcile()).requeueAfterMs, undefined);
  assert.deepEqual(finalizers(), before);
  assert.deepEqual(await played(harness.timeline, releaseNamespace.listKeys(harness.context, undefined)), []);
});

test("volume claims lose our finalizers at once, owners after 3 s, and no other finalizer changes; volumes on hold are first retained", async () => {
  const { harness, store, finalizers, policies, round: reconcile } = world();
  store.delete("namespaces", { namespace: "", name: namespace });
  assert.deepEqual(await played(harness.timeline, releaseNamespace.listKeys(harness.context, undefined)), [key]);
  assert.equal((await reconcile()).requeueAfterMs, 1_000);
  const left = finalizers();
  assert.deepEqual(left.suspended, ["example.com/other", theirs]);
  for (const name of ["on-hold", "retained"]) assert.deepEqual(left[name], [theirs], name);
  assert.deepEqual(left.orders, [releaseFinalizer]);
  assert.equal(harness.guard, "releasing");
  assert.deepEqual(policies(), ["pv-on-hold Retain", "pv-retained Retain", "pv-suspended Delete"]);
  await reconcile();
  assert.equal(harness.guard, "labels-first");
  await harness.goOn(3_000);
  await reconcile();
  assert.deepEqual(finalizers().orders ?? [], []);
  await reconcile();
  assert.equal(harness.guard, "released");
});

test("a volume on hold that Sluice cannot retain keeps our finalizer, and the others lose theirs", async () => {
  const { harness, store, finalizers, round: reconcile } = world();
  store.delete("namespaces", { namespace: "", name: namespace });
  harness.interfere = ({ verb, resource }) => {
    if (verb === "patch" && resource === "persistentvolumes") throw refused(403);
  };
  await reconcile();
  assert.deepEqual(finalizers()["on-hold"], [volumeHold, theirs]);
  assert.deepEqual(finalizers().suspended, ["example.com/other", theirs]);
  assert.match(harness.problems.join("\n"), /on-hold keeps our finalizer: .* by hand/);
});

test("the decision names each object, up to five", () => {
  const kept = Array.from(
    { length: 7 },
    (_, index) => ({ shown: `claim ${index}`, finalizers: [volumeHold], isKept: false }) as unknown as KeptObject,
  );
  const { guard, message, releases } = decide({ nowMs: 1, endingSinceMs: 1, kept });
  assert.deepEqual([guard, releases.length], ["releasing", 7]);
  assert.match(message, /claim 4 and 2 more lose our finalizers$/);
  assert.equal(decide({ nowMs: 1, endingSinceMs: undefined, kept }).guard, "namespace-stays");
});

test("a StatefulSet's annotations hold for the volumes of its pods; if it went before Sluice read it, Sluice retains the volumes", async () => {
  const { harness, store, claim, policies, round: reconcile } = world();
  const [set] = store.list("statefulsets", { namespace }).items;
  const name = set?.metadata.name ?? "";
  const owners: Readonly<Record<string, string>> = {
    "of-the-set": set?.metadata.uid ?? "",
    "of-one-that-is-gone": "another uid",
    "of-an-operator": "FoundationDBCluster.apps.foundationdb.org/orders a",
  };
  for (const [itsName, uid] of Object.entries(owners)) {
    const owned =
      itsName === "of-an-operator" ? { "sluice.dev/owner": "FoundationDBCluster.apps.foundationdb.org/orders" } : {};
    const annotations = { "sluice.dev/suspend-owner-uid": uid, ...owned };
    claim(itsName, annotations, [volumeHold]);
  }
  harness.world.annotate({ namespace, name }, { "sluice.dev/hold": "true" });
  store.delete("namespaces", { namespace: "", name: namespace });
  await reconcile();
  const ofOwners = policies().filter((text) => text.startsWith("pv-of"));
  assert.deepEqual(ofOwners, ["pv-of-an-operator Delete", "pv-of-one-that-is-gone Retain", "pv-of-the-set Retain"]);
});
