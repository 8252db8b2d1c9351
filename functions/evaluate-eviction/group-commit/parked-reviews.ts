/**
 * Reviews that wait their turn: each was refused for a reason that time alone may cure, and its client has time. They keep
 * their order for each group, and hold nothing in any ledger. Each costs a seat in the API server, so that there are bounds.
 */

import type { Denied } from "../../shared/admission/definition.ts";
import type { Deadlines, HasDeadline } from "../../shared/clock/deadlines.ts";
import type { HeldReport } from "../../shared/contract/reporter.ts";

/** How many wait at most, of one group and of all groups of one process. */
export const mostHeldOfGroup = 32;
export const mostHeld = 64;
/** A pace is only a guess: a review that is a little too late by it may be in time. */
const surelyLate = 1.25;

/** A review that may wait. */
export interface MayWait {
  /** Until when, by the monotonic clock; absent: it is never made to wait. */
  readonly holdUntilMs?: number | undefined;
  /** Aborted when the client has gone. */
  readonly signal?: AbortSignal | undefined;
  /** Called once, with why it waits. */
  onHold?(refusal: Denied): void;
}

/** Why a review waits, and since when. */
export interface ParkedReview {
  readonly sinceMs: number;
  /** What it was last refused with: the answer, once it waits no longer. */
  refusal: Denied;
  readonly end: HasDeadline;
  readonly gone: () => void;
}

/** The held reviews of one group, in the order in which they came. */
export type HeldLine<Review> = Map<Review, ParkedReview>;

/** Where a review is in its line. */
export interface QueuePlace {
  /** How many reviews wait before it, and how many have just been refused. */
  readonly waiting: number;
  readonly unheld: number;
  /** Time that it still has to wait at the recent pace, in milliseconds; undefined if that is not known. */
  readonly waitMs: number | undefined;
}

export type HeldOutcome = NonNullable<HeldReport["ended"]>["outcome"];

export interface HeldOptions<Review> {
  readonly by: string;
  readonly deadlines: Deadlines;
  monotonicMs(): number;
  report(report: HeldReport): void;
  /** Called when a review has waited as long as it may, or its client has gone. */
  onEnd(review: Review, outcome: Extract<HeldOutcome, "over" | "gone">): void;
}

export class HeldReviews<Review extends MayWait> {
  readonly #options: HeldOptions<Review>;
  #held = 0;
  #isClosed = false;

  constructor(options: HeldOptions<Review>) {
    this.#options = options;
  }

  get isEmpty(): boolean {
    return this.#held === 0;
  }

  /** No review waits from now on. */
  close(): void {
    this.#isClosed = true;
  }

  /** True where the refusal may be cured in the time that is left to this one. */
  mayWait({ holdUntilMs, signal }: Review, { curedInMs }: Denied): boolean {
    if (this.#isClosed || holdUntilMs === undefined || curedInMs === undefined || signal?.aborted) return false;
    return holdUntilMs > this.#options.monotonicMs() + curedInMs;
  }

  /**
   * Holds a review that {@link mayWait}; or returns its refusal, which says why waiting is of no use.
   */
  hold(line: HeldLine<Review>, review: Review, refusal: Denied, place: QueuePlace): Denied | undefined {
    const known = line.get(review);
    const behind = this.#behind(line, review, place, known !== undefined);
    if (behind !== undefined) {
      const outcome = "behind";
      if (known === undefined) this.#report({ outcome, seconds: 0 });
      else this.leave(line, review, outcome);
      return { ...refusal, sentence: `${refusal.sentence}; ${behind}: ask again` };
    }
    if (known !== undefined) {
      known.refusal = refusal;
      return undefined;
    }
    const { holdUntilMs: deadlineMs = 0, signal } = review;
    const gone = () => this.#options.onEnd(review, "gone");
    const end = { deadlineMs, late: () => this.#options.onEnd(review, "over") };
    line.set(review, { sinceMs: this.#options.monotonicMs(), refusal, end, gone });
    this.#held++;
    this.#report();
    signal?.addEventListener("abort", gone, { once: true });
    this.#options.deadlines.add(end);
    review.onHold?.(refusal);
    return undefined;
  }

  /** Why a review does not wait. The first of a line waits as long as it may, whatever the pace. */
  #behind(
    { size }: HeldLine<Review>,
    { holdUntilMs = 0 }: Review,
    { waiting, unheld, waitMs = 0 }: QueuePlace,
    isHeld: boolean,
  ): string | undefined {
    const number = `this one is number ${waiting + unheld + 1} in the line of its group`;
    const leftMs = holdUntilMs - this.#options.monotonicMs();
    if (waiting > 0 && waitMs > surelyLate * leftMs)
      return `${number}, where its turn comes in about ${Math.ceil(waitMs / 1000)} s, and it may wait for ${Math.ceil(leftMs / 1000)} s`;
    if (isHeld) return undefined;
    if (size >= mostHeldOfGroup) return `${number}, where ${size} wait already`;
    if (this.#held >= mostHeld) return `${number}, and ${this.#held} of all groups wait here already`;
    return undefined;
  }

  #report(ended?: HeldReport["ended"]): void {
    const { by, report } = this.#options;
    report({ function: by, held: this.#held, ...(ended === undefined ? {} : { ended }) });
  }

  /** Ends the wait of a review that has been answered. */
  leave(line: HeldLine<Review>, review: Review, because: HeldOutcome): void {
    const held = line.get(review);
    if (held === undefined) return;
    line.delete(review);
    this.#held--;
    this.#options.deadlines.delete(held.end);
    review.signal?.removeEventListener("abort", held.gone);
    const outcome = this.#isClosed && because === "refused" ? "stopped" : because;
    const seconds = (this.#options.monotonicMs() - held.sinceMs) / 1000;
    this.#report({ outcome, seconds });
  }
}
