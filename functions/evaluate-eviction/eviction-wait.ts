/** How long an eviction may wait for its turn before it is refused. */

import type { AdmissionRequest } from "../shared/admission/definition.ts";
import { parseDuration, setting, valuesOf } from "../shared/base/settings.ts";
import type { Context } from "../shared/contract/context.ts";
import { name } from "./observe.ts";

export const settings = {
  evictionWaitMs: setting<number>({
    name: "EVICTION_WAIT",
    fallback: "8s",
    meaning:
      "how long an eviction waits for its turn before it is refused, at most 1.5 s less than the webhook's time-out leaves; 0 refuses at once; with VIEWS=list none waits",
    grammar: "0, or a Go duration of at most 1h, such as 8s",
    parse: (text) => parseDuration(text, 0, 3_600_000),
  }),
} as const;

/** Time that is kept for the last attempt: a write of the ledger, and the answer. */
const answerMs = 1_500;

/** Makes the function that says until which monotonic time a review may wait; undefined if it may not wait. */
export function createWait(context: Context): (request: AdmissionRequest) => number | undefined {
  const { evictionWaitMs: waitMs } = valuesOf(settings, context.settings);
  let isCutReported = false;
  return ({ deadlineMs, dryRun, namespace, name: pod }) => {
    // A dry run must hold no eviction back.
    if (waitMs === 0 || dryRun || context.mode === "shadow" || context.cache.onChange === undefined) return undefined;
    const nowMs = context.cluster.monotonicMs();
    const leftMs = deadlineMs - answerMs - nowMs;
    if (leftMs < waitMs && !isCutReported) {
      isCutReported = true;
      const until = leftMs > 0 ? `evictions wait for ${(leftMs / 1000).toFixed(1)} s at most` : "no eviction waits";
      const message = `EVICTION_WAIT is ${waitMs / 1000} s, and the time-out of the webhook leaves less: ${until}. Give it a timeoutSeconds of ${Math.ceil((waitMs + answerMs) / 900)}, of which 30 is the most`;
      context.reporter.problem({ resource: "pods", namespace, name: pod }, name, message);
    }
    return nowMs + Math.min(waitMs, leftMs);
  };
}
