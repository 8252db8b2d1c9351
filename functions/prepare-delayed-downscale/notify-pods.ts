/** Tells pods that they leave, or that they stay, and remembers by their uid what they answer. */

import type { PodEndpoint } from "../shared/annotations/parse-scaling.ts";
import { mapLimit } from "../shared/base/map-limit.ts";
import type { Context } from "../shared/contract/context.ts";
import type { GroupMemory } from "../shared/contract/memory.ts";
import { defaultMostPerGroup } from "../shared/http/calls.ts";
import { isSuccess, type PodAnswer, type PodHttp, PodHttpError } from "../shared/http/pod-http.ts";
import { actWithinMs } from "../shared/ledger/reservation.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import { askedGroupOf } from "../shared/workloads/group-key.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import { asStatefulSet, type GroupKey } from "../shared/workloads/statefulsets.ts";
import type { Delayed } from "./decide.ts";
import { choosePods, leavingRun, type PrepareAnswer, readAnswer } from "./decide-leaving.ts";
import { answersOf, isDelayed, listOwn, name, observeSet, type PodAnswers, type Unasked } from "./observe.ts";

/** As many as `PodHttp` lets one group have: those beyond are not kept in its queue. */
const mostAtOnce = defaultMostPerGroup;
/** A pod says a time, and a little around it. */
const mostBytes = 65_536;
/** In milliseconds. To tell a pod that it leaves disrupts nothing, and the next reconcile takes it back. */
const notifyWithinMs = 10_000;
/** How soon to go on with calls that could not be sent in time, in milliseconds. */
const unsentRequeueMs = 1_000;

/** What this process remembers of the pods of a group. */
const memories = new WeakMap<GroupMemory, PodAnswers>();

function sentIn(context: Context, key: GroupKey): PodAnswers {
  const group = context.memoryOf(key);
  const sent = memories.get(group) ?? new Map();
  memories.set(group, sent);
  return sent;
}

interface PrepareCall {
  readonly set: Extract<Unasked, { endpoint: PodEndpoint }>;
  readonly pod: Pod;
  readonly instruction: "stay" | "leave";
}

/** What one reconcile has found and told. */
export interface Round {
  readonly delayed: readonly Delayed[];
  /** Time of the API server by which the pods that are due were found, and asked once more. */
  readonly askedAtMs: number;
  /** How soon to send the calls that could not be sent in time; undefined if all were. */
  readonly requeueAfterMs: number | undefined;
}

/**
 * Tells each pod of the group whether it stays: all of them in a sweep, and otherwise those that this process has not told yet.
 * It asks the pods that are about to leave once more. Throws ClusterError, Conflict, and what `waitForLedger` explains.
 */
export async function notifyPods(
  context: Context,
  { key, zones, ledger }: GroupObservation,
  sweep: boolean,
): Promise<Round> {
  const { cluster, pods: http } = context;
  const sent = sentIn(context, key);
  const members = zones.map(({ workload }) => asStatefulSet(workload));
  const { claims } = ledger;
  const seen = await Promise.all(members.filter(isDelayed).map((set) => observeSet(cluster, set, members, claims)));
  const found = seen.filter((one) => one !== undefined);
  const sets = found.filter((one) => "endpoint" in one);
  const standing = new Set(sets.flatMap(({ pods }) => [...pods.values()].map(({ uid }) => uid)));
  for (const uid of sent.keys()) if (!standing.has(uid)) sent.delete(uid);
  if (context.mode === "shadow") {
    const delayed = found.map((one) => withAnswers(one, sent));
    return { delayed, askedAtMs: cluster.serverTimeMs(), requeueAfterMs: undefined };
  }
  if (http === undefined) throw new Error("this process cannot call pods");

  const readMs = cluster.monotonicMs();
  const isNews = ({ pod, instruction }: PrepareCall) => {
    const last = sent.get(pod.uid);
    return sweep || last?.instruction !== instruction || last.answer?.kind === "failed";
  };
  const callsTo = (instruction: PrepareCall["instruction"]) =>
    sets
      .flatMap((set) => choosePods(set)[instruction].map((pod): PrepareCall => ({ set, pod, instruction })))
      .filter(isNews);
  const askedMs = ({ pod }: PrepareCall) => sent.get(pod.uid)?.atMs ?? 0;
  const leaving = callsTo("leave").sort((one, other) => askedMs(one) - askedMs(other));
  const round = { context, http, key, sent, readMs };
  const late = await makeCalls(round, [...callsTo("stay"), ...leaving]);
  const askedAtMs = cluster.serverTimeMs();
  const unsent = late + (await askOnceMore(round, sets, askedAtMs));
  const delayed = await Promise.all(found.map((one) => relist(context, withAnswers(one, sent))));
  return { delayed, askedAtMs, requeueAfterMs: unsent > 0 ? unsentRequeueMs : undefined };
}

