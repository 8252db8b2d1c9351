/** What becomes of a downscale whose pods were told: it is over, goes on, or never came and is taken back (rule R20). Pure. */

import { isMalformed } from "../shared/annotations/parse-scaling.ts";
import { lastDownscale } from "../shared/annotations/scaling.ts";
import { secondMs } from "../shared/clock/durations.ts";
import { type Claim, isWithin, type KnownClaim, type OrdinalRange } from "../shared/ledger/claim.ts";
import { type ClaimedObjects, kinds, undoAfterMs } from "../shared/ledger/claim-kinds.ts";
import { finishAfterMs } from "../shared/ledger/reservation.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { StatefulSet } from "../shared/workloads/statefulsets.ts";

/** Phase of a claim that no review joins any more, because its pods are being told that they stay. */
export const undoing = "undoing";

export interface PreparedSnapshot {
  readonly claim: KnownClaim;
  readonly where: ClaimedObjects;
  readonly nowMs: number;
}

export type ClaimDecision =
  | { readonly kind: "settled" }
  | { readonly kind: "stands"; readonly requeueAfterMs: number }
  /** `stay`: the pods that are told so first. `leave`: the members that the claim shrinks to; none: it goes. */
  | { readonly kind: "undo"; readonly stay: readonly Pod[]; readonly leave: readonly OrdinalRange[] };

/** When to reconcile a downscale that goes on again, in milliseconds: as often as the schedule does. */
const leavingRequeueMs = 10_000;

export function decide({ claim, where, nowMs }: PreparedSnapshot): ClaimDecision {
  const row = kinds[claim.kind];
  if (row.isSettled(claim, where, nowMs)) return { kind: "settled" };
  const wanted = row.undoes(claim, where);
  if (wanted.length === 0) return { kind: "stands", requeueAfterMs: leavingRequeueMs };
  // No review lets a downscale through whose claim is being undone. The undo goes on once its process must have given up.
  const afterMs = claim.phase === undoing ? finishAfterMs : undoAfterMs;
  const remainingMs = claim.stampMs + afterMs - nowMs;
  if (remainingMs > 0) return { kind: "stands", requeueAfterMs: Math.min(remainingMs, leavingRequeueMs) };
  const isWanted = (ordinal: number) => isWithin(wanted, ordinal);
  const ordinals = [...where.pods.keys()].sort((one, other) => one - other);
  return {
    kind: "undo",
    stay: ordinals.filter(isWanted).flatMap((ordinal) => where.pods.get(ordinal) ?? []),
    leave: ordinals.filter((ordinal) => !isWanted(ordinal)).map((ordinal) => ({ first: ordinal, last: ordinal })),
  };
}

/** A zone whose annotation does not say when it was last made smaller. */
export interface UntoldZone {
  readonly zone: string;
  /** When it was, by the ledger; in milliseconds since the epoch. */
  readonly downMs: number;
}

/** The zones whose time only the ledger has. A zone with a claim is left out, because its time may still change. */
export function findUntold(
  statefulSets: readonly StatefulSet[],
  times: Readonly<Record<string, number>>,
  claims: readonly Claim[],
): readonly UntoldZone[] {
  return statefulSets.flatMap(({ name: zone, scaling }) => {
    const downMs = times[zone];
    if (downMs === undefined || !scaling?.preparesDownscale || claims.some((claim) => claim.zone === zone)) return [];
    // A malformed annotation is left for the user who wrote it to correct.
    if (isMalformed(scaling, lastDownscale) || downMs <= (scaling.lastDownscaleMs ?? 0)) return [];
    return [{ zone, downMs }];
  });
}

/** Some autoscalers fail if another client writes an object during their change; after this time they are done with it. */
export const writeAfterMs = 60_000;

/**
 * In how many milliseconds the annotation may be written; 0: now. Rule: never within a minute of a change (#96, #303).
 * `changedMs`: time of the last change of the StatefulSet but for its status, in whole seconds; 0 if it is not known.
 */
export function writableInMs({ downMs }: UntoldZone, changedMs: number, nowMs: number): number {
  return Math.max(0, Math.max(downMs, changedMs + secondMs) + writeAfterMs - nowMs);
}
