/** By how much a StatefulSet whose pods are told long before may be made smaller now, or which guard holds it. Pure. */

import { formatTime } from "../shared/clock/durations.ts";
import { requeueAfterMs, take, type Verdict, type Wait, wait } from "../shared/contract/verdict.ts";
import { type Blocked, type LedgerSurroundings, leaversOf, refuseScaleDown } from "../shared/groups/refuse-claim.ts";
import { blockedLeaving, isAsked, type Questions } from "../shared/health/permit.ts";
import type { KnownClaim } from "../shared/ledger/claim.ts";
import { describeClaim, guardOfClaim } from "../shared/ledger/claim-kinds.ts";
import type { OtherClaim } from "../shared/reconcile/act.ts";
import { leavingOrdinals, scaleDownPhases } from "../shared/scaling/size-changes.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { StatefulSet } from "../shared/workloads/statefulsets.ts";
import { choosePods, type DelayedSet, leavingRun, type Run } from "./decide-leaving.ts";

/** One StatefulSet of the group, or why nothing is done to its size and to none of its pods. */
export type Delayed = DelayedSet | { readonly statefulSet: StatefulSet; readonly blocked: Blocked };

export interface DelaySnapshot extends LedgerSurroundings<StatefulSet> {
  readonly group: string;
  readonly nowMs: number;
  /** When the pods that were due were asked once more, in milliseconds since the epoch. Pods that became due later were not. */
  readonly askedAtMs: number;
  /** By name. Only those whose downscales have a delay. */
  readonly delayed: readonly Delayed[];
  /** What this function has claimed and not ended. */
  readonly claims: readonly KnownClaim[];
  /** Why the API server would not have a smaller size of late, by StatefulSet uid. */
  readonly refused: ReadonlyMap<string, string>;
  /** What asked pods have said; absent where no StatefulSet of the group asks. */
  readonly questions?: Questions | undefined;
  /** True in shadow mode: this function tells pods nothing, and does not know what they would say. */
  readonly shadow: boolean;
}

/** A StatefulSet that is made smaller now, and the claim that is written before. */
export interface Lowering {
  readonly statefulSet: StatefulSet;
  /** Replicas. */
  readonly target: number;
  readonly claim: OtherClaim;
}

/** When to reconcile again for the end of an own claim, in milliseconds: no event reports it, and each reconcile calls pods. */
const settlingMs = 5_000;

/** One zone at a time is made smaller: the first by name whose highest pods have known for the delay that they leave. */
export function decide(snapshot: DelaySnapshot): Verdict<Lowering> {
  const [claim] = snapshot.claims;
  if (claim !== undefined) {
    const message = `${describeClaim(claim)}; no zone is made smaller until that has ended`;
    return wait(guardOfClaim(claim), message, { zone: claim.zone, requeueAfterMs: settlingMs });
  }
  const verdicts = snapshot.delayed.map((one) => decideOne(snapshot, one)).filter((one) => one !== undefined);
  const soonest = Math.min(...verdicts.map((one) => one.requeueAfterMs ?? requeueAfterMs));
  const first = verdicts.find(({ kind }) => kind === "take") ?? verdicts[0];
  if (first === undefined) return take([], `no pod of ${snapshot.group} is to leave after a delay`);
  return { ...first, requeueAfterMs: soonest };
}

