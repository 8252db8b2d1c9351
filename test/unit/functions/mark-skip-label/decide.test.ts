/** Decisions about an owner: whether its pods get or lose labels, when it is let go, and when Sluice reconciles it again. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import {
  decide,
  mayNotSee,
  needsMembers,
  type OwnerSnapshot,
  type ReleasedOwner,
  type ReleasedPod,
} from "../../../../functions/mark-skip-label/decide.ts";
import type { SkipLabel, SkipStatus } from "../../../../functions/shared/annotations/skip-labels.ts";
import { formatTime } from "../../../../functions/shared/clock/durations.ts";

/** The API server's clock at the deletion of the owner. */
const deletedMs = Date.parse("2026-01-31T12:00:00Z");
const [waitMs, deadlineMs] = [90_000, 300_000];
const label: SkipLabel = { key: "skipPreStopChecks", value: undefined };

/** A pod that runs, and whose label came so long ago that its stop hook lets go. */
function pod(name: string, changes: Partial<ReleasedPod> = {}): ReleasedPod {
  const found = { name, uid: `uid of ${name}`, resourceVersion: "1", isTerminating: false, mayRun: true };
  const labelled = { hasLabel: true, ourKey: label.key, labelledMs: deletedMs - 3_600_000, hasSeen: false };
  return { ...found, ...labelled, taken: undefined, refusal: undefined, ...changes };
}

const unlabelled: Partial<ReleasedPod> = { hasLabel: false, ourKey: undefined, labelledMs: undefined };

/** An owner with our finalizer that asks for a label, and is being deleted. */
function ownerOf(changes: Partial<ReleasedOwner> = {}): ReleasedOwner {
  const asks = { label, malformed: undefined, isStopping: false, isOrphaning: false, deadlineMs, status: undefined };
  return { shown: "RabbitmqCluster orders", deletedMs, hasOurFinalizer: true, ...asks, ...changes };
}

/** The changes that make an owner's pods stop, though it is not being deleted. */
const stopping: Partial<ReleasedOwner> = { deletedMs: undefined, isStopping: true };
/** The same for an owner that stays with its pods. */
const living: Partial<ReleasedOwner> = { deletedMs: undefined, isStopping: false };
const asksNothing: Partial<ReleasedOwner> = { label: undefined };
const unreadable: Partial<ReleasedOwner> = { label: undefined, malformed: "it cannot be read" };

function statusOf(guard: string, sinceMs = deletedMs): SkipStatus {
  return { guard, message: "as it was", label: label.key, sinceMs };
}

/** Guard, step, requeue and whether it is reported; and the message. `changes`: of the snapshot. */
function verdictOf(
  owner: Partial<ReleasedOwner>,
  members: readonly ReleasedPod[] = [],
  changes: Partial<OwnerSnapshot> = {},
) {
  const seen = { nowMs: deletedMs, isNamespaceEnding: false, keepsFinalizers: true, waitMs };
  const verdict = decide({ ...seen, members, owner: ownerOf(owner), ...changes });
  const { step } = verdict;
  const names = step !== undefined && "members" in step ? step.members.map(({ name }) => name) : [];
  return { ...verdict, step: step?.kind, names };
}

suite("whose pods are read", () => {
  test("Sluice reads an owner's pods where they are let go by a label, or where its status shows that they were", () => {
    const cases: readonly (readonly [Partial<ReleasedOwner>, boolean, boolean])[] = [
      [{}, false, true],
      [unreadable, false, true],
      [asksNothing, false, false],
      [{ isOrphaning: true }, false, false],
      [{ isOrphaning: true, ...asksNothing }, false, false],
      [stopping, false, true],
      [living, true, true],
      [living, false, false],
      [{ ...living, status: statusOf("stopping") }, false, true],
      [{ ...living, ...asksNothing, status: statusOf("stopping") }, false, true],
    ];
    for (const [changes, isNamespaceEnding, expected] of cases) {
      assert.equal(needsMembers(ownerOf(changes), isNamespaceEnding), expected, JSON.stringify(changes));
    }
  });
});

