/**
 * The decision about one process group that is to be removed, or that Sluice blocks (spec suspend-before-delete 3.5, F1). Pure.
 */
import type { HeldGroup } from "../shared/annotations/foundationdb.ts";
import { valueIn } from "../shared/volumes/pvc.ts";
import { describeKept, isKept } from "./decide-protection.ts";
import type { GroupPod, ProcessGroup, ProcessGroupPvc } from "./foundation-cluster.ts";

/** One process group, with everything that is known about it. */
export interface Case {
  readonly id: string;
  /** Undefined where the operator does not list it. */
  readonly group: ProcessGroup | undefined;
  readonly pvcs: readonly ProcessGroupPvc[];
  readonly pod: GroupPod | undefined;
  /** Undefined where it is not held back by us. */
  readonly heldGroup: HeldGroup | undefined;
  /** True where it is in the list of blocks, whether Sluice or a user wrote that. */
  readonly isBlocked: boolean;
  readonly isListed: boolean;
  /** It is on the list of those that go though their data is on them alone. */
  readonly isListedUnexcluded: boolean;
}

/** What is the same for all process groups of one observation. */
export interface GroupConditions {
  readonly nowMs: number;
  /** How long a volume is kept, in milliseconds; undefined where that is missing or malformed. */
  readonly durationMs: number | undefined;
  /** False: no volume is suspended, as before an uninstall. */
  readonly keepsVolumes: boolean;
  /** Why a volume may be there that was not found, with what to do, for people; undefined where all were found. */
  readonly unfound: string | undefined;
}

/**
 * `hold`: it is blocked, and recorded as ours. `unlist`: it is to come back, so that both lists lose its id. `clear`: the
 * operator forgets that it was to go. `let-go`: our block is lifted. `withdraw`: its volume claims ask for nothing any more.
 */
export interface GroupDecision {
  readonly step?: "hold" | "unlist" | "clear" | "let-go" | "withdraw";
  readonly guard: string;
  readonly message: string;
  /** True where a user has to do something, or would be surprised. */
  readonly isReported?: true;
}

/**
 * The operator may write a status that it read before Sluice changed it. For this long Sluice reads its own again, in
 * milliseconds.
 */
const settleMs = 30_000;
/** A status that was overwritten is changed again under a new time, but not more often than this, in milliseconds. */
const restampMs = 5_000;

function letGo(message: string): GroupDecision {
  return { step: "let-go", guard: "letting-go", message };
}

/** Undefined for a process group that is neither listed nor marked for its removal, and that Sluice does not block. */
export function decideGroup(one: Case, around: GroupConditions): GroupDecision | undefined {
  return one.heldGroup === undefined ? decideFree(one, around) : decideHeldGroup(one, one.heldGroup, around);
}

function isWantedGone({ group, isListed, isListedUnexcluded }: Case): boolean {
  return group?.isMarked === true || isListed || isListedUnexcluded;
}

/** The decision if all its volume claims are deleted and only our protection keeps them. */
function decideKept(one: Case): GroupDecision | undefined {
  const { id, pvcs, heldGroup } = one;
  const [first] = pvcs;
  if (first === undefined || !pvcs.every(isKept)) return undefined;
  if (pvcs.every(({ state }) => valueIn(state) === "Removing"))
    return { guard: "removing", message: `the volume of ${id} is being removed` };
  const isFaster = isWantedGone(one) && heldGroup === undefined;
  return { ...describeKept(id, first, isFaster ? "removal-begun" : "claim-deleted"), isReported: true };
}

/**
 * Since when the data is not needed of volume claims that our protection alone holds, in milliseconds since the epoch: the
 * operator has excluded the process, or was told to remove it all the same. Undefined where it is not marked for its removal.
 */
export function keptSinceMs(one: Case): number | undefined {
  const { group } = one;
  if (group?.excludedMs === undefined || !group.isMarked) return undefined;
  return group.isExclusionSkipped || isDrained(one) ? group.excludedMs : undefined;
}

