/** Guards that refuse evictions, with their messages: the API server passes a message on, and the log also has the guard. */
import type { Journal } from "../support/journal.ts";
import type { LogLine } from "./sluice.ts";

export interface Refused {
  readonly guard: string;
  readonly message: string;
}

export const evaluateEviction = "evaluate-eviction";
/** Shortest time between two reports of a guard that refuses again and again in a zone. */
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

  /** Number of reviews that each guard has refused, the most frequent first. */
  get byGuard(): readonly (readonly [guard: string, count: number])[] {
    return [...this.#counts].sort(([, one], [, other]) => other - one);
  }

  /** Called with a log line about a review. One without a code was allowed. */
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
