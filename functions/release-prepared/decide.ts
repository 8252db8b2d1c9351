/** What becomes of a downscale whose pods were told: it is over, goes on, or never came and is taken back (rule R20). Pure. */
import type { KnownClaim, OrdinalRange } from "../shared/ledger/claim.ts";
import { type ClaimWhereabouts, kinds, undoAfterMs } from "../shared/ledger/kinds.ts";
import { finishAfterMs } from "../shared/ledger/reservation.ts";
import type { Pod } from "../shared/objects/pods.ts";

/** The phase in which nobody joins the claim any more: its pods are being told that they stay. */
export const undoing = "undoing";

export interface PreparedSnapshot {
  readonly claim: KnownClaim;
  readonly where: ClaimWhereabouts;
  readonly nowMs: number;
}

export type Fate =
  | { readonly kind: "settled" }
  | { readonly kind: "stands"; readonly recheckMs: number }
  /** `stay`: the pods that are told so first. `leave`: the members that the claim shrinks to; none: it goes. */
  | { readonly kind: "undo"; readonly stay: readonly Pod[]; readonly leave: readonly OrdinalRange[] };

const leavingRecheckMs = 10_000;

export function decide({ claim, where, nowMs }: PreparedSnapshot): Fate {
  const row = kinds[claim.kind];
  if (row.isSettled(claim, where, nowMs)) return { kind: "settled" };
  const wanted = row.undoes(claim, where);
  if (wanted.length === 0) return { kind: "stands", recheckMs: leavingRecheckMs };
  // What somebody has begun to take back nobody lets through: it is gone on with once that one must have given up.
  const afterMs = claim.phase === undoing ? finishAfterMs : undoAfterMs;
  const remainingMs = claim.stampMs + afterMs - nowMs;
  if (remainingMs > 0) return { kind: "stands", recheckMs: Math.min(remainingMs, leavingRecheckMs) };
  const isWanted = (ordinal: number) => wanted.some(({ first, last }) => ordinal >= first && ordinal <= last);
  const ordinals = [...where.pods.keys()].sort((one, other) => one - other);
  return {
    kind: "undo",
    stay: ordinals.filter(isWanted).flatMap((ordinal) => where.pods.get(ordinal) ?? []),
    leave: ordinals.filter((ordinal) => !isWanted(ordinal)).map((ordinal) => ({ first: ordinal, last: ordinal })),
  };
}

/** Those of the pods whose owner has said that nobody need tell them: they were never ready, and their ordinals are released. */
export function toTell(stay: readonly Pod[], released: readonly OrdinalRange[]): readonly Pod[] {
  const isReleased = ({ ordinal, neverReady }: Pod) =>
    neverReady && released.some(({ first, last }) => ordinal >= first && ordinal <= last);
  return stay.filter((pod) => !isReleased(pod));
}
