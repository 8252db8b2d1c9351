/** The decision about the members of a group whose volumes are to be suspended, or are wanted back. Pure. */

import { take, type Verdict, wait } from "../shared/contract/verdict.ts";
import type { Claim } from "../shared/ledger/claim.ts";
import { type Blocked, blockedBy, describeClaim } from "../shared/ledger/claim-kinds.ts";
import { isPodNews } from "../shared/suspension/drain-proof.ts";
import { lastRemovalOf } from "../shared/suspension/looks.ts";
import {
  blockedRequeueMs,
  isProgress,
  keepsMessage,
  keptMessageMs,
  reporterOf,
} from "../shared/suspension/message-reporter.ts";
import { whyAnew } from "../shared/suspension/restart-time.ts";
import { isBegun, isRequested, type Member } from "../shared/volumes/members.ts";
import { hasNewPartners } from "../shared/volumes/owners.ts";
import { isOwnerGroup } from "../shared/workloads/group-key.ts";
import { decideMember, type MemberDecision, type MemberStep, podRequeueMs } from "./decide-member.ts";
import {
  type LettingGo,
  letGo,
  lower,
  type SuspendSnapshot,
  type SuspensionResize,
  whyOutOfOrder,
} from "./lowering.ts";

export type SuspensionTarget =
  | MemberStep
  | SuspensionResize
  | LettingGo
  /** A volume claim is to say what it waits for. */
  | { readonly kind: "tell"; readonly member: Member; readonly guard: string; readonly message: string };

interface DecidedMember {
  readonly member: Member;
  readonly decision: MemberDecision;
}

export function decide(snapshot: SuspendSnapshot): Verdict<SuspensionTarget> {
  const { members, nowMs, protects, group, isNamespaceEnding } = snapshot;
  const decisions = isNamespaceEnding
    ? []
    : members.flatMap((member): DecidedMember[] => {
        const decision = afterLeaving(snapshot, member, decideMember(member, snapshot, protects));
        return decision === undefined ? [] : [{ member, decision }];
      });
  const steps = decisions.flatMap(({ decision }): SuspensionTarget[] =>
    decision.step === undefined ? [] : [decision.step],
  );
  const returning = decisions.filter(({ decision }) => decision.wish === "returns").map(({ member }) => member);
  const going = decisions.filter(({ decision }) => decision.wish === "goes").map(({ member }) => member);
  const raised = raise(snapshot, returning);
  // One that is only now seen to be gone may have been taken under another function's claim, which says nothing of it here.
  const isJustGone = steps.some(({ kind }) => kind === "stamp");
  const lastMs = isJustGone ? nowMs : lastRemovalOf(snapshot.times, snapshot, going);
  const isOwned = isOwnerGroup(group);
  const lowered =
    going.length === 0 ? undefined : isOwned ? letGo(snapshot, going, lastMs) : lower(snapshot, going, lastMs);
  const waits = new Map<Member, Pick<MemberDecision, "guard" | "message">>([
    ...raised.waits,
    ...going.flatMap((member) => {
      const why = (isOwned ? undefined : whyOutOfOrder(snapshot, member, going)) ?? lowered?.blocked;
      return why === undefined ? [] : [[member, why] as const];
    }),
  ]);
  // One write at a time: the write that marks a pod that goes also has its message.
  const leaving = new Set(lowered?.targets.flatMap((target) => target.leaving));
  const news = decisions.flatMap(({ member, decision }) =>
    leaving.has(member) ? [] : newMessages(member, waits.get(member) ?? decision),
  );
  const messages = news.filter(({ member }) => !keepsMessage(member, snapshot.recentMessages));
  const targets = [...steps, ...raised.targets, ...(lowered?.targets ?? []), ...messages];
  return conclude(decisions, targets, waits, { group, isMessageKept: messages.length < news.length });
}

/**
 * Rule R21: as long as the ledger has a scale-down of a member, the function that made it may still carry it out: its pod goes
 * though it is ready. It is told to have its volume back only when that has ended.
 */
function afterLeaving({ zones }: SuspendSnapshot, member: Member, decision: MemberDecision | undefined) {
  if (decision?.step?.kind !== "clear") return decision;
  const claims = zones.find(({ workload }) => workload.uid === member.set.uid)?.claims ?? [];
  const claim = leavingClaimOf(claims, member);
  if (claim === undefined) return decision;
  const anew = whyAnew(member);
  if (anew !== undefined) return { ...anew, step: { kind: "restamp", member, anew } } satisfies MemberDecision;
  const message = `${member.name} may still be on its way out: ${describeClaim(claim)}`;
  return { guard: "pod-leaving", message, requeueAfterMs: podRequeueMs } satisfies MemberDecision;
}

/** The scale-down by which a member may still go, among the claims of its group or of its zone. */
export function leavingClaimOf(claims: readonly Claim[], { set, ordinal }: Member): Claim | undefined {
  return claims.find(
    (one) =>
      one.isKnown &&
      one.kind === "scale-down" &&
      one.zone === set.name &&
      one.members.some(({ first, last }) => first <= ordinal && ordinal <= last),
  );
}

