/** Which outdated pods are replaced outside the budget, because they serve no client (rule R13). */

import { governing } from "../shared/groups/governing.ts";
import { limitOf, ownLimitOf } from "../shared/groups/pod-limit.ts";
import { countDown, type Zone } from "../shared/groups/zones.ts";
import { isPodAsked } from "../shared/health/permit.ts";
import { type Claim, namesOrdinal } from "../shared/ledger/claim.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { GroupNow, RolloutTarget } from "./decide-pods.ts";

type Repair = Extract<RolloutTarget, { action: "repair" }>;

/** How long after its creation an outdated pod that was never Ready may still become so before it is repaired. */
export const neverReadyAfterMs = 120_000;

/**
 * Rule R13: a revision that cannot start is replaced as soon as a newer one exists, at no cost to the budget. 0: an outdated
 * pod is to be repaired now; undefined: not as it is, however long it stays so.
 */
export function repairInMs({ nowMs }: GroupNow, zone: Zone, pod: Pod): number | undefined {
  if (zone.workload.paused || pod.readySinceMs !== undefined) return undefined;
  // Several claims may name one pod, because an announced claim waits for no other claim.
  if (zone.claims.some((claim) => namesOrdinal(claim, pod.ordinal) && !isReplacement(claim, pod))) return undefined;
  if (pod.stuck !== undefined) return 0;
  if (!pod.neverReady) return undefined;
  if (pod.pending) return 0;
  // NaN, which is neither 0 nor more, if the pod has no creation time that can be read.
  return Math.max(0, pod.createdMs + neverReadyAfterMs - nowMs);
}

/**
 * The pod has replaced one that the claim names by uid. If it is broken, the claim would wait for the pod, and the pod for the
 * claim.
 */
function isReplacement(claim: Claim, { name, uid }: Pod): boolean {
  const named = claim.isKnown ? claim.uids?.[name] : undefined;
  return named !== undefined && named !== uid;
}

export function repairsOf(group: GroupNow, zone: Zone): Repair[] {
  return zone.outdated
    .filter((pod) => repairInMs(group, zone, pod) === 0)
    .map((pod) => ({ action: "repair", statefulSet: zone.workload, pod, cause: causeOf(group, pod) }));
}

function causeOf({ nowMs }: GroupNow, { stuck, pending, createdMs }: Pod): string {
  if (stuck !== undefined) return `stuck in ${stuck}`;
  const seconds = Math.max(0, Math.floor((nowMs - createdMs) / 1000));
  if (pending) return Number.isNaN(seconds) ? "Pending" : `Pending for ${seconds} s`;
  return `never ready in ${seconds} s`;
}

/**
 * Rule R13: outdated pods that were ready once and are down, in the first zone by name that has any. The new template may mend
 * them, and no healthy pod is taken while they are down in several zones, or are more than the limit. A pod that is down takes
 * nothing from the group when it goes. All the same no more of a zone are on their way than its limit says, and no second zone
 * begins before those of the first have had their time. `refusals`: the uids of pods whose deletion was refused.
 */
export function mend(group: GroupNow, refusals: ReadonlyMap<string, unknown>): Repair[] {
  for (const zone of group.zones) {
    const down = zone.outdated.filter((pod) => isMendable(group, zone, pod));
    const candidates = down.filter(({ uid }) => !refusals.has(uid));
    if (candidates.length > 0) {
      const onTheirWay = countDown(zone) - down.length;
      return candidates.slice(0, Math.max(0, leastLimit(group, zone, candidates) - onTheirWay)).map((pod) => ({
        action: "repair",
        statefulSet: zone.workload,
        pod,
        cause: "not ready",
      }));
    }
    if (isComing(group, zone)) return [];
  }
  return [];
}

/** A pod with a health question waits until the others are whole (Q1). A reserved pod belongs to its function. */
function isMendable(group: GroupNow, zone: Zone, pod: Pod): boolean {
  const { workload, down, reserved, claims } = zone;
  if (workload.paused || pod.readySinceMs !== undefined || down.get(pod.ordinal) !== "not ready") return false;
  if (repairInMs(group, zone, pod) !== undefined || isPodAsked(workload, pod)) return false;
  return reserved.get(pod.ordinal)?.uid !== pod.uid && !claims.some((claim) => namesOrdinal(claim, pod.ordinal));
}

function leastLimit(group: GroupNow, zone: Zone, pods: readonly Pod[]): number {
  const own = ownLimitOf(zone);
  return Math.min(...pods.map((pod) => limitOf(zone, governing(pod, group.surroundings, group.key), own).pods));
}

/**
 * True while a pod of the zone is terminating, or one that is known to be of the wanted revision still has time to become
 * ready.
 */
function isComing({ nowMs }: GroupNow, { workload, pods }: Zone): boolean {
  return pods.some(({ terminating, revision, readySinceMs, createdMs }) => {
    const isNew = revision !== undefined && revision === workload.updateRevision && readySinceMs === undefined;
    return terminating || (isNew && nowMs - createdMs < neverReadyAfterMs);
  });
}
