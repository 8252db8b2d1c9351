/** What is reported and decided of a FoundationDBCluster besides one process group: settings, lists and foreign claims. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decide } from "../../../../functions/hold-process-groups/decide.ts";
import { foreignEvents, isForeign, settingsEvents } from "../../../../functions/hold-process-groups/decide-events.ts";
import {
  isProtecting,
  type ProtectionSnapshot,
  protectionChanges,
} from "../../../../functions/hold-process-groups/decide-protection.ts";
import type {
  FoundationCluster,
  ProcessGroupPvc,
} from "../../../../functions/hold-process-groups/foundation-cluster.ts";
import { HeldGroups } from "../../../support/held-groups.ts";
import { minutesAgo } from "../../../support/suspended.ts";

const absent = { kind: "absent" } as const;

/** A cluster that asks for nothing, and whose removal mode cannot be read. */
function snapshotOf(changes: Partial<FoundationCluster> = {}, more: Partial<ProtectionSnapshot> = {}) {
  const groups = new HeldGroups({});
  const { snapshot } = groups;
  const nothing = { duration: absent, heldGroups: absent, protects: absent, unreadable: "write All" };
  const cluster = { ...snapshot.cluster, ...nothing, ...changes } as FoundationCluster;
  return { ...snapshot, pvcs: [], unplaced: [], ...more, cluster };
}

const guards = (...given: Parameters<typeof snapshotOf>) =>
  settingsEvents(snapshotOf(...given)).map(({ guard }) => guard);

test("malformed settings are reported of a cluster that asks for something, or for which something stands, until it is deleted", () => {
  assert.deepEqual(guards(), [], "it asks for nothing");
  const value = { kind: "value", value: 60_000 } as const;
  assert.deepEqual(guards({ duration: value }), ["removal-mode-unknown"]);
  assert.deepEqual(guards({ heldGroups: { kind: "value", value: {} } }), ["removal-mode-unknown"]);
  assert.deepEqual(guards({ protects: { kind: "value", value: true } }), ["removal-mode-unknown"]);
  const unplaced = [{ isProtected: true, isTerminating: false } as ProcessGroupPvc];
  assert.ok(guards({}, { unplaced }).includes("removal-mode-unknown"), "one volume claim is still protected");
  assert.deepEqual(guards({ duration: value, isDeleting: true }), []);
  assert.deepEqual(guards({ duration: value, unreadable: undefined }), []);
});

test("a deleted volume claim that our protection keeps is foreign where another cluster of the name owned it", () => {
  const { cluster } = snapshotOf();
  const pvc = (changes: object) =>
    ({
      ...{ name: "data", group: "storage-1", isTerminating: true, isProtected: true, ownerUids: ["of-another"] },
      ...changes,
    }) as unknown as ProcessGroupPvc;
  assert.equal(isForeign(pvc({}), cluster), true);
  for (const changes of [{ ownerUids: [cluster.uid] }, { isTerminating: false }, { isProtected: false }])
    assert.equal(isForeign(pvc(changes), cluster), false);
  const events = (changes: Partial<FoundationCluster>) =>
    foreignEvents(snapshotOf(changes, { pvcs: [pvc({}), pvc({ isTerminating: false })] })).map(
      ({ id, guard }) => `${id} ${guard}`,
    );
  assert.deepEqual(events({}), ["storage-1 owner-gone"]);
  assert.deepEqual(events({ isDeleting: true }), []);
});

/** Each process group has its marks, and these are to go: their data is moved, or only the first one's is not. */
function leaving(...ids: readonly string[]): HeldGroups {
  const groups = new HeldGroups();
  groups.furnish();
  for (const id of ids) groups.exclude(id);
  return groups;
}

/** What a decision does, by its guard and step, and which Events it has. */
function decidedOn(groups: HeldGroups) {
  const { guard, step, events, requeueAfterMs } = decide(groups.snapshot);
  return { guard, step: step?.kind, events: events.map(({ id, guard: why }) => `${id} ${why}`), requeueAfterMs };
}

function listOf(groups: HeldGroups): readonly string[] {
  const { step } = decide(groups.snapshot);
  return step?.kind === "change-spec" ? step.blocked : assert.fail(`${step?.kind}`);
}

