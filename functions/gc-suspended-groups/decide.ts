/** Which suspended volumes are removed, and what holds the others (spec suspend-before-delete 3.2, 3.3; invariant S1). Pure. */

import { hold } from "../shared/annotations/suspension.ts";
import { clockSkewMs } from "../shared/clock/skew.ts";
import { take, type Verdict, wait } from "../shared/contract/verdict.ts";
import { earlierMs, laterMs, whyClocksUnsure } from "../shared/suspension/clocks.ts";
import { seenSinceMs } from "../shared/suspension/looks.ts";
import { whyFrozen } from "../shared/suspension/removal-turn.ts";
import { isOurs, whyAnew } from "../shared/suspension/restart-time.ts";
import { heldRequeueMs, keepsWord, keptWordMs, tellerOf } from "../shared/suspension/teller.ts";
import { isRemoving, isUsed, type Member } from "../shared/volumes/members.ts";
import { type Pvc, valueIn } from "../shared/volumes/pvc.ts";
import { chooseRemovals, type RemovalSnapshot, type RemovalTarget } from "./decide-removals.ts";
import {
  goneRequeueMs,
  isOnHold,
  isOver,
  isRetained,
  isStuck,
  keptUntil,
  type Now,
  type RemovalBlocked,
  whyHeld,
  whyTakenBack,
  whyTimeUnsure,
} from "./holding.ts";

export type { RemovalSnapshot, RemovalTarget };

/** A weekly time is looked at now and then all the same: a user may shorten it, and no event tells of a StatefulSet. */
const longestRequeueMs = 300_000;

export function decide(snapshot: RemovalSnapshot): Verdict<RemovalTarget> {
  const { members, removes, isNamespaceEnding, group } = snapshot;
  if (!removes)
    return releaseAll(
      members,
      "uninstalling",
      `VOLUME_HOLD is remove: no volume claim of ${group} is held`,
      (member, pvc) => !isRemoving(member) || isOnHold(member) || isRetained(member, pvc) || isFrozen(member),
    );
  if (isNamespaceEnding) return endNamespace(members, group);
  const { nowMs, wallMs, times } = snapshot;
  const now = { nowMs, wallMs, seenSinceMs: seenSinceMs(times, nowMs) };
  const begun = members.flatMap((member) => restamp(member, now));
  const released = [
    ...begun,
    ...members.flatMap(releaseRemoving),
    ...members.flatMap((member) => [
      ...(begun.some((one) => one.member === member) ? [] : standBack(member, now)),
      ...releaseStuck(member, now),
    ]),
  ];
  const held = new Map<Member, RemovalBlocked>();
  const due: Member[] = [];
  for (const member of members) {
    if (begun.some((one) => one.member === member)) continue;
    // What is taken back by this pass is not removed by it, and says so itself.
    if (released.some((one) => one.kind === "stand-back" && one.member === member)) continue;
    const why = whyHeld(member, now) ?? whyStuckHeld(member, now);
    if (why === "due") due.push(member);
    else if (why !== undefined) held.set(member, why);
  }
  const removals = due.length === 0 ? [] : chooseRemovals(snapshot, due, held);
  const news = [...held].flatMap(([member, why]) => tell(member, why));
  const told = news.filter(({ member }) => !keepsWord(member, snapshot.saidLately));
  return conclude([...released, ...removals, ...told], held, group, told.length < news.length);
}

function conclude(
  targets: readonly RemovalTarget[],
  held: ReadonlyMap<Member, RemovalBlocked>,
  group: string,
  isWordKept: boolean,
): Verdict<RemovalTarget> {
  const [acting] = targets.filter(({ kind }) => kind !== "tell");
  const longestMs = isWordKept ? keptWordMs : longestRequeueMs;
  const waits = [...held.values()].map(({ requeueAfterMs }) => Math.min(requeueAfterMs ?? heldRequeueMs, longestMs));
  const soonest = waits.length === 0 ? undefined : Math.min(...waits);
  if (acting !== undefined) {
    const going = targets.flatMap(({ kind, member }) => (kind === "tell" || kind === "restamp" ? [] : [member.name]));
    const restamped = targets.flatMap((target) => (target.kind === "restamp" ? [target.anew.sentence] : []));
    const removed = going.length === 0 ? [] : [`the volumes of ${going.join(", ")} are removed`];
    const sentence = [...removed, ...restamped].join("; ");
    return take(targets, sentence, { zone: acting.member.set.name, requeueAfterMs: goneRequeueMs });
  }
  const [first] = held;
  if (first === undefined) return take(targets, `no volume of ${group} is to be removed`);
  const [{ set }, { guard, sentence }] = first;
  const where = { zone: set.name, requeueAfterMs: soonest };
  return targets.length > 0 ? take(targets, `${guard}: ${sentence}`, where) : wait(guard, sentence, where);
}

const isFrozen = (member: Member): boolean => whyFrozen(member) !== undefined;

/**
 * Before every other check: the time of what is wanted, there or in use begins anew. So does that of one that is marked for its
 * removal and not deleted, where its time is not over by what is known now.
 */
function restamp(member: Member, now: Now): Extract<RemovalTarget, { kind: "restamp" }>[] {
  const seen = whyAnew(member);
  if (seen !== undefined) return [{ kind: "restamp", member, anew: seen }];
  const marked = member.pvcs.filter(({ state, isTerminating }) => valueIn(state) === "Removing" && !isTerminating);
  if (!isRemoving(member) || marked.length === 0 || isOver(member, now)) return [];
  // By clocks that contradict each other nothing is known of its time: only its mark is taken back.
  if (whyClocksUnsure(now) !== undefined) return [];
  const sentence = `${member.name} was marked for its removal, and its time is not over by what is known now: it begins again`;
  return [{ kind: "restamp", member, anew: { guard: "restamping", sentence, pvcs: marked, podCreatedMs: undefined } }];
}

