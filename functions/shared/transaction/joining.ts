/**
 * Zones that a ledger's last decision did not count (rule R4). A StatefulSet that comes from another group may have pods that the
 * ledger of that group has reserved, and this one knows nothing of: the function that did so may still be acting, and no view
 * that is only as new as this ledger asks for need show it.
 */

import { BoundedMap } from "../base/bounded-map.ts";
import type { GroupView } from "../cache/cache.ts";
import { clockSkewMs } from "../clock/skew.ts";
import type { Cluster } from "../kubernetes/cluster.ts";
import { type Ledger, ledgerNewMs } from "../ledger/reservation.ts";
import { groupPathOf, isStatefulSet, type ZoneWorkload } from "../workloads/statefulsets.ts";

export interface JoiningZones {
  /** The zones for which nothing is permitted yet, and for how long, in milliseconds. */
  readonly awaited: ReadonlyMap<string, number>;
  /** True where a zone has joined and this view is no consistent LIST: a permit needs one. */
  readonly needsList: boolean;
  /** The names of the zones that count from now on. The next write of the ledger has them. */
  readonly members: readonly string[];
}

/** `since`: when this process first found each zone new, by name and uid. Zones that are new no more are removed from it. */
export function findJoining(
  cluster: Pick<Cluster, "monotonicMs" | "serverTimeMs">,
  since: Map<string, number>,
  { key, members: counted }: Pick<Ledger, "key" | "members">,
  { workloads, consistentAt }: GroupView,
): JoiningZones {
  const nowMs = cluster.monotonicMs();
  const seenIn = groupsOver(cluster);
  const here = groupPathOf(key);
  const names = workloads.map(({ name }) => name).sort();
  const joined = counted === undefined ? [] : workloads.filter(({ name }) => !counted.includes(name));
  for (const { name, uid } of workloads) if (counted?.includes(name) !== false) seenIn.set(uid, here);
  const isNewHere = (one: ZoneWorkload) =>
    (seenIn.get(one.uid) ?? here) === here && isJustMade(one, cluster.serverTimeMs());
  if (joined.length === 0) {
    since.clear();
    return { awaited: new Map(), needsList: false, members: names };
  }
  const identities = new Set(joined.map(identify));
  for (const identity of [...since.keys()]) if (!identities.has(identity)) since.delete(identity);
  const awaited = new Map<string, number>();
  for (const statefulSet of joined) {
    const identity = identify(statefulSet);
    const sinceMs = since.get(identity) ?? nowMs;
    since.set(identity, sinceMs);
    const remainingMs = sinceMs + ledgerNewMs - nowMs;
    if (remainingMs > 0 && !isNewHere(statefulSet)) awaited.set(statefulSet.name, remainingMs);
    else seenIn.set(statefulSet.uid, here);
  }
  const isListed = consistentAt !== undefined;
  const isOut = ({ name }: ZoneWorkload) => awaited.has(name) || !isListed;
  const out = new Set(joined.filter(isOut).map(({ name }) => name));
  return { awaited, needsList: !isListed, members: names.filter((name) => !out.has(name)) };
}

/** In which group each StatefulSet was last seen and counted over a connection, by its uid. */
const groups = new WeakMap<object, BoundedMap<string, string>>();
const rememberedStatefulSets = 10_000;

function groupsOver(cluster: object): BoundedMap<string, string> {
  const known = groups.get(cluster) ?? new BoundedMap<string, string>(rememberedStatefulSets);
  groups.set(cluster, known);
  return known;
}

/**
 * A StatefulSet this new has been in no other group. A clock that is behind makes it seem newer by as much. One of the far
 * future may be old: the clocks of all API servers may have been set back by minutes. Set back by as much as its age they make
 * it seem new, which a process notices that has seen it in another group.
 */
function isJustMade(one: ZoneWorkload, nowMs: number): boolean {
  return isStatefulSet(one) && Math.abs(nowMs - one.createdMs) < clockSkewMs;
}

function identify({ name, uid }: ZoneWorkload): string {
  return `${name} ${uid}`;
}
