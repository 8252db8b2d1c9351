/** Reconciles of a FoundationDBCluster: what is written, in which order, and what another client does in between. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { holdProcessGroups } from "../../../../functions/hold-process-groups/function.ts";
import { labels } from "../../../support/foundationdb.ts";
import { namespace, played, refused } from "../../shared/reconcile/harness.ts";
import { claim, claims, FoundationHarness, id, key, resource } from "./foundation-harness.ts";

const time = "2025-12-31T00:00:00Z";

test("a removal is first recorded and blocked, and then the suspension of its volume claim is requested; a second reconcile writes nothing", async () => {
  const harness = new FoundationHarness();
  await harness.reconcile();
  harness.calls.length = 0;
  harness.change({ processGroupsToRemove: [id] });
  assert.equal(await harness.reconcile(), 5_000);
  assert.deepEqual(harness.writes, [`patch ${resource}`, `patch ${claims}`]);
  assert.deepEqual(harness.foundation.spec?.buggify?.blockRemoval, [id]);
  assert.match(harness.foundation.metadata.annotations?.["sluice.dev/held-process-groups"] ?? "", /"storage-1"/);
  assert.equal(harness.written("suspend"), "true");
  assert.equal(harness.sent("ProcessGroupHeld").length, 1);
  harness.calls.length = 0;
  await harness.reconcile();
  assert.deepEqual(harness.writes, []);
});

test("a wish clears each field of the removal through the status subresource, and keeps what others wrote there", async () => {
  const harness = new FoundationHarness();
  harness.change({ processGroupsToRemove: [id], buggify: { crashLoop: ["x"] } });
  await harness.reconcile();
  const condition = { type: "ResourcesTerminating", timestamp: 1 };
  const other = { processGroupID: "log-1", removalTimestamp: time };
  const kept = { type: "MissingPod", timestamp: 2 };
  const removal = { removalTimestamp: time, exclusionTimestamp: time, exclusionSkipped: true };
  const group = { processGroupID: id, faultDomain: "zone-1", processGroupConditions: [condition, kept] };
  harness.status({ ...group, ...removal }, other);
  harness.world.annotate(claim, { "sluice.dev/recover": "true" }, claims);
  await harness.reconcile();
  assert.deepEqual(harness.foundation.status?.processGroups, [{ ...group, processGroupConditions: [kept] }, other]);
  assert.deepEqual(harness.foundation.spec, { buggify: { crashLoop: ["x"], blockRemoval: [id] } });
  assert.equal(harness.written("removal-held"), undefined);
});

test("when it is back, an Event says what to run, by locality or by the addresses that are excluded", async () => {
  for (const [usesLocalities, message] of [
    [true, /include locality_instance_id:storage-1'/],
    [false, /include 10\.1\.0\.1:4501'/],
  ] as const) {
    const harness = new FoundationHarness();
    harness.change({ processGroupsToRemove: [id], automationOptions: { useLocalitiesForExclusion: usesLocalities } });
    await harness.reconcile();
    const [event = ""] = harness.sent("ProcessGroupHeld");
    assert.equal(/a new pod that gets one of them is excluded, too/.test(event), !usesLocalities);
    harness.world.annotate(claim, { "sluice.dev/recover": "true" }, claims);
    await harness.reconcile();
    harness.world.annotate(claim, { "sluice.dev/recover": null }, claims);
    await harness.goOn(31_000);
    await harness.reconcile();
    assert.match(harness.sent("ProcessGroupRecovered").join(), message);
    assert.equal(harness.foundation.spec?.buggify?.blockRemoval, undefined);
  }
});

test("a user's block between the read and the write stays, and is not recorded as ours", async () => {
  const harness = new FoundationHarness();
  await harness.reconcile();
  harness.change({ processGroupsToRemove: [id] });
  let isOver = false;
  harness.interfere = ({ verb, resource: of }) => {
    if (isOver || verb !== "patch" || of !== resource) return;
    isOver = true;
    harness.change({ buggify: { blockRemoval: [id] } });
  };
  await harness.reconcile();
  assert.ok(isOver);
  assert.deepEqual(harness.foundation.spec?.buggify?.blockRemoval, [id]);
  assert.equal(harness.foundation.metadata.annotations?.["sluice.dev/held-process-groups"], undefined);
  assert.match(harness.sent("ProcessGroupWaiting").join(), /^blocked-by-user: /);
});

test("a write that the API server refuses is reported, and tried again", async () => {
  const harness = new FoundationHarness();
  harness.change({ processGroupsToRemove: [id] });
  harness.interfere = ({ verb, resource: of }) => {
    if (verb === "patch" && of === resource) throw refused(422, "not so");
  };
  assert.equal(await harness.reconcile(), 15_000);
  assert.equal(harness.guard, "owner-refused");
  assert.match(harness.problems.join(), /owner-refused: .*storage-1.* 422: not so/);
});

test("in shadow mode Sluice writes nothing, and reports what it would write", async () => {
  const harness = new FoundationHarness();
  harness.change({ processGroupsToRemove: [id] });
  harness.restart({ mode: "shadow" });
  await harness.reconcile();
  assert.deepEqual(harness.writes, []);
  assert.deepEqual(
    harness.verdicts.at(-1)?.wouldTake?.map(({ action }) => action),
    ["change-spec"],
  );
});

test("Sluice reads only clusters that ask for something, or have blocked groups, and none if the operator is not installed", async () => {
  const silent = new FoundationHarness({});
  assert.deepEqual(await silent.keys(), []);
  await silent.reconcile();
  assert.deepEqual(silent.requests, [`list ${resource}`, `list ${claims}`, `get ${resource}`, `list ${claims}`]);
  assert.match(JSON.stringify(silent.calls.at(-1)?.given), /"labelSelector":"sluice.dev\/protected"/);
  const foundation = new FoundationHarness({ "sluice.dev/held-process-groups": "{}" });
  assert.deepEqual(
    (await foundation.keys()).map(({ name }) => name),
    ["orders"],
  );
  foundation.interfere = ({ resource: of }) => {
    if (of === resource) throw refused(404, "the server could not find the requested resource");
  };
  assert.deepEqual(await foundation.keys(), []);
});

const protection = "sluice.dev/volume-protection";
const protecting = { "sluice.dev/suspend-duration": "1h", "sluice.dev/protect-volumes": "true" };
const holds = { settings: { volumeHold: "keep" } };

/** The volume is protected by a first reconcile, whose calls are then forgotten. */
async function protectedHarness(): Promise<FoundationHarness> {
  const harness = new FoundationHarness(protecting);
  harness.restart(holds);
  await harness.reconcile();
  harness.calls.length = 0;
  return harness;
}

