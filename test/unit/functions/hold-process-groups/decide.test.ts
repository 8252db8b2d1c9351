/** Decisions about the removals of a FoundationDBCluster. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type ClusterStep, decide } from "../../../../functions/hold-process-groups/decide.ts";
import { HeldGroups } from "../../../support/held-groups.ts";
import { minutesAgo } from "../../../support/suspended.ts";

type SpecStep = Extract<ClusterStep, { kind: "change-spec" }>;

function specStep(groups: HeldGroups): SpecStep {
  const { step } = decide(groups.snapshot);
  assert.equal(step?.kind, "change-spec");
  return step as SpecStep;
}

/** Annotations that a volume claim gets, without their prefix. */
function annotationsOf(groups: HeldGroups, id: string): Readonly<Record<string, string | null>> {
  const { step } = decide(groups.snapshot);
  const changes = step?.kind === "annotate" ? step.changes : [];
  const [change] = changes.filter(({ pvc }) => pvc.group === id);
  return Object.fromEntries(
    Object.entries(change?.annotations ?? {}).map(([key, text]) => [key.replace("sluice.dev/", ""), text]),
  );
}

function furnished(...ids: readonly string[]): HeldGroups {
  const groups = new HeldGroups();
  groups.furnish();
  for (const id of ids) groups.exclude(id);
  return groups;
}

test("nothing is written for a cluster that asks for nothing", () => {
  const { guard, step } = decide(new HeldGroups({}).snapshot);
  assert.deepEqual([guard, step], ["done", undefined]);
});

test("every volume claim of a cluster that asks gets its owner, its fault domain, and the removal policy", () => {
  const groups = new HeldGroups({ "suspend-duration": "7d", "removal-mode": "Group" });
  assert.equal(decide(groups.snapshot).guard, "annotating");
  assert.deepEqual(annotationsOf(groups, "storage-2"), {
    owner: "FoundationDBCluster.apps.foundationdb.org/orders",
    zone: "zone-2",
    "suspend-duration": "7d",
    "removal-mode": "Group",
  });
});

test("a fault domain that is no valid zone is left out, and a suspended claim keeps its zone", () => {
  const groups = new HeldGroups();
  groups.set("storage-1", { faultDomain: "a b" });
  assert.equal(annotationsOf(groups, "storage-1").zone, undefined);
  groups.furnish();
  groups.annotate("storage-2", { "suspend-state": "Suspended" });
  groups.set("storage-2", { faultDomain: "zone-9" });
  assert.equal(annotationsOf(groups, "storage-2").zone, undefined);
});

test("a group that a user lists is blocked, and recorded as ours, before the suspension of its volume claim is requested", () => {
  const groups = furnished();
  groups.spec.processGroupsToRemove = ["storage-1"];
  const verdict = decide(groups.snapshot);
  assert.equal(verdict.guard, "holding");
  assert.deepEqual(specStep(groups).blocked, ["storage-1"]);
  assert.deepEqual(Object.keys(specStep(groups).heldGroups), ["storage-1"]);
  groups.hold("storage-1");
  groups.annotate("storage-1", { "removal-held": null });
  assert.deepEqual(annotationsOf(groups, "storage-1"), { "removal-held": "true", suspend: "true" });
});

test("a group that the operator marks by itself is also blocked, beside the blocks of others", () => {
  const groups = furnished();
  groups.spec.buggify = { blockRemoval: ["log-1"] };
  groups.set("storage-3", { removalTimestamp: minutesAgo(1) });
  assert.deepEqual(specStep(groups).blocked, ["log-1", "storage-3"]);
});

