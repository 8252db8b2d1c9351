/** When a request to the API server is tried again. */
import { type ClusterError, isTransient } from "./cluster.ts";
import type { Access } from "./configuration.ts";

const maxTries = 3;
const firstBackoffMs = 100;
/** The longest that a server's Retry-After is honoured here; beyond it the caller decides. */
const maxRetryAfterMs = 5_000;

/** A try that failed. */
export interface FailedTry {
  readonly error: ClusterError;
  /** True if the request never left this process, so that the server cannot have acted. */
  readonly unsent: boolean;
  /** True if it is too late to send it now. */
  readonly late: boolean;
  /** The credentials that an answer came for; absent if there was no answer. */
  readonly access?: Access;
}

/** The state of a request besides its last try. */
export interface RetryState {
  /** True if a second try does no harm after the first has had its effect. */
  readonly repeatable: boolean;
  /** Whether its time is over, or its caller gave it up. */
  readonly ended: boolean;
  /** The number of tries so far. */
  readonly tries: number;
  /** Whether its credentials have been renewed, which happens at most once. */
  readonly renewed: boolean;
  readonly nowMs: number;
  /** Time of the same clock after which no try is sent. */
  readonly notAfterMs: number;
  /** From 0 to 1: this part of half the delay is added, so that clients do not retry at the same time. */
  readonly jitter: number;
}

/** Whether a try follows at once with renewed credentials, or after a delay in milliseconds. Pure. */
export function retryDecision(
  { error, unsent, late, access }: FailedTry,
  state: RetryState,
): "give-up" | { renew: Access } | { delayMs: number } {
  const { repeatable, ended, tries, renewed, nowMs, notAfterMs, jitter } = state;
  if (ended || late) return "give-up";
  // Another process may have renewed the credentials; a refused request was not carried out.
  if (error.code === 401) return renewed || access === undefined ? "give-up" : { renew: access };
  const isSafe = error.code === 429 || unsent || (repeatable && isTransient(error) && !isViewTooOld(error));
  const { retryAfterMs = 0 } = error;
  if (!isSafe || tries >= maxTries || retryAfterMs > maxRetryAfterMs) return "give-up";
  const delayMs = Math.max(retryAfterMs, firstBackoffMs * 2 ** (tries - 1)) * (1 + jitter / 2);
  return nowMs + delayMs > notAfterMs ? "give-up" : { delayMs };
}

/** The server has already waited three seconds for that revision. The caller decides whether to go on. */
function isViewTooOld(error: ClusterError): boolean {
  return error.code === 504 && error.message.includes("Too large resource version");
}
