import type { Health } from "../ledger/health-rule.ts";

/** A check that failed says 503, as readiness checks and RabbitMQ's do. */
export const failedCheck = 503;
/** An answer is cut to so many characters in a message. */
export const longestWords = 300;

/** 200 to 299 is good, and 503 is bad; the rest is no answer to the question. */
export function healthByStatus({ status, body }: { readonly status: number; readonly body: string }): Health {
  const words = `HTTP ${status} ${body.trim()}`.trimEnd().slice(0, longestWords);
  if (status >= 200 && status < 300) return { state: "good", words };
  return status === failedCheck ? { state: "bad", words } : unknownHealth(words);
}

/** No answer, or none to the question. */
export function unknownHealth(words: string): Health {
  return { state: "unknown", words: words.slice(0, longestWords) };
}
