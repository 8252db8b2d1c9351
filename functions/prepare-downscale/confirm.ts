/** What comes after the first write: the pods are told, the claim is confirmed by the second one, or all is taken back. */

import { allow, askAgain, conflict, tooLate } from "../shared/admission/answers.ts";
import type { AdmissionAnswer, Denied } from "../shared/admission/definition.ts";
import { messageOf } from "../shared/base/error-message.ts";
import type { Context } from "../shared/contract/context.ts";
import { isSuccess, type PodHttp } from "../shared/http/pod-http.ts";
import { notifyPods, type PodAnswered } from "../shared/http/tell-pods.ts";
import { changeClaim, type KnownClaim } from "../shared/ledger/claim.ts";
import type { ClaimedObjects } from "../shared/ledger/claim-kinds.ts";
import { addressOf, isTakenBack, type PrepareEndpoint, requestTo } from "../shared/scaling/prepared.ts";
import { joinScaleDown, scaleDownPhases } from "../shared/scaling/size-changes.ts";
import { readClaimedObjects } from "../shared/transaction/claimed-objects.ts";
import { openTransaction, renewClaim, writeClaims } from "../shared/transaction/claims.ts";
import { Conflict } from "../shared/transaction/ledger-copy.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { GroupKey, StatefulSet } from "../shared/workloads/statefulsets.ts";
import { type RequestedDownscale, sentenceOf } from "./decide.ts";
import { name as by, changeOf } from "./observe.ts";

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
export interface Begun {
  readonly claim: KnownClaim;
  /** The claims of others for the same change. */
  readonly besides: readonly KnownClaim[];
  /** Highest ordinal first. */
  readonly toTell: readonly Pod[];
  readonly where: ClaimedObjects;
  /** Warnings that the caller gets with an allowance. */
  readonly warnings: readonly string[];
}

/** Tries something again where another writer was first. */
type Retry = <T>(attempt: () => Promise<T>) => Promise<T | Denied>;

/** So long before the answer is due no pod is told any more: the rest is for the second write, or to take it back. */
const keptBackMs = 2_500;
/** So long before the answer is due nothing is confirmed any more. */
const confirmByMs = 500;
/** To take back has this long, whatever telling took; it goes on when the answer has been given. */
const takeBackMs = 5_000;

/** Tells the pods, and confirms the claim. Where either fails, it tells the pods to stay, and the claim goes. */
export async function goOn(work: Work, begun: Begun, retry: Retry): Promise<AdmissionAnswer> {
  const { context, asked, deadlineMs } = work;
  const told = await tellAll(work, begun, deadlineMs - keptBackMs);
  const culprit = told.find(({ heard, isGivenUp }) => !heard && !isGivenUp) ?? told.find(({ heard }) => !heard);
  if (culprit !== undefined) return refuse(work, begun, retry, { told, answer: unprepared(work, begun, culprit) });
  if (context.cluster.monotonicMs() > deadlineMs - confirmByMs)
    return refuse(work, begun, retry, { told, answer: tooLate() });
  const attempt = { isSent: false };
  try {
    const answer = await retry(() => confirm(work, begun, attempt));
    return answer.allowed || attempt.isSent ? answer : await refuse(work, begun, retry, { told, answer });
  } catch (error) {
    // The claim may be confirmed, and another review may have joined it. It is taken back once that can no longer be.
    if (attempt.isSent) throw error;
    const sentence = sentenceOf(asked, `its pods were told, and then: ${messageOf(error)}`);
    return refuse(work, begun, retry, { told, answer: askAgain("claim-unconfirmed", sentence) });
  }
}

function tellAll(
  { context, pods, endpoint }: Work,
  { toTell }: Begun,
  deadlineMs: number,
): Promise<readonly PodAnswered[]> {
  const addresses = toTell.map(({ name }) => addressOf(endpoint, name));
  const request = requestTo(endpoint, "POST");
  const clock = context.cluster;
  return notifyPods({ pods, clock, addresses, request, isHeard: isSuccess, deadlineMs, isAllOrNone: true });
}

function unprepared({ asked, context, key }: Work, { toTell }: Begun, { pod, why }: PodAnswered): Denied {
  context.reporter.problem(key, by, `pod ${pod} was not prepared: ${why}`);
  const standing = toTell.find(({ name }) => name === pod);
  if (standing?.neverReady !== true) {
    return askAgain(
      "pod-unprepared",
      sentenceOf(asked, `pod ${pod} did not say that it may leave: ${why}`),
      asked.name,
    );
  }
  const cause = `pod ${pod} was never ready, and did not say that it may leave: ${why}. Write its ordinal into the annotation that the README of prepare-downscale names, and it leaves without a word`;
  return askAgain("pod-never-ready", sentenceOf(asked, cause), asked.name);
}

interface Failure {
  readonly told: readonly PodAnswered[];
  readonly answer: Denied;
}

