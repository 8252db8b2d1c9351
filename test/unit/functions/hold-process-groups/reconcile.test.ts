/** Passes over a FoundationDBCluster: what is written, in which order, and what another client does in between. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { holdProcessGroups } from "../../../../functions/hold-process-groups/function.ts";
import { labels } from "../../../support/foundationdb.ts";
import { namespace, played, refused } from "../../shared/reconcile/passes.ts";
import { claim, claims, FoundationPasses, id, key, resource } from "./foundation-passes.ts";

const time = "2025-12-31T00:00:00Z";

test("a removal is blocked under a record first, and then its volume claim asks to be suspended; a second pass writes nothing", async () => {
  const passes = new FoundationPasses();
  await passes.pass();
  passes.calls.length = 0;
  passes.change({ processGroupsToRemove: [id] });
  assert.equal(await passes.pass(), 5_000);
  assert.deepEqual(passes.writes, [`patch ${resource}`, `patch ${claims}`]);
  assert.deepEqual(passes.foundation.spec?.buggify?.blockRemoval, [id]);
  assert.match(passes.foundation.metadata.annotations?.["sluice.dev/held-process-groups"] ?? "", /"storage-1"/);
  assert.equal(passes.said("suspend"), "true");
  assert.equal(passes.told("ProcessGroupHeld").length, 1);
  passes.calls.length = 0;
  await passes.pass();
  assert.deepEqual(passes.writes, []);
});

test("a wish clears each field of the removal by the status subresource, and leaves what others wrote there", async () => {
  const passes = new FoundationPasses();
  passes.change({ processGroupsToRemove: [id], buggify: { crashLoop: ["x"] } });
  await passes.pass();
  const condition = { type: "ResourcesTerminating", timestamp: 1 };
  const other = { processGroupID: "log-1", removalTimestamp: time };
  const kept = { type: "MissingPod", timestamp: 2 };
  const removal = { removalTimestamp: time, exclusionTimestamp: time, exclusionSkipped: true };
  const group = { processGroupID: id, faultDomain: "zone-1", processGroupConditions: [condition, kept] };
  passes.status({ ...group, ...removal }, other);
  passes.world.annotate(claim, { "sluice.dev/recover": "true" }, claims);
  await passes.pass();
  assert.deepEqual(passes.foundation.status?.processGroups, [{ ...group, processGroupConditions: [kept] }, other]);
  assert.deepEqual(passes.foundation.spec, { buggify: { crashLoop: ["x"], blockRemoval: [id] } });
  assert.equal(passes.said("removal-held"), undefined);
});

test("when it is back, an Event says what to run, by locality or by the addresses that are excluded", async () => {
  for (const [usesLocalities, words] of [
    [true, /include locality_instance_id:storage-1'/],
    [false, /include 10\.1\.0\.1:4501'/],
  ] as const) {
    const passes = new FoundationPasses();
    passes.change({ processGroupsToRemove: [id], automationOptions: { useLocalitiesForExclusion: usesLocalities } });
    await passes.pass();
    const [held = ""] = passes.told("ProcessGroupHeld");
    assert.equal(/a new pod that gets one of them is excluded, too/.test(held), !usesLocalities);
    passes.world.annotate(claim, { "sluice.dev/recover": "true" }, claims);
    await passes.pass();
    passes.world.annotate(claim, { "sluice.dev/recover": null }, claims);
    await passes.goOn(31_000);
    await passes.pass();
    assert.match(passes.told("ProcessGroupRecovered").join(), words);
    assert.equal(passes.foundation.spec?.buggify?.blockRemoval, undefined);
  }
});

test("what a user blocks between the read and the write stays, and is not taken for ours", async () => {
  const passes = new FoundationPasses();
  await passes.pass();
  passes.change({ processGroupsToRemove: [id] });
  let isOver = false;
  passes.interfere = ({ verb, resource: of }) => {
    if (isOver || verb !== "patch" || of !== resource) return;
    isOver = true;
    passes.change({ buggify: { blockRemoval: [id] } });
  };
  await passes.pass();
  assert.ok(isOver);
  assert.deepEqual(passes.foundation.spec?.buggify?.blockRemoval, [id]);
  assert.equal(passes.foundation.metadata.annotations?.["sluice.dev/held-process-groups"], undefined);
  assert.match(passes.told("ProcessGroupWaiting").join(), /^blocked-by-user: /);
});

test("a write that the API server refuses is said, and tried again", async () => {
  const passes = new FoundationPasses();
  passes.change({ processGroupsToRemove: [id] });
  passes.interfere = ({ verb, resource: of }) => {
    if (verb === "patch" && of === resource) throw refused(422, "not so");
  };
  assert.equal(await passes.pass(), 15_000);
  assert.equal(passes.guard, "owner-refused");
  assert.match(passes.problems.join(), /owner-refused: .*storage-1.* 422: not so/);
});

test("in shadow mode nothing is written, and what would be is told", async () => {
  const passes = new FoundationPasses();
  passes.change({ processGroupsToRemove: [id] });
  passes.restart({ mode: "shadow" });
  await passes.pass();
  assert.deepEqual(passes.writes, []);
  assert.deepEqual(
    passes.verdicts.at(-1)?.wouldTake?.map(({ action }) => action),
    ["change-spec"],
  );
});

test("only clusters that ask for something, or of which something is held, are looked at; and none where the operator is not installed", async () => {
  const silent = new FoundationPasses({});
  assert.deepEqual(await silent.keys(), []);
  await silent.pass();
  assert.deepEqual(silent.words, [`list ${resource}`, `list ${claims}`, `get ${resource}`, `list ${claims}`]);
  assert.match(JSON.stringify(silent.calls.at(-1)?.given), /"labelSelector":"sluice.dev\/protected"/);
  const held = new FoundationPasses({ "sluice.dev/held-process-groups": "{}" });
  assert.deepEqual(
    (await held.keys()).map(({ name }) => name),
    ["orders"],
  );
  held.interfere = ({ resource: of }) => {
    if (of === resource) throw refused(404, "the server could not find the requested resource");
  };
  assert.deepEqual(await held.keys(), []);
});

const protection = "sluice.dev/volume-protection";
const protecting = { "sluice.dev/suspend-duration": "1h", "sluice.dev/protect-volumes": "true" };
const holds = { settings: { volumeHold: "keep" } };

/** Protected by a first pass, which is forgotten. */
async function protectedPasses(): Promise<FoundationPasses> {
  const passes = new FoundationPasses(protecting);
  passes.restart(holds);
  await passes.pass();
  passes.calls.length = 0;
  return passes;
}

