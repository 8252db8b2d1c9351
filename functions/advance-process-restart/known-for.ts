/** How long a process has known the step of a restart. */

import { BoundedMap } from "../shared/base/bounded-map.ts";
import type { Context } from "../shared/contract/context.ts";
import type { GroupMemory } from "../shared/contract/memory.ts";
import { lastedMs } from "../shared/kubernetes/lasted.ts";
import type { KnownClaim } from "../shared/ledger/claim.ts";
import type { GroupKey } from "../shared/workloads/statefulsets.ts";

/** By the id of a claim its stamp, and since when this process knows it. Losing it makes a wait begin anew. */
const known = new WeakMap<GroupMemory, BoundedMap<string, { readonly stampMs: number; readonly sinceMs: number }>>();
/** A ledger has no more members than these. */
const mostClaims = 1_000;

/** For how long this process has known a claim since its last write, in milliseconds: no clock that is set makes it longer. */
export function knownFor({ cluster, memoryOf }: Context, key: GroupKey, { id, stampMs }: KnownClaim): number {
  const memory = memoryOf(key);
  const claims = known.get(memory) ?? new BoundedMap(mostClaims);
  known.set(memory, claims);
  const nowMs = lastedMs(cluster);
  const before = claims.get(id);
  if (before?.stampMs === stampMs) return nowMs - before.sinceMs;
  claims.set(id, { stampMs, sinceMs: nowMs });
  return 0;
}