/** The acts, or the reason of the first member that waits. */
function conclude(
  all: readonly DecidedMember[],
  targets: readonly SuspensionTarget[],
  waits: ReadonlyMap<Member, Pick<MemberDecision, "guard" | "message">>,
  { group, isMessageKept }: { readonly group: string; readonly isMessageKept: boolean },
): Verdict<SuspensionTarget> {
  const requeues = [
    ...all.flatMap(({ decision }) => decision.requeueAfterMs ?? (decision.wish === undefined ? [] : [podRequeueMs])),
    ...(isMessageKept ? [keptMessageMs] : []),
  ];
  const requeueAfterMs = requeues.length === 0 ? undefined : Math.min(...requeues);
  const doing = targets.filter(({ kind }) => kind !== "tell");
  if (doing.length > 0) {
    const named = all.find(({ member }) => !waits.has(member));
    return take(targets, named?.decision.message ?? "", {
      zone: named?.member.set.name ?? "",
      requeueAfterMs: podRequeueMs,
    });
  }
  const [waiting] = all;
  if (waiting === undefined) return take(targets, `nothing of ${group} is to be suspended or to come back`);
  const { guard, message } = waits.get(waiting.member) ?? waiting.decision;
  const where = { zone: waiting.member.set.name, requeueAfterMs: requeueAfterMs ?? blockedRequeueMs };
  // The messages on volume claims are written in addition to the wait, which they repeat.
  return targets.length > 0 ? take(targets, `${guard}: ${message}`, where) : wait(guard, message, where);
}

/** The guards that another process may not find at this moment, because its clocks differ a little. */
const byClock: ReadonlySet<string> = new Set(["wait-between-removals", "clock-unsure"]);

/**
 * A volume claim says what it waits for. It is written where another guard holds now, by one function for each member. What holds
 * by a clock is not written over another wait: a process with other clocks would write the other one again, in turn without end.
 */
function newMessages(
  member: Member,
  { guard, message, step }: Pick<MemberDecision, "guard" | "message" | "step">,
): Extract<SuspensionTarget, { kind: "tell" }>[] {
  if (step !== undefined || reporterOf(member) !== "suspender") return [];
  // From the first request on, each volume claim of a pod names the others, because nothing else names them once the pod is
  // gone.
  if (hasNewPartners(member)) return [{ kind: "tell", member, guard, message }];
  if (!isBegun(member) && !isRequested(member)) return [];
  const isRecorded = (last: string | undefined) => last === guard || (byClock.has(guard) && !isProgress(last));
  const isNews = member.pvcs.some(
    (pvc) => !pvc.isTerminating && (!isRecorded(pvc.message?.guard) || isPodNews(member.pod?.createdMs, pvc)),
  );
  return isNews ? [{ kind: "tell", member, guard, message }] : [];
}

/** One ordinal at a time comes back, the lowest first: that is how a StatefulSet grows. */
function raise(snapshot: SuspendSnapshot, returning: readonly Member[]) {
  const waits: (readonly [Member, Blocked])[] = [];
  const targets = new Map<string, SuspensionResize>();
  for (const member of returning) {
    const { set } = member;
    const why = whyNotBack(snapshot, member, returning);
    if (why !== undefined) waits.push([member, why]);
    else targets.set(set.uid, { kind: "resize", set, target: set.replicas + 1, leaving: [], claim: undefined });
  }
  return { targets: [...targets.values()], waits };
}

/** Why a member does not come back yet, whatever else returns. */
function whyNotBack(
  { members, zones, refused }: SuspendSnapshot,
  member: Member,
  returning: readonly Member[],
): Blocked | undefined {
  const { set, name, ordinal } = member;
  if (set.isDeleting)
    return { guard: "owner-deleting", message: `${name} cannot come back: ${set.name} is being deleted` };
  if (ordinal < set.start) return belowStart(member);
  if (set.followsLeader) {
    const message = `${name} is to come back, and another object says the size of ${set.name}: raise it there`;
    return { guard: "size-led", message };
  }
  const next = set.start + set.replicas;
  const isBelow = (one: Member) => one.set === set && one.ordinal >= next && one.ordinal < ordinal;
  const below = members.find((one) => isBelow(one) && isBegun(one) && !returning.includes(one));
  if (below !== undefined) return behind(member, below);
  // No process can still begin to remove a volume of it: it would write its mark under a revision from before the wish.
  const claim = zones.find(({ workload }) => workload.uid === set.uid)?.claims.find(isNoVolume);
  if (claim !== undefined) {
    const { guard, message } = blockedBy(claim);
    return { guard, message: `${name} is to come back, and waits: ${message}` };
  }
  const refusal = refused.get(set.uid);
  return refusal === undefined ? undefined : { guard: "size-refused", message: refusal };
}

/** A StatefulSet has no holes: the lower one comes first. */
function behind({ name }: Member, below: Member): Blocked {
  const isLost = below.pvcs.every(({ isTerminating }) => isTerminating);
  const what = isLost
    ? `whose volume claim is deleted: a new one comes when nothing holds that, ${below.pvcs.flatMap(({ finalizers }) => finalizers).join(", ")}`
    : "recover the lower one, too";
  const message = `${name} is to come back, and ${below.name} comes before it: ${what}`;
  return { guard: "recover-lower-first", message };
}

/** More replicas would only add pods at the other end, without end, because this one never comes. */
function belowStart({ name, ordinal, set }: Member): Blocked {
  const message = `${name} is to come back, and spec.ordinals.start of ${set.name} is ${set.start}: set it to ${ordinal} or less, and spec.replicas so that no other pod leaves`;
  return { guard: "below-start", message };
}

const isNoVolume = ({ isKnown, kind }: Claim): boolean => !isKnown || kind !== "volume";
