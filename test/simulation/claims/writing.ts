/** How the makers of claims look at a ledger, and write it: as a function does. */

import type { Context } from "../../../functions/shared/contract/context.ts";
import { openTransaction } from "../../../functions/shared/transaction/claims.ts";
import type { GroupObservation } from "../../../functions/shared/transaction/observe-group.ts";
import type { GroupKey } from "../../../functions/shared/workloads/statefulsets.ts";

export { writeClaim } from "../../../functions/shared/transaction/claims.ts";

/** A group by its ledger; undefined while nothing may be permitted by it. Throws ClusterError. */
export async function observeLedger(context: Context, key: GroupKey): Promise<GroupObservation | undefined> {
  const look = await openTransaction(context, key);
  return look?.young === undefined ? look?.observed : undefined;
}
