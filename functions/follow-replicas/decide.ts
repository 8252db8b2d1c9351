/** Which StatefulSets get another size, after their leader or mirrored object; or which guard blocks them. Pure. */

import { requeueAfterMs, take, type Verdict, wait } from "../shared/contract/verdict.ts";
import {
  type Blocked,
  type LedgerSurroundings,
  leaversOf,
  refuseOwnZone,
  refuseScaleDown,
} from "../shared/groups/refuse-claim.ts";
import { blockedLeaving, isAsked, type Questions } from "../shared/health/permit.ts";
import type { KnownClaim } from "../shared/ledger/claim.ts";
import { describeClaim, guardOfClaim } from "../shared/ledger/claim-kinds.ts";
import type { OtherClaim } from "../shared/reconcile/act.ts";
import type { FollowerSize } from "../shared/scaling/follower-sizes.ts";
import { leavingOrdinals, scaleDownPhases } from "../shared/scaling/size-changes.ts";
import { blockedAfterOthers, type DownscaleTimes } from "../shared/scaling/wanted-replicas.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { StatefulSet } from "../shared/workloads/statefulsets.ts";

export interface FollowSnapshot extends LedgerSurroundings<StatefulSet> {
  readonly group: string;
  readonly nowMs: number;
  /** By name, all of the group that follow a leader. */
  readonly followers: readonly FollowerSize[];
  /** What this function has claimed and not ended. */
  readonly claims: readonly KnownClaim[];
  /** What asked pods have said; absent where no StatefulSet of the group asks. */
  readonly questions?: Questions | undefined;
  /** When zones were last made smaller, as the ledger has it. */
  readonly times: DownscaleTimes;
  /** Why the API server would not have another size of late, by StatefulSet uid. */
  readonly refused: ReadonlyMap<string, string>;
}

/** A StatefulSet that gets another number of replicas. */
export interface FollowerResize {
  readonly statefulSet: StatefulSet;
  /** Replicas. */
  readonly target: number;
  /** Written before its pods leave; undefined where none does, or where the webhook of its own size claims them. */
  readonly claim: OtherClaim | undefined;
}

/** No watch reports changes of mirrored objects: this function reads them as often as rollout-operator does. */
const pollMs = 5_000;
/** When to reconcile again for the end of a claim of its own, in milliseconds. It comes within seconds, without an event. */
const settlingMs = 2_000;

/** All StatefulSets that are to grow get their size at once. Of those that are to shrink one does: the first by name that may. */
export function decide(snapshot: FollowSnapshot): Verdict<FollowerResize> {
  const rising = snapshot.followers.flatMap(({ statefulSet, wanted }): FollowerResize[] => {
    if (typeof wanted !== "number" || wanted <= statefulSet.replicas) return [];
    if (snapshot.refused.has(statefulSet.uid) || malformedDelay(statefulSet) !== undefined) return [];
    return [{ statefulSet, target: wanted, claim: undefined }];
  });
  const isMirroring = snapshot.followers.some(({ statefulSet }) => statefulSet.scaling?.mirrored !== undefined);
  const soonMs = isMirroring ? pollMs : undefined;
  const verdicts = snapshot.followers.map((one) => decideOne(snapshot, one)).filter((one) => one !== undefined);
  const waits = verdicts.map((one) => one.requeueAfterMs ?? requeueAfterMs);
  const againMs = Math.min(...waits, soonMs ?? Number.POSITIVE_INFINITY);
  const where = { requeueAfterMs: Number.isFinite(againMs) ? againMs : undefined };
  const lowering = verdicts.find((one) => one.kind === "take");
  const [first] = verdicts;
  if (rising.length > 0) {
    const changes = rising.map(({ statefulSet, target }) => `${statefulSet.name} to ${target}`).join(", ");
    return take([...rising, ...(lowering?.targets ?? [])], `more replicas: ${changes}`, where);
  }
  if (lowering !== undefined) return { ...lowering, ...where };
  if (first !== undefined) return { ...first, ...where };
  return take([], `the StatefulSets of ${snapshot.group} have the size of those that they follow`, where);
}

/**
 * Undefined for a StatefulSet that has its size, that is to grow, or that another function makes smaller because of its delay.
 */
function decideOne(
  snapshot: FollowSnapshot,
  { statefulSet, wanted }: FollowerSize,
): Verdict<FollowerResize> | undefined {
  const { name: zone, replicas, uid, scaling } = statefulSet;
  if (typeof wanted !== "number")
    return wait(wanted.guard, wanted.message, { zone, requeueAfterMs: wanted.requeueAfterMs });
  if (wanted === replicas) return undefined;
  const malformed = malformedDelay(statefulSet);
  if (malformed !== undefined) return wait("delay-malformed", malformed, { zone, requeueAfterMs });
  const refusal = snapshot.refused.get(uid);
  if (refusal !== undefined) return wait("size-refused", refusal, { zone, requeueAfterMs });
  if (wanted > replicas || scaling?.delay !== undefined) return undefined;
  return lower(snapshot, statefulSet, wanted);
}

