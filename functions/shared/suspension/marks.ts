/**
 * Which marks of a removal count. `sluice.dev/suspend-state: Removing` is written under a claim of the ledger. A copy of a volume
 * claim, a backup or a person may carry the same words without one, and nothing is deleted by those. Pure.
 */

import { removalClaim, suspendState } from "../annotations/suspension.ts";
import type { Claim } from "../ledger/claim.ts";
import type { Member } from "../volumes/members.ts";
import { type Pvc, valueIn } from "../volumes/pvc.ts";

/** True where a claim of the ledger has the id that the volume claim names, and names the uid of the volume claim. */
export function isMarkHeld({ name, uid, removalClaim }: Pvc, claims: readonly Claim[]): boolean {
  return claims.some(
    (one) => one.isKnown && one.kind === "volume" && one.id === removalClaim && one.uids?.[name] === uid,
  );
}

/**
 * The mark stands, and no claim of the ledger holds it. Of what is deleted and has lost our finalizer nothing can be saved: its
 * claim has ended before it.
 */
export function isMarkFalse(pvc: Pvc, claims: readonly Claim[]): boolean {
  const isLost = pvc.isTerminating && !pvc.isHeld;
  return valueIn(pvc.state) === "Removing" && !isLost && !isMarkHeld(pvc, claims);
}

/** The same volume claim, with its mark as words that say nothing; any other is as it was. */
export function withoutFalseMark(pvc: Pvc, claims: readonly Claim[]): Pvc {
  if (!isMarkFalse(pvc, claims)) return pvc;
  const named = pvc.removalClaim === undefined ? "and names no claim" : `by the claim ${pvc.removalClaim}`;
  const sentence = `${suspendState.key} of ${pvc.name} says Removing, ${named} in ${removalClaim.key}, and the ledger holds none for its uid`;
  return { ...pvc, state: { kind: "malformed", sentence }, isMarkFalse: true };
}

/** The same members, without the marks that no claim of the ledger holds. */
export function withoutFalseMarks(members: readonly Member[], claims: readonly Claim[]): readonly Member[] {
  return members.map((member) =>
    member.pvcs.some((one) => isMarkFalse(one, claims))
      ? { ...member, pvcs: member.pvcs.map((one) => withoutFalseMark(one, claims)) }
      : member,
  );
}