/** What is past the point of no return and deleted loses our finalizer, unless a hold, a pod or the mode None keeps it. */
function releaseRemoving(member: Member): RemovalTarget[] {
  const { pvcs } = member;
  if (!isRemoving(member) || isOnHold(member) || isUsed(member) || isFrozen(member)) return [];
  const ours = pvcs.filter(({ isTerminating, isHeld }) => isTerminating && isHeld);
  if (ours.length === 0) return [];
  return [{ kind: "release", member, pvcs: ours, kept: ours.filter((pvc) => isRetained(member, pvc)) }];
}

/**
 * A removal that does not go on is taken back: its claim would hold up every rollout and drain of the group. So is one of which
 * only some volume claims are marked, because the mark of the first one keeps the claim alive.
 */
function standBack(member: Member, now: Now): RemovalTarget[] {
  const isMarked = member.pvcs.some(({ state }) => valueIn(state) === "Removing");
  const why = isMarked ? whyTakenBack(member, now) : undefined;
  if (why === undefined) return [];
  const pvcs = member.pvcs.filter(({ removalClaim }) => removalClaim !== undefined);
  return pvcs.length === 0 ? [] : [{ kind: "stand-back", member, pvcs, ...why }];
}

/**
 * Deleted, and held by our finalizer, though no removal will ever come: its request is gone, its StatefulSet is another one, or
 * wants the pod, which cannot start. After its time it goes, and its PersistentVolume is kept.
 */
function releaseStuck(member: Member, now: Now): RemovalTarget[] {
  if (whyClocksUnsure(now) !== undefined) return [];
  const pvcs = stuckPvcs(member, now, earlierMs(now));
  return pvcs.length === 0 ? [] : [{ kind: "release", member, pvcs, kept: pvcs }];
}

/** Those of such a member whose time is over at a moment, in milliseconds since the epoch. */
function stuckPvcs(member: Member, { nowMs }: Now, atMs: number): readonly Pvc[] {
  if (isRemoving(member) || isOnHold(member) || isUsed(member) || isFrozen(member) || !isStuck(member, nowMs))
    return [];
  return member.pvcs.filter(
    (pvc) =>
      pvc.isTerminating &&
      pvc.isHeld &&
      // What is protected besides is kept for its owner, by another function's word.
      !pvc.isProtected &&
      (keptUntil(member, pvc) ?? Number.POSITIVE_INFINITY) <= atMs,
  );
}

/** Its time is over by one of two clocks that contradict each other: it is not let go. */
function whyStuckHeld(member: Member, now: Now): RemovalBlocked | undefined {
  return stuckPvcs(member, now, laterMs(now)).length === 0 ? undefined : whyTimeUnsure(member, now);
}

/** No pod can have a volume of an ending namespace back. What a user holds stays, and so does its namespace. */
function endNamespace(members: readonly Member[], group: string): Verdict<RemovalTarget> {
  const free = members.filter((member) => !isOnHold(member));
  const kept = members.find((member) => isOnHold(member) && member.pvcs.some(({ isHeld }) => isHeld));
  const verdict = releaseAll(
    free,
    "namespace-ending",
    `the namespace of ${group} is being deleted`,
    isRetained,
    (pvc) => pvc.isTerminating,
  );
  if (kept === undefined || verdict.kind === "take") return verdict;
  const sentence = `the namespace is being deleted, and ${hold.key} keeps the volumes of ${kept.name}: it ends when that is taken away`;
  return wait("on-hold", sentence, { zone: kept.set.name, requeueAfterMs: heldRequeueMs });
}

function releaseAll(
  members: readonly Member[],
  guard: string,
  sentence: string,
  isKept: (member: Member, pvc: Pvc) => boolean,
  isReleased: (pvc: Pvc) => boolean = () => true,
): Verdict<RemovalTarget> {
  const targets = members.flatMap((member): RemovalTarget[] => {
    const pvcs = member.pvcs.filter((pvc) => isOurs(pvc) && isReleased(pvc));
    const kept = pvcs.filter((pvc) => pvc.isTerminating && isKept(member, pvc));
    return pvcs.length === 0 ? [] : [{ kind: "release", member, pvcs, kept }];
  });
  const [first] = targets;
  if (first !== undefined)
    return take(targets, sentence, { zone: first.member.set.name, requeueAfterMs: goneRequeueMs });
  return wait(guard, sentence, { requeueAfterMs: heldRequeueMs });
}

/**
 * A volume claim says what it waits for. It is written where another guard holds now, by one function for each member. Shortly
 * before its time is over one process finds it over and another one does not, by API servers whose clocks differ: then it does
 * not say once more that its time goes on, because the two would write in turn. For the same reason it does not say that the
 * clocks contradict each other, unless it says nothing yet: by another API server they may agree.
 */
function tell(member: Member, { guard, sentence, requeueAfterMs = 0 }: RemovalBlocked): RemovalTarget[] {
  if (tellerOf(member) !== "collector") return [];
  const isByClock = guard === "clock-unsure" || (guard === "suspended" && requeueAfterMs <= clockSkewMs);
  if (isByClock && member.pvcs.every(({ message }) => message !== undefined)) return [];
  const isNews = member.pvcs.some(({ message, isTerminating }) => !isTerminating && message?.guard !== guard);
  return isNews ? [{ kind: "tell", member, guard, sentence }] : [];
}
