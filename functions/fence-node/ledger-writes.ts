/** Writes the claims of a fence: each step is one write, on condition that the ledger is as it was read. */

import { messageOf } from "../shared/base/error-message.ts";
import { changeClaim, madeBy } from "../shared/ledger/claim.ts";
import { returnedPhase } from "../shared/ledger/claim-kinds.ts";
import { actWithinMs } from "../shared/ledger/reservation.ts";
import type { WriteResult } from "../shared/reconcile/reconcile-object.ts";
import { writeClaims } from "../shared/transaction/claims.ts";
import { Conflict, waitForLedger } from "../shared/transaction/ledger-copy.ts";
import { open } from "./ledgers.ts";
import type { LedgerStep } from "./ledgers-seen.ts";
import { type FenceAttempt, name } from "./observe.ts";
import type { FenceStep } from "./snapshot.ts";

export function isAboutLedger(step: FenceStep): step is LedgerStep {
  return step.kind === "announce" || step.kind === "return-claims" || step.kind === "take-claims";
}

/**
 * Sends the write of one step about a ledger. "refused": the ledger takes no write now, and is tried again later. Throws
 * ClusterError where trying again at once can help.
 */
export async function carryOutInLedger(attempt: FenceAttempt, step: LedgerStep): Promise<WriteResult> {
  const { context, key, verdict } = attempt;
  const { reporter } = context;
  const act = { key, function: name, action: step.kind, object: key.name, zone: "" } as const;
  try {
    const result = step.kind === "announce" ? await addClaims(attempt) : await changeClaims(attempt, step);
    reporter.act({ ...act, result, reason: verdict.message });
    return result;
  } catch (error) {
    const isChanged = error instanceof Conflict;
    if (!isChanged && waitForLedger(error) === undefined) throw error;
    reporter.act({ ...act, result: isChanged ? "changed" : "refused", reason: messageOf(error) });
    // The next observation shows a ledger that was refused, and the record then says what is waited for.
    if (isChanged || step.kind === "announce") return "changed";
    reporter.problem(key, name, `${step.kind} of the fence of ${key.name} is refused: ${messageOf(error)}`, error);
    return "refused";
  }
}

/** The write rests on the ledger that was observed. It is not sent later than any write of a ledger (rule R9). */
async function addClaims({ context, observed }: FenceAttempt): Promise<WriteResult> {
  const { nextWrite } = observed;
  if (nextWrite === undefined) throw new Error("a ledger was to be written without having been read");
  const { observed: group, claims, readMs } = nextWrite;
  if (context.cluster.monotonicMs() > readMs + actWithinMs) return "changed";
  await writeClaims(context, group, { out: claims, into: claims });
  return "done";
}

/** The view that this write rests on is as new as the claims that it takes out: they are read before it (rule R8). */
async function changeClaims(
  { context }: FenceAttempt,
  { kind, key, ids }: Extract<LedgerStep, { readonly ids: unknown }>,
): Promise<WriteResult> {
  const transaction = await open(context, key);
  if (transaction === undefined) return "changed";
  if (transaction.tooNew !== undefined) return "refused";
  const { observed } = transaction;
  const out = observed.ledger.claims.filter(madeBy(name)).filter(({ id }) => ids.includes(id));
  if (out.length === 0) return "changed";
  const into = kind === "return-claims" ? out.map((claim) => changeClaim(claim, { phase: returnedPhase })) : [];
  await writeClaims(context, observed, { out, into });
  return "done";
}
