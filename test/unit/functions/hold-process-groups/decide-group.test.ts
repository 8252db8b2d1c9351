/** The decision about one process group, by its record, its volume claims and its pod alone. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  type Case,
  decideGroup,
  type GroupConditions,
  isDrained,
  keptSinceMs,
} from "../../../../functions/hold-process-groups/decide-group.ts";
import type {
  GroupPod,
  ProcessGroup,
  ProcessGroupPvc,
} from "../../../../functions/hold-process-groups/foundation-cluster.ts";

const nowMs = 1_000_000_000;
const absent = { kind: "absent" } as const;
const value = <T>(given: T) => ({ kind: "value", value: given }) as const;

/** The operator lists it, and nothing of a removal is in its status. */
const group: ProcessGroup = {
  ...{ id: "storage-1", isMarked: false, excludedMs: undefined, isExclusionSkipped: false, isTerminating: false },
  ...{ faultDomain: undefined, addresses: [] },
};
const excluded: ProcessGroup = { ...group, isMarked: true, excludedMs: nowMs - 60_000 };

/** A volume claim of which nothing is asked, and that has nothing of ours. */
function pvc(changes: object = {}): ProcessGroupPvc {
  const nothing = { state: absent, request: absent, recover: absent, drainedMs: undefined, hasOurFinalizer: false };
  const plain = { isTerminating: false, isProtected: false, volumeName: "pv-1", message: undefined };
  return { name: "storage-1-data", group: "storage-1", ...nothing, ...plain, ...changes } as unknown as ProcessGroupPvc;
}
const kept = (changes: object = {}) => pvc({ isTerminating: true, isProtected: true, ...changes });
const removing = { state: value("Removing") };

const pod = (changes: Partial<GroupPod> = {}) =>
  ({ name: "storage-1", isReady: true, isTerminating: false, createdMs: nowMs - 90_000, ...changes }) as GroupPod;

const blocked: Partial<Case> = { heldGroup: { sinceMs: nowMs - 600_000 }, isBlocked: true };
const around: GroupConditions = { nowMs, durationMs: 3_600_000, keepsVolumes: true, unfound: undefined };

function caseOf(changes: Partial<Case> = {}): Case {
  const lists = { isBlocked: false, isListed: false, isListedUnexcluded: false };
  return { id: "storage-1", group, pvcs: [pvc()], pod: pod(), heldGroup: undefined, ...lists, ...changes };
}

/** Guard, step and whether a user learns of it, such as `removal-begun let-go !`. */
function decided(changes: Partial<Case> = {}, conditions: Partial<GroupConditions> = {}): string | undefined {
  const found = decideGroup(caseOf(changes), { ...around, ...conditions });
  return found && [found.guard, found.step ?? "", found.isReported ? "!" : ""].filter(Boolean).join(" ");
}
const messageOf = (changes: Partial<Case>) => decideGroup(caseOf(changes), around)?.message ?? "";

describe("a process group that is not blocked by us", () => {
  test("gets our block where a mark or a list wants it gone, and nothing where none does or nothing is to be kept", () => {
    assert.equal(decided(), undefined);
    for (const wanted of [{ group: excluded }, { isListed: true }])
      assert.equal(decided(wanted), "holding hold", JSON.stringify(Object.keys(wanted)));
    assert.equal(decided({ isListed: true }, { durationMs: 0 }), undefined);
    assert.equal(decided({ isListed: true }, { durationMs: undefined }), undefined);
    assert.equal(decided({ isListed: true, isBlocked: true }), "blocked-by-user !");
    assert.equal(decided({ isListed: true }, { keepsVolumes: false }), "uninstalling");
    assert.equal(decided({ isListed: true, pvcs: [] }), undefined);
    assert.equal(decided({ isListed: true, pvcs: [] }, { unfound: "a label" }), "holding hold");
  });

  test("goes at once, and a user learns of it, without an exclusion or where each volume claim is deleted", () => {
    assert.equal(decided({ isListedUnexcluded: true }), "exclusion-skipped !");
    assert.equal(decided({ group: { ...excluded, isExclusionSkipped: true } }), "exclusion-skipped !");
    const deleted = pvc({ isTerminating: true });
    assert.equal(decided({ isListed: true, pvcs: [deleted] }), "removal-begun !");
    assert.equal(decided({ isListed: true, pvcs: [deleted, pvc()] }), "holding hold");
  });

  test("is reported where our protection alone keeps each of its volume claims, unless each is being removed", () => {
    assert.equal(decided({ pvcs: [kept()] }), "claim-deleted !");
    assert.equal(decided({ pvcs: [kept()], isListed: true }), "removal-begun !");
    assert.equal(decided({ pvcs: [kept(), pvc()] }), undefined);
    assert.equal(decided({ pvcs: [kept(removing)] }), "removing");
    assert.equal(decided({ pvcs: [kept(removing), kept()] }), "claim-deleted !");
  });
});