suite("owners whose pods get no label", () => {
  const bare = [pod("a-0", unlabelled)];

  test("Sluice labels no pod of an owner that is orphaning its pods or asks for no label, and takes its finalizer off", () => {
    for (const changes of [{ isOrphaning: true }, asksNothing]) {
      const { guard, step, isReported } = verdictOf(changes, bare);
      assert.deepEqual([guard, step, isReported], ["released", "remove-finalizer", false]);
    }
  });

  test("Sluice reconciles a deleted owner without our finalizer again after 5 s, and one that stays only at an event", () => {
    const without = { ...asksNothing, hasOurFinalizer: false };
    const { guard, step, requeueAfterMs } = verdictOf(without, bare);
    assert.deepEqual([guard, step, requeueAfterMs], ["done", undefined, 5_000]);
    const ending = verdictOf({ ...without, ...living }, bare, { isNamespaceEnding: true });
    assert.deepEqual([ending.guard, ending.step, ending.requeueAfterMs], ["done", undefined, undefined]);
  });
});

suite("labels that are withdrawn", () => {
  test("Sluice takes its labels off pods that stay, off no pod that is terminating, and no label of another client", () => {
    const pods = [pod("a-0"), pod("a-1", { isTerminating: true }), pod("a-2", { ourKey: undefined })];
    const { guard, step, names, isReported } = verdictOf({ ...living, status: statusOf("stopping") }, pods);
    assert.deepEqual([guard, step, names, isReported], ["labels-withdrawn", "unlabel", ["a-0"], true]);
    const ended = verdictOf({ ...living, status: statusOf("labels-withdrawn") }, pods.slice(1));
    assert.deepEqual([ended.step, ended.requeueAfterMs], [undefined, 2_000]);
  });

  test("Sluice removes the status 60 s after the withdrawal, and never one that shows another guard", () => {
    const stepAfter = (guard: string, ms: number) => {
      const verdict = verdictOf({ ...living, status: statusOf(guard) }, [], { nowMs: deletedMs + ms });
      assert.deepEqual([verdict.guard, verdict.isReported], ["labels-withdrawn", true]);
      return verdict.step;
    };
    assert.equal(stepAfter("labels-withdrawn", 59_999), undefined);
    assert.equal(stepAfter("labels-withdrawn", 60_000), "remove-status");
    assert.equal(stepAfter("stopping", 3_600_000), undefined);
  });

  test("Sluice adds or removes its finalizer while the withdrawal still waits", () => {
    const status = statusOf("labels-withdrawn");
    const stepFor = (changes: Partial<ReleasedOwner>) => verdictOf({ ...living, status, ...changes }).step;
    assert.equal(stepFor({ hasOurFinalizer: false }), "add-finalizer");
    assert.equal(stepFor(asksNothing), "remove-finalizer");
    assert.equal(stepFor({}), undefined);
  });
});

suite("labels that are given", () => {
  test("Sluice gives a deleted owner's pods the label or the time that they lack, and a stopping owner's pods only the label", () => {
    const pods = [pod("a-0", unlabelled), pod("a-1", { labelledMs: undefined }), pod("a-2")];
    assert.deepEqual(verdictOf({}, pods).names, ["a-0", "a-1"]);
    assert.deepEqual(verdictOf(stopping, pods).names, ["a-0"]);
    const { guard, requeueAfterMs } = verdictOf(stopping, pods.slice(1));
    assert.deepEqual([guard, requeueAfterMs], ["stopping", 2_000]);
  });

  test("before its first label Sluice writes the status of an owner that may stay, and not again while pods are let go", () => {
    const isReported = (changes: Partial<ReleasedOwner>) => {
      const verdict = verdictOf(changes, [pod("a-0", unlabelled)]);
      assert.equal(verdict.guard, "labelling");
      return verdict.isReported;
    };
    assert.equal(isReported(stopping), true);
    assert.equal(isReported({ ...stopping, status: statusOf("labels-withdrawn") }), true);
    assert.equal(isReported({ ...stopping, status: statusOf("stopping") }), false);
    assert.equal(isReported({}), false);
  });

  test("a verdict names at most five pods, in their order, and counts the others", () => {
    const pods = [6, 2, 4, 1, 5, 3].map((ordinal) => pod(`a-${ordinal}`, unlabelled));
    assert.match(verdictOf({}, pods).message, /^a-1, a-2, a-3, a-4, a-5 and 1 more of /);
    assert.match(verdictOf({}, pods.slice(1)).message, /^a-1, a-2, a-3, a-4, a-5 of /);
    assert.match(verdictOf({}, pods.slice(1, 3)).message, /^a-2, a-4 of /);
  });
});

