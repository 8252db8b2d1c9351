/** How a process ends after a signal: the queued work, the reviews that still come, the ports, and at last the watches. */

import type { AdmissionDefinition } from "../functions/shared/admission/definition.ts";
import type { Clock } from "../functions/shared/clock/clock.ts";
import type { Listening } from "./server/server.ts";
import type { TlsPort } from "./server/tls-port.ts";
import type { Settings } from "./settings/settings.ts";
import type { Standalone } from "./standalone.ts";
import type { Reporting } from "./telemetry/logs-and-metrics.ts";
import type { Cron } from "./workqueue/cron.ts";

export interface Running {
  readonly standalone: Pick<Standalone, "enqueuer" | "stop">;
  readonly cron: Pick<Cron, "stop">;
  /** Of `PORT`: health stays visible until the end. */
  readonly plain: Pick<Listening, "refuseNew" | "close">;
  /** Of `TLS_PORT`; undefined where there is none. */
  readonly tlsPort: Pick<TlsPort, "notReady" | "refuseNew" | "close"> | undefined;
  /** Of `STATUS_LISTEN`; undefined where there is none. */
  readonly statusPort?: Pick<Listening, "close"> | undefined;
  readonly admissions: readonly Pick<AdmissionDefinition, "registration">[];
}

export interface EndOptions {
  readonly settings: Pick<Settings, "drainTimeoutMs" | "shutdownDelayMs" | "reviewsOnPort">;
  readonly clock: Clock;
  readonly reporting: Pick<Reporting, "log">;
  /** Of which the log speaks. */
  readonly signal: string;
}

/** How long events, probes and scrapes that are under way may take, in milliseconds. */
const lastRequestsMs = 1_000;

/**
 * Ends the queued work and closes the ports. False when some of the work did not end within `DRAIN_TIMEOUT`. It never rejects.
 *
 * An API server denies an eviction with 500 when its webhook breaks off, and a drain does not ask again after a 500. API servers
 * learn late that a replica ends: Services lead to it for some seconds, and connections outlive that. So reviews are answered for
 * `SHUTDOWN_DELAY` more, and each answer ends its connection.
 */
export async function endWork(running: Running, options: EndOptions): Promise<boolean> {
  const { standalone, cron, plain } = running;
  const { settings, clock, reporting, signal } = options;
  const ports = portsForReviews(running, settings);
  const delayMs = ports.length > 0 ? settings.shutdownDelayMs : 0;
  const more = `; reviews are answered for ${delayMs / 1000} s more, and a second signal ends this at once`;
  reporting.log("info", `${signal}: ending the queued work${delayMs > 0 ? more : ""}`, {
    keys: standalone.enqueuer.keys,
  });
  for (const port of ports) port.refuseNew();
  const deadlineMs = clock.monotonicMs() + settings.drainTimeoutMs;
  const answered = clock
    .sleep(delayMs)
    .then(() => running.tlsPort?.close(AbortSignal.timeout(longestReviewMs(running))));
  // From now on events get 503, so that their sources try elsewhere.
  const work = [standalone.stop(deadlineMs, answered), cron.stop(deadlineMs)] as const;
  const shown = running.statusPort?.close(AbortSignal.timeout(lastRequestsMs));
  const [drained, ran] = await Promise.all([...work, shown]);
  await plain.close(AbortSignal.timeout(settings.reviewsOnPort ? longestReviewMs(running) : lastRequestsMs));
  return drained && ran;
}

/** The ports at which an API server may be waiting; none before the first certificate. */
function portsForReviews({ plain, tlsPort, admissions }: Running, { reviewsOnPort }: EndOptions["settings"]) {
  if (admissions.length === 0) return [];
  const isOpen = tlsPort !== undefined && tlsPort.notReady() === undefined;
  return [...(isOpen ? [tlsPort] : []), ...(reviewsOnPort ? [plain] : [])];
}

/** The longest time that an API server waits for an answer, in milliseconds. */
function longestReviewMs({ admissions }: Running): number {
  return 1_000 * Math.max(1, ...admissions.map(({ registration }) => registration.timeoutSeconds));
}
