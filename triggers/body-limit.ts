/** A bound on what is read of a request. */
import type { Context, MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";

/**
 * Lets a body of at most `maxSize` bytes through; `onError` answers the others. Where the length is told, as the API server,
 * sources and brokers do, only that is looked at: hono's own middleware makes a stream of the body, which costs a tenth of a
 * review, and a start even more.
 */
export function limitBody(maxSize: number, onError: (c: Context) => Response): MiddlewareHandler {
  const limit = bodyLimit({ maxSize, onError });
  return (c, next) => {
    const length = c.req.header("content-length");
    const isTold = length !== undefined && c.req.header("transfer-encoding") === undefined;
    return isTold && Number(length) <= maxSize ? next() : limit(c, next);
  };
}
