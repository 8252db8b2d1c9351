/** Asks the pods that a decision would let go before it is carried out (rule R22). */

import { healthAuthority } from "../annotations/health.ts";
import type { Ask } from "../annotations/parse-health.ts";
import { BoundedMap } from "../base/bounded-map.ts";
import type { Context } from "../contract/context.ts";
import type { GroupMemory } from "../contract/memory.ts";
import type { HealthAnswer } from "../ledger/health-rule.ts";
import type { GroupObservation } from "../transaction/observe-group.ts";
import { askedGroupOf } from "../workloads/group-key.ts";
import type { Pod } from "../workloads/pods.ts";
import { asStatefulSet, type GroupKey, type StatefulSet, type ZoneWorkload } from "../workloads/statefulsets.ts";
import { unknownHealth } from "./answer.ts";
import { askPod, askWithinMs, type PodQuestion } from "./ask-pod.ts";
import { isAsked, isPodAsked, type Questions } from "./permit.ts";
import { products } from "./products.ts";

/** A pod that goes by a decision, and whose StatefulSet has a question. */
export interface AskedPod {
  readonly statefulSet: ZoneWorkload;
  readonly pod: Pod;
}

/** The most rounds of a decision after new answers, and the most pods that are asked at once. */
const mostRounds = 4;
const mostAtOnce = 4;
/** Time in milliseconds for which a pod is not asked again; rule R22 decides whether its answer is still of use. */
const answerServesMs = 2_000;
const rememberedAnswers = 1_000;

const kept = new WeakMap<GroupMemory, BoundedMap<string, HealthAnswer>>();

/** A decision's knowledge of its group's questions before it asks a pod; undefined if no pod is to be asked. */
export function openQuestions(context: Context, { key, ledger, open, zones }: GroupObservation): Questions | undefined {
  if (!zones.some(({ workload }) => isAsked(workload))) return undefined;
  const readMs = context.memoryOf(key).copy.atMs;
  const refuse: Questions["refuse"] = (pod, answered) => {
    const reservations = open.filter(({ uid }) => uid !== pod.uid);
    const presumed: HealthAnswer = { health: { state: "good", detail: "" }, askedMs: Number.POSITIVE_INFINITY };
    return context.protocol.refuseByHealth({ reservations, claims: ledger.claims, readMs }, answered ?? presumed);
  };
  return { answers: new Map(), refuse, isOver: false };
}

/**
 * Asks the pods that a decision would let go, and has the decision made again, until all pods that it lets go have agreed.
 * `goersBy`: the pods that go by a snapshot's decision. Always resolves, 4.5 s later at most, to the snapshot to decide on.
 */
export async function withAnswers<Snapshot extends { readonly questions?: Questions | undefined }>(
  context: Context,
  by: string,
  key: GroupKey,
  first: Snapshot,
  goersBy: (snapshot: Snapshot) => readonly AskedPod[],
): Promise<Snapshot> {
  const { cluster } = context;
  const deadlineMs = cluster.monotonicMs() + askWithinMs;
  const healthRound: HealthRound = { context, by, key, deadlineMs };
  let snapshot = first;
  for (let round = 0; round < mostRounds && cluster.monotonicMs() < deadlineMs; round++) {
    const { questions } = snapshot;
    const wanted = questions === undefined ? [] : unasked(questions, goersBy(snapshot)).slice(0, mostAtOnce);
    if (questions === undefined || wanted.length === 0) break;
    const asked = await Promise.all(
      wanted.map(async (one) => [one.pod.uid, await recall(healthRound, questions, one)] as const),
    );
    snapshot = { ...snapshot, questions: { ...questions, answers: new Map([...questions.answers, ...asked]) } };
  }
  return snapshot.questions === undefined
    ? snapshot
    : { ...snapshot, questions: { ...snapshot.questions, isOver: true } };
}

/** For which function pods are asked, and until when. */
interface HealthRound {
  readonly context: Context;
  readonly by: string;
  readonly key: GroupKey;
  /** By the monotonic clock. */
  readonly deadlineMs: number;
}

function unasked({ answers }: Questions, goers: readonly AskedPod[]): AskedPod[] {
  const wanted = new Map(goers.map((one) => [one.pod.uid, one]));
  return [...wanted.values()].filter(({ pod, statefulSet }) => isPodAsked(statefulSet, pod) && !answers.has(pod.uid));
}

/** An answer of a moment ago is enough, unless the ledger has changed since the question. */
async function recall(
  healthRound: HealthRound,
  questions: Questions,
  { pod, statefulSet }: AskedPod,
): Promise<HealthAnswer> {
  const { context, key } = healthRound;
  const memory = context.memoryOf(key);
  const known = kept.get(memory) ?? new BoundedMap<string, HealthAnswer>(rememberedAnswers);
  kept.set(memory, known);
  const before = known.get(pod.uid);
  const isRecent = before !== undefined && context.cluster.monotonicMs() - before.askedMs < answerServesMs;
  if (isRecent && questions.refuse(pod, before)?.guard !== "health-stale") return before;
  const answered = await ask(healthRound, asStatefulSet(statefulSet), pod);
  known.set(pod.uid, answered);
  return answered;
}

/** The answer of the pod, or a note that none came in time. */
async function ask(
  { context, by, key, deadlineMs }: HealthRound,
  statefulSet: StatefulSet,
  pod: Pod,
): Promise<HealthAnswer> {
  const askedMs = context.cluster.monotonicMs();
  const asking = statefulSet.question?.ask;
  const health =
    asking === undefined
      ? unknownHealth("it cannot be asked, for its question is malformed")
      : await askPod(context, questionTo(statefulSet, pod, asking), deadlineMs);
  context.reporter.health({ key, function: by, product: asking?.product ?? "", state: health.state });
  return { health, askedMs };
}

function questionTo(statefulSet: StatefulSet, { name: pod }: Pod, ask: Ask): PodQuestion {
  const { namespace, serviceName: service } = statefulSet;
  const { product, url, secret, authority, field } = ask;
  const address = { pod, service, namespace, group: askedGroupOf(statefulSet), scheme: url.scheme, port: url.port };
  const read: PodQuestion["read"] = (answer) => products[product].read(answer, field);
  return { address, path: url.path, secret, authority, authorityKey: healthAuthority.key, read };
}