describe("a process group that is blocked by us", () => {
  const blockedCase = (changes: Partial<Case> = {}, conditions: Partial<GroupConditions> = {}) =>
    decided({ ...blocked, ...changes }, conditions);

  test("is let go where its volume is gone, and stays where one may be there that was not found", () => {
    assert.equal(blockedCase({ pvcs: [] }), "letting-go let-go");
    const unfound = { unfound: "a label" };
    const gone = { pvcs: [], isListed: true };
    assert.equal(blockedCase(gone, unfound), "volume-unfound !");
    assert.equal(blockedCase({ ...gone, isBlocked: false }, unfound), "volume-unfound hold !");
    assert.equal(blockedCase({ pvcs: [] }, unfound), "letting-go let-go", "it is not to go any more");
    assert.equal(
      blockedCase({ pvcs: [], group: undefined }, unfound),
      "volume-unfound !",
      "the operator does not list it",
    );
    assert.equal(blockedCase({ isListed: true, group: excluded }, unfound), "held", "its volume was found");
  });

  test("loses our block where its volume claims cannot come back, unless it goes without an exclusion", () => {
    assert.equal(blockedCase({ pvcs: [kept()], isListed: true }), "claim-deleted let-go !");
    assert.equal(blockedCase({ pvcs: [kept()], isListedUnexcluded: true }), "claim-deleted !");
    assert.equal(blockedCase({ pvcs: [kept()], group: { ...group, isExclusionSkipped: true } }), "claim-deleted !");
    assert.equal(blockedCase({ pvcs: [kept(removing)] }), "removing");
  });

  test("is left alone while any of its volume claims is removed or deleted, and comes back where a user wants any of them", () => {
    for (const changes of [removing, { isTerminating: true }])
      assert.equal(blockedCase({ group: excluded, pvcs: [pvc(), pvc(changes)] }), "removing");
    assert.equal(blockedCase({ group: excluded, pvcs: [pvc(), pvc({ recover: value(true) })] }), "recovering unlist");
  });

  test("gets a lost block again, and stays while the operator does not list it", () => {
    assert.equal(blockedCase({ isListed: true, isBlocked: false }), "holding hold");
    assert.equal(blockedCase({ group: undefined }), "group-unlisted");
  });

  test("waits until the database has moved its data, and until no newer pod may have got new data", () => {
    assert.equal(blockedCase({ group: { ...group, isMarked: true } }), "not-excluded");
    assert.equal(blockedCase({ group: excluded }), "held");
    const newer = pod({ createdMs: nowMs - 59_999 });
    assert.equal(blockedCase({ group: excluded, pod: newer }), "pod-newer !");
    assert.equal(blockedCase({ group: excluded, pod: pod({ createdMs: nowMs - 60_000 }) }), "held");
    assert.equal(blockedCase({ group: excluded, pod: undefined }), "held");
    for (const changes of [{ group: { ...excluded, isExclusionSkipped: true } }, { isListedUnexcluded: true }]) {
      assert.equal(blockedCase({ group: excluded, ...changes }), "exclusion-skipped !");
      assert.equal(blockedCase({ group: excluded, ...changes }, { durationMs: 0 }), "letting-go let-go");
    }
  });

  test("says what its first volume claim waits for", () => {
    const waiting = (text: string) => pvc({ message: { guard: "zones-down", text } });
    const waits = { ...blocked, group: excluded };
    assert.match(messageOf({ ...waits, pvcs: [waiting("one"), waiting("two")] }), /^storage-1 is held back: one$/);
    assert.match(messageOf({ ...waits, pvcs: [pvc(), waiting("two")] }), /: two$/);
    assert.match(messageOf(waits), /^storage-1 is held back$/);
  });

  test("withdraws what it asks of any volume claim, waits until nothing of ours is left, and is then let go", () => {
    for (const asked of [{ request: value(true) }, { drainedMs: nowMs }])
      assert.equal(blockedCase({ pvcs: [pvc(), pvc(asked)] }), "withdrawn withdraw");
    for (const ours of [{ state: value("Suspended") }, { hasOurFinalizer: true }])
      assert.equal(blockedCase({ pvcs: [pvc(), pvc(ours)] }), "withdrawn");
    assert.equal(blockedCase({ pvcs: [pvc({ request: value(false) })] }), "letting-go let-go");
  });
});

