/** The writes to the ledger in one preparation: the claim, its confirmation, and its end where it is taken back. */

import { allow, askAgain, conflict, tooLate } from "../shared/admission/answers.ts";
import type { AdmissionAnswer, Denied } from "../shared/admission/definition.ts";
import { messageOf } from "../shared/base/error-message.ts";
import type { Context } from "../shared/contract/context.ts";
import type { PodHttp } from "../shared/http/pod-http.ts";
import { changeClaim, type KnownClaim, makeClaim } from "../shared/ledger/claim.ts";
import type { ClaimedObjects } from "../shared/ledger/claim-kinds.ts";
import type { PrepareEndpoint } from "../shared/scaling/prepared.ts";
import { joinScaleDown, scaleDownPhases } from "../shared/scaling/size-changes.ts";
import { readClaimedObjects } from "../shared/transaction/claimed-objects.ts";
import { openTransaction, renewClaim, timesAfter, writeClaims } from "../shared/transaction/claims.ts";
import { Conflict } from "../shared/transaction/ledger-copy.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { GroupKey, StatefulSet } from "../shared/workloads/statefulsets.ts";
import { decide, messageFor, type RequestedDownscale } from "./decide.ts";
import { changeOf, observe } from "./observe.ts";

/** One review of a downscale whose pods must be told. */
export interface Work {
  readonly context: Context;
  readonly pods: PodHttp;
  readonly key: GroupKey;
  readonly endpoint: PrepareEndpoint;
  readonly asked: RequestedDownscale;
  readonly statefulSet: StatefulSet;
  /** No answer is of use after this moment of the monotonic clock. */
  readonly deadlineMs: number;
}

/** What stands in the ledger, before any pod was called. */
export interface ClaimedDownscale {
  readonly claim: KnownClaim;
  /** The claims of others for the same change. */
  readonly besides: readonly KnownClaim[];
  /** Highest ordinal first. */
  readonly toNotify: readonly Pod[];
  readonly where: ClaimedObjects;
  /** Warnings that the caller gets with an allowance. */
  readonly warnings: readonly string[];
}

/** The second write was sent, and failed. It may have reached the ledger all the same. Its cause is the failure. */
export class SentError extends Error {}

/** The decision, and the first of the two writes (rule R18); or the one write that renews what is claimed already (rule R19). */
export async function claimPods(work: Work): Promise<ClaimedDownscale | AdmissionAnswer> {
  const { context, key, asked, statefulSet } = work;
  const transaction = await openTransaction(context, key);
  if (transaction === undefined)
    return askAgain(
      "zone-departed",
      messageFor(asked, `no StatefulSet of ${key.group} is left, or it has just changed its group`),
    );
  const { observed, tooNew } = transaction;
  if (tooNew !== undefined) return askAgain(tooNew.guard, messageFor(asked, tooNew.message));
  const seen = await observe(context, observed, asked, statefulSet);
  if ("allowed" in seen) return seen;
  const verdict = decide(seen.snapshot);
  if ("allowed" in verdict) return verdict;
  if (context.mode === "shadow") return allow("allowed");
  const { settled, toNotify, where, warnings } = seen;
  const stampMs = context.cluster.serverTimeMs();
  const over = { out: settled, ...timesAfter(observed, settled) };
  if (verdict.kind === "joins") {
    const { claims } = verdict;
    const into = claims.map((claim) => renewClaim(claim, stampMs));
    const actByMs = await writeClaims(context, observed, { ...over, out: [...settled, ...claims], into });
    return withWarnings(allowUntil(work, actByMs), warnings);
  }
  // What its end needs stands in it: annotations may be gone by then, and pods may be other ones.
  const { content } = seen.snapshot;
  const notifiedUids = Object.fromEntries(toNotify.map(({ name, uid }) => [name, uid]));
  const { scheme, port, path, service } = work.endpoint;
  const uids = { ...content.uids, ...notifiedUids };
  const claim = makeClaim({ ...content, stampMs, uids, toldAt: { scheme, port, path, service } });
  await writeClaims(context, observed, { ...over, into: [claim] });
  return { claim, besides: verdict.besides, toNotify, where, warnings };
}

