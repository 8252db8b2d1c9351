/** A stream whose bytes arrive late and in order. It holds a bounded number of them. */
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import type { Phase } from "./delays.ts";

export interface DelayOptions {
  /** What becomes of the bytes that arrive, one phase after the other. */
  readonly phases: Iterator<Phase>;
  /** Once it is aborted, all delayed bytes are written, and later ones at once. */
  readonly calm: AbortSignal;
  /** The most bytes that are delayed at once. At that number nothing more is read from the source. Default 8 MiB. */
  readonly mostBytes?: number;
}

/** Writes the bytes of `source` to `sink`, by the phases. Resolves when either has ended, and ends the other. */
export async function forwardLate(source: Readable, sink: Writable, options: DelayOptions): Promise<void> {
  const delayed = new DelayedStream(source, sink, options);
  await Promise.all([delayed.walk(), delayed.read(), delayed.write()]);
}

const defaultMostBytes = 8 * 1024 ** 2;
const prompt: Phase = { kind: "late", forMs: Number.POSITIVE_INFINITY, delayMs: 0 };

class DelayedStream {
  readonly #source: Readable;
  readonly #sink: Writable;
  readonly #options: DelayOptions;
  readonly #over = new AbortController();
  readonly #queue: { readonly bytes: Uint8Array; readonly dueMs: number }[] = [];
  #delayedBytes = 0;
  #phase = prompt;
  #phaseEndMs = 0;
  #lastDueMs = 0;
  #sourceEnd: "not yet" | "complete" | "broken" = "not yet";
  #changed = Promise.withResolvers<void>();

  constructor(source: Readable, sink: Writable, options: DelayOptions) {
    this.#source = source;
    this.#sink = sink;
    this.#options = options;
    sink.on("error", () => {});
    sink.once("close", () => this.#end());
  }

  /** Goes from phase to phase until it is calm, or until a phase cuts the connection. */
  async walk(): Promise<void> {
    const { phases, calm } = this.#options;
    const either = AbortSignal.any([calm, this.#over.signal]);
    while (!either.aborted) {
      this.#phase = phases.next().value;
      this.#phaseEndMs = performance.now() + this.#phase.forMs;
      this.#notify();
      await delay(this.#phase.forMs, undefined, { signal: either }).catch(() => {});
      if (this.#phase.kind === "half-open") this.#cut();
    }
    this.#phase = prompt;
    this.#notify();
  }

  /** Reads until the source ends, and no more than the limit. */
  async read(): Promise<void> {
    const most = this.#options.mostBytes ?? defaultMostBytes;
    try {
      for await (const bytes of this.#source as AsyncIterable<Uint8Array>) {
        this.#lastDueMs = Math.max(this.#lastDueMs, this.#dueMs(performance.now()));
        this.#queue.push({ bytes, dueMs: this.#lastDueMs });
        this.#delayedBytes += bytes.length;
        this.#notify();
        while (this.#delayedBytes > most && !this.#over.signal.aborted) await this.#changed.promise;
        if (this.#over.signal.aborted) return;
      }
      this.#sourceEnd = "complete";
    } catch {
      this.#sourceEnd = "broken";
    }
    this.#notify();
  }

  /** Writes the bytes that are due. Ends the sink, or breaks it, as the source has ended. */
  async write(): Promise<void> {
    while (!this.#over.signal.aborted) {
      const [first] = this.#queue;
      const changed = this.#changed.promise;
      if (first === undefined && this.#sourceEnd === "complete") {
        this.#sink.end();
        return this.#end();
      }
      if (first === undefined && this.#sourceEnd === "broken") return this.#cut();
      const waitMs = first === undefined ? undefined : this.#waitMs(first.dueMs);
      if (waitMs === undefined) await changed;
      else if (waitMs > 0) await Promise.race([changed, this.#pause(waitMs)]);
      else await this.#writeFirst();
    }
  }

  /** When bytes that arrive now are due. */
  #dueMs(nowMs: number): number {
    return this.#phase.kind === "late" ? nowMs + this.#phase.delayMs : this.#phaseEndMs;
  }

  /** Undefined while they wait for the next phase. */
  #waitMs(dueMs: number): number | undefined {
    if (this.#options.calm.aborted) return 0;
    return this.#phase.kind === "half-open" ? undefined : dueMs - performance.now();
  }

  async #writeFirst(): Promise<void> {
    const first = this.#queue.shift();
    if (first === undefined) return;
    const isRoom = this.#sink.write(first.bytes);
    this.#delayedBytes -= first.bytes.length;
    this.#notify();
    if (!isRoom) await once(this.#sink, "drain", { signal: this.#over.signal }).catch(() => {});
  }

  #pause(ms: number): Promise<void> {
    return delay(ms, undefined, { signal: this.#over.signal }).catch(() => {});
  }

  #notify(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }

  /** The reader sees a broken connection, not a complete answer. */
  #cut(): void {
    this.#sink.destroy();
    this.#end();
  }

  #end(): void {
    this.#over.abort();
    this.#source.destroy();
    this.#notify();
  }
}
