/** Pods are told that they leave, or that they stay, and what they answer is remembered by their uid. */

import type { PodEndpoint } from "../shared/annotations/endpoint.ts";
import { mapLimit } from "../shared/base/map-limit.ts";
import type { Context } from "../shared/contract/context.ts";
import type { GroupMemory } from "../shared/contract/memory.ts";
import { defaultMostPerGroup } from "../shared/http/calls.ts";
import { isSuccess, type PodHttp, PodHttpError } from "../shared/http/pod-http.ts";
import { actWithinMs } from "../shared/ledger/reservation.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import { askedGroupOf } from "../shared/workloads/group-key.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import { asStatefulSet, type GroupKey } from "../shared/workloads/statefulsets.ts";
import type { Delayed } from "./decide.ts";
import { leavingRun, readAnswer, whoIsTold } from "./decide-leaving.ts";
import { answersOf, isDelayed, listOwn, name, observeSet, type PodAnswers, type Unasked } from "./observe.ts";

/** As many as `PodHttp` lets one group have: those beyond are not kept in its queue. */
const mostAtOnce = defaultMostPerGroup;
/** A pod says a time, and a little around it. */
const mostBytes = 65_536;
/** Telling a pod that it leaves disrupts nothing, and is taken back by the next look. In milliseconds. */
const tellWithinMs = 10_000;
/** How soon to go on with calls that could not be sent in time, in milliseconds. */
const goOnMs = 1_000;

/** What this process remembers of the pods of a group. */
const memories = new WeakMap<GroupMemory, PodAnswers>();

function heardIn(context: Context, key: GroupKey): PodAnswers {
  const group = context.memoryOf(key);
  const heard = memories.get(group) ?? new Map();
  memories.set(group, heard);
  return heard;
}

interface PrepareCall {
  readonly set: Extract<Unasked, { endpoint: PodEndpoint }>;
  readonly pod: Pod;
  readonly told: "stay" | "leave";
}

/** What was found and told in one pass. */
export interface Round {
  readonly delayed: readonly Delayed[];
  /** By which time of the API server it was judged who is due, and asked once more. */
  readonly askedAtMs: number;
  /** Not all calls could be sent in time: they are, soon. */
  readonly requeueAfterMs: number | undefined;
}

/**
 * Tells each pod of the group what it is to do: all of them in a sweep, and otherwise those to whom this process has not said so.
 * Those that are about to leave are asked once more. Throws ClusterError, Conflict, and what `waitForLedger` explains.
 */
export async function tellPods(
  context: Context,
  { key, zones, ledger }: GroupObservation,
  sweep: boolean,
): Promise<Round> {
  const { cluster, pods: http } = context;
  const heard = heardIn(context, key);
  const members = zones.map(({ statefulSet }) => asStatefulSet(statefulSet));
  const { claims } = ledger;
  const seen = await Promise.all(members.filter(isDelayed).map((set) => observeSet(cluster, set, members, claims)));
  const found = seen.filter((one) => one !== undefined);
  const sets = found.filter((one) => "endpoint" in one);
  const standing = new Set(sets.flatMap(({ pods }) => [...pods.values()].map(({ uid }) => uid)));
  for (const uid of heard.keys()) if (!standing.has(uid)) heard.delete(uid);
  if (context.mode === "shadow") {
    const delayed = found.map((one) => withAnswers(one, heard));
    return { delayed, askedAtMs: cluster.serverTimeMs(), requeueAfterMs: undefined };
  }
  if (http === undefined) throw new Error("this process cannot call pods");

  const readMs = cluster.monotonicMs();
  const isNews = ({ pod, told }: PrepareCall) => {
    const word = heard.get(pod.uid);
    return sweep || word?.told !== told || word.answer?.kind === "failed";
  };
  const calls = sets.flatMap((set) => {
    const { stay, leave } = whoIsTold(set);
    return [
      ...stay.map((pod): PrepareCall => ({ set, pod, told: "stay" })),
      ...leave.map((pod): PrepareCall => ({ set, pod, told: "leave" })),
    ];
  });
  const order = ({ pod, told }: PrepareCall) =>
    told === "stay" ? Number.NEGATIVE_INFINITY : (heard.get(pod.uid)?.atMs ?? 0);
  const round = { context, http, key, heard, readMs };
  const first = calls.filter(isNews).sort((one, other) => Math.sign(order(one) - order(other)) || 0);
  const late = await makeCalls(round, first);
  const askedAtMs = cluster.serverTimeMs();
  const unsent = late + (await askOnceMore(round, sets, askedAtMs));
  const delayed = await Promise.all(found.map((one) => relist(context, withAnswers(one, heard))));
  return { delayed, askedAtMs, requeueAfterMs: unsent > 0 ? goOnMs : undefined };
}

