/** Every reservation that any ledger has ever held, so that each is decided once, by the view that it was decided on. */
import type { Reserved } from "../support/checkers/raw.ts";

export class Written {
  /** Pod uid, function and stamp. */
  readonly #known = new Set<string>();
  /** The last stamp of each, by pod uid and function. */
  readonly #stamps = new Map<string, number>();

  /** Those that no ledger has held before. */
  made(all: readonly Reserved[]): Reserved[] {
    // An eviction whose answer came too late gives back what it had renewed: that was decided when it was first written.
    return all.filter(({ uid, by, stampMs }) => {
      // Nor is it decided anew when a stamp that is ahead of the clock is put back.
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
