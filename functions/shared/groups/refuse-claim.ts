/** Whether a claim may be made: rules R17 and R25, over the zones of one observation. */
import { type Claim, type ClaimContent, isWithin, type OrdinalRange } from "../ledger/claim.ts";
import { type Blocked, blockedBy, kinds } from "../ledger/claim-kinds.ts";
import type { Reservation } from "../ledger/reservation.ts";
import { type Pod, podNameOf } from "../workloads/pods.ts";
import type { ZoneWorkload } from "../workloads/statefulsets.ts";
import { neverWithin } from "./never-possible.ts";
import { countDown, describeDown, isUnsettled, missingOrdinals, type Zone } from "./zones.ts";

export type { Blocked } from "../ledger/claim-kinds.ts";

/**
 * A pod that is down in a StatefulSet that is none of the group's any more: deleted, or with another label. An open reservation
 * is one; so is a pod that is not ready and that its StatefulSet left behind (`kubectl delete --cascade=orphan`).
 */
export interface Departed extends Pick<Reservation, "statefulSet" | "ordinal"> {
  /** Set where no reservation says so: the pod stands, and is not ready. */
  readonly isLeft?: true;
}

/** The contents of one ledger, and its zones. */
export interface LedgerSurroundings<W extends ZoneWorkload = ZoneWorkload> {
  readonly zones: readonly Zone<W>[];
  /** What is down, and the claims, in StatefulSets that are none of the group's any more. */
  readonly departed: readonly Departed[];
  readonly strayClaims: readonly Claim[];
}

/**
 * Rule R17: why a claim may not be made now; undefined where it may. `limit`: how many pods of its zone may be down with it.
 *
 * An announced claim may always be made, because no function can choose it. An asked one waits until every other zone is whole
 * and no other function has its members. What the limit can never allow is `never-possible`: its function asks for less, or
 * says so.
 */
export function refuseClaim(around: LedgerSurroundings, content: ClaimContent, limit: number): Blocked | undefined {
  if (content.terms === "announced") return undefined;
  const own = around.zones.find(({ workload }) => workload.name === content.zone);
  // Before any reason that ends by itself, because no function may wait for the impossible.
  const never = own && neverWithin(limit, content, own.workload);
  if (never !== undefined) return { guard: "never-possible", message: never };
  const [departed] = around.departed;
  if (departed !== undefined) return { guard: "zone-departed", message: describeDeparted(departed) };
  if (own === undefined) return { guard: "zone-departed", message: `${content.zone} has left the group or is gone` };
  const [stray] = around.strayClaims;
  if (stray !== undefined) return blockedBy(stray);
  return refuseByOthers(around, own) ?? refuseMembers(own, content) ?? refuseByLimit(own, content, limit);
}

/** The reason that blocks every other zone, how it ends, and what to do (guard `zone-departed`). */
export function describeDeparted(departed: Departed): string {
  const pod = podNameOf(departed);
  const { statefulSet } = departed;
  if (departed.isLeft)
    return `${pod} is not ready, and its StatefulSet ${statefulSet} is gone; no other zone is touched until that pod is ready or gone: make ${statefulSet} again, or delete the pods that it left behind`;
  return `${pod} is reserved, but its StatefulSet has left the group or is gone; no other zone is touched until that pod is gone or back, and no pod without a StatefulSet is left`;
}

function refuseByOthers({ zones }: LedgerSurroundings, own: Zone<ZoneWorkload>): Blocked | undefined {
  const other = zones.find((zone) => zone !== own && isUnsettled(zone));
  if (other === undefined) return undefined;
  const [claim] = other.claims;
  return claim === undefined ? { guard: "zones-down", message: describeDown(other) } : blockedBy(claim);
}

/** No function claims a pod that another function has reserved or claimed. */
function refuseMembers(own: Zone<ZoneWorkload>, { members }: ClaimContent): Blocked | undefined {
  const overlaps = ({ first, last }: OrdinalRange) => members.some((one) => one.first <= last && one.last >= first);
  const foreign = own.claims.find((claim) => !claim.isKnown || claim.members.some(overlaps));
  if (foreign !== undefined) return blockedBy(foreign);
  const reserved = [...own.reserved.keys()].find((ordinal) => isWithin(members, ordinal));
  if (reserved === undefined) return undefined;
  const pod = podNameOf({ statefulSet: own.workload.name, ordinal: reserved });
  return { guard: "budget", message: `${pod} is reserved` };
}

