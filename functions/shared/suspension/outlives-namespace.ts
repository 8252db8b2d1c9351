/** Which volume claims keep their data although their namespace is being deleted. Pure. */

import type { Pvc } from "../volumes/pvc.ts";
import { ordinalOfPvc, type SuspendableSet } from "../volumes/suspendable-set.ts";

/**
 * True where a user has put the volume claim on hold or has its volume retained, by words on the claim or on its StatefulSet.
 * With its StatefulSet such words may be gone already: then the answer is the safe one, which is true. The claims of another
 * owner bear these words themselves. `sets`: the StatefulSets of the namespace that are still there.
 */
export function outlivesNamespace(pvc: Pvc, sets: readonly SuspendableSet[]): boolean {
  const { name, ownerUid, owned, isOnHold, isRetained } = pvc;
  if (isOnHold || isRetained === true) return true;
  if (owned !== undefined) return false;
  const set = sets.find((one) =>
    ownerUid === undefined ? ordinalOfPvc(one, name) !== undefined : one.uid === ownerUid,
  );
  if (set === undefined) return ownerUid !== undefined;
  return set.policy.isOnHold || (isRetained ?? set.policy.isRetained);
}