test("a verdict names first what a user has to correct, and malformed settings only where nothing else is to be done", () => {
  const newer = leaving("storage-1", "storage-2");
  newer.addPod("storage-2", 5);
  newer.annotate("storage-2", { "drained-at": null });
  assert.deepEqual(decidedOn(newer), {
    ...{ guard: "pod-newer", step: undefined, events: ["storage-2 pod-newer"], requeueAfterMs: 5_000 },
  });
  const malformed = leaving();
  malformed.spec.automationOptions = { removalMode: "Half" };
  assert.equal(decidedOn(malformed).guard, "removal-mode-unknown");
  malformed.remove("storage-1");
  const events = ["orders removal-mode-unknown"];
  assert.deepEqual(decidedOn(malformed), { guard: "holding", step: "change-spec", events, requeueAfterMs: 5_000 });
  malformed.spec.buggify = { blockRemoval: ["storage-1"] };
  assert.equal(decidedOn(malformed).guard, "blocked-by-user");
  const unexcluded = leaving();
  unexcluded.remove("storage-1");
  unexcluded.spec.buggify = { blockRemoval: ["storage-1"] };
  unexcluded.spec.processGroupsToRemoveWithoutExclusion = ["storage-2"];
  assert.equal(decidedOn(unexcluded).guard, "blocked-by-user", "the first of several");
  const waiting = leaving("storage-1", "storage-2");
  waiting.set("storage-1", { removalTimestamp: minutesAgo(30), exclusionTimestamp: undefined });
  waiting.annotate("storage-1", { "drained-at": null });
  assert.deepEqual([decidedOn(waiting).guard, decidedOn(waiting).step], ["not-excluded", undefined]);
  assert.equal(decidedOn(leaving()).requeueAfterMs, undefined, "nothing is to be removed");
});

test("duration-missing: the cluster's own mistake is reported beside those of its process groups", () => {
  const groups = leaving("storage-1");
  groups.addPod("storage-1", 5);
  groups.annotate("storage-1", { "drained-at": null });
  groups.annotateCluster({ "suspend-duration": null });
  groups.furnish();
  const { step, events } = decidedOn(groups);
  assert.deepEqual([step, events], [undefined, ["orders duration-missing", "storage-1 pod-newer"]]);
});

test("owner-deleting: one volume claim that is still protected is enough", () => {
  const groups = leaving();
  groups.change("storage-1", { finalizers: ["sluice.dev/volume-protection"] });
  groups.metadata = { ...groups.metadata, deletionTimestamp: minutesAgo(1) };
  assert.equal(decidedOn(groups).guard, "owner-deleting");
});

test("a process group is decided on that the status, a volume claim or our record names", () => {
  const recorded = leaving();
  recorded.hold("storage-9");
  assert.deepEqual(listOf(recorded), [], "neither the status nor a volume claim names it");
  const unlisted = new HeldGroups();
  unlisted.groups.delete("storage-2");
  const { step } = decide(unlisted.snapshot);
  const named = step?.kind === "annotate" ? step.changes.map(({ pvc }) => pvc.group) : [];
  assert.deepEqual(named.toSorted(), ["storage-1", "storage-2", "storage-3"]);
});

test("the list of blocks keeps what others wrote, loses and gets ids at once, and new ones follow in their order", () => {
  const groups = leaving();
  groups.spec.buggify = { blockRemoval: ["log-9"] };
  const first = groups.groups.get("storage-1") ?? assert.fail();
  groups.groups.delete("storage-1");
  groups.groups.set("storage-1", first);
  groups.spec.processGroupsToRemove = ["storage-3", "storage-1"];
  assert.deepEqual(listOf(groups), ["log-9", "storage-1", "storage-3"]);
  const both = leaving("storage-1");
  both.claims.delete("storage-1");
  both.set("storage-2", { removalTimestamp: minutesAgo(1) });
  assert.deepEqual(listOf(both), ["storage-2"]);
});

test("what a deleted or labelled volume claim keeps: without our finalizer a label alone goes, until the claim is deleted", () => {
  const groups = new HeldGroups();
  groups.annotateCluster({ "suspend-duration": null });
  groups.change("storage-1", { labels: { "sluice.dev/protected": "true" } });
  const changes = () => protectionChanges(groups.snapshot).map(({ pvc, protection }) => `${protection} ${pvc.group}`);
  assert.deepEqual(changes(), ["drop storage-1"]);
  groups.change("storage-1", { deletionTimestamp: minutesAgo(1) });
  assert.deepEqual(changes(), []);
  groups.isGone = true;
  assert.equal(isProtecting(groups.snapshot), false);
});
