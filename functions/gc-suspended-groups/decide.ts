/** Which suspended volumes are removed, and what blocks the others (spec suspend-before-delete 3.2, 3.3; invariant S1). Pure. */

import { hold } from "../shared/annotations/suspension.ts";
import { clockSkewMs } from "../shared/clock/skew.ts";
import { take, type Verdict, wait } from "../shared/contract/verdict.ts";
import { earlierMs, laterMs, whyClocksUnsure } from "../shared/suspension/clocks.ts";
import { seenSinceMs } from "../shared/suspension/looks.ts";
import { blockedRequeueMs, keepsMessage, keptMessageMs, reporterOf } from "../shared/suspension/message-reporter.ts";
import { whyFrozen } from "../shared/suspension/removal-turn.ts";
import { isOurs, whyAnew } from "../shared/suspension/restart-time.ts";
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
  whyBlocked,
  whyTakenBack,
  whyTimeUnsure,
} from "./holding.ts";

/** A time of weeks is still read every few minutes, because a user may shorten it and no event reports a changed StatefulSet. */
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
  const blocked = new Map<Member, RemovalBlocked>();
  const due: Member[] = [];
  for (const member of members) {
    if (begun.some((one) => one.member === member)) continue;
    // A member whose removal this reconcile takes back is not removed, and has a message of its own.
    if (released.some((one) => one.kind === "stand-back" && one.member === member)) continue;
    const why = whyBlocked(member, now) ?? whyStuck(member, now);
    if (why === "due") due.push(member);
    else if (why !== undefined) blocked.set(member, why);
  }
  const removals = due.length === 0 ? [] : chooseRemovals(snapshot, due, blocked);
  const news = [...blocked].flatMap(([member, why]) => messageTargets(member, why));
  const messages = news.filter(({ member }) => !keepsMessage(member, snapshot.recentMessages));
  return conclude([...released, ...removals, ...messages], blocked, group, messages.length < news.length);
}

function conclude(
  targets: readonly RemovalTarget[],
  blocked: ReadonlyMap<Member, RemovalBlocked>,
  group: string,
  isMessageKept: boolean,
): Verdict<RemovalTarget> {
  const [firstAct] = targets.filter(({ kind }) => kind !== "tell");
  const longestMs = isMessageKept ? keptMessageMs : longestRequeueMs;
  const waits = [...blocked.values()].map(({ requeueAfterMs }) =>
    Math.min(requeueAfterMs ?? blockedRequeueMs, longestMs),
  );
  const soonest = waits.length === 0 ? undefined : Math.min(...waits);
  if (firstAct !== undefined) {
    const going = targets.flatMap(({ kind, member }) => (kind === "tell" || kind === "restamp" ? [] : [member.name]));
    const restamped = targets.flatMap((target) => (target.kind === "restamp" ? [target.anew.message] : []));
    const removed = going.length === 0 ? [] : [`the volumes of ${going.join(", ")} are removed`];
    const message = [...removed, ...restamped].join("; ");
    return take(targets, message, { zone: firstAct.member.set.name, requeueAfterMs: goneRequeueMs });
  }
  const [first] = blocked;
  if (first === undefined) return take(targets, `no volume of ${group} is to be removed`);
  const [{ set }, { guard, message }] = first;
  const where = { zone: set.name, requeueAfterMs: soonest };
  return targets.length > 0 ? take(targets, `${guard}: ${message}`, where) : wait(guard, message, where);
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
  // If the clocks contradict each other, its time is unknown, and only its mark is taken back.
  if (whyClocksUnsure(now) !== undefined) return [];
  const message = `${member.name} was marked for its removal, and its time is not over by what is known now: it begins again`;
  return [{ kind: "restamp", member, anew: { guard: "restamping", message, pvcs: marked, podCreatedMs: undefined } }];
}

/**
 * A member that is past the point of no return and deleted loses our finalizer, unless a hold, a pod or the mode None keeps it.
 */
function releaseRemoving(member: Member): RemovalTarget[] {
  const { pvcs } = member;
  if (!isRemoving(member) || isOnHold(member) || isUsed(member) || isFrozen(member)) return [];
  const ours = pvcs.filter(({ isTerminating, hasOurFinalizer }) => isTerminating && hasOurFinalizer);
  if (ours.length === 0) return [];
  return [{ kind: "release", member, pvcs: ours, kept: ours.filter((pvc) => isRetained(member, pvc)) }];
}

/**
 * A removal that cannot go on is taken back, because its claim would delay every rollout and drain of the group. So is a
 * removal of which only some volume claims are marked, because the mark of the first one keeps the claim alive.
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

/** The members whose time is over at a moment, in milliseconds since the epoch. */
function stuckPvcs(member: Member, { nowMs }: Now, atMs: number): readonly Pvc[] {
  if (isRemoving(member) || isUsed(member) || isFrozen(member) || !isStuck(member, nowMs)) return [];
  return member.pvcs.filter(
    (pvc) =>
      pvc.isTerminating &&
      pvc.hasOurFinalizer &&
      // A volume claim that is also protected is kept for its owner, because of another function's record.
      !pvc.isProtected &&
      (keptUntil(member, pvc) ?? Number.POSITIVE_INFINITY) <= atMs,
  );
}

/** Its time is over by one of two clocks that contradict each other, so that it is kept. */
function whyStuck(member: Member, now: Now): RemovalBlocked | undefined {
  return stuckPvcs(member, now, laterMs(now)).length === 0 ? undefined : whyTimeUnsure(member, now);
}

/**
 * No pod can get back a volume of a namespace that is being deleted. A volume on a user's hold stays, and so does its
 * namespace.
 */
function endNamespace(members: readonly Member[], group: string): Verdict<RemovalTarget> {
  const free = members.filter((member) => !isOnHold(member));
  const kept = members.find((member) => isOnHold(member) && member.pvcs.some(({ hasOurFinalizer }) => hasOurFinalizer));
  const verdict = releaseAll(
    free,
    "namespace-ending",
    `the namespace of ${group} is being deleted`,
    isRetained,
    (pvc) => pvc.isTerminating,
  );
  if (kept === undefined || verdict.kind === "take") return verdict;
  const message = `the namespace is being deleted, and ${hold.key} keeps the volumes of ${kept.name}: it ends when that is taken away`;
  return wait("on-hold", message, { zone: kept.set.name, requeueAfterMs: blockedRequeueMs });
}

function releaseAll(
  members: readonly Member[],
  guard: string,
  message: string,
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
    return take(targets, message, { zone: first.member.set.name, requeueAfterMs: goneRequeueMs });
  return wait(guard, message, { requeueAfterMs: blockedRequeueMs });
}

/**
 * A volume claim says what it waits for. It is written where another guard holds now, by one function for each member. Shortly
 * before its time is over one process finds it over and another one does not, by API servers whose clocks differ: then it does
 * not say once more that its time goes on, because the two would write in turn. For the same reason it does not say that the
 * clocks contradict each other, unless it says nothing yet: by another API server they may agree.
 */
function messageTargets(member: Member, { guard, message, requeueAfterMs = 0 }: RemovalBlocked): RemovalTarget[] {
  if (reporterOf(member) !== "collector") return [];
  const isByClock = guard === "clock-unsure" || (guard === "suspended" && requeueAfterMs <= clockSkewMs);
  if (isByClock && member.pvcs.every(({ message }) => message !== undefined)) return [];
  const isNews = member.pvcs.some(({ message, isTerminating }) => !isTerminating && message?.guard !== guard);
  return isNews ? [{ kind: "tell", member, guard, message }] : [];
}