/** As in rollout-operator: while Sluice cannot read a delay, the size stays, upwards as well. */
function malformedDelay({ name, scaling }: StatefulSet): string | undefined {
  const { delay, malformed = [] } = scaling ?? {};
  if (delay === undefined || (delay.delayMs !== undefined && delay.endpoint !== undefined)) return undefined;
  return `${name} keeps its size: ${malformed.map(({ message }) => message).join(" ")}`;
}

/** If its pods have a health question, or the zone's budget does not let all of them go, one goes at a time. */
function lower(snapshot: FollowSnapshot, statefulSet: StatefulSet, wanted: number): Verdict<FollowerResize> {
  const one = statefulSet.replicas - 1;
  const verdict = lowerTo(snapshot, statefulSet, isAsked(statefulSet) ? one : wanted);
  return verdict.kind === "wait" && verdict.guard === "budget" ? lowerTo(snapshot, statefulSet, one) : verdict;
}

function lowerTo(snapshot: FollowSnapshot, statefulSet: StatefulSet, target: number): Verdict<FollowerResize> {
  const { name: zone, replicas, scaling } = statefulSet;
  const because = `${zone} is made smaller, from ${replicas} to ${target}`;
  const blocked = ({ guard, message }: Blocked) =>
    wait(guard, `${zone} is to go to ${target} replicas, and waits: ${message}`, { zone, requeueAfterMs });
  const claim = claimOf(snapshot, statefulSet, target);
  const content = { ...claim, by: "", stampMs: snapshot.nowMs };
  if (scaling?.preparesDownscale) {
    // Until then the webhook would refuse the change.
    const members = snapshot.zones.map((one) => one.workload);
    const rest = blockedAfterOthers(statefulSet, members, snapshot.times, snapshot.nowMs);
    if (rest !== undefined) return wait(rest.guard, rest.message, { zone, requeueAfterMs: rest.requeueAfterMs });
    const why = refuseOwnZone(snapshot, content) ?? blockedByAnswers(snapshot, claim);
    // It makes the claim, and tells the pods.
    return why === undefined ? take([{ statefulSet, target, claim: undefined }], because, { zone }) : blocked(why);
  }
  const [own] = snapshot.claims;
  if (own !== undefined) {
    const message = `${describeClaim(own)}; no zone is made smaller until that has ended`;
    return wait(guardOfClaim(own), message, { zone: own.zone, requeueAfterMs: settlingMs });
  }
  const why = refuseScaleDown(snapshot, content) ?? blockedByAnswers(snapshot, claim);
  return why === undefined
    ? take([{ statefulSet, target, claim }], because, { zone, requeueAfterMs: settlingMs })
    : blocked(why);
}

/** Rule R22: the answers of the pods that would leave. */
function blockedByAnswers({ zones, questions }: FollowSnapshot, claim: OtherClaim): Blocked | undefined {
  const own = zones.find(({ workload }) => workload.name === claim.zone);
  return own && blockedLeaving(questions, zones, own, leaversOf(own, claim));
}

/** The pods that would leave by the decision, including those that must be asked. */
export function leaversBy({ zones }: FollowSnapshot, { statefulSet, target }: FollowerResize): readonly Pod[] {
  const own = zones.find((zone) => zone.workload.uid === statefulSet.uid);
  return (own?.pods ?? []).filter(({ ordinal }) => ordinal >= statefulSet.start + target);
}

/** No pod has to be notified, so the first write of the claim confirms it already (rule R18). */
function claimOf({ zones, nowMs }: FollowSnapshot, { name: zone, uid, start, replicas }: StatefulSet, target: number) {
  const members = leavingOrdinals({ start, replicas }, { start, replicas: target });
  const isMember = (ordinal: number) => members.some(({ first, last }) => ordinal >= first && ordinal <= last);
  const pods = zones.find(({ workload }) => workload.uid === uid)?.pods ?? [];
  const leaving = pods.filter(({ ordinal }) => isMember(ordinal)).map((pod) => [pod.name, pod.uid] as const);
  return {
    id: `scale-down ${zone} ${nowMs}`,
    kind: "scale-down",
    zone,
    members,
    uids: { [zone]: uid, ...Object.fromEntries(leaving) },
    phase: scaleDownPhases.confirmed,
    terms: "asked",
  } as const satisfies OtherClaim;
}
