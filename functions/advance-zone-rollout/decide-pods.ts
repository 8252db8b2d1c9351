/** Which outdated pods of a zone may go together: as many as the zone's limit and each pod's budget let be down. */

import { governing, type Surroundings } from "../shared/groups/governing.ts";
import {
  blockedByBudget,
  blockedByLimit,
  limitOf,
  ownLimitOf,
  type PodBlocked,
  type ZoneLimit,
} from "../shared/groups/pod-limit.ts";
import { countDown, type Zone } from "../shared/groups/zones.ts";
import { blockedByQuestion, isPodAsked, type Questions } from "../shared/health/permit.ts";
import { besideReserved } from "../shared/ledger/health-rule.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { GroupKey, StatefulSet, ZoneWorkload } from "../shared/workloads/statefulsets.ts";

/** What a verdict has done, and to what. */
export type RolloutTarget =
  /** Reserved first (rule R8), then deleted by uid (rule R9). */
  | { readonly action: "delete"; readonly statefulSet: StatefulSet; readonly pod: Pod }
  /**
   * Broken and outdated: deleted as it was seen, by uid and resourceVersion, without a reservation (rule R13). The cause
   * follows "the pod was".
   */
  | { readonly action: "repair"; readonly statefulSet: StatefulSet; readonly pod: Pod; readonly cause: string }
  /** All pods run the update revision: say so in `status.currentRevision`, which Kubernetes does not do for OnDelete. */
  | { readonly action: "record-revision"; readonly statefulSet: StatefulSet };

/** The uid of the object that a target changes. Refusals are remembered by it. */
export function subjectOf(target: RolloutTarget): string {
  return target.action === "record-revision" ? target.statefulSet.uid : target.pod.uid;
}

/** A group as it is now: everything but the zone and its outdated pods on which a choice rests. */
export interface GroupNow {
  readonly key: GroupKey;
  /** The API server's clock, in milliseconds since the epoch. */
  readonly nowMs: number;
  /** By name, byte-wise ascending: the order in which zones are rolled. */
  readonly zones: readonly Zone[];
  /** The ZoneAwarePodDisruptionBudgets of the namespace, and whom they select besides the group. */
  readonly surroundings: Surroundings<ZoneWorkload>;
  /** What asked pods have said; absent where no StatefulSet of the group asks. */
  readonly questions?: Questions | undefined;
}

export interface Choice {
  readonly taken: readonly Pod[];
  /** The smallest limit of those that are taken. */
  readonly limit: ZoneLimit;
  /** Why the first of the others stays. */
  readonly blocked: PodBlocked | undefined;
  readonly nextInMs: number | undefined;
}

/**
 * Takes the pods that may go, one after the other. A pod that may not go delays none behind it, and each taken pod counts for
 * the next.
 */
export function choose(group: GroupNow, zone: Zone, candidates: readonly Pod[]): Choice {
  const own = ownLimitOf(zone);
  const taken: Pod[] = [];
  let limit = own;
  let blocked: PodBlocked | undefined;
  let nextInMs: number | undefined;
  let down = countDown(zone);
  // A pod that is already down needs no allowance, but while more are down than allowed, none is touched.
  const isDown = (pod: Pod) => zone.down.has(pod.ordinal);
  for (const pod of [...candidates.filter(isDown), ...candidates.filter((pod) => !isDown(pod))]) {
    const after = isDown(pod) ? down : down + 1;
    if (after > own.pods) break;
    const governed = governing(pod, group.surroundings, group.key);
    const its = limitOf(zone, governed, own);
    // The budget of a pod that goes counts all pods of the zone that are down, including those that it does not select.
    const least = its.pods < limit.pods ? its : limit;
    const why =
      after > least.pods
        ? blockedByLimit(zone, least)
        : (blockedByBudget(group, zone, pod, governed, taken) ?? blockedByAnswer(group, zone, pod, taken));
    if (why === undefined) {
      taken.push(pod);
      down = after;
      limit = least;
      continue;
    }
    blocked ??= why;
    if (why.nextInMs !== undefined) nextInMs = Math.min(why.nextInMs, nextInMs ?? why.nextInMs);
  }
  return { taken, limit, blocked, nextInMs };
}

/** Time in milliseconds until a pod is asked again, because no event reports that the other pods can do without it. */
const healthRequeueMs = 10_000;

/** Rule R22, and the pod's answer. This check comes last, so that Sluice asks no pod in vain. */
function blockedByAnswer(
  { questions, zones }: GroupNow,
  zone: Zone,
  pod: Pod,
  [other]: readonly Pod[],
): PodBlocked | undefined {
  if (!isPodAsked(zone.workload, pod)) return undefined;
  const blocked = other === undefined ? blockedByQuestion(questions, zones, zone, pod) : besideReserved(other.name);
  return blocked && { ...blocked, isLimit: false, nextInMs: healthRequeueMs };
}
