/** Decisions about the protection of a FoundationDBCluster's volume claims, and about claims that a user has deleted. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type ClusterStep, decide } from "../../../../functions/hold-process-groups/decide.ts";
import { HeldGroups } from "../../../support/held-groups.ts";
import { minutesAgo } from "../../../support/suspended.ts";

const protection = "sluice.dev/volume-protection";
const ids = ["storage-1", "storage-2", "storage-3"];
const option = { "suspend-duration": "7d", "protect-volumes": "true" };

/** `add ID` or `drop ID` for each volume claim that the next step writes. */
function changesOf(groups: HeldGroups): readonly string[] {
  const { step } = decide(groups.snapshot);
  return step?.kind === "protect" ? step.changes.map(({ pvc, protection: how }) => `${how} ${pvc.group}`) : [];
}

/** What one volume claim gets, without prefixes. */
function annotationsOf(groups: HeldGroups, id: string): Readonly<Record<string, string | null>> {
  const { step } = decide(groups.snapshot);
  const [change] = step?.kind === "annotate" ? step.changes.filter(({ pvc }) => pvc.group === id) : [];
  return Object.fromEntries(
    Object.entries(change?.annotations ?? {}).map(([key, text]) => [key.replace("sluice.dev/", ""), text]),
  );
}

function guards(groups: HeldGroups): readonly string[] {
  return decide(groups.snapshot).events.map(({ guard }) => guard);
}

/** Every claim is protected, and names its owner. */
function protectedGroups(annotations: Readonly<Record<string, string | null>> = option): HeldGroups {
  const groups = new HeldGroups(annotations);
  groups.furnish();
  for (const id of ids) groups.change(id, { finalizers: [protection], labels: { "sluice.dev/protected": "true" } });
  return groups;
}

function deleted(groups: HeldGroups, id = "storage-1"): HeldGroups {
  groups.change(id, { deletionTimestamp: minutesAgo(1) });
  return groups;
}

/** The operator was faster: it has excluded the process, and deleted its pod and its volume claim. */
function outrun(groups: HeldGroups = protectedGroups(), id = "storage-1"): HeldGroups {
  groups.remove(id);
  groups.set(id, { exclusionTimestamp: minutesAgo(10) });
  groups.pods.delete(id);
  return deleted(groups, id);
}

/** The duration runs by our annotation, and nothing is left to write. */
function written(groups: HeldGroups, id = "storage-1"): HeldGroups {
  groups.annotate(id, {
    suspend: "true",
    "drained-at": minutesAgo(10),
    "suspend-state": "Suspended",
    "suspend-message": "suspended: it is gone",
  });
  return groups;
}

test("protecting: every volume claim of a cluster that asks gets our finalizer before anything else is done", () => {
  const groups = new HeldGroups(option);
  groups.remove("storage-1");
  assert.equal(decide(groups.snapshot).guard, "protecting");
  assert.deepEqual(
    changesOf(groups),
    ids.map((id) => `add ${id}`),
  );
  assert.deepEqual(changesOf(protectedGroups()), [], "and nothing is written again");
});

test("the option is a Go boolean; false, or a duration of 0, protects nothing; without a duration it protects, and reports what is missing", () => {
  for (const text of ["1", "t", "T", "TRUE", "true", "True"])
    assert.equal(changesOf(new HeldGroups({ ...option, "protect-volumes": text })).length, 3, text);
  for (const text of ["0", "f", "F", "FALSE", "false", "False"])
    assert.deepEqual(changesOf(new HeldGroups({ ...option, "protect-volumes": text })), [], text);
  assert.deepEqual(changesOf(new HeldGroups({ ...option, "suspend-duration": "0" })), []);
  assert.equal(changesOf(new HeldGroups({ "protect-volumes": "true" })).length, 3);
  const endless = protectedGroups({ "protect-volumes": "true" });
  assert.deepEqual([decide(endless.snapshot).guard, guards(endless)], ["duration-missing", ["duration-missing"]]);
});

test("protection-malformed: an option that Sluice cannot read is reported, and no volume claim gets or loses our finalizer", () => {
  const groups = protectedGroups({ ...option, "protect-volumes": "yes" });
  groups.change("storage-3", { finalizers: [], labels: {} });
  const { guard, step, events } = decide(groups.snapshot);
  assert.deepEqual([guard, step, events.length], ["protection-malformed", undefined, 1]);
  assert.match(events[0]?.message ?? "", /sluice.dev\/protect-volumes is "yes"; write a Go boolean/);
  assert.deepEqual(guards(new HeldGroups({ "protect-volumes": "yes" })), ["protection-malformed"]);
  outrun(groups);
  assert.deepEqual(
    guards(groups),
    ["removal-begun", "protection-malformed"],
    "beside what is reported of what was deleted",
  );
});

