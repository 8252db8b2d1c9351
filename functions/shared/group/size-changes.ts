/** Rule R19: our own webhook is asked about our own change of a size, and about everybody else's. */
import type { Claim, KnownClaim, OrdinalRange } from "../ledger/claim.ts";
import { describeClaim, guardOfClaim } from "../ledger/kinds.ts";
import type { HeldBack } from "./claiming.ts";

/** Rule R18: how far a scale-down is. `preparing`: its pods are being told. `confirmed`: each has said that it may leave. */
export const scaleDownPhases = { preparing: "preparing", confirmed: "confirmed" } as const;

/** A change of a size as a review has it: of one StatefulSet, from one number of replicas to another. */
export interface SizeChange {
  readonly zone: string;
  /** Of the StatefulSet. */
  readonly uid: string;
  /** Its first ordinal. */
  readonly start: number;
  readonly from: number;
  readonly to: number;
  /** The uids of the pods that stand at the ordinals that would leave, by name, each by a GET after the ledger was read (R21). */
  readonly pods: ReadonlyMap<string, string>;
}

export type Joining =
  /** It is what the claim is for. It is allowed by a write that renews the claim's stamp, and not without one (rule R9). */
  | { readonly kind: "joins"; readonly claim: KnownClaim }
  /** No scale-down is claimed there: it is judged as one that nobody has asked for yet. */
  | { readonly kind: "unclaimed" }
  | ({ readonly kind: "held" } & HeldBack);

/**
 * Rule R19: a change of the same StatefulSet uid to the same target joins the open claim, whoever sent it and under whatever
 * uid of a review: the API server reviews again on every storage retry. Any other change of that StatefulSet is held until the
 * claim has ended; so is this one while its pods are still being told (rule R18), and when another pod has come for one that
 * was told: nobody has told that one. A confirmed claim names by uid the pods that were.
 */
export function joinScaleDown(claims: readonly Claim[], change: SizeChange): Joining {
  const ofZone = claims.filter(({ zone }) => zone === change.zone);
  // A claim that this version does not know may be about the size, too; it cannot take back what was confirmed beside it.
  const claim =
    ofZone.find(({ isKnown, kind }) => isKnown && kind === "scale-down") ?? ofZone.find(({ isKnown }) => !isKnown);
  if (claim === undefined) return { kind: "unclaimed" };
  const why = claim.isKnown ? whyApart(claim, change) : "it cannot be told what for";
  if (claim.isKnown && why === undefined) return { kind: "joins", claim };
  const sentence = `${describeClaim(claim)}: no other change of its size is let through until that has ended: ${why}`;
  return { kind: "held", guard: guardOfClaim(claim), sentence };
}

function whyApart(claim: KnownClaim, { zone, uid, start, from, to, pods }: SizeChange): string | undefined {
  const known = claim.uids?.[zone];
  if (known !== uid) return `the claim is of the StatefulSet with the uid ${known}, and this one has ${uid}`;
  const target = (claim.members[0]?.first ?? start) - start;
  if (to !== target || to >= from) return `it leads to ${target} replicas, and this change to ${to}`;
  if (!covers(claim.members, start + to, start + from - 1))
    return `of the ${from - to} pods that would leave it names fewer`;
  if (claim.phase !== scaleDownPhases.confirmed) return "its pods have not all said that they may leave";
  const untold = [...pods].find(([name, podUid]) => claim.uids?.[name] !== podUid);
  return untold && `${untold[0]} is another pod than the one that was told`;
}

/** True when every ordinal from the first to the last is in one of the ranges, which are ascending. */
function covers(ranges: readonly OrdinalRange[], first: number, last: number): boolean {
  let next = first;
  for (const range of ranges) if (range.first <= next && range.last >= next) next = range.last + 1;
  return next > last;
}
