/**
 * Reads the bodies of requests within limits. Each body has a limit, all that are being read share one, and a stalled body is
 * given up. A body counts by the memory that it takes, whatever length its client declared.
 */
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import type { Context } from "hono";
import { HTTPException } from "hono/http-exception";
import { GrowingBuffer, type Holder, SharedMemory } from "../../functions/shared/base/growing-buffer.ts";
import { Deadlines, type HasDeadline } from "../../functions/shared/clock/deadlines.ts";
import { waitingTime } from "../../functions/shared/clock/process-clock.ts";
import { parseBoundedJson } from "./bounded-json.ts";
import { releaseSoon } from "./release-buffer.ts";

/** The client disconnected before it had sent its whole body, so that there is no client to answer. */
export class BodyAborted extends Error {}

/**
 * After this time without a byte a body is given up, in milliseconds. Honest clients send a body without pauses: a lost packet is
 * sent again within a second or two.
 */
const stalledAfterMs = 3_000;

/** A body that is being read. */
interface BodyRead extends HasDeadline, Holder {
  deadlineMs: number;
}

export class Bodies {
  readonly #memory: SharedMemory;
  readonly #stalled = new Deadlines(waitingTime);

  /** `mostBytes`: of all bodies together, and of a single one. */
  constructor(mostBytes: number) {
    this.#memory = new SharedMemory(mostBytes);
  }

  /** The memory of the bodies that are being read, in bytes. */
  get bytes(): number {
    return this.#memory.bytes;
  }

  /**
   * The JSON of a request's body, which has at most `limitBytes`; undefined where there is none. `malformed` makes the answer to
   * a body that is no JSON, and gets the end of its message.
   *
   * @throws HTTPException 413 for one that is too large, 408 for one that stands still, 503 for one that is the largest while all
   * of them are too large together, and what `malformed` makes; BodyAborted.
   */
  async json(c: Context, limitBytes: number, malformed: (because: string) => HTTPException): Promise<unknown> {
    if (Number(c.req.header("content-length") ?? 0) > limitBytes) throw tooLarge(limitBytes);
    const body = await this.#read(c, limitBytes);
    const parsed = parseBoundedJson(body.whole());
    body.free();
    if ("because" in parsed) throw malformed(parsed.because);
    return parsed.value;
  }

  #read(c: Context, limitBytes: number): Promise<GrowingBuffer> {
    const { promise, resolve, reject } = Promise.withResolvers<GrowingBuffer>();
    const source = sourceOf(c);
    const body = new GrowingBuffer(limitBytes);
    // Called at once, and not when the caller continues after the promise, because a stream closes right after its end.
    const end = () => {
      // Later bytes stay unread. The listener for errors stays, so that a late error does not end the process.
      source.off("data", onData).off("end", onEnd).off("close", onClose);
      this.#stalled.delete(reading);
      this.#memory.leave(reading);
    };
    const stop = (error: Error) => {
      end();
      if (error instanceof HTTPException && error.status !== 413) source.pause();
      body.free();
      reject(error);
    };
    const onData = (piece: Buffer) => {
      reading.deadlineMs = waitingTime.monotonicMs() + stalledAfterMs;
      const growth = body.growthFor(piece.length);
      if (growth === undefined) return stop(tooLarge(limitBytes));
      if (growth > 0 && !this.#memory.take(reading, growth)) return;
      body.append(piece);
      releaseSoon(piece);
    };
    const onEnd = () => {
      end();
      resolve(body);
    };
    const onClose = () => stop(new BodyAborted("the client went away before it had sent its request"));
    const deadlineMs = waitingTime.monotonicMs() + stalledAfterMs;
    const late = () => stop(ending(408, `Nothing more of the body came for ${stalledAfterMs / 1000} s.`));
    const giveUp = () =>
      stop(ending(503, "Send it again later: too much is being sent at once.", { "retry-after": "1" }));
    const reading: BodyRead = { bytes: 0, deadlineMs, late, giveUp };
    this.#stalled.add(reading);
    source.on("data", onData).on("end", onEnd).on("close", onClose).on("error", onClose);
    // The client may have disconnected before these listeners were added.
    if (source.destroyed) onClose();
    return promise;
  }
}

/** The connection itself: a stream of the Web made of it costs a tenth of a review. There is none where a test calls the app. */
function sourceOf(c: Context): Readable {
  const { incoming } = (c.env ?? {}) as { readonly incoming?: IncomingMessage };
  if (incoming !== undefined) return incoming;
  const { body } = c.req.raw;
  return body === null ? Readable.from([]) : Readable.fromWeb(body as Parameters<typeof Readable.fromWeb>[0]);
}

function tooLarge(limitBytes: number): HTTPException {
  return new HTTPException(413, { message: `The body is larger than ${limitBytes} bytes.` });
}

/** An answer that ends the connection: the rest of the body is not worth the memory that reading it would take. */
function ending(status: 408 | 503, message: string, more: Readonly<Record<string, string>> = {}): HTTPException {
  const headers = { "content-type": "text/plain; charset=UTF-8", connection: "close", ...more };
  return new HTTPException(status, { message, res: new Response(message, { status, headers }) });
}
