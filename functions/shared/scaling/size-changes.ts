/** Rule R19: the API server asks Sluice's webhook about every change of a size, also about Sluice's own. */

import type { Blocked } from "../groups/refuse-claim.ts";
import { type Claim, formatMembers, type KnownClaim, type OrdinalRange } from "../ledger/claim.ts";
import { describeClaim, guardOfClaim } from "../ledger/claim-kinds.ts";
import { largestOrdinal } from "../workloads/pods.ts";

/** Rule R18: how far a scale-down is. `preparing`: its pods are being told. `confirmed`: each has said that it may leave. */
export const scaleDownPhases = { preparing: "preparing", confirmed: "confirmed" } as const;

/** The ordinals that a StatefulSet wants: `[start, start + replicas)`. */
export interface Size {
  readonly start: number;
  readonly replicas: number;
}

/**
 * The ordinals that `from` wants and `to` does not, ascending: the pods that leave. A larger `start` takes the lowest
 * ordinals, even where the number of replicas grows. Ordinals beyond an int32 are left out, because no pod there belongs to
 * its StatefulSet and no claim can name it.
 */
export function leavingOrdinals(from: Size, to: Size): readonly OrdinalRange[] {
  const end = from.start + from.replicas;
  const below = { first: from.start, last: Math.min(end, to.start) - 1 };
  const above = { first: Math.max(from.start, to.start + to.replicas), last: end - 1 };
  const ranges = to.replicas <= 0 ? [{ first: from.start, last: end - 1 }] : [below, above];
  return ranges
    .map(({ first, last }) => ({ first, last: Math.min(last, largestOrdinal) }))
    .filter(({ first, last }) => first <= last);
}

/** A change of a size in words: `from 5 to 3 replicas`, or `from ordinals 0-4 to 2-4` where the first ordinal changes. */
export function describeSizes(from: Size, to: Size): string {
  if (from.start === to.start) return `from ${from.replicas} to ${to.replicas} replicas`;
  return `from ordinals ${describeOrdinals(from)} to ${describeOrdinals(to)}`;
}

function describeOrdinals({ start, replicas }: Size): string {
  return replicas > 0 ? formatMembers([{ first: start, last: start + replicas - 1 }]) : "none";
}

/** A change of the size of one StatefulSet, as a review has it. */
export interface SizeChange {
  readonly zone: string;
  /** Of the StatefulSet. */
  readonly uid: string;
  readonly from: Size;
  readonly to: Size;
  /** The uids of the pods that stand at the ordinals that would leave, by name, each by a GET after the ledger was read (R21). */
  readonly pods: ReadonlyMap<string, string>;
}

export type ScaleDownMatch =
  /** It is what the claim is for. It is allowed by a write that renews the claim's stamp, and not without one (rule R9). */
  | { readonly kind: "joins"; readonly claim: KnownClaim }
  /** No scale-down is claimed there: the change is decided as a new one. */
  | { readonly kind: "unclaimed" }
  | ({ readonly kind: "held" } & Blocked);

/**
 * Rule R19: a change of the same StatefulSet uid to the same target joins the open claim, whichever client sent it and
 * under whatever uid of a review: the API server reviews again on every storage retry. The target is the same if the change
 * takes ordinals of the claim alone, and leaves none of them.
 *
 * Any other change of that StatefulSet is held until the claim has ended; so is this one while its pods are still being told
 * (rule R18), and when another pod has come for one that was told: Sluice has not told the new pod. A confirmed claim names by
 * uid the pods that were.
 */
export function joinScaleDown(claims: readonly Claim[], change: SizeChange): ScaleDownMatch {
  const ofZone = claims.filter(({ zone }) => zone === change.zone);
  // A claim of an unknown kind may be about the size as well; it cannot undo a confirmed one beside it.
  const claim =
    ofZone.find(({ isKnown, kind }) => isKnown && kind === "scale-down") ?? ofZone.find(({ isKnown }) => !isKnown);
  if (claim === undefined) return { kind: "unclaimed" };
  const why = claim.isKnown ? whyApart(claim, change) : "it cannot be told what for";
  if (claim.isKnown && why === undefined) return { kind: "joins", claim };
  const message = `${describeClaim(claim)}: no other change of its size is let through until that has ended: ${why}`;
  return { kind: "held", guard: guardOfClaim(claim), message };
}

function whyApart(claim: KnownClaim, change: SizeChange): string | undefined {
  const { zone, uid, from, to, pods } = change;
  const known = claim.uids?.[zone];
  if (known !== uid) return `the claim is of the StatefulSet with the uid ${known}, and this one has ${uid}`;
  const leaving = leavingOrdinals(from, to);
  const isKept = ({ first, last }: OrdinalRange) =>
    to.replicas > 0 && first < to.start + to.replicas && last >= to.start;
  if (leaving.length === 0 || claim.members.some(isKept) || !leaving.every((range) => covers(claim.members, range)))
    return `it takes the ordinals ${formatMembers(claim.members)}, and this change takes ${formatMembers(leaving) || "none"}`;
  if (claim.phase !== scaleDownPhases.confirmed) return "its pods have not all said that they may leave";
  const untold = [...pods].find(([name, podUid]) => claim.uids?.[name] !== podUid);
  return untold && `${untold[0]} is another pod than the one that was told`;
}

/** True when every ordinal of a range is in one of the ranges, which are ascending. */
function covers(ranges: readonly OrdinalRange[], { first, last }: OrdinalRange): boolean {
  let next = first;
  for (const range of ranges) if (range.first <= next && range.last >= next) next = range.last + 1;
  return next > last;
}
