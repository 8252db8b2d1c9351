/** Starts to send traces if the environment asks for it. Otherwise nothing of the SDK is loaded. */

import type { Environment } from "../../functions/shared/base/settings.ts";
import { keepSpans } from "../../functions/shared/base/spans.ts";
import { sleep } from "../../functions/shared/clock/process-clock.ts";
import type { Reporting } from "./logs-and-metrics.ts";
import { createRepeats } from "./repeats.ts";
import { readTracing } from "./tracing-settings.ts";

export interface Tracing {
  /** Sends what there is to send, and ends. Resolves within two seconds, although the collector may not answer. */
  stop(): Promise<void>;
}

/** A pod has no more time to end than its grace period, in milliseconds. */
const flushWithinMs = 2_000;
/** A collector that is away fails again and again. */
const rememberedExportTroubles = 100;

/** Resolves when spans are recorded; an invalid value is a line of the log. Never rejects. */
export async function startTracing(environment: Environment, version: string, log: Reporting["log"]): Promise<Tracing> {
  const { tracing, warnings } = readTracing(environment);
  for (const warning of warnings) log("warn", warning, { reason: "tracing" });
  if (tracing === undefined) return { async stop() {} };
  const { startSdk } = await import("./tracing-sdk.ts");
  const isWorthALine = createRepeats(rememberedExportTroubles, () => performance.now());
  const sdk = startSdk(tracing, version, (message) =>
    log(isWorthALine(message) ? "warn" : "debug", message, { reason: "tracing" }),
  );
  keepSpans();
  return {
    async stop() {
      const isSent = new AbortController();
      // A failure to send has already been reported.
      await Promise.race([sdk.shutdown().catch(() => {}), sleep(flushWithinMs, isSent.signal)]);
      isSent.abort();
    },
  };
}
