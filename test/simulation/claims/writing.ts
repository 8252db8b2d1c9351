/** How makers of claims read and write a ledger: as shipped functions do. */

import type { Context } from "../../../functions/shared/contract/context.ts";
import type { KnownClaim } from "../../../functions/shared/ledger/claim.ts";
import { openTransaction, writeClaims } from "../../../functions/shared/transaction/claims.ts";
import type { GroupObservation } from "../../../functions/shared/transaction/observe-group.ts";
import type { GroupKey } from "../../../functions/shared/workloads/statefulsets.ts";

/** Replaces an older version of the claim, adds it, or removes it. Throws as `writeClaims` does. */
export function writeClaim(
  context: Context,
  observed: GroupObservation,
  before: KnownClaim | undefined,
  after: KnownClaim | undefined,
): Promise<number> {
  const change = { out: before === undefined ? [] : [before], into: after === undefined ? [] : [after] };
  return writeClaims(context, observed, change);
}

/** Reads a group and its ledger; undefined while the ledger may permit nothing. Throws ClusterError. */
export async function observeLedger(context: Context, key: GroupKey): Promise<GroupObservation | undefined> {
  const observation = await openTransaction(context, key);
  return observation?.tooNew === undefined ? observation?.observed : undefined;
}
