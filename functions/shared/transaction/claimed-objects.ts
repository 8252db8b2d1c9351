/**
 * Reads the objects that the ledger names. Reserved pods come from the view, or by GET if the view lacks them. Objects of a
 * claim come only by GETs.
 */

import { rolloutGroup } from "../annotations/table.ts";
import { type GroupView, getPod } from "../cache/cache.ts";
import { getStatefulSet } from "../cache/listing.ts";
import type { Context } from "../contract/context.ts";
import { isMember, selects } from "../groups/governing.ts";
import type { Departed } from "../groups/refuse-claim.ts";
import { type Cluster, hasCode, isKnown } from "../kubernetes/cluster.ts";
import { find } from "../kubernetes/find.ts";
import { isNamedBy, type KnownClaim, namesOrdinal } from "../ledger/claim.ts";
import type { ClaimedObjects } from "../ledger/claim-kinds.ts";
import type { Ledger, Reservation } from "../ledger/reservation.ts";
import { isGoing, type ReservedPodState } from "../ledger/settling.ts";
import { isOwnerGroup, readGroup } from "../workloads/group-key.ts";
import {
  containerIdsOf,
  isAvailable,
  isStanding,
  type Pod,
  parsePod,
  podNameOf,
  statefulSetNameOf,
} from "../workloads/pods.ts";
import { type GroupKey, isWanted, type StatefulSet, type ZoneWorkload } from "../workloads/statefulsets.ts";

/**
 * StatefulSets that the view does not have, as a GET found them; undefined for one that is gone. Reservations name them, the last
 * decision counted them, or they have released pods of the group.
 */
export type UnknownStatefulSets = ReadonlyMap<string, StatefulSet | undefined>;

export async function readUnknownSets(context: Context, ledger: Ledger, view: GroupView): Promise<UnknownStatefulSets> {
  const seen = new Set(view.workloads.map(({ name }) => name));
  const { members, key } = ledger;
  const { namespace } = key;
  // The labels are asked whatever the ledger counts: a zone may have come and left between two of its writes.
  const counted = [...(members ?? []), ...(await namesByLabels(context, key, view))];
  const reserved = ledger.reservations.map(({ statefulSet }) => statefulSet);
  const named = isOwnerGroup(key.group) ? reserved : [...reserved, ...counted];
  const unseen = [...new Set(named)].filter((name) => !seen.has(name));
  const reads = unseen.map(async (name) => [name, await getStatefulSet(context.cluster, { namespace, name })] as const);
  return new Map(await Promise.all(reads));
}

/** The StatefulSets that have released a pod whose labels are of the group. Throws ClusterError. */
async function namesByLabels({ cache }: Context, { namespace, group }: GroupKey, view: GroupView): Promise<string[]> {
  const { kind, name } = readGroup(group);
  const budget = kind === "budget" ? view.budgets.find((one) => one.name === name) : undefined;
  if (kind !== "labelled" && budget === undefined) return [];
  const isOfGroup = ({ labels }: Pod) => {
    return budget === undefined ? labels[rolloutGroup.key] === name : selects(budget, labels);
  };
  return (await cache.orphans(namespace)).filter(isOfGroup).map((pod) => statefulSetNameOf(pod.name));
}

/** True when one of them belongs to the group. Then the view is from before it joined, and does not know it. */
export function isMissingMember({ key }: Ledger, view: GroupView, unknownSets: UnknownStatefulSets): boolean {
  return [...unknownSets.values()].some((one) => one !== undefined && isMember(one, key, view.budgets, view.hasPods));
}

/**
 * Where the pod of each reservation is. A pod that the view does not show may stand all the same, when its StatefulSet has let
 * go of it or left the group: only a GET tells that it is gone. Throws ClusterError.
 */
