/**
 * Reviews that wait for their turn: each was refused for a reason that time alone may cure, and its client has time. They keep
 * their order in each group, and reserve nothing in any ledger. Each costs a seat in the API server, so that their number has
 * limits.
 */

import type { Denied } from "../../shared/admission/definition.ts";
import type { Deadlines, HasDeadline } from "../../shared/clock/deadlines.ts";
import type { ParkedReport } from "../../shared/contract/reporter.ts";

/** The most reviews that wait, of one group and of all groups of one process. */
export const mostParkedOfGroup = 32;
export const mostParked = 64;
/** A rate is only an estimate: a review that is a little too late by it may still be in time. */
const surelyLate = 1.25;

/** A review that may wait. */
export interface Parkable {
  /** Until when, by the monotonic clock; absent: it is never made to wait. */
  readonly parkUntilMs?: number | undefined;
  /** Aborted when the client has gone. */
  readonly signal?: AbortSignal | undefined;
  /** Called once, with why it waits. */
  onPark?(refusal: Denied): void;
}

/** Why a review waits, and since when. */
export interface ParkedReview {
  readonly sinceMs: number;
  /** What it was last refused with: the answer, once it waits no longer. */
  refusal: Denied;
  readonly end: HasDeadline;
  readonly gone: () => void;
}

/** The parked reviews of one group, in the order in which they came. */
export type ParkedInQueue<Review> = Map<Review, ParkedReview>;

/** A review's place in its queue. */
export interface QueuePlace {
  /** How many reviews wait before it, and how many have just been refused. */
  readonly waiting: number;
  readonly unparked: number;
  /** Time that it still has to wait at the recent rate, in milliseconds; undefined if that is not known. */
  readonly waitMs: number | undefined;
}

export type ParkedOutcome = NonNullable<ParkedReport["ended"]>["outcome"];

export interface ParkedReviewsOptions<Review> {
  readonly by: string;
  readonly deadlines: Deadlines;
  monotonicMs(): number;
  report(report: ParkedReport): void;
  /** Called when a review has waited as long as it may, or its client has gone. */
  onEnd(review: Review, outcome: Extract<ParkedOutcome, "over" | "gone">): void;
}

export class ParkedReviews<Review extends Parkable> {
  readonly #options: ParkedReviewsOptions<Review>;
  #count = 0;
  #isClosed = false;

  constructor(options: ParkedReviewsOptions<Review>) {
    this.#options = options;
  }

  get isEmpty(): boolean {
    return this.#count === 0;
  }

  /** No review waits from now on. */
  close(): void {
    this.#isClosed = true;
  }

  /** True if the refusal may be cured in the time that the review has left. */
  canPark({ parkUntilMs, signal }: Review, { curedInMs }: Denied): boolean {
    if (this.#isClosed || parkUntilMs === undefined || curedInMs === undefined || signal?.aborted) return false;
    return parkUntilMs > this.#options.monotonicMs() + curedInMs;
  }

  /** Parks a review that {@link canPark} permits, or returns its refusal, which says why it does not wait. */
  park(parked: ParkedInQueue<Review>, review: Review, refusal: Denied, place: QueuePlace): Denied | undefined {
    const known = parked.get(review);
    const behind = this.#behind(parked, review, place, known !== undefined);
    if (behind !== undefined) {
      const outcome = "behind";
      if (known === undefined) this.#report({ outcome, seconds: 0 });
      else this.leave(parked, review, outcome);
      return { ...refusal, message: `${refusal.message}; ${behind}: ask again` };
    }
    if (known !== undefined) {
      known.refusal = refusal;
      return undefined;
    }
    const { parkUntilMs: deadlineMs = 0, signal } = review;
    const gone = () => this.#options.onEnd(review, "gone");
    const end = { deadlineMs, late: () => this.#options.onEnd(review, "over") };
    parked.set(review, { sinceMs: this.#options.monotonicMs(), refusal, end, gone });
    this.#count++;
    this.#report();
    signal?.addEventListener("abort", gone, { once: true });
    this.#options.deadlines.add(end);
    review.onPark?.(refusal);
    return undefined;
  }

  /** Why a review does not wait. The first of a queue waits as long as it may, whatever the rate. */
  #behind(
    { size }: ParkedInQueue<Review>,
    { parkUntilMs = 0 }: Review,
    { waiting, unparked, waitMs = 0 }: QueuePlace,
    isParked: boolean,
  ): string | undefined {
    const number = `this one is number ${waiting + unparked + 1} in the line of its group`;
    const leftMs = parkUntilMs - this.#options.monotonicMs();
    if (waiting > 0 && waitMs > surelyLate * leftMs)
      return `${number}, where its turn comes in about ${Math.ceil(waitMs / 1000)} s, and it may wait for ${Math.ceil(leftMs / 1000)} s`;
    if (isParked) return undefined;
    if (size >= mostParkedOfGroup) return `${number}, where ${size} wait already`;
    if (this.#count >= mostParked) return `${number}, and ${this.#count} of all groups wait here already`;
    return undefined;
  }

  #report(ended?: ParkedReport["ended"]): void {
    const { by, report } = this.#options;
    report({ function: by, parked: this.#count, ...(ended === undefined ? {} : { ended }) });
  }

  /** Ends the wait of a review that has been answered. */
  leave(parked: ParkedInQueue<Review>, review: Review, because: ParkedOutcome): void {
    const parkedReview = parked.get(review);
    if (parkedReview === undefined) return;
    parked.delete(review);
    this.#count--;
    this.#options.deadlines.delete(parkedReview.end);
    review.signal?.removeEventListener("abort", parkedReview.gone);
    const outcome = this.#isClosed && because === "refused" ? "stopped" : because;
    const seconds = (this.#options.monotonicMs() - parkedReview.sinceMs) / 1000;
    this.#report({ outcome, seconds });
  }
}
