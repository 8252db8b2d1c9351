/** A zone is one StatefulSet of a group, or one zone of another owner, with its pods. Counts what is down in it (rule R7). */

import { type Claim, namesOrdinal } from "../ledger/claim.ts";
import { countsAsDown } from "../ledger/claim-kinds.ts";
import type { Reservation } from "../ledger/reservation.ts";
import { availableInMs, type Pod } from "../workloads/pods.ts";
import { asStatefulSet, isWanted, type StatefulSet, type ZoneWorkload } from "../workloads/statefulsets.ts";

export type WhyDown = "missing" | "terminating" | "not ready" | "reserved" | "claimed";

export interface Zone<W extends ZoneWorkload = StatefulSet> {
  readonly workload: W;
  /** The pods that the workload owns at wanted ordinals, lowest ordinal first. */
  readonly pods: readonly Pod[];
  /** The pods that it owns beyond them: on their way out after a downscale, and not gone yet. */
  readonly leaving: readonly Pod[];
  /** Of `pods` those that another revision is wanted for and that are not on their way out. */
  readonly outdated: readonly Pod[];
  /** The ordinals that are down (rule R7) and that have a pod or an open reservation. */
  readonly down: ReadonlyMap<number, WhyDown>;
  /** How many more are down: wanted ordinals without either. Counted, never listed: a user may have asked for 2^31. */
  readonly missing: number;
  /** The open reservations of the zone by ordinal. */
  readonly reserved: ReadonlyMap<number, Reservation>;
  /** The claims of the zone (rule R18): while there is one, the zone is not whole, and no pod of a claim is taken. */
  readonly claims: readonly Claim[];
  /** When the next pod will count as available by time alone, in milliseconds from the snapshot; undefined when none will. */
  readonly nextAvailableInMs: number | undefined;
}

/**
 * Counts a zone. `pods` are those that the StatefulSet owns; `open` the reservations that are not settled; `claims` all that the
 * ledger holds.
 *
 * Rule R7: down are wanted ordinals that are missing, terminating or not Ready for `minReadySeconds`, and every ordinal
 * with an open reservation, wanted or not, whatever the state of its pod. So is every pod that a claim names (rule R18): of a
 * claimed ordinal that has none, one is missing, or the StatefulSet wants none.
 */
export function surveyZone<W extends ZoneWorkload>(
  workload: W,
  pods: Iterable<Pod>,
  open: readonly Reservation[],
  nowMs: number,
  claims: readonly Claim[] = [],
): Zone<W> {
  const wanted: Pod[] = [];
  const leaving: Pod[] = [];
  for (const pod of pods) (isWanted(workload, pod.ordinal) ? wanted : leaving).push(pod);
  // Most often they come in order, and a check for that is cheaper than a sort.
  if (wanted.some(({ ordinal }, index) => ordinal < (wanted[index - 1]?.ordinal ?? ordinal)))
    wanted.sort((one, other) => one.ordinal - other.ordinal);

  const down = new Map<number, WhyDown>();
  const counted = countPods(workload, wanted, nowMs, down);
  const ofZone = open.filter((reservation) => reservation.statefulSet === workload.name);
  const reserved = new Map(ofZone.map((reservation) => [reservation.ordinal, reservation]));
  const missing = counted.missing - markReserved(workload, wanted, [...reserved.keys()], down);
  const own = claims.filter(({ zone }) => zone === workload.name);
  if (own.length > 0) markClaimed(own, [...wanted, ...leaving], down);
  const { nextAvailableInMs } = counted;
  const outdated = outdatedOf(workload, wanted);
  return { workload, pods: wanted, leaving, outdated, down, missing, reserved, claims: own, nextAvailableInMs };
}

/** The zones of a group of StatefulSets, as such. Throws for one of another owner. */
export function ofStatefulSets<Z extends Pick<Zone<ZoneWorkload>, "workload">>(
  zones: readonly Z[],
): readonly (Z & Pick<Zone, "workload">)[] {
  for (const { workload } of zones) asStatefulSet(workload);
  return zones as readonly (Z & Pick<Zone, "workload">)[];
}

