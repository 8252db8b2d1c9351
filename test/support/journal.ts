/** What happened, in the order in which it did: the headless demo prints it, the picture shows its end. */
import { escapeControls } from "../../functions/shared/base/escape-control.ts";

export interface Entry {
  /** Since the demo began, in milliseconds. */
  readonly atMs: number;
  /** The StatefulSet that it is about, or "" where it is about none. */
  readonly zone: string;
  readonly what: string;
}

export class Journal {
  readonly #entries: Entry[] = [];
  readonly #startedMs = performance.now();
  readonly #onEntry: (entry: Entry) => void;

  constructor(onEntry: (entry: Entry) => void) {
    this.#onEntry = onEntry;
  }

  /** Since the demo began, in milliseconds. */
  get nowMs(): number {
    return performance.now() - this.#startedMs;
  }

  add(zone: string, what: string): void {
    const entry = { atMs: this.nowMs, zone, what };
    this.#entries.push(entry);
    this.#onEntry(entry);
  }

  last(count: number): readonly Entry[] {
    return this.#entries.slice(-count);
  }
}

/** An entry as one plain line. */
export function lineOf({ atMs, zone, what }: Entry): string {
  return `${(atMs / 1000).toFixed(2).padStart(6)} s  ${zone.padEnd(9)}  ${escapeControls(what)}`;
}
