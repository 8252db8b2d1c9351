/** How the makers of claims look at a ledger, and write it: as a function does. */

import type { Context } from "../../../functions/shared/contract/context.ts";
import type { KnownClaim } from "../../../functions/shared/ledger/claim.ts";
import { openTransaction, writeClaims } from "../../../functions/shared/transaction/claims.ts";
import type { GroupObservation } from "../../../functions/shared/transaction/observe-group.ts";
import type { GroupKey } from "../../../functions/shared/workloads/statefulsets.ts";

/** Writes a claim in the place of its older self, beside the others, or takes it out. Throws as `writeClaims` does. */
export function writeClaim(
  context: Context,
  observed: GroupObservation,
  before: KnownClaim | undefined,
  after: KnownClaim | undefined,
): Promise<number> {
  const change = { out: before === undefined ? [] : [before], into: after === undefined ? [] : [after] };
  return writeClaims(context, observed, change);
}

/** A group by its ledger; undefined while nothing may be permitted by it. Throws ClusterError. */
export async function observeLedger(context: Context, key: GroupKey): Promise<GroupObservation | undefined> {
  const observation = await openTransaction(context, key);
  return observation?.tooNew === undefined ? observation?.observed : undefined;
}