const metadataOf = (harness: FoundationHarness) => harness.world.store.get(claims, claim).metadata;

test("our finalizer is written first, under the uid and the revision that were read, with the label by which it is found", async () => {
  const harness = new FoundationHarness(protecting);
  harness.restart(holds);
  harness.change({ processGroupsToRemove: [id] });
  const { uid, resourceVersion, finalizers: before = [] } = metadataOf(harness);
  await harness.reconcile();
  assert.deepEqual(harness.writes, [`patch ${claims}`, `patch ${resource}`, `patch ${claims}`]);
  const [first] = harness.calls.filter(({ verb }) => verb === "patch");
  const labels = { "sluice.dev/protected": "true" };
  const finalizers = [...before, protection];
  assert.deepEqual(first?.given[2], { metadata: { uid, resourceVersion, labels, finalizers } });
  assert.deepEqual(metadataOf(harness).finalizers, finalizers);
});

test("another client's write between the read and the write of our finalizer stays", async () => {
  const harness = new FoundationHarness(protecting);
  harness.restart(holds);
  let isOver = false;
  harness.interfere = ({ verb, resource: of }) => {
    if (isOver || verb !== "patch" || of !== claims) return;
    isOver = true;
    const finalizers = [...(metadataOf(harness).finalizers ?? []), "example.com/backup"];
    harness.world.store.patch(claims, claim, { metadata: { finalizers } } as never);
  };
  await harness.reconcile();
  const { finalizers = [] } = metadataOf(harness);
  assert.ok(finalizers.includes("example.com/backup") && finalizers.includes(protection), finalizers.join());
});

test("if the API server refuses our finalizer, that is reported, and the removal is still blocked", async () => {
  const harness = new FoundationHarness(protecting);
  harness.restart(holds);
  harness.change({ processGroupsToRemove: [id] });
  harness.interfere = ({ verb, resource: of, given }) => {
    if (verb === "patch" && of === claims && JSON.stringify(given[2]).includes(protection))
      throw refused(422, "not so");
  };
  assert.equal(await harness.reconcile(), 15_000);
  assert.deepEqual(harness.foundation.spec?.buggify?.blockRemoval, [id]);
  assert.match(harness.sent("ProcessGroupWaiting").join(), /owner-refused: .*get our finalizer/);
});

