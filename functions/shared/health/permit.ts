/**
 * Which pods are asked before they go, and what their answers permit (rule R22). Pure.
 *
 * A decision first counts each pod that was not asked yet as a good answer. The pods that it would let go are then asked, and
 * the decision is made again.
 */

import type { Zone } from "../groups/zones.ts";
import type { Blocked } from "../ledger/claim-kinds.ts";
import { besideReserved, type HealthAnswer } from "../ledger/health-rule.ts";
import { type Pod, podNameOf } from "../workloads/pods.ts";
import { isStatefulSet, type StatefulSet, type ZoneWorkload } from "../workloads/statefulsets.ts";

/** The answers to a group's questions that are known while one decision is made. */
export interface Questions {
  /** By the uid of the pod that was asked. */
  readonly answers: ReadonlyMap<string, HealthAnswer>;
  /**
   * Rule R22, over the ledger that is decided on: why nothing is permitted by the answer, or by any answer where there is none.
   * The pod's own reservation is nothing beside it.
   */
  readonly refuse: (pod: Pod, answered: HealthAnswer | undefined) => Blocked | undefined;
  /** True when no pod is asked any more: a pod that was not asked stays. */
  readonly isOver: boolean;
}

type AskedZone = Pick<Zone<ZoneWorkload>, "workload" | "down" | "missing" | "leaving" | "claims">;

/** Sluice asks no pod while its StatefulSet is being deleted, because all of its pods are to go. */
export function isAsked(workload: ZoneWorkload): workload is StatefulSet {
  return isStatefulSet(workload) && workload.question !== undefined && !workload.deleting;
}

/** The same for one pod: a pod that was labelled to be let go is asked no more than its stop hook asks. */
export function isPodAsked(workload: ZoneWorkload, { letGo }: Pick<Pod, "letGo">): workload is StatefulSet {
  return isAsked(workload) && !letGo;
}

/**
 * Why a pod stays whose StatefulSet has a question, because of its answer or without one; undefined if its health permits it to
 * go.
 */
export function blockedByQuestion(
  questions: Questions | undefined,
  zones: readonly AskedZone[],
  own: AskedZone,
  pod: Pod,
): Blocked | undefined {
  const { question, name } = own.workload;
  if (question === undefined || !isPodAsked(own.workload, pod)) return undefined;
  if (question.ask === undefined) {
    const [wrong] = question.malformed;
    return {
      guard: "question-malformed",
      message: `pods of ${name} stay, for they cannot be asked: ${wrong?.message}`,
    };
  }
  const answered = questions?.answers.get(pod.uid);
  const blocked = questions?.refuse(pod, answered);
  const isSilent = blocked?.guard === "health-unknown";
  if (isSilent && goesUnknown(zones) && otherDown(zones, own, pod) === undefined) return undefined;
  if (blocked !== undefined) return { guard: blocked.guard, message: `${pod.name} stays: ${blocked.message}` };
  if (answered !== undefined || questions?.isOver === false) return undefined;
  const message = `${pod.name} stays: it could not be asked in time, or others were asked first; ask again`;
  return { guard: "health-not-asked", message };
}

/**
 * The same for pods that leave for good, by one claim: two of them may both be told that they are not needed, so that they go
 * one at a time if their StatefulSet has a question.
 */
export function blockedLeaving(
  questions: Questions | undefined,
  zones: readonly AskedZone[],
  own: AskedZone,
  leavers: readonly Pod[],
): Blocked | undefined {
  const [first, second] = leavers.filter((pod) => isPodAsked(own.workload, pod));
  if (first === undefined) return undefined;
  return second === undefined ? blockedByQuestion(questions, zones, own, first) : besideReserved(first.name);
}

/** One policy for a group: a pod without an answer goes only if all questions of the group permit that. */
function goesUnknown(zones: readonly AskedZone[]): boolean {
  return zones.every(({ workload }) => workload.question === undefined || workload.question.unknown === "go");
}

/** The warning about a pod that goes without an answer; undefined for any other. */
export function warnOfUnknown(questions: Questions | undefined, pod: Pod): string | undefined {
  const health = questions?.answers.get(pod.uid)?.health;
  if (health?.state !== "unknown") return undefined;
  return `${pod.name} was asked about health, gave no answer, and goes all the same, as its StatefulSet wants: ${health.detail}`;
}

/** A pod that is down in a group besides one pod, by name, or the number of missing ones. Undefined if there is none. */
export function otherDown(zones: readonly AskedZone[], own: AskedZone, pod: Pod): string | undefined {
  for (const zone of zones) {
    const found = downIn(zone, pod, zone === own);
    if (found !== undefined) return found;
  }
  return undefined;
}

function downIn({ workload, down, missing, leaving, claims }: AskedZone, pod: Pod, isOwn: boolean): string | undefined {
  for (const [ordinal, why] of down) {
    if (isOwn && ordinal === pod.ordinal) continue;
    return `${podNameOf({ statefulSet: workload.name, ordinal })} is ${why}`;
  }
  if (missing > 0) return `${missing} of ${workload.name} ${missing === 1 ? "is" : "are"} missing`;
  const left = leaving.find(({ uid }) => uid !== pod.uid);
  if (left !== undefined) return `${left.name} is leaving`;
  return claims.length > 0 ? `pods of ${workload.name} are claimed` : undefined;
}
