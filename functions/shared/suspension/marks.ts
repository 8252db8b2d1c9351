/**
 * Which marks of a removal count. `sluice.dev/suspend-state: Removing` is written under a claim of the ledger. A copy of a
 * volume claim, a backup or a person may have the same text without a claim, and such a text deletes nothing.
 */

import { removalClaim, suspendState } from "../annotations/suspension.ts";
import type { Context } from "../contract/context.ts";
import type { Claim } from "../ledger/claim.ts";
import type { Ledger } from "../ledger/reservation.ts";
import { Conflict } from "../transaction/ledger-copy.ts";
import type { Member } from "../volumes/members.ts";
import { type Pvc, valueIn } from "../volumes/pvc.ts";

/**
 * True if the mark stands, and no claim of the ledger has the id that the mark names and the uid of the volume claim. Without our
 * finalizer, a deleted volume claim cannot be saved, and its claim of the ledger has ended before.
 */
function isMarkFalse(
  { name, uid, state, removalClaim, isTerminating, hasOurFinalizer }: Pvc,
  claims: readonly Claim[],
): boolean {
  if (valueIn(state) !== "Removing" || (isTerminating && !hasOurFinalizer)) return false;
  return !claims.some(
    (one) => one.isKnown && one.kind === "volume" && one.id === removalClaim && one.uids?.[name] === uid,
  );
}

/** The same volume claim without the effect of its mark; any other volume claim is unchanged. */
export function withoutFalseMark(pvc: Pvc, claims: readonly Claim[]): Pvc {
  if (!isMarkFalse(pvc, claims)) return pvc;
  const named = pvc.removalClaim === undefined ? "and names no claim" : `by the claim ${pvc.removalClaim}`;
  const message = `${suspendState.key} of ${pvc.name} says Removing, ${named} in ${removalClaim.key}, and the ledger holds none for its uid`;
  return { ...pvc, state: { kind: "malformed", message }, isMarkFalse: true };
}

/**
 * The members, without the marks of removals that no claim of the ledger holds. A claim is written before its mark. So if a mark
 * looks false, this reads the ledger once more, because another process may have written the claim after the first read. Throws
 * Conflict if the second read finds the claim, and ClusterError.
 */
export async function withTrueMarks(
  { cluster, protocol }: Pick<Context, "cluster" | "protocol">,
  { key, claims }: Pick<Ledger, "key" | "claims">,
  members: readonly Member[],
): Promise<readonly Member[]> {
  const doubtful = members.flatMap((member) => member.pvcs.filter((one) => isMarkFalse(one, claims)));
  if (doubtful.length === 0) return members;
  const now = (await protocol.readLedger(cluster, key))?.claims ?? [];
  if (doubtful.some((one) => !isMarkFalse(one, now))) throw new Conflict();
  return members.map((member) => ({ ...member, pvcs: member.pvcs.map((one) => withoutFalseMark(one, now)) }));
}
