/** What an answer says of a pod's health. Pure. */

/**
 * `good` permits. `bad`: the pod answered, and said no. `unknown`: it gave no answer, or none to this question. A password that
 * is wrong, or a path that is not there, is never taken for a yes or a no.
 */
export interface Health {
  readonly state: "good" | "bad" | "unknown";
  /** For people, on one line or several; at most some hundred characters. Others wrote it: escape it where it is shown. */
  readonly words: string;
}

/** A check that failed says 503, as readiness checks and RabbitMQ's do. */
export const failedCheck = 503;
const longestWords = 300;

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
