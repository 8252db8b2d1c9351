/** Evictions of pods with a health question: which pods are asked, and which refusals follow from their answers. Pure. */

import { askAgain, notYet } from "../shared/admission/answers.ts";
import type { Denied } from "../shared/admission/definition.ts";
import { type Departed, describeDeparted } from "../shared/groups/refuse-claim.ts";
import type { Zone } from "../shared/groups/zones.ts";
import type { AskedPod } from "../shared/health/ask-pods.ts";
import { blockedByQuestion, isAsked, isPodAsked, otherDown, type Questions } from "../shared/health/permit.ts";
import { besideReserved } from "../shared/ledger/health-rule.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import { isStatefulSet, type ZoneWorkload } from "../shared/workloads/statefulsets.ts";
import type { Decision } from "./group-commit/sort-decisions.ts";

/** A pod that an earlier decision of the same batch lets go. */
export type Taken = NonNullable<Decision["reserve"]> & { readonly name: string };

type ZoneNow = Pick<Zone<ZoneWorkload>, "workload" | "down" | "missing" | "leaving" | "claims" | "pods">;

/** A pod that is down in a StatefulSet that has left the group counts as down in another zone (invariants Z1 and R22). */
export function refuseBesideDeparted([first]: readonly Departed[], zone: string): Denied | undefined {
  if (first === undefined) return undefined;
  return askAgain("zone-departed", `1 pod not ready in ${first.statefulSet}: ${describeDeparted(first)}`, zone);
}

/** True for pods that have a ledger where no budget says so: they are asked, or their processes are restarted under claims. */
export function needsLedger(workload: ZoneWorkload): boolean {
  if (!isStatefulSet(workload) || workload.deleting) return false;
  return workload.question !== undefined || workload.restart !== undefined;
}

/** Without a budget, one pod of such a group goes at a time. */
export function refuseBeside(zones: readonly ZoneNow[], zone: ZoneNow, pod: Pod): Denied | undefined {
  const other = otherDown(zones, zone, pod);
  if (other === undefined) return undefined;
  const which = isAsked(zone.workload) ? "pods that are asked" : "pods whose processes are restarted in place";
  const message = `${which} go one at a time where no budget says more: ${other}, so ${pod.name} stays`;
  return notYet("one-at-a-time", message, zone.workload.name);
}

/**
 * Guards that end by themselves, because another pod comes back or the pod is asked again. No review waits for a better answer.
 */
const passing: ReadonlySet<string> = new Set(["health-beside-others", "health-stale"]);

/** Rule R22, and the pod's answer. No later check may refuse, so that Sluice asks no pod in vain. */
export function refuseByQuestion(
  questions: Questions | undefined,
  zones: readonly ZoneNow[],
  zone: ZoneNow,
  pod: Pod,
  taken: readonly Taken[],
): Denied | undefined {
  if (!isPodAsked(zone.workload, pod)) return undefined;
  const other = taken.find(({ uid }) => uid !== pod.uid);
  const blocked = other === undefined ? blockedByQuestion(questions, zones, zone, pod) : besideReserved(other.name);
  if (blocked === undefined) return undefined;
  const refuse = passing.has(blocked.guard) ? notYet : askAgain;
  return refuse(blocked.guard, blocked.message, zone.workload.name);
}

/** The pods that go by these decisions, dry runs included, and whose StatefulSets have a question. */
export function goersOf(
  zones: readonly Pick<Zone<ZoneWorkload>, "workload" | "pods" | "leaving">[],
  decisions: readonly Decision[],
): AskedPod[] {
  return decisions.flatMap(({ reserve }) => {
    const zone = zones.find(({ workload }) => workload.name === reserve?.statefulSet);
    const pod = zone && [...zone.pods, ...zone.leaving].find(({ uid }) => uid === reserve?.uid);
    return zone === undefined || pod === undefined ? [] : [{ statefulSet: zone.workload, pod }];
  });
}
