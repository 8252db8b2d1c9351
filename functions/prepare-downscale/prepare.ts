/**
 * The order of one preparation (rules R18 to R20): it writes the claim, tells the pods that leave, and confirms the claim. Where
 * a step fails after the claim was written, it tells the pods to stay, and takes the claim out.
 */

import { askAgain, tooLate } from "../shared/admission/answers.ts";
import type { AdmissionAnswer, Denied } from "../shared/admission/definition.ts";
import { messageOf } from "../shared/base/error-message.ts";
import { type Notification, notifyPods, type PodAnswered } from "../shared/http/notify-pods.ts";
import { isSuccess } from "../shared/http/pod-http.ts";
import { maxConflicts } from "../shared/ledger/reservation.ts";
import { addressOf, isTakenBack, requestTo } from "../shared/scaling/prepared.ts";
import { Conflict, forgetLedger } from "../shared/transaction/ledger-copy.ts";
import { messageFor } from "./decide.ts";
import {
  type ClaimedDownscale,
  claimPods,
  confirmClaim,
  SentError,
  type Work,
  withdrawClaim,
  withWarnings,
} from "./ledger-writes.ts";
import { name as by } from "./observe.ts";

/** So long before the answer is due no pod is told any more: the rest is for the second write, or to take it back. */
const keptBackMs = 2_500;
/** So long before the answer is due nothing is confirmed any more. */
const confirmByMs = 500;
/** To take back has this long, whatever telling took; it goes on when the answer has been given. */
const takeBackMs = 5_000;
/** So long before it is due a refusal is given, although what is taken back is not finished. */
const refuseByMs = 200;

/** Resolves to the answer. Rejects with what broke where nothing has to be taken back, or where nothing may be yet. */
export async function prepare(work: Work): Promise<AdmissionAnswer> {
  const claimed = await withoutConflict(work, () => claimPods(work));
  if ("allowed" in claimed) return claimed;
  const deadlineMs = work.deadlineMs - keptBackMs;
  const notified = await notifyClaimed(work, claimed, "POST", { isAccepted: isSuccess, deadlineMs, isAllOrNone: true });
  const refused = refuseUntold(work, claimed, notified) ?? refuseLate(work);
  const outcome = refused ?? (await confirm(work, claimed));
  if ("allowed" in outcome) return takeBackAndRefuse(work, claimed, notified, outcome);
  return withWarnings(outcome.sent, claimed.warnings);
}

/** Tells the pods that they leave (POST), or that they stay (DELETE), highest ordinal first. */
function notifyClaimed(
  { context, pods, endpoint }: Work,
  { toNotify }: ClaimedDownscale,
  method: "POST" | "DELETE",
  how: Pick<Notification, "isAccepted" | "deadlineMs" | "isAllOrNone">,
): Promise<readonly PodAnswered[]> {
  const addresses = toNotify.map(({ name }) => addressOf(endpoint, name));
  return notifyPods({ pods, clock: context.cluster, addresses, request: requestTo(endpoint, method), ...how });
}

/** The refusal where a pod has not said that it may leave; it names the one that failed first. */
function refuseUntold(
  work: Work,
  { toNotify }: ClaimedDownscale,
  notified: readonly PodAnswered[],
): Denied | undefined {
  const { asked, context, key } = work;
  const culprit =
    notified.find(({ accepted, isGivenUp }) => !accepted && !isGivenUp) ?? notified.find(({ accepted }) => !accepted);
  if (culprit === undefined) return undefined;
  const { pod, why } = culprit;
  context.reporter.problem(key, by, `pod ${pod} was not prepared: ${why}`);
  const standing = toNotify.find(({ name }) => name === pod);
  if (standing?.neverReady !== true) {
    const cause = `pod ${pod} did not say that it may leave: ${why}`;
    return askAgain("pod-unprepared", messageFor(asked, cause), asked.name);
  }
  const cause = `pod ${pod} was never ready, and did not say that it may leave: ${why}. Write its ordinal into the annotation that the README of prepare-downscale names, and it leaves without a word`;
  return askAgain("pod-never-ready", messageFor(asked, cause), asked.name);
}

function refuseLate({ context, deadlineMs }: Work): Denied | undefined {
  return context.cluster.monotonicMs() > deadlineMs - confirmByMs ? tooLate() : undefined;
}

/** The second write. A refusal means that the claim in the ledger is unconfirmed, so that it can be taken back at once. */
async function confirm(work: Work, claimed: ClaimedDownscale): ReturnType<typeof confirmClaim> {
  try {
    return await withoutConflict(work, () => confirmClaim(work, claimed));
  } catch (error) {
    // The claim may be confirmed, and another review may have joined it. It is taken back once that can no longer be.
    if (error instanceof SentError) throw error.cause;
    const cause = `its pods were told, and then: ${messageOf(error)}`;
    return askAgain("claim-unconfirmed", messageFor(work.asked, cause));
  }
}

/** The refusal, once all is taken back, or when it is due; what is not finished then goes on. */
async function takeBackAndRefuse(
  work: Work,
  claimed: ClaimedDownscale,
  notified: readonly PodAnswered[],
  refusal: Denied,
): Promise<Denied> {
  const { context, deadlineMs, asked, key } = work;
  const { cluster } = context;
  const over = new AbortController();
  const takingBack = takeBack(work, claimed, notified).catch((error: unknown) => {
    context.reporter.problem(key, by, `the downscale of ${asked.name} is taken back later: ${messageOf(error)}`, error);
  });
  const due = cluster.sleep(Math.max(0, deadlineMs - refuseByMs - cluster.monotonicMs()), over.signal);
  await Promise.race([takingBack, due]);
  over.abort();
  return refusal;
}

/**
 * Rule R20, by the review, which knows that it let nothing through: it tells the pods that they stay; then the claim goes. If a
 * pod that was told to leave does not answer, the claim stays, and release-prepared takes it back later.
 */
async function takeBack(work: Work, claimed: ClaimedDownscale, notified: readonly PodAnswered[]): Promise<void> {
  const { context, key, asked } = work;
  const deadlineMs = context.cluster.monotonicMs() + takeBackMs;
  const results = await notifyClaimed(work, claimed, "DELETE", {
    isAccepted: isTakenBack,
    deadlineMs,
    isAllOrNone: false,
  });
  const wasSent = new Set(notified.filter(({ sent }) => sent).map(({ pod }) => pod));
  const silent = results.find(({ pod, accepted }) => !accepted && wasSent.has(pod));
  if (silent === undefined) await withoutConflict(work, () => withdrawClaim(work, claimed));
  else
    context.reporter.problem(key, by, `pod ${silent.pod} of ${asked.name} was not told that it stays: ${silent.why}`);
}

/** Rule R3: a step that meets another writer begins again on the new ledger, five times, but not after the deadline. */
async function withoutConflict<T>(work: Work, attempt: () => Promise<T>): Promise<T | Denied> {
  const { context, key, asked, deadlineMs } = work;
  for (let conflicts = 0; conflicts < maxConflicts && context.cluster.monotonicMs() < deadlineMs; conflicts++) {
    try {
      forgetLedger(context.memoryOf(key));
      return await attempt();
    } catch (error) {
      if (!(error instanceof Conflict)) throw error;
      context.reporter.conflict(key, by);
    }
  }
  const cause = `the ledger of ${key.group} was written by others ${maxConflicts} times while this was decided: try again`;
  return askAgain("ledger-contended", messageFor(asked, cause));
}
