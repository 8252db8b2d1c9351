/** What is reported of a FoundationDBCluster's own settings, and of volume claims that an earlier one of its name had. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decide } from "../../../../functions/hold-process-groups/decide.ts";
import { foreignEvents, isForeign, settingsEvents } from "../../../../functions/hold-process-groups/decide-events.ts";
import type { ProtectionSnapshot } from "../../../../functions/hold-process-groups/decide-protection.ts";
import type {
  FoundationCluster,
  ProcessGroupPvc,
} from "../../../../functions/hold-process-groups/foundation-cluster.ts";
import { HeldGroups } from "../../../support/held-groups.ts";

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

test("a verdict names first what a user has to correct, and an Event of its settings only where nothing else is to be done", () => {
  const groups = leaving("storage-1", "storage-2");
  groups.addPod("storage-2", 5);
  groups.annotate("storage-2", { "drained-at": null });
  const { guard, step, events } = decide(groups.snapshot);
  assert.deepEqual([guard, step, events.map(({ id }) => id)], ["pod-newer", undefined, ["storage-2"]]);
  groups.annotateCluster({ "removal-mode": "Sometimes" });
  assert.notEqual(decide(groups.snapshot).guard, "removal-mode-unknown");
});

test("the list of blocks keeps its order and what others wrote, and new ids follow in theirs", () => {
  const groups = leaving();
  groups.spec.buggify = { blockRemoval: ["log-9"] };
  groups.spec.processGroupsToRemove = ["storage-3", "storage-1"];
  const { step } = decide(groups.snapshot);
  assert.deepEqual(step?.kind === "change-spec" && step.blocked, ["log-9", "storage-1", "storage-3"]);
});