/** The refusal, once all is taken back, or when it is due. */
async function refuse(work: Work, begun: Begun, retry: Retry, { told, answer }: Failure): Promise<Denied> {
  const { context, deadlineMs, asked, key } = work;
  const { cluster } = context;
  const over = new AbortController();
  const takingBack = takeBack(work, begun, retry, told).catch((error: unknown) => {
    context.reporter.problem(key, by, `the downscale of ${asked.name} is taken back later: ${messageOf(error)}`, error);
  });
  const due = cluster.sleep(Math.max(0, deadlineMs - 200 - cluster.monotonicMs()), over.signal);
  await Promise.race([takingBack, due]);
  over.abort();
  return answer;
}

/**
 * Rule R20, by the review, which knows that it let nothing through: it tells the pods that they stay; then the claim goes. If a
 * pod that was told to leave does not answer, the claim stays, and release-prepared takes it back later.
 */
async function takeBack(work: Work, begun: Begun, retry: Retry, told: readonly PodAnswered[]): Promise<void> {
  const { context, pods, endpoint, key, asked } = work;
  const { cluster } = context;
  const results = await notifyPods({
    pods,
    clock: cluster,
    addresses: begun.toTell.map(({ name }) => addressOf(endpoint, name)),
    request: requestTo(endpoint, "DELETE"),
    isHeard: isTakenBack,
    deadlineMs: cluster.monotonicMs() + takeBackMs,
    isAllOrNone: false,
  });
  const wasSent = new Set(told.filter(({ sent }) => sent).map(({ pod }) => pod));
  const silent = results.filter(({ pod, heard }) => !heard && wasSent.has(pod));
  if (silent.length > 0) {
    const [{ pod, why }] = silent as [PodAnswered];
    context.reporter.problem(key, by, `pod ${pod} of ${asked.name} was not told that it stays: ${why}`);
    return;
  }
  await retry(async () => {
    const look = await openTransaction(context, key);
    const own = look && findOwn(look.observed.ledger.claims, begun);
    if (look !== undefined && own !== undefined) await writeClaims(context, look.observed, { out: [own], into: [] });
  });
}

/** The claim as this review has written it; undefined if another process has changed it or taken it out. */
function findOwn(
  claims: readonly { readonly id: string; readonly line: string }[],
  { claim }: Begun,
): KnownClaim | undefined {
  return claims.some(({ id, line }) => id === claim.id && line === claim.line) ? claim : undefined;
}

/** Rule R18: the second write, and the allowance that rests on it (rule R9). */
async function confirm(work: Work, begun: Begun, attempt: { isSent: boolean }): Promise<AdmissionAnswer> {
  const { context, key, asked, deadlineMs } = work;
  const { cluster } = context;
  const look = await openTransaction(context, key);
  const own = look && findOwn(look.observed.ledger.claims, begun);
  if (look === undefined || own === undefined)
    return askAgain("claim-lost", sentenceOf(asked, "another process took its claim out of the ledger"), asked.name);
  const now = await readClaimedObjects(cluster, key.namespace, own);
  if (now.statefulSet?.uid !== work.statefulSet.uid)
    return conflict("uid-conflict", sentenceOf(asked, "it was deleted, or made again, while its pods were told"));
  const replaced = [...new Set([...now.pods.keys(), ...begun.where.pods.keys()])].find(
    (ordinal) => now.pods.get(ordinal)?.uid !== begun.where.pods.get(ordinal)?.uid,
  );
  if (replaced !== undefined) {
    const cause = `another pod stands at ordinal ${replaced} than the one that was told`;
    return askAgain("pod-replaced", sentenceOf(asked, cause), asked.name);
  }
  const uids = Object.fromEntries([...now.pods.values()].map(({ name, uid }) => [name, uid]));
  const change = changeOf(asked, work.statefulSet);
  const foreign = look.observed.ledger.claims.filter(({ id }) => begun.besides.some((one) => one.id === id));
  const joining = joinScaleDown(foreign, { ...change, pods: new Map(Object.entries(uids)) });
  if (joining.kind === "held" || foreign.length < begun.besides.length)
    return askAgain("claim-lost", sentenceOf(asked, "the claim that it joined is not what it was"), asked.name);
  const stampMs = cluster.serverTimeMs();
  const besides = joining.kind === "joins" ? [joining.claim] : [];
  const confirmed = changeClaim(own, {
    phase: scaleDownPhases.confirmed,
    uids: { ...own.uids, ...uids },
    stampMs,
    sinceMs: own.sinceMs ?? own.stampMs,
  });
  attempt.isSent = true;
  try {
    const actByMs = await writeClaims(context, look.observed, {
      out: [own, ...besides],
      into: [confirmed, ...besides.map((claim) => renewClaim(claim, stampMs))],
    });
    return allowUntil({ context, deadlineMs }, actByMs);
  } catch (error) {
    if (error instanceof Conflict) attempt.isSent = false;
    throw error;
  }
}

/** Rule R9: an allowance is given within five seconds of its write. Later the claim stands, and the next review joins it. */
export function allowUntil(
  { context, deadlineMs }: Pick<Work, "context" | "deadlineMs">,
  actByMs: number,
): AdmissionAnswer {
  return context.cluster.monotonicMs() > Math.min(deadlineMs, actByMs) ? tooLate() : allow("allowed");
}