/** Marks the wanted pods that are down, and counts the wanted ordinals without a pod. */
function countPods(
  { replicas, minReadySeconds }: ZoneWorkload,
  wanted: readonly Pod[],
  nowMs: number,
  down: Map<number, WhyDown>,
): Pick<Zone, "missing" | "nextAvailableInMs"> {
  let missing = replicas;
  let nextAvailableInMs: number | undefined;
  let last: number | undefined;
  for (const pod of wanted) {
    // Two names may end in the same number: x-1 and x-01.
    if (pod.ordinal !== last) missing--;
    last = pod.ordinal;
    const availableIn = availableInMs(pod, minReadySeconds, nowMs);
    if (availableIn === 0) continue;
    down.set(pod.ordinal, pod.terminating ? "terminating" : "not ready");
    if (availableIn !== undefined) nextAvailableInMs = Math.min(availableIn, nextAvailableInMs ?? availableIn);
  }
  return { missing, nextAvailableInMs };
}

/** Marks the reserved ordinals that nothing else marks, and counts those of them that are missing. */
function markReserved(
  statefulSet: ZoneWorkload,
  wanted: readonly Pod[],
  reserved: readonly number[],
  down: Map<number, WhyDown>,
): number {
  const unmarked = reserved.filter((ordinal) => !down.has(ordinal));
  if (unmarked.length === 0) return 0;
  const standing = new Set(wanted.map(({ ordinal }) => ordinal));
  const missing = new Set(unmarked.filter((ordinal) => isWanted(statefulSet, ordinal) && !standing.has(ordinal)));
  for (const ordinal of unmarked) down.set(ordinal, missing.has(ordinal) ? "missing" : "reserved");
  return missing.size;
}

/** Marks the pods that a claim names, unless they are down already (rule R18). */
function markClaimed(claims: readonly Claim[], pods: readonly Pod[], down: Map<number, WhyDown>): void {
  for (const claim of claims.filter(countsAsDown)) {
    for (const { ordinal } of pods) {
      if (!down.has(ordinal) && namesOrdinal(claim, ordinal)) down.set(ordinal, "claimed");
    }
  }
}

function outdatedOf({ updateRevision }: ZoneWorkload, wanted: readonly Pod[]): readonly Pod[] {
  if (updateRevision === undefined) return [];
  return wanted.filter((pod) => !pod.terminating && pod.revision !== updateRevision);
}

/** The wanted pods that are ready: also those that are reserved or claimed, and may go at any moment. */
export function readyPods({ pods, down }: Pick<Zone, "pods" | "down">): readonly Pod[] {
  const isTaken = (why: WhyDown | undefined) => why === "reserved" || why === "claimed";
  return pods.filter(({ ordinal }) => !down.has(ordinal) || isTaken(down.get(ordinal)));
}

/** How many ordinals of a zone are down (rule R7). */
export function countDown({ down, missing }: Pick<Zone, "down" | "missing">): number {
  return down.size + missing;
}

/** The ordinals that {@link Zone.missing} counts, lowest first: as many steps as are asked for, and one for each pod. */
export function* missingOrdinals({ workload, pods, reserved }: Zone<ZoneWorkload>): Generator<number> {
  let expected = workload.start;
  const end = workload.start + workload.replicas;
  for (const next of [...pods.map(({ ordinal }) => ordinal), end]) {
    for (; expected < next; expected++) if (!reserved.has(expected)) yield expected;
    expected = next + 1;
  }
}

/** True if something of the zone is down or leaving, so that no healthy pod of another zone may go. */
export function isUnsettled(zone: Zone<ZoneWorkload>): boolean {
  return countDown(zone) > 0 || zone.leaving.length > 0 || zone.claims.length > 0;
}

/** Rule R18: the claim of the zone that names an ordinal: only its own function takes the pod there. */
export function claimOn({ claims }: Pick<Zone, "claims">, ordinal: number): Claim | undefined {
  return claims.find((claim) => namesOrdinal(claim, ordinal));
}

/** The down ordinals of a zone for a message: `zone-a: 3 of 20 down (2 not ready, 1 reserved)`. */
export function describeDown(zone: Zone<ZoneWorkload>): string {
  const counts = new Map<WhyDown, number>(zone.missing > 0 ? [["missing", zone.missing]] : []);
  for (const why of zone.down.values()) counts.set(why, (counts.get(why) ?? 0) + 1);
  const { name, replicas } = zone.workload;
  const parts = [...counts].map(([why, count]) => `${count} ${why}`);
  const leaving = zone.leaving.length > 0 ? `${zone.leaving.length} leaving` : undefined;
  if (parts.length === 0) return `${name}: ${leaving ?? "ready"}`;
  return `${name}: ${countDown(zone)} of ${replicas} down (${[...parts, ...(leaving ? [leaving] : [])].join(", ")})`;
}