test("the data of a process group counts as moved while the operator has the group excluded, and no longer", () => {
  const groups = furnished();
  groups.remove("storage-1");
  groups.hold("storage-1");
  groups.annotate("storage-1", { suspend: "true" });
  assert.equal(decide(groups.snapshot).guard, "not-excluded");
  groups.set("storage-1", { exclusionTimestamp: minutesAgo(2) });
  assert.equal(Date.parse(annotationsOf(groups, "storage-1")["drained-at"] ?? ""), Date.parse(minutesAgo(2)));
  groups.annotate("storage-1", { "drained-at": minutesAgo(2) });
  assert.equal(decide(groups.snapshot).guard, "held");
  groups.set("storage-1", { exclusionTimestamp: undefined });
  assert.equal(annotationsOf(groups, "storage-1")["drained-at"], null);
});

test("a pod that was made after its exclusion may have new data", () => {
  const groups = furnished("storage-1");
  groups.addPod("storage-1", 5);
  assert.equal(annotationsOf(groups, "storage-1")["drained-at"], null);
  groups.annotate("storage-1", { "drained-at": null });
  const { guard, events } = decide(groups.snapshot);
  assert.equal(guard, "pod-newer");
  assert.equal(events.length, 1);
});

test("a group that counts as excluded before the database has moved its data keeps its pod; only a duration of 0 releases it", () => {
  const groups = furnished("storage-1");
  groups.set("storage-1", { exclusionSkipped: true });
  assert.equal(annotationsOf(groups, "storage-1")["drained-at"], null);
  groups.annotate("storage-1", { "drained-at": null });
  assert.equal(decide(groups.snapshot).guard, "exclusion-skipped");
  groups.annotateCluster({ "suspend-duration": "0" });
  assert.deepEqual(specStep(groups).blocked, []);
});

test("a group that must be removed without an exclusion is not blocked, and the function reports that", () => {
  const groups = furnished();
  groups.spec.processGroupsToRemoveWithoutExclusion = ["storage-1"];
  const { guard, step, events } = decide(groups.snapshot);
  assert.deepEqual([guard, step, events.length], ["exclusion-skipped", undefined, 1]);
});

test("a group that the operator considers excluded without an exclusion is not blocked either", () => {
  const groups = furnished();
  groups.set("storage-1", { removalTimestamp: minutesAgo(1), exclusionSkipped: true });
  const { guard, step } = decide(groups.snapshot);
  assert.deepEqual([guard, step], ["exclusion-skipped", undefined]);
});

test("the data of an unmarked group, or of one listed to go without an exclusion, does not count as moved", () => {
  for (const change of [
    (groups: HeldGroups) => groups.set("storage-1", { removalTimestamp: undefined }),
    (groups: HeldGroups) => {
      groups.spec.processGroupsToRemoveWithoutExclusion = ["storage-1"];
    },
  ]) {
    const groups = furnished("storage-1");
    change(groups);
    assert.equal(annotationsOf(groups, "storage-1")["drained-at"], null);
  }
});

test("a block survives a status that omits its process group for a while, but the statement about the drain does not", () => {
  const groups = furnished("storage-1");
  groups.spec.processGroupsToRemove = [];
  groups.groups.delete("storage-1");
  assert.equal(annotationsOf(groups, "storage-1")["drained-at"], null);
  groups.annotate("storage-1", { "drained-at": null });
  const { guard, step } = decide(groups.snapshot);
  assert.deepEqual([guard, step], ["group-unlisted", undefined]);
});

test("if a process group has two pods, the newer one counts", () => {
  const groups = furnished("storage-1");
  const old = groups.snapshot.pods.find(({ group }) => group === "storage-1");
  groups.addPod("storage-1", 5);
  const { snapshot } = groups;
  assert.ok(old !== undefined);
  const { step } = decide({ ...snapshot, pods: [...snapshot.pods, old] });
  const [change] = step?.kind === "annotate" ? step.changes : [];
  assert.equal(change?.annotations["sluice.dev/drained-at"], null);
});

test("a user's own statement about a volume stays the same", () => {
  const groups = furnished("storage-1");
  groups.annotate("storage-1", { suspend: "false" });
  assert.equal(decide(groups.snapshot).step, undefined);
});