test("a claim that the operator deletes first is reported once on the cluster and on the claim, and its suspension is requested", async () => {
  const harness = await protectedHarness();
  harness.status({ processGroupID: id, removalTimestamp: time, exclusionTimestamp: time });
  harness.world.store.delete("pods", { namespace, name: `orders-${id}` });
  harness.world.store.delete(claims, claim);
  await harness.goOn(60_000);
  await harness.reconcile();
  assert.deepEqual([harness.written("suspend"), harness.written("drained-at")], ["true", time]);
  assert.match(harness.written("suspend-message") ?? "", /^removal-begun: /);
  assert.equal(harness.sent("ProcessGroupWaiting").length, 2);
  harness.calls.length = 0;
  await harness.reconcile();
  assert.deepEqual(harness.writes, []);
});

test("a change of a volume claim triggers its cluster, by one read; a claim that is gone, or has no cluster, triggers none", async () => {
  const harness = new FoundationHarness(protecting);
  const [source] = holdProcessGroups.watches.filter(({ resource: of }) => of === claims);
  assert.equal(source?.selector?.key, labels.cluster);
  const find = (name: string) => {
    const found = source?.keysOf({ namespace, name }, { groupOf: () => undefined });
    assert.ok(found !== undefined && "name" in found);
    return played(harness.timeline, found.find({ ...harness.context, namespaces: undefined }));
  };
  assert.deepEqual(await find(claim.name), [key]);
  assert.deepEqual(harness.requests, [`get ${claims}`]);
  assert.deepEqual(await find("absent"), []);
  harness.world.store.patch(claims, claim, { metadata: { labels: { [labels.cluster]: null } } } as never);
  assert.deepEqual(await find(claim.name), [key], "its owner says it");
  harness.world.store.patch(claims, claim, { metadata: { ownerReferences: null } } as never);
  assert.deepEqual(await find(claim.name), []);
});

test("a cluster that has lost every annotation is found by the label, and its volume claims lose our finalizer and the label", async () => {
  const harness = await protectedHarness();
  const none = { "sluice.dev/suspend-duration": null, "sluice.dev/protect-volumes": null };
  harness.world.annotate(key, none, resource);
  assert.deepEqual(await harness.keys(), [key]);
  await harness.reconcile();
  const { finalizers, labels: left } = metadataOf(harness);
  assert.deepEqual([finalizers?.includes(protection), left?.["sluice.dev/protected"]], [false, undefined]);
  assert.deepEqual(await harness.keys(), []);
});

test("the volumes of a cluster that is gone stay, each says so, and the end of the namespace releases them; with VOLUME_HOLD=remove gc-suspended-groups does", async () => {
  for (const end of ["remove", "namespace"]) {
    const harness = await protectedHarness();
    harness.world.store.create("namespaces", "", { metadata: { name: namespace } });
    harness.world.store.delete(resource, key);
    harness.world.store.delete("pods", { namespace, name: `orders-${id}` });
    if (harness.world.store.find(claims, claim)?.metadata.deletionTimestamp === undefined)
      harness.world.store.delete(claims, claim);
    await harness.goOn(60_000);
    assert.deepEqual(await harness.keys(), [key]);
    await harness.reconcile();
    assert.match(harness.written("suspend-message") ?? "", /^owner-gone: /);
    assert.equal(harness.sent("ProcessGroupWaiting").length, 1);
    assert.ok(metadataOf(harness).finalizers?.includes(protection));
    if (end === "remove") harness.restart({ settings: { volumeHold: "remove" } });
    else harness.world.store.delete("namespaces", { namespace: "", name: namespace });
    await harness.reconcile();
    await harness.goOn(1_000);
    assert.equal(harness.world.store.find(claims, claim) === undefined, end === "namespace", end);
  }
});

test("a claim that is deleted during its recovery is not reported as back, though our block is lifted", async () => {
  const harness = await protectedHarness();
  harness.change({ processGroupsToRemove: [id] });
  await harness.reconcile();
  harness.world.annotate(claim, { "sluice.dev/recover": "true" }, claims);
  await harness.reconcile();
  harness.world.store.delete(claims, claim);
  await harness.reconcile();
  assert.equal(harness.foundation.spec?.buggify?.blockRemoval, undefined);
  assert.deepEqual(harness.sent("ProcessGroupRecovered"), []);
});

test("in a cluster that no longer asks for anything, a deleted claim that is kept waits for a pod that is newer than its exclusion", async () => {
  const harness = await protectedHarness();
  harness.world.annotate(key, { "sluice.dev/suspend-duration": null, "sluice.dev/protect-volumes": null }, resource);
  harness.status({ processGroupID: id, removalTimestamp: time, exclusionTimestamp: time });
  harness.world.store.delete(claims, claim);
  await harness.reconcile();
  assert.match(harness.written("suspend-message") ?? "", /^removal-begun: /);
  assert.deepEqual([harness.written("suspend"), harness.written("drained-at")], [undefined, undefined]);
});
