/** Time that can be replaced: the same world runs on a virtual clock for simulations and on the real one for the demo. */

/** Cancels a planned event. Does nothing if the event has run, or is cancelled already. */
export type Cancel = () => void;

export interface Timeline {
  /** Milliseconds since the Unix epoch. */
  nowMs(): number;
  /** Runs `run` once, after `delayMs` milliseconds (at least 0). Events for the same time run in the order of planning. */
  after(delayMs: number, run: () => void): Cancel;
}

interface PlannedEvent {
  readonly atMs: number;
  readonly order: number;
  run: (() => void) | undefined;
}

/** Start of every virtual timeline: 2026-01-01T00:00:00Z. */
export const virtualEpochMs = Date.UTC(2026, 0, 1);

/**
 * A clock that stands still while code runs, and jumps to the next planned event on request. It runs the same events in the
 * same order every time.
 */
export class VirtualTimeline implements Timeline {
  #nowMs: number;
  #order = 0;
  #pending = 0;
  /** A binary heap, the earliest event first. Cancelled events stay in it without their `run` until they come up. */
  readonly #heap: PlannedEvent[] = [];

  constructor(startMs: number = virtualEpochMs) {
    this.#nowMs = startMs;
  }

  nowMs(): number {
    return this.#nowMs;
  }

  /** Number of events that are planned and not cancelled. */
  get pending(): number {
    return this.#pending;
  }

  after(delayMs: number, run: () => void): Cancel {
    const event: PlannedEvent = { atMs: this.#nowMs + Math.max(delayMs, 0), order: this.#order++, run };
    this.#push(event);
    this.#pending++;
    return () => {
      if (event.run !== undefined) {
        event.run = undefined;
        this.#pending--;
      }
    };
  }

  /** Time of the next event, in milliseconds since the epoch; undefined if nothing is planned. */
  nextAtMs(): number | undefined {
    while (this.#heap.length > 0) {
      const first = this.#heap[0] as PlannedEvent;
      if (first.run !== undefined) return first.atMs;
      this.#pop();
    }
    return undefined;
  }

  /** Moves to the next event and runs it. Returns false if nothing is planned. */
  step(): boolean {
    while (this.#heap.length > 0) {
      const { atMs, run } = this.#heap[0] as PlannedEvent;
      const event = this.#pop();
      if (run === undefined) continue;
      event.run = undefined;
      this.#pending--;
      this.#nowMs = atMs;
      run();
      return true;
    }
    return false;
  }

  /** Runs every event up to `ms` (since the epoch), then stops at `ms`. Does not wait for promises; see {@link run}. */
  runUntil(ms: number): void {
    for (let next = this.nextAtMs(); next !== undefined && next <= ms; next = this.nextAtMs()) this.step();
    if (ms > this.#nowMs) this.#nowMs = ms;
  }

  /**
   * Runs one event after another until `done` returns true or nothing is planned. Before the next event, all promises that an
   * event resolved are settled. Resolves to the last result of `done`. Rejects with what an event or `done` throws.
   */
  run(done: () => boolean): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const advance = (): void => {
        try {
          if (done()) resolve(true);
          else if (this.step()) settleThen(advance);
          else resolve(false);
        } catch (error) {
          reject(error);
        }
      };
      settleThen(advance);
    });
  }

  #push(event: PlannedEvent): void {
    const heap = this.#heap;
    let index = heap.length;
    heap.push(event);
    while (index > 0) {
      const parent = (index - 1) >> 1;
      const above = heap[parent] as PlannedEvent;
      if (!isBefore(event, above)) break;
      heap[index] = above;
      index = parent;
    }
    heap[index] = event;
  }

  #pop(): PlannedEvent {
    const heap = this.#heap;
    const first = heap[0] as PlannedEvent;
    const last = heap.pop() as PlannedEvent;
    if (heap.length === 0) return first;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1] as PlannedEvent, heap[child] as PlannedEvent)) child++;
      const below = heap[child] as PlannedEvent;
      if (!isBefore(below, last)) break;
      heap[index] = below;
      index = child;
    }
    heap[index] = last;
    return first;
  }
}

function isBefore(a: PlannedEvent, b: PlannedEvent): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}

/**
 * Runs `next` when the microtask queue is empty. Node runs ticks before microtasks, but a tick that a microtask asks for only
 * after all of them. This is far cheaper than `setImmediate`.
 */
function settleThen(next: () => void): void {
  queueMicrotask(() => process.nextTick(next));
}

/** The real clock. `close` cancels every planned event, so that the process can end. */
export class RealTimeline implements Timeline {
  readonly #timers = new Set<NodeJS.Timeout>();

  nowMs(): number {
    return Date.now();
  }

  after(delayMs: number, run: () => void): Cancel {
    const timer = setTimeout(
      () => {
        this.#timers.delete(timer);
        run();
      },
      Math.max(0, delayMs),
    );
    this.#timers.add(timer);
    return () => {
      clearTimeout(timer);
      this.#timers.delete(timer);
    };
  }

  close(): void {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
  }
}
