/**
 * Time, pluggable: the same world runs on a virtual clock for simulations and on the real one for the demo.
 */

/** Takes a planned event back. Calling it after the event ran, or twice, does nothing. */
export type Cancel = () => void;

export interface Timeline {
  /** Milliseconds since the Unix epoch. */
  nowMs(): number;
  /** Runs `run` once, `delayMs` milliseconds from now (at least 0). Events due at the same time run in the order of planning. */
  after(delayMs: number, run: () => void): Cancel;
}

interface PlannedEvent {
  readonly atMs: number;
  readonly order: number;
  run: (() => void) | undefined;
}

/** Where every virtual timeline starts: 2026-01-01T00:00:00Z. */
export const virtualEpochMs = Date.UTC(2026, 0, 1);

/**
 * A clock that stands still while code runs and jumps to the next planned event when told to: the same events in the same
 * order on every run.
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

  /** How many events are planned and not cancelled. */
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

  /** When the next event is due, in milliseconds since the epoch; undefined when nothing is planned. */
  nextAtMs(): number | undefined {
    while (this.#heap.length > 0) {
      const first = this.#heap[0] as PlannedEvent;
      if (first.run !== undefined) return first.atMs;
      this.#pop();
    }
    return undefined;
  }

  /** Moves to the next event and runs it. False when nothing is planned. */
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

  /** Runs every event due up to `ms` (since the epoch), then stands at `ms`. Promises are not waited for: see {@link run}. */
  runUntil(ms: number): void {
    for (let next = this.nextAtMs(); next !== undefined && next <= ms; next = this.nextAtMs()) this.step();
    if (ms > this.#nowMs) this.#nowMs = ms;
  }

  /**
   * Runs events one at a time, with every promise that an event resolved settled before the next event, until `done` says
   * so (true) or nothing is planned any more (the last answer of `done`). Rejects with what an event or `done` throws.
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
 * after all of them: far cheaper than `setImmediate`.
 */
function settleThen(next: () => void): void {
  queueMicrotask(() => process.nextTick(next));
}

/** The real clock. `close` cancels everything planned, so that a process can end. */
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
