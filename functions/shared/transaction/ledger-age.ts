/** How long this process has known ledgers and claims, and what is too new to permit anything or to be given up (rule R4). */

import { BoundedMap } from "../base/bounded-map.ts";
import { clockSkewMs } from "../clock/skew.ts";
import type { Context } from "../contract/context.ts";
import { type Wait, wait } from "../contract/verdict.ts";
import type { Cluster } from "../kubernetes/cluster.ts";
import { lastedMs } from "../kubernetes/lasted.ts";
import type { KnownClaim } from "../ledger/claim.ts";
import { type Ledger, ledgerNewMs } from "../ledger/reservation.ts";
import type { GroupKey } from "../workloads/statefulsets.ts";
import type { JoiningZones } from "./joining.ts";

/**
 * Rule R4: what keeps a ledger from permitting anything yet, for a zone that has just joined as well ({@link refuseJoining}).
 *
 * Ten seconds by our own clock since we first saw this ledger. Its creation time tells only where the
 * clocks of two API servers, which may differ by 30 s, leave no doubt; it is cut to whole seconds, too.
 */
export function refuseNewLedger(
  { cluster }: Pick<Context, "cluster">,
  { ledger, nowMs, joining }: { ledger: Ledger; nowMs: number; joining?: JoiningZones },
): Wait | undefined {
  if (ledger.isElsewhere === true) return refuseElsewhere(cluster, ledger);
  const oldEnoughMs = ledger.createdMs + 1_000 + ledgerNewMs + clockSkewMs - nowMs;
  const seenMs = known.get(cluster)?.get(ledger.uid) ?? lastedMs(cluster);
  const seenLongMs = seenMs + ledgerNewMs - lastedMs(cluster);
  const remainingMs = Number.isNaN(oldEnoughMs) ? seenLongMs : Math.min(oldEnoughMs, seenLongMs);
  if (remainingMs <= 0) return joining && refuseJoining(joining);
  const message = `the ledger ${ledger.name} is new, and this process has known it for less than ${ledgerNewMs / 1000} s; if an older one was lost, a process that used it may still be acting`;
  return wait("ledger-new", message, { requeueAfterMs: remainingMs });
}

/**
 * What it held before a client wrote the other one over it is lost, as with a new one: a process that used it may still be
 * acting. Each write of it may be another restore: it ages from the one that it was last found with.
 */
function refuseElsewhere(cluster: Cluster, { name, uid, resourceVersion }: Ledger): Wait | undefined {
  const remainingMs =
    noteLedger(cluster, `${uid} from elsewhere at ${resourceVersion}`) + ledgerNewMs - lastedMs(cluster);
  if (remainingMs <= 0) return undefined;
  const message = `the ledger ${name} names revisions that this cluster has not reached: it is from another cluster, or from a backup; its reservations count, and it starts anew in ${Math.ceil(remainingMs / 1000)} s`;
  return wait("ledger-elsewhere", message, { requeueAfterMs: remainingMs });
}

/** The wait for zones that have joined; undefined where there is none. */
export function refuseJoining({ awaited }: JoiningZones): Wait | undefined {
  const [first] = awaited;
  if (first === undefined) return undefined;
  const [zone, remainingMs] = first;
  const message = `${zone} has joined the group, and this process has known it for less than ${ledgerNewMs / 1000} s; a function that took its pods in another group may still be acting`;
  return wait("zone-joined", message, { zone, requeueAfterMs: remainingMs });
}

/** When each was first seen over a connection, by an identity: what one function has seen has aged for all of them. */
type FirstSeen = WeakMap<Cluster, BoundedMap<string, number>>;
/** Ledgers by their uid. Claims come and go far more often, and must not have them forgotten. */
const known: FirstSeen = new WeakMap();
const knownClaims: FirstSeen = new WeakMap();
const rememberedOfEach = 10_000;

/** Since when it has been seen, by what ledgers age by; `knownForMs` ago where this is the first time. */
function noteIn(first: FirstSeen, cluster: Cluster, identity: string, knownForMs = 0): number {
  const seen = first.get(cluster) ?? new BoundedMap<string, number>(rememberedOfEach);
  first.set(cluster, seen);
  const sinceMs = seen.get(identity) ?? lastedMs(cluster) - knownForMs;
  seen.set(identity, sinceMs);
  return sinceMs;
}

/**
 * Notes that a ledger is there, and has been for so long: from then on it ages in this process (rule R4). Returns since when,
 * by what ledgers age by.
 */
export function noteLedger(cluster: Cluster, uid: string, knownForMs = 0): number {
  return noteIn(known, cluster, uid, knownForMs);
}

/** Clocks are set by minutes, and never by this long: what looks so old is old also to a process that has just begun. */
const oldForSureMs = 900_000;

/**
 * For how long a claim has stood as it is, for sure, in milliseconds: since this process has known it, or since its stamp if that
 * is so old. The clocks of API servers may be set, and each stamp looks old then. The first call for a claim begins that time.
 */
export function claimStoodForMs(
  { cluster }: Pick<Context, "cluster">,
  { namespace, group }: GroupKey,
  { id, stampMs }: Pick<KnownClaim, "id" | "stampMs">,
): number {
  const sinceMs = noteIn(knownClaims, cluster, `${namespace} ${group} ${id} ${stampMs}`);
  const stampedForMs = cluster.serverTimeMs() - stampMs;
  return stampedForMs >= oldForSureMs ? stampedForMs : lastedMs(cluster) - sinceMs;
}

/** True where a claim has stood as it is for so long that no act rests on it any more (rule R9). */
export function isLongKnown(...claim: Parameters<typeof claimStoodForMs>): boolean {
  return claimStoodForMs(...claim) >= ledgerNewMs;
}
