/** Decides which process is restarted next, and which phases are taken off. Pure. */

import { restartManager } from "../shared/annotations/restart.ts";
import { take, type Verdict, wait } from "../shared/contract/verdict.ts";
import type { Zone } from "../shared/groups/zones.ts";
import { type Claim, namesOrdinal } from "../shared/ledger/claim.ts";
import { type Blocked, blockedBy } from "../shared/ledger/claim-kinds.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { StatefulSet } from "../shared/workloads/statefulsets.ts";
import type { ManagerStatus, StatusAnswer } from "./calls.ts";
import { claimOf, isOpenRestart, type NewClaim } from "./claims.ts";

/** A pod with a phase, or with the id of a restart. */
export interface Candidate {
  readonly zone: Zone<StatefulSet>;
  readonly pod: Pod;
  /** The report of its process manager; undefined where it was not asked. */
  readonly answer: StatusAnswer | undefined;
}

export interface RestartSnapshot {
  readonly candidates: readonly Candidate[];
  /** All claims of the ledger. */
  readonly claims: readonly Claim[];
  /** What the restart that is under way waits for, as this process knows; undefined where it knows nothing. */
  readonly underWay: Blocked | undefined;
}

export type RestartTarget =
  | {
      readonly kind: "begin";
      readonly statefulSet: StatefulSet;
      readonly pod: Pod;
      readonly claim: NewClaim;
    }
  /** A phase, or an id, that stands on a pod without a restart. */
  | { readonly kind: "clear"; readonly statefulSet: StatefulSet; readonly pod: Pod };

/** How soon to read a restart again that is under way, in milliseconds: no event reports what a process manager sees. */
export const restartRequeueMs = 1_000;
/** The same for one that waits to begin. */
const waitingRequeueMs = 5_000;

/** One process at a time: the claim of a restart is its lock (rule R18). */
export function decide({ candidates, claims, underWay }: RestartSnapshot): Verdict<RestartTarget> {
  const open = claims.find(isOpenRestart);
  if (open !== undefined) {
    const { guard, message } = underWay ?? blockedBy(open);
    return wait(guard, message, { zone: open.zone, requeueAfterMs: restartRequeueMs });
  }
  const left = candidates.filter(({ pod }) => isLeftOver(pod));
  const cleared = left.map(({ zone, pod }): RestartTarget => ({ kind: "clear", statefulSet: zone.workload, pod }));
  if (cleared.length > 0) return take(cleared, "phases without a restart are taken off");
  const wanted = candidates.filter(({ pod }) => pod.restart?.phase === "schedule").sort(byOrder);
  let first: { readonly blocked: Blocked; readonly zone: string } | undefined;
  for (const candidate of wanted) {
    const zone = candidate.zone.workload.name;
    const found = beginOrWait(candidate);
    if ("kind" in found) return take([found], `${candidate.pod.name} is restarted in place`, { zone });
    first ??= { blocked: found, zone };
  }
  if (first === undefined) return take([], "no restart is wanted");
  const { blocked, zone } = first;
  return wait(blocked.guard, blocked.message, { zone, requeueAfterMs: waitingRequeueMs });
}

/** What a restart leaves that has ended, or a person writes where none is under way. */
function isLeftOver({ restart, terminating }: Pod): boolean {
  if (restart === undefined || terminating) return false;
  const { phase, text, id } = restart;
  return phase === "stop" || phase === "start" || phase === "cancel" || (text === undefined && id !== undefined);
}

/** By the name of the StatefulSet, and then the highest ordinal first. */
export function byOrder(one: Candidate, other: Candidate): number {
  const [name, otherName] = [one.zone.workload.name, other.zone.workload.name];
  if (name !== otherName) return name < otherName ? -1 : 1;
  return other.pod.ordinal - one.pod.ordinal;
}

/** True for a pod whose restart would begin now. */
export function mayBegin(candidate: Candidate): boolean {
  return candidate.pod.restart?.phase === "schedule" && "kind" in beginOrWait(candidate);
}

function beginOrWait(candidate: Candidate): RestartTarget | Blocked {
  const { zone, pod, answer } = candidate;
  const { workload: statefulSet } = zone;
  const blocked = blockedByPod(candidate) ?? blockedByManager(pod, answer);
  if (blocked !== undefined) return blocked;
  const claim = claimOf(statefulSet.name, pod, answer as ManagerStatus);
  return { kind: "begin", statefulSet, pod, claim };
}

/** What needs no call: the settings, and what other functions do with the pod (rules R17 and R18). */
function blockedByPod({ zone, pod }: Candidate): Blocked | undefined {
  const { name, restart, serviceName } = zone.workload;
  if (restart?.manager === undefined) {
    const why = restart?.malformed[0]?.message ?? `it names no port: write ${restartManager.key}`;
    return { guard: "restart-manager-missing", message: `no pod of ${name} can be restarted in place: ${why}` };
  }
  if (serviceName === "")
    return { guard: "service-missing", message: `${name} has no serviceName, so that its pods cannot be called` };
  if (pod.terminating)
    return { guard: "pod-terminating", message: `${pod.name} is on its way out, and the next pod starts anew` };
  const claim = zone.claims.find((one) => namesOrdinal(one, pod.ordinal));
  if (claim !== undefined) return blockedBy(claim);
  if (zone.reserved.has(pod.ordinal)) return { guard: "budget", message: `${pod.name} is reserved` };
  return undefined;
}

const busyStates: ReadonlySet<string> = new Set(["away", "stopping", "killing"]);

function blockedByManager(pod: Pod, answer: StatusAnswer | undefined): Blocked | undefined {
  const silent = (why: string): Blocked => ({
    guard: "manager-silent",
    message: `the server of ${pod.name} reports nothing: ${why}`,
  });
  if (answer === undefined) return silent("it was not asked yet");
  if ("silence" in answer) return silent(answer.silence);
  if (answer.podUid !== pod.uid) return silent("another pod answers by its name");
  if (!busyStates.has(answer.state)) return undefined;
  return { guard: "manager-busy", message: `the server of ${pod.name} reports the state ${answer.state}` };
}