/** Undefined for one that has the size that is wanted. */
function decideOne(snapshot: DelaySnapshot, one: Delayed): Verdict<Lowering> | undefined {
  const { statefulSet } = one;
  const { name: zone, replicas, uid } = statefulSet;
  if ("blocked" in one) return wait(one.blocked.guard, one.blocked.message, { zone, requeueAfterMs });
  if (one.wanted >= replicas) return undefined;
  if (snapshot.shadow) return shadowed(one);
  const run = leavingRun(one, snapshot.askedAtMs);
  const rest = waitToLeave(one, run, snapshot.nowMs);
  if (run.pods.length === 0) return rest;
  if (one.postponed !== undefined) {
    const { guard, message, requeueAfterMs: inMs = requeueAfterMs } = one.postponed;
    return wait(guard, message, { zone, requeueAfterMs: Math.min(requeueAfterMs, inMs) });
  }
  const refusal = snapshot.refused.get(uid);
  if (refusal !== undefined) return wait("downscale-refused", refusal, { zone, requeueAfterMs });
  const lowering = lower(snapshot, one, run.pods);
  if ("guard" in lowering) {
    const message = `${run.pods.length} pods of ${zone} may leave, and wait: ${lowering.message}`;
    return wait(lowering.guard, message, { zone, requeueAfterMs });
  }
  const { target } = lowering;
  const because = `${zone} is made smaller, from ${replicas} to ${target}: its highest pods have known for the delay`;
  const message = rest === undefined ? because : `${because}; ${rest.message}`;
  return take([lowering], message, { zone, requeueAfterMs: settlingMs });
}

/** Where its pods are asked before they go, or the budget of the zone does not let all of them go, one goes at a time. */
function lower(snapshot: DelaySnapshot, { statefulSet }: DelayedSet, pods: readonly Pod[]): Lowering | Blocked {
  const top = pods.slice(0, 1);
  const all = lowerBy(snapshot, statefulSet, isAsked(statefulSet) ? top : pods);
  return "guard" in all && all.guard === "budget" ? lowerBy(snapshot, statefulSet, top) : all;
}

function lowerBy(snapshot: DelaySnapshot, statefulSet: StatefulSet, pods: readonly Pod[]): Lowering | Blocked {
  const { name: zone, start, replicas, uid } = statefulSet;
  const target = replicas - pods.length;
  const claim: OtherClaim = {
    id: `scale-down ${zone} ${snapshot.nowMs}`,
    kind: "scale-down",
    zone,
    members: leavingOrdinals({ start, replicas }, { start, replicas: target }),
    uids: { [zone]: uid, ...Object.fromEntries(pods.map((pod) => [pod.name, pod.uid])) },
    phase: scaleDownPhases.confirmed,
    terms: "asked",
  };
  const { zones, questions } = snapshot;
  const own = zones.find((one) => one.workload.uid === uid);
  const blocked =
    refuseScaleDown(snapshot, { ...claim, by: "", stampMs: snapshot.nowMs }) ??
    (own && blockedLeaving(questions, zones, own, leaversOf(own, claim)));
  return blocked ?? { statefulSet, target, claim };
}

function waitToLeave(
  { statefulSet, wanted, delayMs }: DelayedSet,
  { pods, stop }: Run,
  nowMs: number,
): Wait | undefined {
  const { name: zone, start, replicas } = statefulSet;
  if (stop === undefined) return undefined;
  const left = replicas - wanted - pods.length;
  const where = { zone, requeueAfterMs };
  if (stop.kind === "not-prepared") {
    const message = `${left} pods of ${zone} are to leave, and ${stop.name} holds them back: ${stop.why}`;
    return wait("pod-not-prepared", message, where);
  }
  const top = start + replicas - pods.length - 1;
  const at = formatTime(nowMs + stop.inMs);
  const which = left === 1 ? `${zone}-${top} leaves` : `${zone}-${start + wanted} to ${zone}-${top} leave`;
  const message = `${which} once each has known it for ${delayMs / 1000} s; ${stop.pod.name}, the highest, from ${at} on`;
  return wait("delay-running", message, { ...where, requeueAfterMs: Math.min(requeueAfterMs, stop.inMs) });
}

function shadowed(one: DelayedSet): Wait {
  const { statefulSet, wanted } = one;
  const { stay, leave } = choosePods(one);
  const message = `${statefulSet.name} is to go from ${statefulSet.replicas} to ${wanted}: in shadow mode Sluice does not tell ${leave.length} pods that they leave, nor ${stay.length} that they stay`;
  return wait("pods-not-told", message, { zone: statefulSet.name, requeueAfterMs });
}