export async function findReserved(
  context: Context,
  ledger: Ledger,
  view: GroupView,
  unknownSets: UnknownStatefulSets,
): Promise<ReadonlyMap<Reservation, ReservedPodState>> {
  if (ledger.reservations.length === 0) return new Map();
  const members = new Map(view.workloads.map((statefulSet) => [statefulSet.name, statefulSet]));
  const places = await Promise.all(
    ledger.reservations.map(async (reservation): Promise<[Reservation, ReservedPodState]> => {
      const member = members.get(reservation.statefulSet);
      const seen = view.pod(podNameOf(reservation));
      // A LIST also shows orphans, so that the other orphans of the StatefulSet are read as well.
      const isOwned = seen?.ownerUid !== undefined;
      const isMissing = seen === undefined && member !== undefined && isWanted(member, reservation.ordinal);
      if (member !== undefined && (isOwned || isMissing)) {
        return [reservation, { pod: seen, workload: member, isMember: true, orphans: 0 }];
      }
      const unknownSet = unknownSets.get(reservation.statefulSet);
      // A StatefulSet that was recreated since the view was read belongs to the group all the same, and not to another one.
      const isOne = unknownSet !== undefined && isMember(unknownSet, ledger.key, view.budgets, view.hasPods);
      const found = await findByName(context, ledger, reservation, member ?? unknownSet, member !== undefined || isOne);
      return [reservation, found];
    }),
  );
  return new Map(places);
}

async function findByName(
  context: Context,
  { key: { namespace } }: Ledger,
  reservation: Reservation,
  statefulSet: ZoneWorkload | undefined,
  isOne: boolean,
): Promise<ReservedPodState> {
  const pod = await getPod(context.cluster, { namespace, name: podNameOf(reservation) });
  const isLeft = pod?.uid !== reservation.uid && (statefulSet === undefined || isGoing(statefulSet));
  // Pods that it has not released yet count as well: it releases them one by one, and a watch reports that later.
  const left = isLeft ? await context.cache.podsMadeFor({ namespace, name: reservation.statefulSet }) : [];
  // The GET has found the newest state of the pod, which memory may not know yet.
  const isFoundLeft = isLeft && pod?.orphaned === true && isStanding(pod) && !left.some(({ uid }) => uid === pod.uid);
  return { pod, workload: statefulSet, isMember: isOne, orphans: left.length + (isFoundLeft ? 1 : 0) };
}

/** The orphans of a group whose StatefulSets are gone or being deleted. */
export interface Left {
  /** The zones that are gone and of which pods stand. */
  readonly standing: readonly string[];
  /** Their pods that are not ready and that no open reservation names. */
  readonly down: readonly Departed[];
  /** True where a zone that the ledger counts is gone with all that it had. */
  readonly isOver: boolean;
}

/**
 * Rule R7: a zone whose StatefulSet was deleted without its pods counts until these are gone or it is made again. Sluice does
 * not know any more how many pods it wanted: the pods that stand count. Throws ClusterError.
 */
export async function findLeft(
  { cache }: Context,
  { key: { namespace, group }, members = [] }: Ledger,
  view: GroupView,
  { unknownSets, open, nowMs }: { unknownSets: UnknownStatefulSets; open: readonly Reservation[]; nowMs: number },
): Promise<Left> {
  // The pods of an owner are found by its volume claims, and never by their names.
  if (isOwnerGroup(group)) return { standing: [], down: [], isOver: false };
  const reserved = new Set(open.map(podNameOf));
  const madeFor = async (name: string) => [name, await cache.podsMadeFor({ namespace, name })] as const;
  const gone = [...unknownSets].flatMap(([name, found]) => (found === undefined ? [name] : []));
  const left = await Promise.all(gone.map(madeFor));
  const standing = left.flatMap(([name, pods]) => (pods.length > 0 ? [name] : []));
  // While it is being deleted it releases its pods one by one; those that it has still count in its own zone.
  const going = view.workloads.filter(isGoing);
  for (const [name, pods] of await Promise.all(going.map(({ name }) => madeFor(name))))
    left.push([name, pods.filter(({ orphaned }) => orphaned)]);
  const down = left.flatMap(([statefulSet, pods]) =>
    pods
      .filter((pod) => !reserved.has(pod.name) && !isAvailable(pod, 0, nowMs))
      .map(({ ordinal }): Departed => ({ statefulSet, ordinal, isLeft: true })),
  );
  return { standing, down, isOver: gone.some((name) => members.includes(name) && !standing.includes(name)) };
}