test("a volume claim that a user has deleted is left alone, and so is one that is being removed", () => {
  const groups = furnished("storage-1");
  groups.annotate("storage-1", { owner: null, recover: "true" });
  groups.change("storage-1", { deletionTimestamp: minutesAgo(1) });
  assert.deepEqual([decide(groups.snapshot).guard, decide(groups.snapshot).step], ["removing", undefined]);
  const removed = furnished("storage-1");
  removed.annotate("storage-1", { owner: null, "suspend-state": "Removing" });
  assert.equal(decide(removed.snapshot).step, undefined);
});

test("while a user wants it back, each list that names it again is cleared again, and a lost block is set again", () => {
  for (const change of [
    (groups: HeldGroups) => {
      groups.spec.processGroupsToRemove = ["storage-1"];
    },
    (groups: HeldGroups) => {
      groups.spec.processGroupsToRemoveWithoutExclusion = ["storage-1"];
    },
    (groups: HeldGroups) => {
      groups.spec.buggify = {};
    },
  ]) {
    const groups = furnished();
    groups.hold("storage-1", 0);
    change(groups);
    const { blocked, toRemove, toRemoveUnexcluded } = specStep(groups);
    assert.deepEqual([blocked, toRemove, toRemoveUnexcluded], [["storage-1"], [], []]);
  }
});

test("a user's own block is neither recorded nor followed by anything", () => {
  const groups = furnished();
  groups.remove("storage-1");
  groups.set("storage-1", { exclusionTimestamp: minutesAgo(1) });
  groups.spec.buggify = { blockRemoval: ["storage-1"] };
  const { guard, step } = decide(groups.snapshot);
  assert.deepEqual([guard, step], ["blocked-by-user", undefined]);
  groups.spec.buggify = { blockRemoval: ["*"] };
  assert.equal(decide(groups.snapshot).guard, "blocked-by-user");
});

test("a group that a user has blocked, with its data moved and its pod gone, does not count as a missing pod", () => {
  const groups = furnished();
  groups.remove("storage-1");
  groups.set("storage-1", { exclusionTimestamp: minutesAgo(1) });
  groups.spec.buggify = { blockRemoval: ["storage-1"] };
  groups.pods.delete("storage-1");
  assert.deepEqual(annotationsOf(groups, "storage-1"), { owner: null, zone: null });
});

test("our block is lifted when the volume is gone, and the user's stays", () => {
  const groups = furnished("storage-1");
  groups.spec.buggify = { blockRemoval: ["storage-2", "storage-1"] };
  groups.claims.delete("storage-1");
  assert.equal(decide(groups.snapshot).guard, "letting-go");
  assert.deepEqual(specStep(groups).blocked, ["storage-2"]);
  assert.deepEqual(specStep(groups).heldGroups, {});
});

test("while its volume claim is being removed nothing is written", () => {
  const groups = furnished("storage-1");
  groups.annotate("storage-1", { "suspend-state": "Removing" });
  const { guard, step } = decide(groups.snapshot);
  assert.deepEqual([guard, step], ["removing", undefined]);
});

test("a block of ours that a user removed is set again", () => {
  const groups = furnished("storage-1");
  groups.spec.buggify = { blockRemoval: [] };
  const step = specStep(groups);
  assert.deepEqual(step.blocked, ["storage-1"]);
  assert.equal(step.heldGroups["storage-1"]?.sinceMs, Date.parse(minutesAgo(20)), "it is held since then");
});

