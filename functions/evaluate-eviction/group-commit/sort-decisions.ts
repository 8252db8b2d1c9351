/** Sorts the reviews of one batch by their decisions. Pure. */
import { notYet } from "../../shared/admission/answers.ts";
import type { AdmissionAnswer } from "../../shared/admission/definition.ts";
import type { Context } from "../../shared/contract/context.ts";
import type { Wait } from "../../shared/contract/verdict.ts";
import type { Reservation } from "../../shared/ledger/reservation.ts";

/** The eviction of the pod of that name that had that uid when it was read. */
export interface Eviction {
  readonly name: string;
  readonly uid: string;
  /** True where it can evict no other pod: the client named the uid, or our answer does (rule R11). */
  readonly isPinned: boolean;
  /** JSON Patch operations that pin the uid; none where the webhook may not change anything. */
  readonly pin: readonly object[];
  /** What the answer pins may be the pod's resourceVersion as well: it goes only as it was seen (rule R13). */
  readonly pinsRevision?: boolean;
  /** It was on its way out when it was read: once it is gone, so is the pod that was meant. */
  readonly isLeaving?: boolean;
}

export interface ReviewedEviction {
  readonly eviction: Eviction;
  readonly dryRun: boolean;
}

/** The decision about one review. */
export interface Decision {
  readonly answer: AdmissionAnswer;
  /** What an allowance rests on: it is given only once this stands in the ledger (rules R8, R12). */
  readonly reserve?: Pick<Reservation, "statefulSet" | "ordinal" | "uid">;
}

export interface SortedDecisions<Review> {
  /** Reviews whose allowance is given once its reservation is written. */
  readonly granted: readonly (Required<Decision> & { readonly waiting: Review })[];
  /** Allowances that reserve nothing, because nothing may be left behind (rule R16). */
  readonly traceless: ReadonlyMap<Review, AdmissionAnswer>;
  /** Answers that need no reservation: the refusals, of which some may wait, and allowances of pods that count for nothing. */
  readonly unreserved: ReadonlyMap<Review, AdmissionAnswer>;
}

/** Sorts the decisions, one for each review, in their order. `tooNew`: why the ledger permits nothing yet (rule R4). */
export function sortDecisions<Review extends { readonly dryRun: boolean }>(
  reviews: readonly Review[],
  decisions: readonly Decision[],
  { mode, tooNew }: { readonly mode: Context["mode"]; readonly tooNew: Wait | undefined },
): SortedDecisions<Review> {
  const granted: SortedDecisions<Review>["granted"][number][] = [];
  const [traceless, unreserved] = [new Map<Review, AdmissionAnswer>(), new Map<Review, AdmissionAnswer>()];
  for (const [index, waiting] of reviews.entries()) {
    const { answer, reserve } = decisions[index] as Decision;
    if (reserve === undefined) unreserved.set(waiting, answer);
    else if (tooNew !== undefined)
      unreserved.set(waiting, notYet(tooNew.guard, tooNew.message, "", tooNew.requeueAfterMs));
    else if (waiting.dryRun) traceless.set(waiting, answer);
    else if (mode === "shadow") traceless.set(waiting, answer.allowed ? { ...answer, otherwise: "reserved" } : answer);
    else granted.push({ waiting, answer, reserve });
  }
  return { granted, traceless, unreserved };
}
