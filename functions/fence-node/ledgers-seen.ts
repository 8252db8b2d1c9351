/** What a decision sees of the claims of a fence, and the steps about them. Pure. */

import type { GroupKey } from "../shared/workloads/statefulsets.ts";

/** A claim of a fence of the node, in the ledger of a group. */
export interface ClaimSeen {
  readonly key: GroupKey;
  readonly id: string;
  readonly isReturned: boolean;
  /** False where it need not be known. */
  readonly isSettled: boolean;
}

/** The first ledger in the order of R23 that lacks claims of the fence. */
export interface LedgerAwaited {
  readonly key: GroupKey;
  /** Why it cannot be written now, and how soon to try again, in milliseconds; undefined: it can be written. */
  readonly away: { readonly why: string; readonly requeueAfterMs: number } | undefined;
}

export interface LedgersSeen {
  readonly claims: readonly ClaimSeen[];
  /** Undefined where each ledger that can be written has the claims of the fence, or where that need not be known. */
  readonly awaited: LedgerAwaited | undefined;
  /** Which ledgers are passed by, and why, as messages. They permit nothing to any function. */
  readonly passed: readonly string[];
}

/** A step about the claims of one ledger. */
export type LedgerStep =
  | { readonly kind: "announce"; readonly key: GroupKey }
  | { readonly kind: "return-claims" | "take-claims"; readonly key: GroupKey; readonly ids: readonly string[] };
