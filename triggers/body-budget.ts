/** How much of what is being posted may be in memory at once: each body has a limit, and all of them together have one. */
import type { Context, MiddlewareHandler } from "hono";

export interface BodyBudgetOptions {
  /** Of one body, in bytes: what a body counts as that does not say its length. */
  readonly bodyLimitBytes: number;
  /** Of all bodies together, in bytes. One alone is read whatever it counts as. */
  readonly mostBytes: number;
  /** Answers whoever would be too much. */
  refuse(c: Context): Response;
}

/** Goes before whatever reads the body. A body counts from its headers on until it has been answered. */
export function createBodyBudget({ bodyLimitBytes, mostBytes, refuse }: BodyBudgetOptions): MiddlewareHandler {
  let bytesInFlight = 0;
  return async function countBody(c, next) {
    // Node answers 400 to a length that is no number, and cuts off what goes beyond it.
    const told = Number(c.req.header("content-length") ?? bodyLimitBytes);
    const bytes = Math.min(told, bodyLimitBytes);
    if (bytesInFlight > 0 && bytesInFlight + bytes > mostBytes) return refuse(c);
    bytesInFlight += bytes;
    try {
      await next();
    } finally {
      bytesInFlight -= bytes;
    }
  };
}
