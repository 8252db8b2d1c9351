/** How fast the reviews of a queue are let go, and how long the others have to wait. Its callers pass the time. */

/**
 * Reviews that are let go within this time count as one moment, because pods that went together come back one after the other.
 */
const oneMomentMs = 250;
const mostMoments = 6;
/** The first pod that comes back proves little about the others that went with it. */
const leastMoments = 3;
/** Older moments prove nothing about the present. */
const momentServesMs = 30_000;

export class RateEstimate {
  readonly #moments: { readonly atMs: number; count: number }[] = [];

  /** Notes that a review was let go. `hasWaited`: reviews waited for room until then; otherwise the rate stays. */
  letGo(atMs: number, hasWaited: boolean): void {
    const last = this.#moments.at(-1);
    if (last !== undefined && atMs - last.atMs < oneMomentMs) {
      last.count++;
      return;
    }
    if (!hasWaited) this.#moments.length = 0;
    this.#moments.push({ atMs, count: 1 });
    if (this.#moments.length > mostMoments) this.#moments.shift();
  }

  /** Time that a review with so many before it still has to wait, in milliseconds; undefined if it is not known. */
  waitMs(before: number, nowMs: number): number | undefined {
    // A moment that is not over yet has let go only some of its reviews.
    const over = this.#moments.filter(({ atMs }) => nowMs - atMs >= oneMomentMs);
    const [first, last] = [over[0], over.at(-1)];
    if (first === undefined || last === undefined || over.length < leastMoments) return undefined;
    const sinceMs = nowMs - last.atMs;
    if (sinceMs > momentServesMs) return undefined;
    const later = over.slice(1).reduce((sum, { count }) => sum + count, 0);
    const now = this.#moments.slice(over.length).reduce((sum, { count }) => sum + count, 0);
    const usualMs = last.atMs - first.atMs;
    // An overdue moment lowers the rate.
    const isOverdue = now === 0 && sinceMs > usualMs / (over.length - 1);
    const eachMs = (isOverdue ? usualMs + sinceMs : usualMs) / later;
    return Math.max(0, (before + 1 + now) * eachMs - sinceMs);
  }
}