describe("a process group that is wanted back", () => {
  const back = (sinceMs: number | undefined, changes: Partial<Case> = {}) => {
    const recovering = sinceMs === undefined ? {} : { recoveringMs: nowMs - sinceMs };
    const pvcs = [pvc(sinceMs === undefined ? { recover: value(true) } : {})];
    const heldGroup = { sinceMs: nowMs - 600_000, ...recovering };
    return decided({ ...blocked, heldGroup, pvcs, ...changes });
  };
  const dirty = [{ isMarked: true }, { excludedMs: 1 }, { isExclusionSkipped: true }, { isTerminating: true }];

  test("goes from both lists first, keeps its block, and its record says since when", () => {
    assert.equal(back(undefined), "recovering unlist");
    assert.equal(back(undefined, { group: { ...group, isMarked: true } }), "recovering unlist");
    for (const listed of [{ isListed: true }, { isListedUnexcluded: true }, { isBlocked: false }])
      assert.equal(back(60_000, listed), "recovering unlist");
  });

  test("is cleared in the operator's status, and again under a new time where that was overwritten, after 5 s", () => {
    for (const status of dirty) {
      const changes = { group: { ...group, ...status } };
      assert.equal(back(4_999, changes), "recovering clear", JSON.stringify(status));
      assert.equal(back(5_000, changes), "recovering unlist", JSON.stringify(status));
    }
    assert.equal(back(4_999, { group: undefined }), "recovering");
  });

  test("is let go half a minute later, once its pod is ready and no volume claim has anything of ours", () => {
    assert.equal(back(29_999), "recovering");
    assert.equal(back(30_000), "letting-go let-go");
    for (const changes of [{ isReady: false }, { isTerminating: true }])
      assert.equal(back(60_000, { pod: pod(changes) }), "recovering");
    assert.equal(back(60_000, { pod: undefined }), "recovering");
    for (const ours of [{ state: value("Suspended") }, { hasOurFinalizer: true }, { recover: value(true) }])
      assert.equal(back(60_000, { pvcs: [pvc(), pvc(ours)] }), "recovering");
  });
});

test("data is not needed once a marked process group is excluded by its move, or was told to go all the same", () => {
  const since = (changes: Partial<ProcessGroup>, more: Partial<Case> = {}) =>
    keptSinceMs(caseOf({ group: { ...excluded, ...changes }, ...more }));
  assert.equal(since({}), excluded.excludedMs);
  assert.equal(since({ isExclusionSkipped: true }), excluded.excludedMs);
  assert.equal(since({ isMarked: false }), undefined);
  assert.equal(since({ isMarked: false, isExclusionSkipped: true }), undefined);
  assert.equal(since({ excludedMs: undefined }), undefined);
  assert.equal(since({}, { pod: pod({ createdMs: nowMs }) }), undefined);
  assert.equal(keptSinceMs(caseOf({ group: undefined })), undefined);
  assert.equal(isDrained(caseOf({ group: excluded, isListedUnexcluded: true })), false);
});