/**
 * A view as new as the ledger asks for, and the ledger that it is for.
 *
 * A ledger with a revision that a consistent LIST has not got to is from another cluster, or from a backup (a Lease
 * that was restored): no view will ever be as new. What it says of revisions is void then.
 */
export async function readAsNew(
  context: Context,
  ledger: Ledger,
  need: { readonly permitSinceMs: number | undefined; readonly consistent: boolean },
): Promise<{ readonly ledger: Ledger; readonly view: GroupView }> {
  const { settledThrough, membersThrough } = ledger;
  const read = (consistent: boolean) => {
    return context.cache.read(ledger.key, { ...need, consistent, settledThrough, membersThrough });
  };
  const view = await read(need.consistent).catch((error: unknown) => {
    if (!hasCode(error, 504) || settledThrough === undefined) throw error;
    return read(true);
  });
  const { consistentAt } = view;
  const isPossible =
    consistentAt === undefined ||
    (consistentAt.pods >= (settledThrough ?? 0) && consistentAt.statefulSets >= (membersThrough ?? 0));
  if (isPossible) return { ledger, view };
  const nothingYet = { settledThrough: undefined, membersThrough: undefined };
  const begunAnew = { ...ledger, ...nothingYet, members: undefined, isElsewhere: true };
  const anew = { ...need, ...nothingYet, consistent: true };
  return { ledger: begunAnew, view: await context.cache.read(ledger.key, anew) };
}

/** The same, with what the view does not have. `isMissingMember`: it is from before a StatefulSet joined the group. */
export async function readView(context: Context, stored: Ledger, need: Parameters<typeof readAsNew>[2]) {
  const { ledger, view } = await readAsNew(context, stored, need);
  const unknownSets = await readUnknownSets(context, ledger, view);
  return { ledger, view, unknownSets, isMissingMember: isMissingMember(ledger, view, unknownSets) };
}

/**
 * Reads the objects that a claim names. A caller that removes volumes has read them, and gives them by name and uid. The act on
 * the result follows within 5 s, by uid and resourceVersion. Throws ClusterError.
 */
export async function readClaimedObjects(
  cluster: Cluster,
  namespace: string,
  claim: KnownClaim,
  volumes: ReadonlyMap<string, string> = new Map(),
): Promise<ClaimedObjects> {
  const [statefulSet, { items }, isAnchored] = await Promise.all([
    getStatefulSet(cluster, { namespace, name: claim.zone }),
    // Without a revision that is new enough, a LIST is consistent.
    cluster.list("pods", { namespace }),
    hasAnchor(cluster, namespace, claim),
  ]);
  const named = items
    .map((object) => ({ pod: parsePod(object), ids: containerIdsOf(object) }))
    .filter(({ pod }) => statefulSetNameOf(pod.name) === claim.zone && namesOrdinal(claim, pod.ordinal));
  const pods = new Map(named.map(({ pod }) => [pod.ordinal, pod]));
  const containers = new Map(named.map(({ pod, ids }) => [pod.ordinal, ids]));
  return { statefulSet, pods, containers, volumes, isAnchored };
}

/**
 * Rule R10a: true while the anchor is there and names the claim. One of a type that a later version knows cannot be read here: it
 * is taken to be there. Throws ClusterError.
 */
async function hasAnchor(cluster: Cluster, ledgers: string, claim: KnownClaim): Promise<boolean> {
  const { anchor } = claim;
  if (anchor === undefined) return false;
  const { resource, namespace = ledgers, name, annotation } = anchor;
  if (!isKnown(resource)) return true;
  const object = await find(cluster, resource, { namespace, name });
  return isNamedBy(claim, object?.metadata.annotations?.[annotation]);
}