test("recover takes the id from both lists, keeps the block, clears the status, and lifts the block when the pod is back", () => {
  const groups = furnished("storage-1");
  groups.spec.processGroupsToRemoveWithoutExclusion = ["storage-1", "storage-2"];
  groups.annotate("storage-1", { recover: "true", "suspend-state": "Suspended" });
  const { blocked, toRemove, toRemoveUnexcluded, heldGroups: record } = specStep(groups);
  assert.deepEqual([blocked, toRemove, toRemoveUnexcluded], [["storage-1"], [], ["storage-2"]]);
  assert.ok(record["storage-1"]?.recoveringMs);

  groups.spec.processGroupsToRemove = [];
  groups.spec.processGroupsToRemoveWithoutExclusion = [];
  groups.spec.buggify = {};
  groups.hold("storage-1", 0);
  assert.deepEqual(decide(groups.snapshot).step, { kind: "clear-status", ids: ["storage-1"] });
  groups.set("storage-1", { removalTimestamp: undefined, exclusionTimestamp: undefined });
  for (const left of [
    { exclusionSkipped: true },
    { processGroupConditions: [{ type: "ResourcesTerminating", timestamp: 1 }] },
  ]) {
    groups.set("storage-1", left);
    assert.equal(decide(groups.snapshot).step?.kind, "clear-status", JSON.stringify(left));
    groups.set("storage-1", { exclusionSkipped: undefined, processGroupConditions: [] });
  }
  assert.equal(decide(groups.snapshot).guard, "recovering");
  groups.annotate("storage-1", { recover: null, "suspend-state": null, suspend: null, "drained-at": null });
  assert.deepEqual([decide(groups.snapshot).guard, decide(groups.snapshot).step], ["recovering", undefined]);
  groups.annotateCluster({ "held-process-groups": null });
  groups.spec.buggify = {};
  groups.hold("storage-1", 2);
  assert.deepEqual(specStep(groups).blocked, []);
});

test("the block of a group that a user wants back stays while its pod is not ready, or anything of ours is on its volume claim", () => {
  for (const unready of [
    (groups: HeldGroups) => groups.addPod("storage-1", 1, false),
    (groups: HeldGroups) => groups.pods.delete("storage-1"),
    (groups: HeldGroups) => groups.annotate("storage-1", { "suspend-state": "Suspended" }),
    (groups: HeldGroups) => groups.change("storage-1", { finalizers: ["sluice.dev/volume-hold"] }),
  ]) {
    const groups = furnished();
    groups.hold("storage-1", 2);
    unready(groups);
    const { guard, step } = decide(groups.snapshot);
    assert.deepEqual([guard, step], ["recovering", undefined]);
  }
});

test("the mark that makes a wish wait goes only when the wish is on record and the status is clear", () => {
  const groups = furnished("storage-1");
  groups.annotate("storage-1", { recover: "true" });
  assert.equal(decide(groups.snapshot).step?.kind, "change-spec");
  groups.spec.processGroupsToRemove = [];
  groups.annotateCluster({
    "held-process-groups": JSON.stringify({ "storage-1": { since: minutesAgo(20), recovering: minutesAgo(0) } }),
  });
  assert.equal(decide(groups.snapshot).step?.kind, "clear-status");
  groups.set("storage-1", { removalTimestamp: undefined, exclusionTimestamp: undefined });
  assert.deepEqual(annotationsOf(groups, "storage-1"), { "removal-held": null });
});

test("a status that another client has overwritten is cleared again, and its block stays for as long again", () => {
  const groups = furnished();
  groups.hold("storage-1", 2);
  groups.set("storage-1", { removalTimestamp: minutesAgo(30) });
  const step = specStep(groups);
  assert.deepEqual(step.blocked, ["storage-1"]);
  assert.ok((step.heldGroups["storage-1"]?.recoveringMs ?? 0) > Date.parse(minutesAgo(1)));
});

