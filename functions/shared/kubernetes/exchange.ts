/** One HTTP exchange, from the moment its first byte goes out to the last byte of the answer. */

import { gunzipSync } from "node:zlib";
import type { Dispatcher } from "undici";
import { messageOf } from "../base/error-message.ts";
import type { SteadyClock } from "../clock/steady-clock.ts";

export interface ApiAnswer {
  readonly statusCode: number;
  readonly headers: Dispatcher.ResponseData["headers"];
  readonly body: Buffer;
  /** Of the body as it came, compressed or not. */
  readonly bytesReceived: number;
  /** Monotonic time at which the request went out: waiting for a free connection does not count. */
  readonly sentMs: number;
}

export interface ExchangeLimit {
  /** Gives up, whatever has come. */
  readonly signal: AbortSignal;
  /** Monotonic time after which the request is not sent any more, however long it waited for a connection (rule R9). */
  readonly notAfterMs: number | undefined;
  readonly clock: SteadyClock;
  /** A larger body is not read to its end, compressed or not; undefined: any is. */
  readonly bodyLimitBytes: number | undefined;
}

/** The request never left this process, so that the server cannot have acted. */
export class NotSentError extends Error {
  /** True when it was too late to send it. */
  readonly late: boolean;

  constructor(message: string, late: boolean, options?: ErrorOptions) {
    super(message, options);
    this.name = "NotSentError";
    this.late = late;
  }
}

/**
 * Sends a request and gathers the answer. Below undici's `request`, because only a handler learns when the request is
 * really sent; it also saves a stream per call.
 *
 * @throws NotSentError when nothing was sent, otherwise undici's error.
 */
export function exchange(
  dispatcher: Dispatcher,
  options: Dispatcher.DispatchOptions,
  limit: ExchangeLimit,
): Promise<ApiAnswer> {
  return new Promise((resolve, reject) => {
    dispatcher.dispatch(options, new AnswerCollector(limit, resolve, reject));
  });
}

class AnswerCollector implements Dispatcher.DispatchHandler {
  readonly #limit: ExchangeLimit;
  readonly #resolve: (answer: ApiAnswer) => void;
  readonly #reject: (error: Error) => void;
  #controller: Dispatcher.DispatchController | undefined;
  #sentMs = 0;
  #statusCode = 0;
  #headers: ApiAnswer["headers"] = {};
  #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(limit: ExchangeLimit, resolve: (answer: ApiAnswer) => void, reject: (error: Error) => void) {
    this.#limit = limit;
    this.#resolve = resolve;
    this.#reject = reject;
    limit.signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // What is thrown here keeps the request from being written, and leaves the connection to others.
    if (this.#limit.signal.aborted) throw new NotSentError("given up before it was sent", false);
    const { notAfterMs } = this.#limit;
    this.#sentMs = this.#limit.clock.nowMs();
    if (notAfterMs !== undefined && this.#sentMs > notAfterMs) throw new NotSentError("too late to send it", true);
    this.#controller = controller;
  }

  onResponseStart(_controller: unknown, statusCode: number, headers: ApiAnswer["headers"]): void {
    this.#statusCode = statusCode;
    this.#headers = headers;
  }

  onResponseData(_controller: unknown, chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    const { bodyLimitBytes = Number.POSITIVE_INFINITY } = this.#limit;
    if (this.#bytes > bodyLimitBytes)
      this.#controller?.abort(new Error(`the answer has more than ${bodyLimitBytes} bytes`));
  }

  onResponseEnd(): void {
    this.#limit.signal.removeEventListener("abort", this.#onAbort);
    const [first] = this.#chunks;
    const received = first !== undefined && this.#chunks.length === 1 ? first : Buffer.concat(this.#chunks);
    this.#chunks = [];
    try {
      const body =
        this.#headers["content-encoding"] === "gzip"
          ? gunzipSync(received, { maxOutputLength: this.#limit.bodyLimitBytes })
          : received;
      const [statusCode, headers, sentMs] = [this.#statusCode, this.#headers, this.#sentMs];
      this.#resolve({ statusCode, headers, body, bytesReceived: received.length, sentMs });
    } catch (error) {
      this.#reject(new Error(`the answer cannot be decompressed: ${messageOf(error)}`, { cause: error }));
    }
  }

  onResponseError(_controller: unknown, error: Error): void {
    this.#limit.signal.removeEventListener("abort", this.#onAbort);
    const sent = this.#controller !== undefined;
    this.#reject(
      sent || error instanceof NotSentError ? error : new NotSentError(messageOf(error), false, { cause: error }),
    );
  }

  readonly #onAbort = (): void => {
    const error = new Error("given up while waiting for the answer");
    if (this.#controller !== undefined) this.#controller.abort(error);
    // It still waits for a connection: onRequestStart refuses it when its turn comes.
    else this.#reject(new NotSentError("given up before it was sent", false, { cause: error }));
  };
}
