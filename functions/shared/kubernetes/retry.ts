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
  /** True when the request never left this process, so that the server cannot have acted. */
  readonly unsent: boolean;
  /** True when it is too late to send it now. */
  readonly late: boolean;
  /** With which it was answered, if it was. */
  readonly access?: Access;
}

/** What is known of a request beside its last try. */
export interface RetryState {
  /** True when a second try that meets the effect of the first does no harm. */
  readonly repeatable: boolean;
  /** Whether its time is over, or its caller gave it up. */
  readonly ended: boolean;
  /** How many there were. */
  readonly tries: number;
  /** Whether its credentials have been renewed: they are once. */
  readonly renewed: boolean;
  readonly nowMs: number;
  /** After this moment of the same clock no try is sent any more. */
  readonly notAfterMs: number;
  /** From 0 to 1: how much of half the delay is added to it, so that clients do not come back together. */
  readonly jitter: number;
}

/** Whether a try follows at once with renewed credentials, or after a delay in milliseconds. Pure. */
export function retryDecision(
  { error, unsent, late, access }: FailedTry,
  state: RetryState,
): "give-up" | { renew: Access } | { delayMs: number } {
  const { repeatable, ended, tries, renewed, nowMs, notAfterMs, jitter } = state;
  if (ended || late) return "give-up";
  // The credentials may have been renewed behind our back; a refused request was not carried out.
  if (error.code === 401) return renewed || access === undefined ? "give-up" : { renew: access };
  const isSafe = error.code === 429 || unsent || (repeatable && isTransient(error) && !isViewTooOld(error));
  const { retryAfterMs = 0 } = error;
  if (!isSafe || tries >= maxTries || retryAfterMs > maxRetryAfterMs) return "give-up";
  const delayMs = Math.max(retryAfterMs, firstBackoffMs * 2 ** (tries - 1)) * (1 + jitter / 2);
  return nowMs + delayMs > notAfterMs ? "give-up" : { delayMs };
}

/** The server has waited three seconds already for that revision; whether to go on is the caller's choice. */
function isViewTooOld(error: ClusterError): boolean {
  return error.code === 504 && error.message.includes("Too large resource version");
}
