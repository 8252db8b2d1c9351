/** The events of a demo in order. The headless demo prints them all, and the picture shows the last ones. */
import { escapeControls } from "../../functions/shared/base/escape-control.ts";

export interface Entry {
  /** Time since the demo began, in milliseconds. */
  readonly atMs: number;
  /** The StatefulSet that it concerns, or "" if there is none. */
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

  /** Time since the demo began, in milliseconds. */
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
