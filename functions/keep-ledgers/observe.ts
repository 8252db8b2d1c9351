/** The groups and their ledgers: by lists for a sweep, by a view for one group. */

import { namedConfigs } from "../shared/annotations/restart-files.ts";
import { knownTriggers } from "../shared/annotations/restart-trigger.ts";
import {
  claims,
  lastDownscales,
  lastRemoval,
  lastRestart,
  ledgerEntries,
  looks,
  verdicts,
} from "../shared/annotations/table.ts";
import { listBudgets } from "../shared/cache/cache.ts";
import type { Context } from "../shared/contract/context.ts";
import { ledgerGroupsOf, parseStoredBudget } from "../shared/groups/governing.ts";
import type { LeaseObject } from "../shared/kubernetes/cluster.ts";
import { parseLedger } from "../shared/ledger/contents.ts";
import { listLedgerLeases } from "../shared/ledger/lease.ts";
import type { Ledger } from "../shared/ledger/reservation.ts";
import { longestGapMs } from "../shared/suspension/looks.ts";
import { observeGroup } from "../shared/transaction/observe-group.ts";
import { type GroupKey, groupPathOf, parseStatefulSet } from "../shared/workloads/statefulsets.ts";
import type { LedgerState } from "./decide.ts";

export const name = "keep-ledgers";

/**
 * By their paths, the groups of StatefulSets: those that `rollout-group` makes, and those that budgets make of StatefulSets
 * without one. All lists are consistent. Throws ClusterError.
 */
export async function listGroups({ cluster, namespaces }: Context): Promise<ReadonlyMap<string, GroupKey>> {
  const groups = new Map<string, GroupKey>();
  const put = (key: GroupKey) => groups.set(groupPathOf(key), key);
  for (const namespace of namespaces ?? [undefined]) {
    const [budgets, { items }] = await Promise.all([
      listBudgets(cluster, namespace),
      cluster.list("statefulsets", namespace === undefined ? {} : { namespace }),
    ]);
    const stored = budgets.map(parseStoredBudget);
    for (const key of items.flatMap((item) => ledgerGroupsOf(parseStatefulSet(item), stored))) put(key);
  }
  return groups;
}

/** The Leases of all ledgers, of which some may be of groups that have vanished. Throws ClusterError. */
export async function listLedgers({ cluster, namespaces }: Context): Promise<LeaseObject[]> {
  const scopes = namespaces ?? [undefined];
  return (await Promise.all(scopes.map((scope) => listLedgerLeases(cluster, scope)))).flat();
}

/** The times in a ledger that do not keep it from being removed; reservations and claims are observed separately. */
const passing = new Set(
  [
    ...ledgerEntries,
    claims,
    verdicts,
    lastDownscales,
    looks,
    lastRemoval,
    lastRestart,
    namedConfigs,
    knownTriggers,
  ].map(({ key }): string => key),
);
const ours = /^sluice\.dev\//;

/** A user may recreate the StatefulSets with such a time between zones, which the deleted ones no longer show. */
const timesKeptMs = 7 * 24 * 3_600_000;

/** True while a ledger's times of this kind may still block something, or count for it. */
function isNeeded(key: string, ledger: Ledger, nowMs: number): boolean {
  const { looks: seen, lastRemovalMs } = ledger;
  if (key === lastDownscales.key) return isDownscaleNeeded(ledger, nowMs);
  // Older observations do not count. Volumes outlive their StatefulSet, which may be recreated and wait as long.
  if (key === looks.key) return seen !== undefined && nowMs - seen.untilMs < longestGapMs;
  return key === lastRemoval.key && lastRemovalMs !== undefined && nowMs - lastRemovalMs < timesKeptMs;
}

/** True while the times of downscales in a ledger may still keep a zone from becoming smaller. */
function isDownscaleNeeded({ lastDownscales: times, hasMalformedTimes }: Ledger, nowMs: number): boolean {
  return hasMalformedTimes === true || Object.values(times ?? {}).some((ms) => nowMs - ms < timesKeptMs);
}

/**
 * A group that seems to be gone, with its ledger, both by fresh reads and not from a watch. Throws LedgerUnreadable,
 * ClusterError.
 */
export async function observeVanished(context: Context, key: GroupKey, lease: LeaseObject): Promise<LedgerState> {
  const ledger = parseLedger(key, lease);
  const { open, zones, nowMs, joining } = await observeGroup(context, ledger, {
    permitSinceMs: undefined,
    consistent: true,
  });
  const isKept = (one: string) => !passing.has(one) || isNeeded(one, ledger, nowMs);
  const besides = Object.keys(lease.metadata.annotations ?? {}).filter((one) => ours.test(one) && isKept(one));
  return {
    key,
    // A zone that was deleted without its pods still counts for the others, once they are recreated.
    isLiving: zones.length > 0 || (open.length === 0 && joining.members.length > 0),
    ledger: { open, claims: ledger.claims, besides },
  };
}