suite("obstacles", () => {
  test("a malformed label keeps a deleted owner as long as one pod lives, and no longer", () => {
    const { guard, isReported, requeueAfterMs } = verdictOf(unreadable, [pod("a-0", unlabelled)]);
    assert.deepEqual([guard, isReported, requeueAfterMs], ["skip-label-malformed", true, 2_000]);
    for (const pods of [[], [pod("a-0", { isTerminating: true })]]) {
      assert.equal(verdictOf(unreadable, pods).guard, "released");
    }
  });

  test("Sluice says that a key is taken only of a pod without the label, and otherwise that its write was refused", () => {
    const [refusal, taken] = ["a webhook refuses it", "another client has the key"];
    const guardFor = (changes: Partial<ReleasedPod>) => verdictOf({}, [pod("a-0", changes)]).guard;
    assert.equal(guardFor({ ...unlabelled, taken }), "label-taken");
    assert.equal(guardFor({ labelledMs: undefined, taken, refusal }), "label-refused");
    assert.equal(guardFor({ ...unlabelled, refusal }), "label-refused");
  });

  test("a stop hook may miss its label for the whole wait, unless its container never ran or a marker was read in it", () => {
    const now = { labelledMs: deletedMs };
    const cases: readonly (readonly [Partial<ReleasedPod>, number, boolean])[] = [
      [now, waitMs - 1, true],
      [now, waitMs, false],
      [{ labelledMs: undefined }, 0, true],
      [{ ...now, mayRun: false }, 0, false],
      [{ ...now, hasSeen: true }, 0, false],
    ];
    for (const [changes, ms, expected] of cases) {
      assert.equal(mayNotSee(pod("a-0", changes), deletedMs + ms, waitMs), expected, JSON.stringify(changes));
      const { guard } = verdictOf(stopping, [pod("a-0", changes)], { nowMs: deletedMs + ms });
      assert.equal(guard, "stopping", "it may stop all the same");
    }
  });

  test("Sluice announces the release for the end of the wait of the pod that was labelled last", () => {
    const pods = [pod("a-1", { labelledMs: deletedMs + 20_000 }), pod("a-0", { labelledMs: deletedMs + 10_000 })];
    const { guard, message } = verdictOf({}, pods, { nowMs: deletedMs + 20_000 });
    assert.equal(guard, "marker-unseen");
    assert.ok(message.startsWith("a-0, a-1 "), message);
    assert.ok(message.includes(formatTime(deletedMs + 20_000 + waitMs)), message);
  });
});

suite("the release", () => {
  test("the verdict counts the pods that have the label", () => {
    const counts = [/^no pod /, /^the one pod /, /^all 2 pods /, /^all 3 pods /];
    for (const [count, expected] of counts.entries()) {
      const pods = Array.from({ length: count }, (_, ordinal) => pod(`a-${ordinal}`));
      const { guard, step, message } = verdictOf({}, pods);
      assert.deepEqual([guard, step], ["released", "remove-finalizer"]);
      assert.match(message, expected);
    }
  });

  /** Milliseconds from the deletion to the first verdict that lets the owner go all the same. */
  function assertDeadline(afterMs: number, members: readonly ReleasedPod[]): void {
    const guardAt = (ms: number) => verdictOf({}, members, { nowMs: deletedMs + ms }).guard;
    assert.notEqual(guardAt(afterMs - 1), "deadline-passed");
    assert.equal(guardAt(afterMs), "deadline-passed");
  }

  test("Sluice lets an owner go at its deadline, or once the pod that was labelled first has had its wait", () => {
    const after = (ms: number) => ({ labelledMs: deletedMs + ms });
    const refused = pod("a-9", { ...unlabelled, refusal: "a webhook refuses it" });
    assertDeadline(deadlineMs, [refused]);
    assertDeadline(deadlineMs, [refused, pod("a-0", after(100_000))]);
    assertDeadline(250_000 + waitMs, [pod("a-0", after(300_000)), pod("a-1", after(250_000))]);
    // However often pods are replaced.
    assertDeadline(2 * deadlineMs + waitMs, [pod("a-0", after(2 * deadlineMs + 10_000))]);
  });

  test("after the deadline Sluice first writes what was not done, and takes its finalizer off in the next round", () => {
    const refused = [pod("a-9", { ...unlabelled, refusal: "a webhook refuses it" })];
    const past = { nowMs: deletedMs + deadlineMs };
    const first = verdictOf({}, refused, past);
    assert.deepEqual([first.step, first.isReported, first.requeueAfterMs], [undefined, true, 2_000]);
    const { guard, step } = verdictOf({ status: statusOf("deadline-passed") }, refused, past);
    assert.deepEqual([guard, step], ["deadline-passed", "remove-finalizer"]);
  });
});