interface Calling {
  readonly context: Context;
  readonly http: PodHttp;
  readonly key: GroupKey;
  readonly sent: PodAnswers;
  /** Monotonic time at which Sluice read what is to be told. */
  readonly readMs: number;
}

/** No pod leaves on an old answer, because another process may have told it to stay since. */
async function askOnceMore(round: Calling, sets: readonly PrepareCall["set"][], askedAtMs: number): Promise<number> {
  const { sent, readMs } = round;
  const calls = sets.flatMap((set) => {
    const run = leavingRun({ ...set, answers: answersOf(sent) }, askedAtMs);
    const old = run.pods.filter(({ uid }) => (sent.get(uid)?.atMs ?? 0) < readMs);
    return old.map((pod): PrepareCall => ({ set, pod, instruction: "leave" }));
  });
  // An older answer does not count, even if the pod does not answer now.
  for (const { pod } of calls) sent.delete(pod.uid);
  return makeCalls(round, calls);
}

function withAnswers(one: Unasked, sent: PodAnswers): Delayed {
  return "blocked" in one ? one : { ...one, answers: answersOf(sent) };
}

/** Lists the pods again after they were asked: the answer of a pod that was replaced does not count for its successor. */
async function relist({ cluster }: Context, one: Delayed): Promise<Delayed> {
  const isSmaller = !("blocked" in one) && one.wanted < one.statefulSet.replicas;
  return isSmaller ? { ...one, pods: await listOwn(cluster, one.statefulSet) } : one;
}

/** Resolves to how many could not be sent in time. */
async function makeCalls(round: Calling, calls: readonly PrepareCall[]): Promise<number> {
  const sent = await mapLimit(calls, mostAtOnce, (call) => makeCall(round, call));
  return sent.filter((isSent) => !isSent).length;
}

/** False where it was too late to send it. A pod that cannot be told to stay is told again by the next sweep. */
async function makeCall(
  { context, http, key, sent, readMs }: Calling,
  { set, pod, instruction }: PrepareCall,
): Promise<boolean> {
  const { cluster, reporter } = context;
  const atMs = cluster.monotonicMs();
  const notAfterMs = readMs + (instruction === "stay" ? actWithinMs : notifyWithinMs);
  if (atMs > notAfterMs) return false;
  const noteAnswer = (answer: PrepareAnswer) =>
    sent.set(pod.uid, instruction === "leave" ? { instruction, atMs, answer } : { instruction, atMs });
  const unheard = (why: string) =>
    `${pod.name} could not be told that it stays (${why}); the next sweep tells it again`;
  try {
    const answer = await send(http, set, pod, instruction, notAfterMs);
    noteAnswer(readAnswer(answer, cluster.serverTimeMs()));
    if (instruction === "stay" && !hasAcceptedStay(answer)) reporter.problem(key, name, unheard(`${answer.status}`));
  } catch (error) {
    if (!(error instanceof PodHttpError)) throw error;
    noteAnswer({ kind: "failed", why: error.message });
    if (instruction === "stay") reporter.problem(key, name, unheard(error.message), error);
  }
  return true;
}

/** True if a pod that was told that it stays has confirmed it, or is locked. */
export function hasAcceptedStay({ status }: Pick<PodAnswer, "status">): boolean {
  return isSuccess({ status }) || status === 409;
}

/** Either request may be repeated: the pod keeps the first time that it was told. */
export function send(
  http: PodHttp,
  { statefulSet, endpoint }: Pick<PrepareCall["set"], "statefulSet" | "endpoint">,
  pod: Pod,
  instruction: PrepareCall["instruction"],
  notAfterMs: number,
) {
  const { scheme, port, path, authorization } = endpoint;
  const { serviceName: service } = statefulSet;
  const group = askedGroupOf(statefulSet);
  const address = { scheme, port, pod: pod.name, service, namespace: pod.namespace, group };
  const headers = authorization === undefined ? {} : { authorization };
  const method = instruction === "stay" ? "DELETE" : "POST";
  return http.send(address, { method, path, headers, mostBytes, repeatable: true }, { notAfterMs });
}
