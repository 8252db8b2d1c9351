/** What is told of one look at an object that is a key: for counting and logging. */

import type { Context } from "../contract/context.ts";
import type { ObjectRef } from "../contract/keys.ts";

interface LookVerdict {
  readonly guard: string;
  readonly sentence: string;
  readonly step: { readonly kind: string } | undefined;
}

export function reportReconcile(
  context: Context,
  by: string,
  key: ObjectRef,
  { guard, sentence, step }: LookVerdict,
): void {
  const memory = context.memoryOf(key);
  const sinceMs = memory.holding?.guard === guard ? memory.holding.sinceMs : context.cluster.serverTimeMs();
  memory.holding = { guard, zone: "", sinceMs };
  const shadow = context.mode === "shadow";
  const wouldTake = shadow && step !== undefined ? { wouldTake: [{ action: step.kind, object: sentence }] } : {};
  context.reporter.pass({ key, function: by, guard, zone: "", sentence, sinceMs, shadow, ...wouldTake });
}
