/**
 * Where reserved pods are: from the view where it shows them, and by GETs where it does not. And where all is that a claim names:
 * by GETs alone.
 */
import { isMember } from "../group/governing.ts";
import { type Cluster, hasCode, isKnown } from "../kubernetes/cluster.ts";
import { type KnownClaim, namesOrdinal } from "../ledger/claim.ts";
import type { ClaimWhereabouts } from "../ledger/kinds.ts";
import type { Ledger, Reservation } from "../ledger/reservation.ts";
import type { Whereabouts } from "../ledger/settling.ts";
import { isStanding, parsePod, podNameOf, statefulSetNameOf } from "../objects/pods.ts";
import { isWanted, type StatefulSet } from "../objects/statefulsets.ts";
import { getStatefulSet } from "../views/listing.ts";
import { type GroupView, getPod } from "../views/view.ts";
import type { Context } from "./definition.ts";

/** StatefulSets that reservations name and the view does not have, as a GET found them; undefined for one that is gone. */
export type Strangers = ReadonlyMap<string, StatefulSet | undefined>;

const noStrangers: Strangers = new Map();

export async function readStrangers(context: Context, ledger: Ledger, view: GroupView): Promise<Strangers> {
  if (ledger.reservations.length === 0) return noStrangers;
  const members = new Set(view.statefulSets.map(({ name }) => name));
  const { namespace } = ledger.key;
  const names = new Set(ledger.reservations.map(({ statefulSet }) => statefulSet).filter((name) => !members.has(name)));
  const reads = [...names].map(
    async (name) => [name, await getStatefulSet(context.cluster, { namespace, name })] as const,
  );
  return new Map(await Promise.all(reads));
}

/** True when one of them belongs to the group. Then the view is from before it joined, and does not know it. */
export function isMissingMember({ key }: Ledger, view: GroupView, strangers: Strangers): boolean {
  return [...strangers.values()].some((one) => one !== undefined && isMember(one, key, view.budgets, view.hasPods));
}

/**
 * Where the pod of each reservation is. A pod that the view does not show may stand all the same, when its StatefulSet has let
 * go of it or left the group: only a GET tells that it is gone. Throws ClusterError.
 */
export async function findReserved(
  context: Context,
  ledger: Ledger,
  view: GroupView,
  strangers: Strangers,
): Promise<ReadonlyMap<Reservation, Whereabouts>> {
  if (ledger.reservations.length === 0) return new Map();
  const members = new Map(view.statefulSets.map((statefulSet) => [statefulSet.name, statefulSet]));
  const places = await Promise.all(
    ledger.reservations.map(async (reservation): Promise<[Reservation, Whereabouts]> => {
      const member = members.get(reservation.statefulSet);
      const seen = view.pod(podNameOf(reservation));
      // A LIST shows pods, too, that a StatefulSet has let go of: what else is left of it has to be asked for.
      const isOwned = seen?.ownerUid !== undefined;
      const isMissing = seen === undefined && member !== undefined && isWanted(member, reservation.ordinal);
      if (member !== undefined && (isOwned || isMissing)) {
        return [reservation, { pod: seen, statefulSet: member, isMember: true, orphans: 0 }];
      }
      const statefulSet = member ?? strangers.get(reservation.statefulSet);
      // One that was made again since the view was read is of the group all the same, and not of another one.
      const isOne = statefulSet !== undefined && isMember(statefulSet, ledger.key, view.budgets, view.hasPods);
      return [reservation, await findByName(context, ledger, reservation, statefulSet, member !== undefined || isOne)];
    }),
  );
  return new Map(places);
}

async function findByName(
  context: Context,
  { key: { namespace } }: Ledger,
  reservation: Reservation,
  statefulSet: StatefulSet | undefined,
  isOne: boolean,
): Promise<Whereabouts> {
  const pod = await getPod(context.cluster, { namespace, name: podNameOf(reservation) });
  const isLeft = pod?.uid !== reservation.uid && (statefulSet === undefined || statefulSet.deleting);
  // Pods that it has not released yet count as well: it releases them one by one, and a watch tells of that later.
  const left = isLeft ? await context.views.podsMadeFor({ namespace, name: reservation.statefulSet }) : [];
  // The pod that was found is the newest state, and nobody else may know it yet.
  const isFoundLeft = isLeft && pod?.orphaned === true && isStanding(pod) && !left.some(({ uid }) => uid === pod.uid);
  return { pod, statefulSet, isMember: isOne, orphans: left.length + (isFoundLeft ? 1 : 0) };
}

/**
 * A view as new as the ledger asks for, and the ledger that it is for.
 *
 * A ledger that tells of a revision which a consistent LIST has not got to is from another cluster, or from a backup (a Lease
 * that was restored): no view will ever be as new. What it says of revisions is void then.
 */
export async function readAsNew(
  context: Context,
  ledger: Ledger,
  need: { readonly permitSinceMs: number | undefined; readonly consistent: boolean },
): Promise<{ readonly ledger: Ledger; readonly view: GroupView }> {
  const { settledThrough, membersThrough } = ledger;
  const read = (consistent: boolean) => {
    return context.views.read(ledger.key, { ...need, consistent, settledThrough, membersThrough });
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
  const begunAnew = {
    ...ledger,
    settledThrough: undefined,
    membersThrough: undefined,
    members: undefined,
    isElsewhere: true,
  };
  const anew = { ...need, consistent: true, settledThrough: undefined, membersThrough: undefined };
  return { ledger: begunAnew, view: await context.views.read(ledger.key, anew) };
}

/**
 * Where everything is that a claim names. `volumes` are read by whoever removes some, by name and uid. What is decided on it is
 * done within 5 s, by uid and resourceVersion. Throws ClusterError.
 */
export async function findClaimed(
  cluster: Cluster,
  namespace: string,
  claim: KnownClaim,
  volumes: ReadonlyMap<string, string> = new Map(),
): Promise<ClaimWhereabouts> {
  const [statefulSet, { items }, isAnchored] = await Promise.all([
    getStatefulSet(cluster, { namespace, name: claim.zone }),
    // Without a revision that will do, a LIST is consistent.
    cluster.list("pods", { namespace }),
    holdsAnchor(cluster, namespace, claim),
  ]);
  const pods = items
    .map(parsePod)
    .filter(({ name, ordinal }) => statefulSetNameOf(name) === claim.zone && namesOrdinal(claim, ordinal));
  return { statefulSet, pods: new Map(pods.map((pod) => [pod.ordinal, pod])), volumes, isAnchored };
}

/**
 * Rule R10a: true while the anchor is there and names the claim. One of a type that a later version knows cannot be read here: it
 * is taken to be there. Throws ClusterError.
 */
async function holdsAnchor(cluster: Cluster, ledgers: string, { id, anchor }: KnownClaim): Promise<boolean> {
  if (anchor === undefined) return false;
  const { resource, namespace = ledgers, name, annotation } = anchor;
  if (!isKnown(resource)) return true;
  try {
    const object = await cluster.get(resource, { namespace, name });
    return object.metadata.annotations?.[annotation] === id;
  } catch (error) {
    if (hasCode(error, 404)) return false;
    throw error;
  }
}
