/** Which guards refuse evictions, and in which words: the API server passes the message on, and the log has the guard too. */
import type { Journal } from "../support/journal.ts";
import type { LogLine } from "./sluice.ts";

export interface Refused {
  readonly guard: string;
  readonly message: string;
}

export const evaluateEviction = "evaluate-eviction";
/** A guard that refuses in a zone again and again is reported no sooner than this. */
const repeatAfterMs = 5_000;

export class Refusals {
  readonly #journal: Journal;
  readonly #counts = new Map<string, number>();
  readonly #journalledMs = new Map<string, number>();
  #last: Refused | undefined;

  constructor(journal: Journal) {
    this.#journal = journal;
  }

  get last(): Refused | undefined {
    return this.#last;
  }

  /** How many reviews each guard has refused; the most frequent first. */
  get byGuard(): readonly (readonly [guard: string, count: number])[] {
    return [...this.#counts].sort(([, one], [, other]) => other - one);
  }

  /** Receives a line about a review. Those without a code were allowed. */
  noteLog({ msg, guard, zone = "", code }: LogLine): void {
    if (guard === undefined || code === undefined) return;
    this.#counts.set(guard, (this.#counts.get(guard) ?? 0) + 1);
    this.#last = { guard, message: msg };
    const { nowMs } = this.#journal;
    const reportedMs = this.#journalledMs.get(`${guard} ${zone}`);
    if (reportedMs !== undefined && nowMs - reportedMs < repeatAfterMs) return;
    this.#journalledMs.set(`${guard} ${zone}`, nowMs);
    this.#journal.add(zone, `refused with ${code}, ${guard}: ${msg}`);
  }
}
