/** A watch: JSON objects, one a line, in an answer that does not end for minutes. */

import { messageOf } from "../base/error-message.ts";
import { ClusterError, type WatchEvent } from "./cluster.ts";
import { failure, refusal } from "./errors.ts";
import type { ApiRequest, Requests } from "./requests.ts";

const newline = 0x0a;

/**
 * Cuts chunks of bytes into lines, and reads or copies no byte twice, even if a long line comes in many chunks. `node:readline`
 * will not do: it also ends a line at U+2028, which JSON may contain, and does not report that the last line is incomplete.
 */
export class LineSplitter {
  #unfinished: Uint8Array[] = [];

  /** The lines that end in this chunk, without their newline. */
  push(chunk: Uint8Array): string[] {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const lines: string[] = [];
    let start = 0;
    for (let end = bytes.indexOf(newline); end !== -1; end = bytes.indexOf(newline, start)) {
      if (this.#unfinished.length === 0) {
        lines.push(bytes.toString("utf8", start, end));
      } else {
        lines.push(Buffer.concat([...this.#unfinished, bytes.subarray(start, end)]).toString("utf8"));
        this.#unfinished = [];
      }
      start = end + 1;
    }
    if (start < bytes.length) this.#unfinished.push(bytes.subarray(start));
    return lines;
  }

  /** True when the bytes ended in the middle of a line. */
  get unfinished(): boolean {
    return this.#unfinished.length > 0;
  }
}

export interface WatchStreamOptions {
  readonly requests: Requests;
  readonly request: ApiRequest;
  readonly signal: AbortSignal | undefined;
  /** The longest silence in milliseconds. A server that is there sends a bookmark every minute. */
  readonly silenceLimitMs: number;
}

type Body = Awaited<ReturnType<Requests["open"]>>;

/**
 * Iterates over the events of one watch. A generator will not do: its `return()` would wait for the next event.
 *
 * Ends without an error when the server closes the watch; rejects when its signal aborts. Ask for one event at a time.
 */
export class WatchStream<T> implements AsyncIterableIterator<WatchEvent<T>, undefined> {
  readonly #options: WatchStreamOptions;
  readonly #splitter = new LineSplitter();
  readonly #controller = new AbortController();
  #body: Body | undefined;
  #chunks: AsyncIterator<Uint8Array> | undefined;
  #lines: string[] = [];
  #nextLine = 0;
  #ended = false;
  #silent = false;

  constructor(options: WatchStreamOptions) {
    this.#options = options;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<WatchEvent<T>, undefined>> {
    try {
      while (!this.#ended) {
        const line = this.#lines[this.#nextLine];
        if (line === undefined) {
          if (!(await this.#fill())) this.#end();
          continue;
        }
        this.#nextLine += 1;
        if (line !== "") return { done: false, value: this.#event(line) };
      }
    } catch (error) {
      const ended = this.#ended;
      this.#end();
      if (!ended && this.#options.signal?.aborted) throw failure(this.#options.request, "Aborted", "given up");
      if (!ended) throw this.#explained(error);
    }
    return { done: true, value: undefined };
  }

  async return(): Promise<IteratorResult<WatchEvent<T>, undefined>> {
    this.#end();
    return { done: true, value: undefined };
  }

  /** Waits for bytes; false when the server closed the watch. */
  async #fill(): Promise<boolean> {
    const chunks = this.#chunks ?? (await this.#open());
    const timer = setTimeout(() => {
      this.#silent = true;
      this.#body?.destroy();
    }, this.#options.silenceLimitMs);
    try {
      const { done, value } = await chunks.next();
      if (done) {
        if (this.#splitter.unfinished) throw new Error("the connection ended in the middle of an event");
        return false;
      }
      this.#lines = this.#splitter.push(value);
      this.#nextLine = 0;
      return true;
    } finally {
      clearTimeout(timer);
    }
  }

  async #open(): Promise<AsyncIterator<Uint8Array>> {
    const { requests, request, signal } = this.#options;
    if (signal?.aborted) this.#controller.abort();
    signal?.addEventListener("abort", this.#onAbort, { once: true });
    const body = await requests.open(request, { signal: this.#controller.signal });
    this.#body = body;
    // A caller that waits in next() gets the error. Between two calls there would be no listener.
    body.on("error", () => {});
    if (this.#controller.signal.aborted) body.destroy();
    this.#chunks = body[Symbol.asyncIterator]();
    return this.#chunks;
  }

  readonly #onAbort = (): void => {
    this.#controller.abort();
    this.#body?.destroy();
  };

  #end(): void {
    this.#ended = true;
    this.#lines = [];
    this.#options.signal?.removeEventListener("abort", this.#onAbort);
    this.#onAbort();
  }

  #event(line: string): WatchEvent<T> {
    const event = JSON.parse(line) as {
      type: string;
      object: T & { metadata?: { resourceVersion: string }; code?: number };
    };
    switch (event.type) {
      case "ADDED":
      case "MODIFIED":
      case "DELETED":
        return { type: event.type, object: event.object };
      case "BOOKMARK":
        return { type: "BOOKMARK", resourceVersion: event.object.metadata?.resourceVersion ?? "" };
      case "ERROR":
        throw refusal(this.#options.request, event.object.code ?? 500, JSON.stringify(event.object));
      default:
        throw new Error(`an event of the unknown type "${event.type}"`);
    }
  }

  #explained(error: unknown): ClusterError {
    if (error instanceof ClusterError) return error;
    const { request, silenceLimitMs } = this.#options;
    if (this.#silent) return failure(request, "Timeout", `nothing received for ${silenceLimitMs} ms`);
    return failure(request, "ConnectionFailed", messageOf(error));
  }
}
