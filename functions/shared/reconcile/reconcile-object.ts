/** The order of one reconcile of an object that is no group: observe, decide, report, say, act, and observe again. */

import { messageOf } from "../base/error-message.ts";
import type { Context } from "../contract/context.ts";
import type { ReconcileResult } from "../contract/definition.ts";
import type { ObjectRef } from "../contract/keys.ts";
import type { ActReport } from "../contract/reporter.ts";
import { ClusterError, isRefused, wordsOf } from "../kubernetes/cluster.ts";
import { reportVerdict } from "./record.ts";

/** What is decided about an object that is a key: at most one step, after which the object is looked at again. */
export interface ObjectVerdict {
  readonly guard: string;
  readonly sentence: string;
  readonly step: { readonly kind: string } | undefined;
  /** The object is looked at again after this time, in milliseconds; undefined: when an event tells of it. */
  readonly requeueAfterMs: number | undefined;
}

/** The write was made, the object is another one by now, or the API server does not want it. */
export type WriteResult = "done" | "changed" | "refused";

/** One look at an object, and what was decided on it. */
export interface ObjectAttempt<Observation, Verdict> {
  readonly context: Context;
  readonly key: ObjectRef;
  readonly observed: Observation;
  readonly verdict: Verdict;
  /** Nothing is sent by it after this moment of the monotonic clock. */
  readonly notAfterMs: number;
}

/** A function's own part of a pass over an object. */
export interface ObjectReconciler<Observation, Verdict extends ObjectVerdict> {
  readonly name: string;
  /** How soon to look again after the API server has refused a write, in milliseconds. */
  readonly refusedForMs: number;
  /** The kind of step without which the pass goes on when it is refused; absent: a refusal ends the pass. */
  readonly dispensable?: NonNullable<Verdict["step"]>["kind"];
  /** All of it by reads of now. Throws ClusterError. */
  observe(context: Context, key: ObjectRef): Promise<Observation>;
  /** `isRefused`: the pass goes on without its dispensable step. */
  decide(observed: Observation, isRefused: boolean): Verdict;
  /** Says what the verdict says before anything is done. Any answer but "told" ends this look. Throws ClusterError. */
  announce(attempt: ObjectAttempt<Observation, Verdict>): Promise<WriteResult | "told">;
  /** Throws ClusterError where the API server was not there, having tried all of it. */
  carryOut(attempt: ObjectAttempt<Observation, Verdict>, step: NonNullable<Verdict["step"]>): Promise<WriteResult>;
}

/** A pass takes about four looks. More come together only while other clients write what it writes. */
const mostLooks = 10;
/**
 * So long after a look was begun something is done by it, in milliseconds. It is longer than by rule R9: its time begins before
 * the reads, and a late write fails unless its object is still as it was read.
 */
export const actOnLookWithinMs = 15_000;
/** The same as `contendedRequeueMs`, in milliseconds, but sooner: labels must be there in seconds. */
const contendedObjectMs = 500;

/** Step after step, each on a fresh look, until nothing is to be done. Throws ClusterError where trying again can help. */
export async function reconcileObject<Observation, Verdict extends ObjectVerdict>(
  context: Context,
  reconciler: ObjectReconciler<Observation, Verdict>,
  key: ObjectRef,
): Promise<ReconcileResult> {
  const { name, refusedForMs, dispensable } = reconciler;
  let isRefused = false;
  for (let looks = 0; looks < mostLooks; looks++) {
    const notAfterMs = context.cluster.monotonicMs() + actOnLookWithinMs;
    const observed = await reconciler.observe(context, key);
    const verdict = reconciler.decide(observed, isRefused);
    reportObjectVerdict(context, name, key, verdict);
    const became = await act(reconciler, { context, key, observed, verdict, notAfterMs });
    if (became === "idle") return requeue(isRefused ? refusedForMs : verdict.requeueAfterMs);
    if (became !== "refused") continue;
    const sentence = `the API server does not take a write: ${verdict.sentence}`;
    reportObjectVerdict(context, name, key, { ...verdict, guard: "owner-refused", sentence });
    if (dispensable === undefined || verdict.step?.kind !== dispensable) return requeue(refusedForMs);
    isRefused = true;
  }
  return requeue(contendedObjectMs);
}

/** "idle": there is nothing to do now. */
async function act<Observation, Verdict extends ObjectVerdict>(
  reconciler: ObjectReconciler<Observation, Verdict>,
  attempt: ObjectAttempt<Observation, Verdict>,
): Promise<WriteResult | "idle"> {
  const { context, verdict, notAfterMs } = attempt;
  if (context.mode === "shadow") return "idle";
  const told = await reconciler.announce(attempt);
  if (told !== "told") return told;
  const step: Verdict["step"] = verdict.step;
  if (step === undefined) return "idle";
  // This process may have stood still: its look is too old to act on.
  return context.cluster.monotonicMs() > notAfterMs ? "changed" : reconciler.carryOut(attempt, step);
}

function requeue(requeueAfterMs: number | undefined): ReconcileResult {
  return { requeueAfterMs, acting: undefined };
}

/** Reports a verdict about an object, which is of no zone. */
export function reportObjectVerdict(
  context: Context,
  by: string,
  key: ObjectRef,
  { guard, sentence, step }: Pick<ObjectVerdict, "guard" | "sentence" | "step">,
): void {
  const taken = step === undefined ? {} : { wouldTake: [{ action: step.kind, object: sentence }] };
  reportVerdict(context, by, key, { guard, zone: "", sentence, ...taken });
}

/** 404 and 409 say that there is something new to look at. Throws what may be better the next time. */
function resultOfFailure(error: unknown): Exclude<WriteResult, "done"> {
  if (error instanceof ClusterError && [404, 409].includes(error.code)) return "changed";
  if (error instanceof ClusterError && error.code !== 429 && isRefused(error)) return "refused";
  throw error;
}

/** The API server's own words, for a sentence. */
export function sayRefusal(error: unknown): string {
  if (!(error instanceof ClusterError)) return messageOf(error);
  return `the API server refused it with ${error.code}: ${wordsOf(error)}`;
}

/**
 * Sends one write that was decided on, and reports what became of it; `refused` is told of a refusal. Throws what may be better
 * the next time.
 */
export async function reportWrite(
  { reporter }: Pick<Context, "reporter">,
  act: Omit<ActReport, "zone" | "result">,
  write: () => Promise<unknown>,
  refused: (error: unknown) => void | Promise<void> = () => {},
): Promise<WriteResult> {
  try {
    await write();
  } catch (error) {
    const result = resultOfFailure(error);
    reporter.act({ ...act, zone: "", result, reason: messageOf(error) });
    if (result === "refused") await refused(error);
    return result;
  }
  reporter.act({ ...act, zone: "", result: "done" });
  return "done";
}
