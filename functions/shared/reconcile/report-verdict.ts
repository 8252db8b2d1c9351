/** What a pass reports of its verdict, for counting and logging: the verdict itself, and since when its guard holds. */

import type { Context } from "../contract/context.ts";
import type { Key, ObjectRef } from "../contract/keys.ts";
import type { ReconcileReport } from "../contract/reporter.ts";

/** Reports a verdict, and remembers since when its guard holds. Shadow mode alone would take what `wouldTake` names. */
export function reportVerdict(
  context: Context,
  by: string,
  key: Key,
  { guard, zone, sentence, wouldTake }: Pick<ReconcileReport, "guard" | "zone" | "sentence" | "wouldTake">,
): void {
  const memory = context.memoryOf(key);
  const sinceMs = memory.holding?.guard === guard ? memory.holding.sinceMs : context.cluster.serverTimeMs();
  memory.holding = { guard, zone, sinceMs };
  const shadow = context.mode === "shadow";
  const taken = shadow && wouldTake !== undefined ? { wouldTake } : {};
  context.reporter.pass({ key, function: by, guard, zone, sentence, sinceMs, shadow, ...taken });
}

/** What is decided about an object that is a key: at most one step, after which the object is looked at again. */
export interface ObjectVerdict {
  readonly guard: string;
  readonly sentence: string;
  readonly step: { readonly kind: string } | undefined;
  /** The object is looked at again after this time, in milliseconds; undefined: when an event tells of it. */
  readonly requeueAfterMs: number | undefined;
}

/** The same of an object, which is of no zone. */
export function reportObjectVerdict(
  context: Context,
  by: string,
  key: ObjectRef,
  { guard, sentence, step }: Pick<ObjectVerdict, "guard" | "sentence" | "step">,
): void {
  const taken = step === undefined ? {} : { wouldTake: [{ action: step.kind, object: sentence }] };
  reportVerdict(context, by, key, { guard, zone: "", sentence, ...taken });
}
