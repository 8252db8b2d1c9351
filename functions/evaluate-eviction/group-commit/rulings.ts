/** What becomes of the reviews of one batch by what was decided of them. Pure. */
import { notYet } from "../../shared/admission/answers.ts";
import type { AdmissionAnswer } from "../../shared/admission/definition.ts";
import type { Context } from "../../shared/contract/context.ts";
import type { Wait } from "../../shared/contract/verdict.ts";
import type { Reservation } from "../../shared/ledger/reservation.ts";

/** What a decision says of one petition. */
export interface Decision {
  readonly answer: AdmissionAnswer;
  /** What an allowance rests on: it is given only once this stands in the ledger (rules R8, R12). */
  readonly reserve?: Pick<Reservation, "statefulSet" | "ordinal" | "uid">;
}

export interface SortedRulings<Review> {
  /** Reviews whose allowance is given once its reservation is written. */
  readonly granted: readonly (Required<Decision> & { readonly waiting: Review })[];
  /** Allowances that reserve nothing, because nothing may be left behind (rule R16). */
  readonly traceless: ReadonlyMap<Review, AdmissionAnswer>;
  /** Answers that need no reservation: the refusals, of which some may wait, and allowances of pods that count for nothing. */
  readonly unreserved: ReadonlyMap<Review, AdmissionAnswer>;
}

/** Sorts the rulings, one for each review, in their order. `young`: why the ledger permits nothing yet (rule R4). */
export function sortRulings<Review extends { readonly dryRun: boolean }>(
  reviews: readonly Review[],
  rulings: readonly Decision[],
  { mode, young }: { readonly mode: Context["mode"]; readonly young: Wait | undefined },
): SortedRulings<Review> {
  const granted: SortedRulings<Review>["granted"][number][] = [];
  const [traceless, unreserved] = [new Map<Review, AdmissionAnswer>(), new Map<Review, AdmissionAnswer>()];
  for (const [index, waiting] of reviews.entries()) {
    const { answer, reserve } = rulings[index] as Decision;
    if (reserve === undefined) unreserved.set(waiting, answer);
    else if (young !== undefined)
      unreserved.set(waiting, notYet(young.guard, young.sentence, "", young.requeueAfterMs));
    else if (waiting.dryRun) traceless.set(waiting, answer);
    else if (mode === "shadow") traceless.set(waiting, answer.allowed ? { ...answer, otherwise: "reserved" } : answer);
    else granted.push({ waiting, answer, reserve });
  }
  return { granted, traceless, unreserved };
}
