/** The database of a restart that is under way. */

import type { Context } from "../../shared/contract/context.ts";
import { ofStatefulSets } from "../../shared/groups/zones.ts";
import type { GroupObservation } from "../../shared/transaction/observe-group.ts";
import type { StatefulSet } from "../../shared/workloads/statefulsets.ts";
import { type Database, databaseOf } from "./exchange.ts";

/**
 * As `databaseOf`, for the group and these StatefulSets of the restart's claims, which may have left the group since: what the
 * restart has changed must still be undone. Throws ClusterError.
 */
export async function databaseOfClaims(
  context: Context,
  observed: GroupObservation,
  statefulSets: readonly (StatefulSet | undefined)[],
  last?: string,
): Promise<Database | undefined> {
  const zones = ofStatefulSets(observed.zones);
  const members = new Set(zones.map(({ workload }) => workload.name));
  const left = statefulSets.flatMap((one) => (one === undefined || members.has(one.name) ? [] : [one]));
  const more = left.map(async (workload) => ({ workload, pods: await context.cache.podsMadeFor(workload) }));
  return databaseOf(context, [...zones, ...(await Promise.all(more))], last);
}
