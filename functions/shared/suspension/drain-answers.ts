/** Sluice asks other pods of a group whether the data of a member is no longer needed, if its StatefulSet has such a question. */

import { drainAuthority } from "../annotations/drain.ts";
import type { Context } from "../contract/context.ts";
import { unknownHealth } from "../health/answer.ts";
import { askPod, askWithinMs, type PodQuestion } from "../health/ask-pod.ts";
import { products } from "../health/products.ts";
import type { PodAddress } from "../http/pod-http.ts";
import { type DrainQuestion, drainPath } from "../volumes/drain-question.ts";
import { type DrainAnswer, isRequested, type Member, type VolumeUser } from "../volumes/members.ts";
import { valueIn } from "../volumes/pvc.ts";
import type { GroupKey } from "../workloads/statefulsets.ts";

/** The most members that are asked about in one reconcile; the others have their turn in the next, some seconds later. */
const mostAtOnce = 16;
const askRoundMs = 10_000;
/** The most pods that are asked about one member. */
const mostWitnesses = 3;

/**
 * The same members, with an answer about those that `isAsked` selects. All pods are asked at once, after all earlier reads.
 * Resolves 4.5 s later at most. Throws ClusterError.
 */
export async function withDrainAnswers(
  context: Context,
  by: string,
  key: GroupKey,
  members: readonly Member[],
  isAsked: (member: Member) => boolean,
): Promise<readonly Member[]> {
  const asked = inRounds(
    members.filter((one) => valueIn(one.set.policy.drain) !== undefined && isAsked(one)),
    context.cluster.serverTimeMs(),
  );
  const deadlineMs = context.cluster.monotonicMs() + askWithinMs;
  return Promise.all(
    members.map(async (member) => {
      const question = valueIn(member.set.policy.drain);
      if (question === undefined || !asked.includes(member)) return member;
      const drain = await ask({ context, key, deadlineMs }, member, question, others(member, members));
      context.reporter.health({ key, function: by, product: "http", state: drain.health.state });
      return { ...member, drain };
    }),
  );
}

/** The turn depends on the clock, so that no process has to remember it, and no member waits for those with a bad answer. */
function inRounds(asked: readonly Member[], nowMs: number): readonly Member[] {
  const rounds = Math.ceil(asked.length / mostAtOnce);
  const first = rounds < 2 ? 0 : (Math.floor(nowMs / askRoundMs) % rounds) * mostAtOnce;
  return asked.slice(first, first + mostAtOnce);
}

/** A pod that can be asked, and the Service by which it is reached. */
interface Witness {
  readonly pod: VolumeUser;
  readonly service: string;
}

/** No pod is asked about itself. Of those that are ready first the ones that stay, and of these the nearest. */
function others(member: Member, members: readonly Member[]): readonly Witness[] {
  const rank = (one: Member): number => (isRequested(one) ? 2 : 0) + (one.set === member.set ? 0 : 1);
  return members
    .filter((one) => one !== member && one.pod?.isReady && one.set.serviceName !== "")
    .sort((one, other) => rank(one) - rank(other))
    .slice(0, mostWitnesses)
    .flatMap(({ pod, set }) => (pod === undefined ? [] : [{ pod, service: set.serviceName }]));
}

/** For which group other pods are asked, and until when by the monotonic clock. */
interface DrainRound {
  readonly context: Context;
  readonly key: GroupKey;
  readonly deadlineMs: number;
}

/** Each pod that is asked has to agree, because a compromised one must not decide about the data of another. */
async function ask(
  { context, key, deadlineMs }: DrainRound,
  { name, set }: Member,
  question: DrainQuestion,
  witnesses: readonly Witness[],
): Promise<DrainAnswer> {
  if (witnesses.length === 0) {
    const detail = `no other pod of the group is ready and has a name in DNS, to be asked about ${name}`;
    return { pod: undefined, health: unknownHealth(detail) };
  }
  const { namespace } = set;
  const { group } = key;
  const askOne = async ({ pod, service }: Witness): Promise<DrainAnswer> => ({
    pod: pod.name,
    health: await askPod(context, questionTo(question, { pod: pod.name, service, namespace, group }, name), deadlineMs),
  });
  if (question.isOneEnough) return firstOf(witnesses, askOne);
  const answers = await Promise.all(witnesses.map(askOne));
  const [first] = answers as [DrainAnswer];
  const isState = (state: DrainAnswer["health"]["state"]) => (one: DrainAnswer) => one.health.state === state;
  const worst = answers.find(isState("bad")) ?? answers.find((one) => !isState("good")(one));
  return worst ?? { ...first, agreeing: answers.flatMap(({ pod }) => pod ?? []) };
}

/** The first good or bad answer; if no pod gives one, the last missing one. */
async function firstOf(
  witnesses: readonly Witness[],
  askOne: (witness: Witness) => Promise<DrainAnswer>,
): Promise<DrainAnswer> {
  let last: DrainAnswer | undefined;
  for (const witness of witnesses) {
    last = await askOne(witness);
    if (last.health.state !== "unknown") break;
  }
  return last as DrainAnswer;
}

function questionTo(
  question: DrainQuestion,
  at: Pick<PodAddress, "pod" | "service" | "namespace" | "group">,
  about: string,
): PodQuestion {
  const { scheme, port } = question.url;
  return {
    address: { ...at, scheme, port },
    path: drainPath(question, about),
    secret: question.secret,
    authority: question.authority,
    authorityKey: drainAuthority.key,
    read: (answer) => products.http.read(answer, question.field),
  };
}