/**
 * Such a volume claim cannot come back, so that our block keeps a pod alone, which no function here would let go. One that is
 * removed without an exclusion keeps it: its data may be nowhere else.
 */
function isBlockOver({ group, isListedUnexcluded }: Case, { isReported }: GroupDecision): boolean {
  return isReported === true && !isListedUnexcluded && group?.isExclusionSkipped !== true;
}

function decideFree(one: Case, { durationMs, keepsVolumes, unfound }: GroupConditions): GroupDecision | undefined {
  const { id, group, pvcs, isBlocked, isListedUnexcluded } = one;
  const kept = decideKept(one);
  if (kept !== undefined) return kept;
  if (!isWantedGone(one) || durationMs === undefined || durationMs === 0) return undefined;
  // Without a volume there is nothing to keep, but a volume may exist that was not found.
  if (pvcs.length === 0 && unfound === undefined) return undefined;
  if (isBlocked) {
    const message = `${id} stays: a user has blocked its removal, and that is not ours to lift`;
    return { guard: "blocked-by-user", message, isReported: true };
  }
  if (isListedUnexcluded || group?.isExclusionSkipped === true) {
    const message = `${id} goes at once: its removal without an exclusion was asked for, and the operator leaves no time in between`;
    return { guard: "exclusion-skipped", message, isReported: true };
  }
  if (pvcs.length > 0 && pvcs.every(({ isTerminating }) => isTerminating)) {
    const message = `${id} goes: its volume was deleted before its removal could be held back; save its PersistentVolume`;
    return { guard: "removal-begun", message, isReported: true };
  }
  if (!keepsVolumes) return { guard: "uninstalling", message: `${id} is not held back: VOLUME_HOLD is remove` };
  return { step: "hold", guard: "holding", message: `${id} is to go: its volume is held back first` };
}

function decideHeldGroup(one: Case, heldGroup: HeldGroup, around: GroupConditions): GroupDecision {
  const { id, group, pvcs, isBlocked } = one;
  if (pvcs.length === 0 && around.unfound !== undefined) return decideUnfound(one, around.unfound);
  if (pvcs.length === 0) return letGo(`the volume of ${id} is gone: its removal is let go`);
  const kept = decideKept(one);
  if (kept !== undefined) return isBlockOver(one, kept) ? { ...kept, step: "let-go" } : kept;
  if (pvcs.some(({ state, isTerminating }) => valueIn(state) === "Removing" || isTerminating))
    return { guard: "removing", message: `the volume of ${id} is being removed` };
  if (heldGroup.recoveringMs !== undefined || pvcs.some(({ recover }) => valueIn(recover) === true))
    return decideReturning(one, heldGroup, around);
  if (!isWantedGone(one)) return group === undefined ? decideUnlisted(one) : decideWithdrawn(one);
  if (!isBlocked)
    return {
      step: "hold",
      guard: "holding",
      message: `${id} lost our block while its volume is kept: it gets it again`,
    };
  return decideLeaving(one, around);
}

/** A volume that was not found may still exist, so that its block stays unless neither a list nor a mark names it. */
function decideUnfound(one: Case, unfound: string): GroupDecision {
  const { id, group, isBlocked } = one;
  if (!isWantedGone(one) && group !== undefined)
    return letGo(`${id} is not to be removed any more: our block is lifted`);
  const message = `${id} stays: no volume claim of it was found, and one may be there: ${unfound}`;
  return { ...(isBlocked ? {} : { step: "hold" as const }), guard: "volume-unfound", message, isReported: true };
}

