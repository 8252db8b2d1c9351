/** The order of one reconcile of an object that is no group: observe, decide, report, record, act, and observe again. */

import { messageOf } from "../base/error-message.ts";
import type { Context } from "../contract/context.ts";
import type { ReconcileResult } from "../contract/definition.ts";
import type { ObjectRef } from "../contract/keys.ts";
import type { ActReport } from "../contract/reporter.ts";
import { apiMessage, ClusterError, isRefused } from "../kubernetes/cluster.ts";
import { reportVerdict } from "./record.ts";

/** The decision about an object that is a key: at most one step, after which the object is observed again. */
export interface ObjectVerdict {
  readonly guard: string;
  readonly message: string;
  readonly step: { readonly kind: string } | undefined;
  /** The object is reconciled again after this time, in milliseconds; undefined: at its next event. */
  readonly requeueAfterMs: number | undefined;
}

/** The write was made, the object is another one by now, or the API server does not want it. */
export type WriteResult = "done" | "changed" | "refused";

/** One observation of an object, and the decision about it. */
export interface ObjectAttempt<Observation, Verdict> {
  readonly context: Context;
  readonly key: ObjectRef;
  readonly observed: Observation;
  readonly verdict: Verdict;
  /** Nothing is sent by it after this moment of the monotonic clock. */
  readonly notAfterMs: number;
}

/** A function's own part of a reconcile of an object. */
export interface ObjectReconciler<Observation, Verdict extends ObjectVerdict> {
  readonly name: string;
  /** How soon to reconcile again after the API server has refused a write, in milliseconds. */
  readonly refusedForMs: number;
  /** The kinds of steps without which the reconcile goes on when one is refused; absent: a refusal ends it. */
  readonly dispensable?: readonly NonNullable<Verdict["step"]>["kind"][];
  /** All of it by reads of now. Throws ClusterError. */
  observe(context: Context, key: ObjectRef): Promise<Observation>;
  /** `refused`: the kinds of dispensable steps without which the reconcile goes on. */
  decide(observed: Observation, refused: ReadonlySet<string>): Verdict;
  /** Says what the verdict says before anything is done. Any answer but "told" ends this attempt. Throws ClusterError. */
  record(attempt: ObjectAttempt<Observation, Verdict>): Promise<WriteResult | "told">;
  /** Throws ClusterError where the API server was not there, having tried all of it. */
  carryOut(attempt: ObjectAttempt<Observation, Verdict>, step: NonNullable<Verdict["step"]>): Promise<WriteResult>;
}

/** A reconcile takes about four attempts. More come together only while other clients write what it writes. */
const maxRounds = 10;
/**
 * How long after an observation was begun a function may act on it, in milliseconds. It is longer than by rule R9: its time
 * begins before the reads, and a late write fails unless its object is still as it was read.
 */
export const actOnReadWithinMs = 15_000;
/** The same as `contendedRequeueMs`, in milliseconds, but sooner: labels must be there in seconds. */
const contendedObjectMs = 500;

/** Step after step, each on a fresh observation, until none is left. Throws ClusterError if a later try can help. */
export async function reconcileObject<Observation, Verdict extends ObjectVerdict>(
  context: Context,
  reconciler: ObjectReconciler<Observation, Verdict>,
  key: ObjectRef,
): Promise<ReconcileResult> {
  const { name, refusedForMs, dispensable } = reconciler;
  const refused = new Set<string>();
  for (let rounds = 0; rounds < maxRounds; rounds++) {
    const notAfterMs = context.cluster.monotonicMs() + actOnReadWithinMs;
    const observed = await reconciler.observe(context, key);
    const verdict = reconciler.decide(observed, refused);
    reportObjectVerdict(context, name, key, verdict);
    const became = await act(reconciler, { context, key, observed, verdict, notAfterMs });
    if (became === "idle")
      return { requeueAfterMs: refused.size > 0 ? refusedForMs : verdict.requeueAfterMs, pendingActs: undefined };
    if (became !== "refused") continue;
    const message = `the API server does not take a write: ${verdict.message}`;
    reportObjectVerdict(context, name, key, { ...verdict, guard: "owner-refused", message });
    if (verdict.step === undefined || dispensable?.includes(verdict.step.kind) !== true)
      return { requeueAfterMs: refusedForMs, pendingActs: undefined };
    refused.add(verdict.step.kind);
  }
  return { requeueAfterMs: contendedObjectMs, pendingActs: undefined };
}

/** "idle": there is nothing to do now. */
async function act<Observation, Verdict extends ObjectVerdict>(
  reconciler: ObjectReconciler<Observation, Verdict>,
  attempt: ObjectAttempt<Observation, Verdict>,
): Promise<WriteResult | "idle"> {
  const { context, verdict, notAfterMs } = attempt;
  if (context.mode === "shadow") return "idle";
  const recorded = await reconciler.record(attempt);
  if (recorded !== "told") return recorded;
  const step: Verdict["step"] = verdict.step;
  if (step === undefined) return "idle";
  // This process may have been stopped, so that its observation is too old to act on.
  return context.cluster.monotonicMs() > notAfterMs ? "changed" : reconciler.carryOut(attempt, step);
}

/** Reports a verdict about an object, which is of no zone. */
export function reportObjectVerdict(
  context: Context,
  by: string,
  key: ObjectRef,
  { guard, message, step }: Pick<ObjectVerdict, "guard" | "message" | "step">,
): void {
  const taken = step === undefined ? {} : { wouldTake: [{ action: step.kind, object: message }] };
  reportVerdict(context, by, key, { guard, zone: "", message, ...taken });
}

/** After 404 and 409 there is a new state to observe. Throws errors that may not occur the next time. */
function resultOfFailure(error: unknown): Exclude<WriteResult, "done"> {
  if (error instanceof ClusterError && [404, 409].includes(error.code)) return "changed";
  if (error instanceof ClusterError && error.code !== 429 && isRefused(error)) return "refused";
  throw error;
}

/** The API server's own message, to be quoted. */
export function describeRefusal(error: unknown): string {
  if (!(error instanceof ClusterError)) return messageOf(error);
  return `the API server refused it with ${error.code}: ${apiMessage(error)}`;
}

/** Sends one write, and reports its result; `refused` gets a refusal. Throws errors that may not occur the next time. */
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