const metadataOf = (passes: FoundationPasses) => passes.world.store.get(claims, claim).metadata;

test("our finalizer is written first, under the uid and the revision that were read, with the label by which it is found", async () => {
  const passes = new FoundationPasses(protecting);
  passes.restart(holds);
  passes.change({ processGroupsToRemove: [id] });
  const { uid, resourceVersion, finalizers: before = [] } = metadataOf(passes);
  await passes.pass();
  assert.deepEqual(passes.writes, [`patch ${claims}`, `patch ${resource}`, `patch ${claims}`]);
  const [first] = passes.calls.filter(({ verb }) => verb === "patch");
  const labels = { "sluice.dev/protected": "true" };
  const finalizers = [...before, protection];
  assert.deepEqual(first?.given[2], { metadata: { uid, resourceVersion, labels, finalizers } });
  assert.deepEqual(metadataOf(passes).finalizers, finalizers);
});

test("what another client writes between the read and the write of our finalizer stays", async () => {
  const passes = new FoundationPasses(protecting);
  passes.restart(holds);
  let isOver = false;
  passes.interfere = ({ verb, resource: of }) => {
    if (isOver || verb !== "patch" || of !== claims) return;
    isOver = true;
    const finalizers = [...(metadataOf(passes).finalizers ?? []), "example.com/backup"];
    passes.world.store.patch(claims, claim, { metadata: { finalizers } } as never);
  };
  await passes.pass();
  const { finalizers = [] } = metadataOf(passes);
  assert.ok(finalizers.includes("example.com/backup") && finalizers.includes(protection), finalizers.join());
});

test("where the API server refuses our finalizer, that is said, and the removal is blocked all the same", async () => {
  const passes = new FoundationPasses(protecting);
  passes.restart(holds);
  passes.change({ processGroupsToRemove: [id] });
  passes.interfere = ({ verb, resource: of, given }) => {
    if (verb === "patch" && of === claims && JSON.stringify(given[2]).includes(protection))
      throw refused(422, "not so");
  };
  assert.equal(await passes.pass(), 15_000);
  assert.deepEqual(passes.foundation.spec?.buggify?.blockRemoval, [id]);
  assert.match(passes.told("ProcessGroupWaiting").join(), /owner-refused: .*get our finalizer/);
});