test("neither a volume claim of another owner, nor one that is being deleted or removed, gets our finalizer (I9)", () => {
  const groups = new HeldGroups(option);
  groups.change("storage-1", { ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: "x", uid: "uid-other" }] });
  groups.change("storage-2", { deletionTimestamp: minutesAgo(1) });
  groups.annotate("storage-3", { "suspend-state": "Removing" });
  assert.deepEqual(changesOf(groups), []);
  groups.change("storage-1", { ownerReferences: [] });
  assert.deepEqual(changesOf(groups), [], "nor one that has no owner");
});

test("a finalizer or its label that a user removed is set again", () => {
  const groups = protectedGroups();
  groups.change("storage-1", { labels: {} });
  groups.change("storage-2", { finalizers: [] });
  assert.deepEqual(changesOf(groups), ["add storage-1", "add storage-2"]);
});

test("releasing: without the option claims lose the finalizer, except suspended ones and those deleted before their time", () => {
  for (const text of [null, "false"]) {
    const groups = protectedGroups({ ...option, "protect-volumes": text });
    groups.annotate("storage-1", { "suspend-state": "Suspended" });
    deleted(groups, "storage-2");
    assert.equal(decide(groups.snapshot).guard, "releasing");
    assert.deepEqual(changesOf(groups), ["drop storage-3"]);
  }
  const groups = protectedGroups({ ...option, "protect-volumes": null });
  groups.change("storage-1", { finalizers: [protection, "sluice.dev/volume-hold"] });
  assert.deepEqual(
    changesOf(groups),
    ["drop storage-2", "drop storage-3"],
    "nor from one that is about to be suspended",
  );
  const ending = protectedGroups({ ...option, "protect-volumes": null });
  ending.metadata = { deletionTimestamp: minutesAgo(1) };
  assert.deepEqual(changesOf(ending), [], "nor from what goes with its cluster: it was to be taken back before that");
  const bare = protectedGroups({});
  assert.equal(changesOf(bare).length, 3, "also of a cluster that asks for nothing at all any more");
});

test("VOLUME_HOLD=remove takes the finalizer from every volume claim, even after its cluster is gone, except from deleted ones: gc-suspended-groups first keeps their volumes", () => {
  const groups = protectedGroups({ ...option, "protect-volumes": "yes" });
  groups.holds = false;
  assert.equal(changesOf(groups).length, 3);
  groups.isGone = true;
  assert.equal(changesOf(groups).length, 3);
  deleted(groups);
  assert.equal(changesOf(groups).length, 2);
  const bare = new HeldGroups(option);
  bare.holds = false;
  assert.deepEqual(changesOf(bare), []);
});

test("in a deleted namespace deleted claims lose the finalizer, except those with a user's hold", () => {
  const groups = new HeldGroups(option);
  groups.isNamespaceEnding = true;
  assert.deepEqual(changesOf(groups), [], "none gets it");
  const ending = protectedGroups();
  deleted(ending, "storage-1");
  deleted(ending, "storage-2").annotate("storage-2", { hold: "true" });
  ending.isNamespaceEnding = true;
  assert.deepEqual(changesOf(ending), ["drop storage-1"]);
  ending.isGone = true;
  assert.deepEqual(changesOf(ending), ["drop storage-1"]);
});

test("removal-begun: a claim that the operator deletes before our block is reported, kept, and suspended from its exclusion on", () => {
  const groups = outrun();
  assert.equal(changesOf(groups).length, 0);
  const { guard, step, events } = decide(groups.snapshot);
  assert.deepEqual([guard, step?.kind, events.map((one) => one.guard)], ["annotating", "annotate", ["removal-begun"]]);
  const { "drained-at": drainedAt, "suspend-message": message, ...rest } = annotationsOf(groups, "storage-1");
  assert.deepEqual(rest, { suspend: "true" });
  assert.equal(Date.parse(drainedAt ?? ""), Date.parse(minutesAgo(10)));
  assert.match(message ?? "", /^removal-begun: orders-storage-1-data was deleted before .*it has no PersistentVolume$/);
  const { step: none, guard: kept } = decide(written(outrun()).snapshot);
  assert.deepEqual([kept, none], ["removal-begun", undefined], "once its time runs nothing is written");
});

test("volume-not-retained is the message of gc-suspended-groups, which would write it again: it stays on kept claims", () => {
  const groups = outrun();
  groups.annotate("storage-1", { "suspend-message": "volume-not-retained: its PersistentVolume does not get Retain" });
  assert.equal(annotationsOf(groups, "storage-1")["suspend-message"], undefined);
  groups.annotate("storage-1", { "suspend-message": "claim-deleted: it was" });
  assert.match(annotationsOf(groups, "storage-1")["suspend-message"] ?? "", /^removal-begun: /);
});

test("the owner and the zone stay on a kept volume claim, because its ledger and its turn depend on them", () => {
  const groups = outrun();
  const { owner, zone } = annotationsOf(groups, "storage-1");
  assert.deepEqual([owner, zone], [undefined, undefined]);
});