/** Spec 3.5, recover under F1: the block stays, both lists and the status are cleared, and the pod is waited for. */
function decideReturning(one: Case, { recoveringMs }: HeldGroup, { nowMs }: GroupConditions): GroupDecision {
  const { id, group, pvcs, pod, isBlocked, isListed, isListedUnexcluded } = one;
  const sinceMs = recoveringMs ?? nowMs;
  const isUndone = isDirty(group) && nowMs - sinceMs >= restampMs;
  if (recoveringMs === undefined || isListed || isListedUnexcluded || !isBlocked || isUndone)
    return {
      step: "unlist",
      guard: "recovering",
      message: `${id} is wanted back: it goes from the lists of removals`,
    };
  if (isDirty(group))
    return { step: "clear", guard: "recovering", message: `${id} is wanted back: the operator forgets its removal` };
  const isBack = pod?.isReady === true && !pod.isTerminating;
  const isOurs = pvcs.some(
    ({ state, hasOurFinalizer, recover }) => state.kind !== "absent" || hasOurFinalizer || recover.kind !== "absent",
  );
  if (!isBack || isOurs) return { guard: "recovering", message: `${id} is wanted back, and its pod is not ready yet` };
  if (nowMs - sinceMs < settleMs)
    return { guard: "recovering", message: `${id} is back; its block stays while the operator may undo that` };
  return letGo(`${id} is back with the same volume: our block is lifted`);
}

/**
 * Something of a removal is left in its status. Each part of it would cause another removal, and one of them without moving its
 * data.
 */
function isDirty(group: ProcessGroup | undefined): boolean {
  if (group === undefined) return false;
  return group.isMarked || group.excludedMs !== undefined || group.isExclusionSkipped || group.isTerminating;
}

/** A status that is written anew says nothing of it for a while: it may say again that it is to go, and that it is excluded. */
function decideUnlisted({ id }: Case): GroupDecision {
  const message = `the operator does not list ${id}, whose volume is there: its block stays until it does`;
  return { guard: "group-unlisted", message };
}

/** It is no longer to be removed. Our block goes when nothing of a suspension is left on its volume claims. */
function decideWithdrawn({ id, pvcs }: Case): GroupDecision {
  const isAsked = pvcs.some(({ request, drainedMs }) => valueIn(request) === true || drainedMs !== undefined);
  if (isAsked) return { step: "withdraw", guard: "withdrawn", message: `${id} is not to be removed any more` };
  if (pvcs.some(({ state, hasOurFinalizer }) => state.kind !== "absent" || hasOurFinalizer))
    return { guard: "withdrawn", message: `${id} is not to be removed any more, and its pod is to come back` };
  return letGo(`${id} is not to be removed any more: our block is lifted`);
}

function decideLeaving(one: Case, { durationMs }: GroupConditions): GroupDecision {
  const { id, group, pod, isListedUnexcluded, pvcs } = one;
  if (isListedUnexcluded || group?.isExclusionSkipped === true) {
    if (durationMs === 0) return letGo(`${id} goes without an exclusion, and nothing is to be kept`);
    const message = `${id} stays: it counts as excluded though the database has not moved its data; recover it, or have nothing kept by a duration of 0`;
    return { guard: "exclusion-skipped", message, isReported: true };
  }
  if (group?.excludedMs === undefined)
    return { guard: "not-excluded", message: `${id} is to go: FoundationDB moves its data first` };
  if (!isDrained(one)) {
    const message = `${id} stays: ${pod?.name} was made after its exclusion, and may have new data; exclude it again`;
    return { guard: "pod-newer", message, isReported: true };
  }
  const waits = pvcs.flatMap(({ message }) => message?.text ?? [])[0];
  return { guard: "held", message: `${id} is held back${waits === undefined ? "" : `: ${waits}`}` };
}

/** Its data is elsewhere, and no pod has come since that could have got new data. */
export function isDrained({ group, pod, isListedUnexcluded }: Case): boolean {
  if (group?.excludedMs === undefined || !group.isMarked || group.isExclusionSkipped || isListedUnexcluded)
    return false;
  return pod === undefined || pod.createdMs <= group.excludedMs;
}