/**
 * Rule R18: the second write, and the allowance that rests on it (rule R9). A refusal means that nothing was sent; one in `sent`
 * means that the answer came too late. Throws SentError, Conflict, and what its reads throw.
 */
export async function confirmClaim(
  work: Work,
  claimed: ClaimedDownscale,
): Promise<{ readonly sent: AdmissionAnswer } | Denied> {
  const { context, key, asked, statefulSet } = work;
  const transaction = await openTransaction(context, key);
  const own = transaction && findOwn(transaction.observed.ledger.claims, claimed);
  if (transaction === undefined || own === undefined)
    return askAgain("claim-lost", messageFor(asked, "another process took its claim out of the ledger"), asked.name);
  const now = await readClaimedObjects(context.cluster, key.namespace, own);
  if (now.statefulSet?.uid !== statefulSet.uid)
    return conflict("uid-conflict", messageFor(asked, "it was deleted, or made again, while its pods were told"));
  const replaced = findReplaced(claimed.where, now);
  if (replaced !== undefined) {
    const cause = `another pod stands at ordinal ${replaced} than the one that was told`;
    return askAgain("pod-replaced", messageFor(asked, cause), asked.name);
  }
  const uids = new Map([...now.pods.values()].map(({ name, uid }) => [name, uid]));
  const foreign = transaction.observed.ledger.claims.filter(({ id }) => claimed.besides.some((one) => one.id === id));
  const joining = joinScaleDown(foreign, { ...changeOf(asked, statefulSet), pods: uids });
  if (joining.kind === "held" || foreign.length < claimed.besides.length)
    return askAgain("claim-lost", messageFor(asked, "the claim that it joined is not what it was"), asked.name);
  const stampMs = context.cluster.serverTimeMs();
  const besides = joining.kind === "joins" ? [joining.claim] : [];
  const confirmed = changeClaim(own, {
    phase: scaleDownPhases.confirmed,
    uids: { ...own.uids, ...Object.fromEntries(uids) },
    stampMs,
    sinceMs: own.sinceMs ?? own.stampMs,
  });
  const into = [confirmed, ...besides.map((claim) => renewClaim(claim, stampMs))];
  try {
    const actByMs = await writeClaims(context, transaction.observed, { out: [own, ...besides], into });
    return { sent: allowUntil(work, actByMs) };
  } catch (error) {
    throw error instanceof Conflict ? error : new SentError(messageOf(error), { cause: error });
  }
}

/** Takes the claim out of the ledger, unless another process has changed it or taken it out. */
export async function withdrawClaim({ context, key }: Work, claimed: ClaimedDownscale): Promise<void> {
  const transaction = await openTransaction(context, key);
  const own = transaction && findOwn(transaction.observed.ledger.claims, claimed);
  if (transaction !== undefined && own !== undefined)
    await writeClaims(context, transaction.observed, { out: [own], into: [] });
}

export function withWarnings(answer: AdmissionAnswer, warnings: readonly string[]): AdmissionAnswer {
  return answer.allowed ? { ...answer, warnings: [...answer.warnings, ...warnings] } : answer;
}

/** Rule R9: an allowance is given within five seconds of its write. Later the claim stands, and the next review joins it. */
function allowUntil({ context, deadlineMs }: Work, actByMs: number): AdmissionAnswer {
  return context.cluster.monotonicMs() > Math.min(deadlineMs, actByMs) ? tooLate() : allow("allowed");
}

/** The claim as this review has written it; undefined if another process has changed it or taken it out. */
function findOwn(
  claims: readonly { readonly id: string; readonly line: string }[],
  { claim }: ClaimedDownscale,
): KnownClaim | undefined {
  return claims.some(({ id, line }) => id === claim.id && line === claim.line) ? claim : undefined;
}

/** An ordinal at which another pod stands than before, or none any more. */
function findReplaced({ pods: before }: ClaimedObjects, { pods: now }: ClaimedObjects): number | undefined {
  const ordinals = new Set([...now.keys(), ...before.keys()]);
  return [...ordinals].find((ordinal) => now.get(ordinal)?.uid !== before.get(ordinal)?.uid);
}