test("a process group whose removal is no longer wanted asks for nothing, and loses our block when nothing is suspended", () => {
  const groups = furnished("storage-1");
  groups.spec.processGroupsToRemove = [];
  groups.set("storage-1", { removalTimestamp: undefined, exclusionTimestamp: undefined });
  groups.annotate("storage-1", { "suspend-state": "Suspending" });
  assert.equal(decide(groups.snapshot).guard, "withdrawn");
  assert.deepEqual(annotationsOf(groups, "storage-1"), { "removal-held": null, suspend: null, "drained-at": null });
  groups.annotate("storage-1", { "removal-held": null, suspend: null, "drained-at": null });
  assert.deepEqual([decide(groups.snapshot).guard, decide(groups.snapshot).step], ["withdrawn", undefined]);
  groups.annotate("storage-1", { "suspend-state": null });
  assert.deepEqual(specStep(groups).heldGroups, {});
});

test("without a duration no further group is blocked, and blocked ones stay for an unknown time", () => {
  const groups = furnished("storage-1");
  groups.annotateCluster({ "suspend-duration": null });
  assert.deepEqual(annotationsOf(groups, "storage-1"), { "suspend-duration": null });
  groups.annotate("storage-1", { "suspend-duration": null });
  assert.equal(decide(groups.snapshot).guard, "duration-missing");
  groups.set("storage-2", { removalTimestamp: minutesAgo(1) });
  assert.equal(decide(groups.snapshot).step, undefined);
});

test("an unreadable duration is passed on unchanged, and no further group is blocked", () => {
  const groups = furnished();
  groups.annotateCluster({ "suspend-duration": "soon" });
  assert.deepEqual(annotationsOf(groups, "storage-1"), { "suspend-duration": "soon" });
  groups.furnish();
  groups.set("storage-2", { removalTimestamp: minutesAgo(1) });
  const { guard, step } = decide(groups.snapshot);
  assert.deepEqual([guard, step], ["duration-malformed", undefined]);
});

test("a duration of 0 blocks nothing", () => {
  const groups = new HeldGroups({ "suspend-duration": "0" });
  groups.furnish();
  groups.remove("storage-1");
  assert.deepEqual([decide(groups.snapshot).guard, decide(groups.snapshot).step], ["done", undefined]);
});

test("a record that Sluice cannot read stops everything", () => {
  const groups = furnished("storage-1");
  for (const text of [
    "x",
    "[]",
    '{"storage-1":{}}',
    '{"storage-1":{"since":"2026-01-01T00:00:00Z","recovering":"x"}}',
  ]) {
    groups.annotateCluster({ "held-process-groups": text });
    const { guard, step, events } = decide(groups.snapshot);
    assert.deepEqual([guard, step, events.length], ["record-malformed", undefined, 1], text);
  }
});

test("a group is not blocked if the operator has begun to delete it, if it does not fit, or during an uninstall, and each is reported", () => {
  const deleted = furnished();
  deleted.remove("storage-1");
  deleted.change("storage-1", { deletionTimestamp: minutesAgo(1) });
  assert.equal(decide(deleted.snapshot).guard, "removal-begun");
  const full = furnished();
  full.spec.buggify = { blockRemoval: Array.from({ length: 999 }, (_, index) => `log-${index}`) };
  full.remove("storage-1", "storage-2");
  assert.deepEqual(specStep(full).blocked.slice(-1), ["storage-1"]);
  const { events } = decide(full.snapshot);
  assert.deepEqual(
    events.map(({ id, guard }) => [id, guard]),
    [["storage-2", "block-list-full"]],
  );
  const ending = furnished();
  ending.remove("storage-1");
  ending.holds = false;
  assert.deepEqual([decide(ending.snapshot).guard, decide(ending.snapshot).step], ["uninstalling", undefined]);
});

test("nothing is written for a cluster that is being deleted", () => {
  const groups = furnished("storage-1");
  groups.metadata = { deletionTimestamp: minutesAgo(1) };
  const { guard, step } = decide(groups.snapshot);
  assert.deepEqual([guard, step], ["owner-deleting", undefined]);
});

test("a process group without a volume is not blocked", () => {
  const groups = furnished();
  groups.claims.delete("storage-1");
  groups.remove("storage-1");
  assert.equal(decide(groups.snapshot).guard, "done");
});