test("the statement that a kept claim's data is not needed follows the operator's exclusion, also a skipped one", () => {
  const groups = outrun();
  groups.set("storage-1", { exclusionSkipped: true });
  groups.addPod("storage-1", 5);
  assert.ok(annotationsOf(groups, "storage-1")["drained-at"], "a user who asked for its removal so does not need it");
  groups.set("storage-1", { exclusionSkipped: undefined });
  assert.equal(annotationsOf(groups, "storage-1")["drained-at"], undefined, "a pod that is newer may have new data");
  const cancelled = written(outrun());
  cancelled.set("storage-1", { removalTimestamp: undefined });
  assert.deepEqual(annotationsOf(cancelled, "storage-1"), { "drained-at": null });
});

test("claim-deleted: a user's deletion of a claim whose process group must stay is reported, and no duration runs", () => {
  const groups = deleted(protectedGroups());
  const { events } = decide(groups.snapshot);
  assert.deepEqual(
    events.map(({ id, guard }) => [id, guard]),
    [["storage-1", "claim-deleted"]],
  );
  const { "suspend-message": message, ...rest } = annotationsOf(groups, "storage-1");
  assert.deepEqual(rest, {});
  assert.match(message ?? "", /^claim-deleted: another client has deleted orders-storage-1-data/);
});

test("a block of ours keeps no pod whose volume claim a user has deleted, except one that goes without an exclusion", () => {
  const groups = protectedGroups();
  groups.exclude("storage-1");
  deleted(groups);
  const { step } = decide(groups.snapshot);
  assert.deepEqual(step?.kind === "change-spec" ? step.blocked : undefined, []);
  groups.set("storage-1", { exclusionSkipped: true });
  assert.notEqual(decide(groups.snapshot).step?.kind, "change-spec");
  const removed = protectedGroups();
  removed.exclude("storage-1");
  deleted(removed).annotate("storage-1", { "suspend-state": "Removing" });
  assert.deepEqual([decide(removed.snapshot).guard, decide(removed.snapshot).step], ["removing", undefined]);
});

test("neither a suspension, nor a recover, nor its end touches the finalizer while the option is on", () => {
  for (const change of [
    (groups: HeldGroups) => groups.annotate("storage-1", { "suspend-state": "Suspended" }),
    (groups: HeldGroups) => groups.annotate("storage-1", { "suspend-state": "Suspended", recover: "true" }),
    (groups: HeldGroups) => groups.pods.delete("storage-1"),
  ]) {
    const groups = protectedGroups();
    groups.exclude("storage-1");
    change(groups);
    assert.deepEqual(changesOf(groups), []);
  }
  const back = protectedGroups();
  back.hold("storage-1", 2);
  const { step } = decide(back.snapshot);
  assert.deepEqual(step?.kind === "change-spec" ? step.blocked : undefined, [], "and our block does not wait for it");
});

test("owner-deleting, owner-gone: claims that go with their cluster are kept without an end, each says so, and nothing else is written", () => {
  for (const [guard, change] of [
    ["owner-deleting", (groups: HeldGroups) => (groups.metadata = { deletionTimestamp: minutesAgo(1) })],
    ["owner-gone", (groups: HeldGroups) => (groups.isGone = true)],
  ] as const) {
    const groups = outrun();
    groups.annotate("storage-1", { zone: null });
    change(groups);
    assert.equal(decide(groups.snapshot).guard, guard);
    assert.deepEqual(Object.keys(annotationsOf(groups, "storage-1")), ["suspend-message"]);
    groups.annotate("storage-1", { "suspend-message": `${guard}: x` });
    assert.deepEqual([decide(groups.snapshot).guard, decide(groups.snapshot).step], [guard, undefined]);
  }
  const bare = new HeldGroups(option);
  bare.metadata = { deletionTimestamp: minutesAgo(1) };
  assert.deepEqual([decide(bare.snapshot).guard, decide(bare.snapshot).step], ["done", undefined]);
  bare.isGone = true;
  assert.equal(decide(bare.snapshot).guard, "done");
});

test("claims that an earlier cluster of the same name has left are reported as such, and not written", () => {
  const groups = deleted(protectedGroups());
  groups.change("storage-1", {
    ownerReferences: [{ apiVersion: "v1", kind: "FoundationDBCluster", name: "orders", uid: "uid-before" }],
  });
  groups.annotate("storage-1", { owner: null });
  const { guard, step, events } = decide(groups.snapshot);
  assert.deepEqual([guard, step, events.map((one) => one.guard)], ["owner-gone", undefined, ["owner-gone"]]);
});

test("if the API server refuses our finalizer, removals are still blocked", () => {
  const groups = new HeldGroups(option);
  groups.furnish();
  groups.remove("storage-1");
  const { step } = decide({ ...groups.snapshot, isProtectionRefused: true });
  assert.equal((step as ClusterStep).kind, "change-spec");
});
