/** Whether a group gets a ledger, keeps it, or loses it (rules R1 and R4). Pure. */

import { type Wait, wait } from "../shared/contract/verdict.ts";
import type { Claim } from "../shared/ledger/claim.ts";
import type { Reservation } from "../shared/ledger/reservation.ts";
import { podNameOf } from "../shared/workloads/pods.ts";
import type { GroupKey } from "../shared/workloads/statefulsets.ts";

/** The observation of a group and of its ledger. */
export interface LedgerState {
  readonly key: GroupKey;
  /** A StatefulSet is in it. */
  readonly isLiving: boolean;
  /** Undefined where there is none. */
  readonly ledger: LedgerHoldings | undefined;
}

/** The contents of a ledger. The ledger of a living group stays whatever it has, and is not read. */
export interface LedgerHoldings {
  /** The reservations that are neither settled (rule R6) nor abandoned (rule R10). */
  readonly open: readonly Reservation[];
  /** All of them: only the function that made a claim knows when it is over (rule R10a). */
  readonly claims: readonly Pick<Claim, "kind" | "zone">[];
  /** The keys of what stands in it besides, and says something that this function does not know how to end. */
  readonly besides: readonly string[];
}

/** `make` and `collect` are acts; `keep` needs none. */
export type LedgerDecision = { readonly kind: "make" | "collect" | "keep" } | Wait;

/**
 * A group that has a StatefulSet has a ledger. One that has none any more keeps it while a function needs what it holds: a
 * ledger that holds a reservation or a claim, or says what only another function understands, is never collected.
 */
export function decide({ key: { group }, isLiving, ledger }: LedgerState): LedgerDecision {
  if (ledger === undefined) return { kind: isLiving ? "make" : "keep" };
  if (isLiving) return { kind: "keep" };
  const contents = contentsOf(ledger);
  const [first] = contents;
  if (first !== undefined) {
    const others = contents.length > 1 ? ` and ${contents.length - 1} more` : "";
    const message = `${group} has no StatefulSet any more, and its ledger holds ${first.what}${others}: it is collected once all has settled`;
    return wait("ledger-held", message, { zone: first.zone });
  }
  if (ledger.besides.length === 0) return { kind: "collect" };
  const message = `${group} has no StatefulSet any more, and its ledger says ${ledger.besides.join(", ")}: who wrote that may still need it`;
  return wait("ledger-in-use", message);
}

function contentsOf({ open, claims }: LedgerHoldings): { readonly what: string; readonly zone: string }[] {
  return [
    ...open.map((one) => ({ what: `the reservation of ${podNameOf(one)}`, zone: one.statefulSet })),
    ...claims.map(({ kind, zone }) => ({ what: `a claim on ${zone} (${kind})`, zone })),
  ];
}
