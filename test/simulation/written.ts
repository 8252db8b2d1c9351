/** Remembers every reservation that any ledger has held, so that each is checked once, by the view of its decision. */
import type { Reserved } from "../support/checkers/raw.ts";

export class Written {
  /** Keys of pod uid, function and stamp. */
  readonly #known = new Set<string>();
  /** The last stamp by pod uid and function. */
  readonly #stamps = new Map<string, number>();

  /** The reservations that no ledger has held before. */
  made(all: readonly Reserved[]): Reserved[] {
    // A late eviction restores the stamp that it had renewed: that reservation was checked when it was first written.
    return all.filter(({ uid, by, stampMs }) => {
      // A stamp that was ahead of the clock and is set back is not a new decision either.
      const isPutBack = stampMs < (this.#stamps.get(`${uid} ${by}`) ?? 0);
      return !isPutBack && !this.#known.has(`${uid} ${by} ${stampMs}`);
    });
  }

  note(all: readonly Reserved[]): void {
    for (const { uid, by, stampMs } of all) {
      this.#known.add(`${uid} ${by} ${stampMs}`);
      this.#stamps.set(`${uid} ${by}`, stampMs);
    }
  }
}