function refuseByLimit(own: Zone<ZoneWorkload>, { members, kind }: ClaimContent, limit: number): Blocked | undefined {
  const isNew = ({ ordinal }: Pod) => !own.down.has(ordinal) && isWithin(members, ordinal);
  const added = kinds[kind].countsAs === "members-down" ? [...own.pods, ...own.leaving].filter(isNew) : [];
  if (countDown(own) + added.length <= limit) return undefined;
  const message = `${describeDown(own)}, ${limit} may be, and ${added.length} more would be`;
  return { guard: "budget", message };
}

/**
 * Why the pods of a zone may not leave for good by a claim; undefined if they may. No limit bounds how many leave, because
 * `max-unavailable` is for pods that come back. A function that asks pods about their health also checks that (`blockedLeaving`).
 */
export function refuseScaleDown(around: LedgerSurroundings, content: ClaimContent): Blocked | undefined {
  const blocked = refuseClaim(around, content, Number.POSITIVE_INFINITY);
  const own = around.zones.find(({ workload }) => workload.name === content.zone);
  return blocked ?? (own && refuseLeaving(own, content));
}

/** The same for a claim of a webhook, which makes the other checks itself. It goes on with an existing claim of the zone. */
export function refuseOwnZone(
  { zones }: Pick<LedgerSurroundings, "zones">,
  content: ClaimContent,
): Blocked | undefined {
  const own = zones.find(({ workload }) => workload.name === content.zone);
  return own === undefined || own.claims.length > 0 ? undefined : refuseLeaving(own, content);
}

type Leaving = Pick<ClaimContent, "members" | "uids">;

/** The pods of a zone that go by a claim: at its ordinals, or by the uids that it names. */
export function leaversOf({ pods }: Pick<Zone, "pods">, { members, uids = {} }: Leaving): readonly Pod[] {
  return pods.filter(({ ordinal, name, uid }) => isWithin(members, ordinal) || uids[name] === uid);
}

/** Invariant Z2: the pods that are down among those that stay; while all of these are ready, any number goes. */
function refuseLeaving(own: Zone<ZoneWorkload>, content: Leaving): Blocked | undefined {
  const { name: statefulSet, maxUnavailable, isOrdered } = own.workload;
  const leavers = leaversOf(own, content);
  const staying = stayingDown(own, content, leavers);
  const leaving = leavers.filter(({ ordinal }) => own.down.has(ordinal));
  const blocking = staying[0] ?? (leaving.length > 1 ? leaving[0]?.ordinal : undefined);
  if (isOrdered && blocking !== undefined) {
    const pod = podNameOf({ statefulSet, ordinal: blocking });
    const message = `${pod} is ${own.down.get(blocking) ?? "missing"}, and ${statefulSet} is OrderedReady: its controller takes no pod above it away before it is ready`;
    return { guard: "ordinal-not-ready", message };
  }
  const added = leavers.length - leaving.length;
  if (staying.length === 0 || added === 0 || staying.length + added <= maxUnavailable) return undefined;
  const message = `${describeDown(own)}, ${maxUnavailable} may be, and ${added} more would be`;
  return { guard: "budget", message };
}

/** The ordinals that stay and are down, lowest first. Of those without a pod it lists at most one more than the zone's limit. */
function stayingDown(own: Zone<ZoneWorkload>, { members }: Leaving, leavers: readonly Pod[]): readonly number[] {
  const leaving = new Set(leavers.map(({ ordinal }) => ordinal));
  const down = [...own.down.keys()].filter((ordinal) => !leaving.has(ordinal) && !isWithin(members, ordinal));
  let left = own.workload.maxUnavailable + 1;
  for (const ordinal of missingOrdinals(own)) {
    // Ordinals ascend, and the highest of them leave. A user may have asked for 2^31.
    if (left-- === 0 || isWithin(members, ordinal)) break;
    down.push(ordinal);
  }
  return down.sort((one, other) => one - other);
}
