/** Pods of a group that are in no restart of many, although their processes run: the others are to join these afterwards. */

import { mapLimit } from "../../shared/base/map-limit.ts";
import type { Context } from "../../shared/contract/context.ts";
import { ofStatefulSets } from "../../shared/groups/zones.ts";
import { type KnownClaim, namesOrdinal } from "../../shared/ledger/claim.ts";
import type { GroupObservation } from "../../shared/transaction/observe-group.ts";
import { askProcesses } from "../ask-processes.ts";
import { filesOf, readSecrets } from "../files.ts";
import type { Outsiders } from "./decide-member.ts";

const askedAtOnce = 8;

/** By StatefulSet those that answer, and what their files change. Throws ClusterError. */
export async function readOutsiders(
  context: Context,
  observed: GroupObservation,
  claims: readonly KnownClaim[],
): Promise<readonly Outsiders[]> {
  const zones = ofStatefulSets(observed.zones).filter(
    ({ workload: { restart, deleting } }) => restart?.files !== undefined && !deleting,
  );
  const found = await mapLimit(zones, askedAtOnce, async ({ workload, pods: all }): Promise<readonly Outsiders[]> => {
    const isIn = (ordinal: number) =>
      claims.some((claim) => claim.zone === workload.name && namesOrdinal(claim, ordinal));
    const outside = all.filter(({ ordinal }) => !isIn(ordinal));
    const known = outside.length === 0 ? [] : await askProcesses(context, workload, outside);
    const running = known.filter(({ processId }) => processId !== undefined);
    const pod = outside.find(({ uid }) => running.some(({ podUid }) => podUid === uid));
    if (pod === undefined) return [];
    const secrets = await readSecrets(context, workload);
    if ("guard" in secrets) return [];
    return [{ pod, files: await filesOf(context, observed.key, workload, { ...secrets, ask: async () => running }) }];
  });
  return found.flat();
}