test("what the operator takes first is said on the cluster and on the volume claim, once, and its time is asked for", async () => {
  const passes = await protectedPasses();
  passes.status({ processGroupID: id, removalTimestamp: time, exclusionTimestamp: time });
  passes.world.store.delete("pods", { namespace, name: `orders-${id}` });
  passes.world.store.delete(claims, claim);
  await passes.goOn(60_000);
  await passes.pass();
  assert.deepEqual([passes.said("suspend"), passes.said("drained-at")], ["true", time]);
  assert.match(passes.said("suspend-message") ?? "", /^removal-begun: /);
  assert.equal(passes.told("ProcessGroupWaiting").length, 2);
  passes.calls.length = 0;
  await passes.pass();
  assert.deepEqual(passes.writes, []);
});

test("a change of a volume claim wakes its cluster, by one read; one that is gone, or of no cluster, wakes none", async () => {
  const passes = new FoundationPasses(protecting);
  const [woken] = holdProcessGroups.watches.filter(({ resource: of }) => of === claims);
  assert.equal(woken?.selector?.key, labels.cluster);
  const find = (name: string) => {
    const found = woken?.keysOf({ namespace, name }, { groupOf: () => undefined });
    assert.ok(found !== undefined && "name" in found);
    return played(passes.timeline, found.find({ ...passes.context, namespaces: undefined }));
  };
  assert.deepEqual(await find(claim.name), [key]);
  assert.deepEqual(passes.words, [`get ${claims}`]);
  assert.deepEqual(await find("absent"), []);
  passes.world.store.patch(claims, claim, { metadata: { labels: { [labels.cluster]: null } } } as never);
  assert.deepEqual(await find(claim.name), [key], "its owner says it");
  passes.world.store.patch(claims, claim, { metadata: { ownerReferences: null } } as never);
  assert.deepEqual(await find(claim.name), []);
});

test("a cluster that has lost every annotation is found by the label, and its volume claims lose our finalizer and the label", async () => {
  const passes = await protectedPasses();
  const none = { "sluice.dev/suspend-duration": null, "sluice.dev/protect-volumes": null };
  passes.world.annotate(key, none, resource);
  assert.deepEqual(await passes.keys(), [key]);
  await passes.pass();
  const { finalizers, labels: left } = metadataOf(passes);
  assert.deepEqual([finalizers?.includes(protection), left?.["sluice.dev/protected"]], [false, undefined]);
  assert.deepEqual(await passes.keys(), []);
});

test("of a cluster that is gone the volumes stay, each says so, and the end of the namespace lets them go; with VOLUME_HOLD=remove gc-suspended-groups does", async () => {
  for (const end of ["remove", "namespace"]) {
    const passes = await protectedPasses();
    passes.world.store.create("namespaces", "", { metadata: { name: namespace } });
    passes.world.store.delete(resource, key);
    passes.world.store.delete("pods", { namespace, name: `orders-${id}` });
    if (passes.world.store.find(claims, claim)?.metadata.deletionTimestamp === undefined)
      passes.world.store.delete(claims, claim);
    await passes.goOn(60_000);
    assert.deepEqual(await passes.keys(), [key]);
    await passes.pass();
    assert.match(passes.said("suspend-message") ?? "", /^owner-gone: /);
    assert.equal(passes.told("ProcessGroupWaiting").length, 1);
    assert.ok(metadataOf(passes).finalizers?.includes(protection));
    if (end === "remove") passes.restart({ settings: { volumeHold: "remove" } });
    else passes.world.store.delete("namespaces", { namespace: "", name: namespace });
    await passes.pass();
    await passes.goOn(1_000);
    assert.equal(passes.world.store.find(claims, claim) === undefined, end === "namespace", end);
  }
});

test("what is deleted while its recover goes on is not said to be back, though our block is lifted", async () => {
  const passes = await protectedPasses();
  passes.change({ processGroupsToRemove: [id] });
  await passes.pass();
  passes.world.annotate(claim, { "sluice.dev/recover": "true" }, claims);
  await passes.pass();
  passes.world.store.delete(claims, claim);
  await passes.pass();
  assert.equal(passes.foundation.spec?.buggify?.blockRemoval, undefined);
  assert.deepEqual(passes.told("ProcessGroupRecovered"), []);
});

test("of a cluster that asks for nothing any more, what is deleted and kept waits for a pod that is newer than its exclusion", async () => {
  const passes = await protectedPasses();
  passes.world.annotate(key, { "sluice.dev/suspend-duration": null, "sluice.dev/protect-volumes": null }, resource);
  passes.status({ processGroupID: id, removalTimestamp: time, exclusionTimestamp: time });
  passes.world.store.delete(claims, claim);
  await passes.pass();
  assert.match(passes.said("suspend-message") ?? "", /^removal-begun: /);
  assert.deepEqual([passes.said("suspend"), passes.said("drained-at")], [undefined, undefined]);
});
