/** Which pods of one StatefulSet are told what, what an answer of a pod says, and how many from the top may leave. Pure. */

import { parseFields } from "../shared/base/fields.ts";
import { secondMs } from "../shared/clock/durations.ts";
import { clockSkewMs } from "../shared/clock/skew.ts";
import type { SizeBlocked } from "../shared/scaling/wanted-replicas.ts";
import { type Pod, podNameOf } from "../shared/workloads/pods.ts";
import type { StatefulSet } from "../shared/workloads/statefulsets.ts";

/** What a pod said when it was told that it is going to leave: since when it knows, by its own word; or why it does not count. */
export type PrepareAnswer =
  | { readonly kind: "prepared"; readonly sinceMs: number }
  | { readonly kind: "failed"; readonly why: string };

/** A StatefulSet whose downscales have a delay, with its own pods. */
export interface DelayedSet {
  readonly statefulSet: StatefulSet;
  readonly delayMs: number;
  /** How many replicas there are to be, now or later. */
  readonly wanted: number;
  /** Why it is later. */
  readonly postponed: SizeBlocked | undefined;
  /** By ordinal, as a LIST has shown them. */
  readonly pods: ReadonlyMap<number, Pod>;
  /** True for an ordinal that a claim names: its pod leaves already, or the function that ends the claim tells it. */
  readonly isClaimed: (ordinal: number) => boolean;
  /** By pod uid: another pod of the same name has said nothing. */
  readonly answers: ReadonlyMap<string, PrepareAnswer>;
}

/**
 * A process that has had one reply knows the API server's clock to half a second and half the time of that reply
 * (`clock/server-time.ts`). It may take it for that much later than it is, and would let a pod go too early.
 */
const serverTimeErrorMs = 1_000;

/**
 * The pods that are told that they stay, and those that are told that they leave; highest ordinals first. Every pod that is to
 * stay is told so, whether or not this process remembers that the pod was told to leave.
 */
export function choosePods({ statefulSet, wanted, pods, isClaimed }: Omit<DelayedSet, "answers">) {
  const { start, replicas } = statefulSet;
  const notified = [...pods.values()]
    .filter(({ ordinal }) => ordinal >= start && ordinal < start + replicas && !isClaimed(ordinal))
    .sort((one, other) => other.ordinal - one.ordinal);
  const isStaying = ({ ordinal }: Pod) => ordinal < start + wanted;
  return {
    stay: notified.filter((pod) => isStaying(pod)),
    leave: notified.filter((pod) => !isStaying(pod) && !pod.terminating && !pod.finished),
  };
}

/** What a pod's answer says: only a time in the past counts, in Unix seconds. */
export function readAnswer({ status, body }: { status: number; body: string }, nowMs: number): PrepareAnswer {
  const failed = (why: string): PrepareAnswer => ({ kind: "failed", why });
  if (status === 409) return failed("it answered 409: it is locked");
  if (status < 200 || status > 299) return failed(`it answered ${status}`);
  const { timestamp } = parseFields(body) ?? {};
  if (timestamp === undefined) return failed("its answer is no JSON with a timestamp");
  if (typeof timestamp !== "number" || !Number.isSafeInteger(timestamp) || timestamp <= 0)
    return failed(`its timestamp is ${JSON.stringify(timestamp).slice(0, 40)}, and no time in Unix seconds`);
  if (timestamp * 1000 > nowMs + clockSkewMs) return failed("its timestamp is in the future");
  return { kind: "prepared", sinceMs: timestamp * 1000 };
}

/** The pods from the top that may leave now, and what stops there: the delay of the next one, or what is wrong with it. */
export interface Run {
  /** Highest ordinal first. */
  readonly pods: readonly Pod[];
  readonly stop:
    | undefined
    | { readonly kind: "young"; readonly pod: Pod; readonly inMs: number }
    | { readonly kind: "not-prepared"; readonly name: string; readonly why: string };
}

/** From the highest ordinal downwards, as long as each has known for the delay that it leaves (rollout-operator#155). */
export function leavingRun(set: DelayedSet, nowMs: number): Run {
  const { statefulSet, wanted, delayMs, pods, answers } = set;
  const { start, replicas, name } = statefulSet;
  const run: Pod[] = [];
  for (let ordinal = start + replicas - 1; ordinal >= start + wanted; ordinal--) {
    const pod = pods.get(ordinal);
    const answer = pod && answers.get(pod.uid);
    const unprepared = (why: string): Run => ({
      pods: run,
      stop: { kind: "not-prepared", name: podNameOf({ statefulSet: name, ordinal }), why },
    });
    if (pod === undefined) return unprepared("there is no such pod");
    if (pod.terminating || pod.finished) return unprepared("it is on its way out, and another one comes for it");
    if (answer === undefined) return unprepared("it has not been asked");
    if (answer.kind === "failed") return unprepared(answer.why);
    // A pod that came later than its time was told nothing: the time is on the disk of the one before.
    // Both times are in whole seconds: what was in that second may have been at its end.
    const sinceMs = Math.max(answer.sinceMs, pod.createdMs) + secondMs + serverTimeErrorMs;
    if (Number.isNaN(sinceMs)) return unprepared("it does not say when it was made");
    const inMs = sinceMs + delayMs - nowMs;
    if (inMs > 0) return { pods: run, stop: { kind: "young", pod, inMs } };
    run.push(pod);
  }
  return { pods: run, stop: undefined };
}