interface Calling {
  readonly context: Context;
  readonly http: PodHttp;
  readonly key: GroupKey;
  readonly heard: PodAnswers;
  /** When it was read what is to be told, by the monotonic clock. */
  readonly readMs: number;
}

/** No pod leaves on an old answer, because another process may have told it to stay since. */
async function askOnceMore(round: Calling, sets: readonly PrepareCall["set"][], askedAtMs: number): Promise<number> {
  const { heard, readMs } = round;
  const calls = sets.flatMap((set) => {
    const run = leavingRun({ ...set, answers: answersOf(heard) }, askedAtMs);
    const old = run.pods.filter(({ uid }) => (heard.get(uid)?.atMs ?? 0) < readMs);
    return old.map((pod): PrepareCall => ({ set, pod, told: "leave" }));
  });
  // What is not heard now has not been heard.
  for (const { pod } of calls) heard.delete(pod.uid);
  return makeCalls(round, calls);
}

function withAnswers(one: Unasked, heard: PodAnswers): Delayed {
  return "held" in one ? one : { ...one, answers: answersOf(heard) };
}

/** Lists the pods again after they were asked: the answer of a pod that was replaced does not count for its successor. */
async function relist({ cluster }: Context, one: Delayed): Promise<Delayed> {
  const isSmaller = !("held" in one) && one.wanted < one.statefulSet.replicas;
  return isSmaller ? { ...one, pods: await listOwn(cluster, one.statefulSet) } : one;
}

/** Resolves to how many could not be sent in time. */
async function makeCalls(round: Calling, calls: readonly PrepareCall[]): Promise<number> {
  const sent = await mapLimit(calls, mostAtOnce, (call) => makeCall(round, call));
  return sent.filter((isSent) => !isSent).length;
}

/** False where it was too late to send it. A pod that cannot be told to stay is told again by the next sweep. */
async function makeCall(
  { context, http, key, heard, readMs }: Calling,
  { set, pod, told }: PrepareCall,
): Promise<boolean> {
  const { cluster, reporter } = context;
  const atMs = cluster.monotonicMs();
  const notAfterMs = readMs + (told === "stay" ? actWithinMs : tellWithinMs);
  if (atMs > notAfterMs) return false;
  try {
    const { status, body } = await send(http, set, pod, told, notAfterMs);
    if (told === "leave")
      heard.set(pod.uid, { told, atMs, answer: readAnswer({ status, body }, cluster.serverTimeMs()) });
    else heard.set(pod.uid, { told, atMs });
    if (told === "stay" && !isSuccess({ status }) && status !== 409)
      reporter.problem(key, name, unheard(pod, `${status}`));
  } catch (error) {
    if (!(error instanceof PodHttpError)) throw error;
    heard.set(
      pod.uid,
      told === "stay" ? { told, atMs } : { told, atMs, answer: { kind: "failed", why: error.message } },
    );
    if (told === "stay") reporter.problem(key, name, unheard(pod, error.message), error);
  }
  return true;
}

function unheard(pod: Pod, why: string): string {
  return `${pod.name} could not be told that it stays (${why}); the next sweep tells it again`;
}

/** Both may meet their own effect: the pod keeps the first time that it was told. */
export function send(
  http: PodHttp,
  { statefulSet, endpoint }: Pick<PrepareCall["set"], "statefulSet" | "endpoint">,
  pod: Pod,
  told: PrepareCall["told"],
  notAfterMs: number,
) {
  const { scheme, port, path, authorization } = endpoint;
  const { serviceName: service } = statefulSet;
  const group = askedGroupOf(statefulSet);
  const address = { scheme, port, pod: pod.name, service, namespace: pod.namespace, group };
  const headers = authorization === undefined ? {} : { authorization };
  const method = told === "stay" ? "DELETE" : "POST";
  return http.send(address, { method, path, headers, mostBytes, repeatable: true }, { notAfterMs });
}
