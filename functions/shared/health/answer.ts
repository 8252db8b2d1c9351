import type { Health } from "../ledger/health-rule.ts";

/** A failed check answers 503, as readiness checks and RabbitMQ's do. */
export const failedCheck = 503;
/** The most characters of an answer that a message quotes. */
export const longestDetail = 300;

/** 200 to 299 is good, and 503 is bad; the rest is no answer to the question. */
export function healthByStatus({ status, body }: { readonly status: number; readonly body: string }): Health {
  const detail = `HTTP ${status} ${body.trim()}`.trimEnd().slice(0, longestDetail);
  if (status >= 200 && status < 300) return { state: "good", detail };
  return status === failedCheck ? { state: "bad", detail } : unknownHealth(detail);
}

/** No answer, or none to the question. */
export function unknownHealth(detail: string): Health {
  return { state: "unknown", detail: detail.slice(0, longestDetail) };
}
