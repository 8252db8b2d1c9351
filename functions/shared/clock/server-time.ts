/**
 * The API server's clock, learnt from the `Date` header of its replies.
 *
 * A `Date` is cut to whole seconds, but every reply bounds the difference between the server's clock and our monotonic
 * one from both sides, and the bounds of several replies intersect: after a few of them little is left between.
 */

import { secondMs } from "./durations.ts";

/** How far the two clocks may drift apart between replies: 200 parts per million, four times what NTP corrects at rest. */
const driftPerMs = 0.0002;
/** Servers cache the header and are late to renew it by a few milliseconds when they are busy. */
const slackMs = 20;

export class ServerTime {
  /** Server time minus monotonic time lies between these two, in milliseconds. */
  #lowest = Number.NEGATIVE_INFINITY;
  #highest = Number.POSITIVE_INFINITY;
  #observedMs = 0;
  /** Of {@link SteadyClock.skippedMs} what the last reply knew. */
  #skippedMs = 0;

  /**
   * Takes one reply into account.
   *
   * @param date the `Date` header; one that does not parse is ignored.
   * @param sentMs monotonic time at which the request was sent: the server cannot have read its clock earlier.
   * @param receivedMs monotonic time at which the reply arrived: nor later.
   * @param skippedMs how much of it the wall clock alone has told by then. Either the machine slept, and the server's clock went
   *   on with ours; or an operator set the wall clock, and only ours jumped: the bounds of before then leave room for both.
   */
  observe(date: string, sentMs: number, receivedMs: number, skippedMs = this.#skippedMs): void {
    const stampMs = Date.parse(date);
    if (Number.isNaN(stampMs) || receivedMs < sentMs) return;
    const lowest = stampMs - receivedMs - slackMs;
    const highest = stampMs + secondMs - sentMs + slackMs;
    const drifted = Math.max(0, receivedMs - this.#observedMs) * driftPerMs;
    const doubtMs = skippedMs - this.#skippedMs;
    this.#observedMs = receivedMs;
    this.#skippedMs = skippedMs;
    this.#lowest = Math.max(this.#lowest - drifted - doubtMs, lowest);
    this.#highest = Math.min(this.#highest + drifted, highest);
    if (this.#lowest > this.#highest) {
      // The server's clock was set, or another server answers now: what earlier replies told is void.
      this.#lowest = lowest;
      this.#highest = highest;
    }
  }

  /**
   * The server's time in milliseconds since the epoch at monotonic time `nowMs`; undefined before the first reply. After a jump
   * of our clock, and until the next reply, it is what it would be if the machine slept.
   */
  at(nowMs: number): number | undefined {
    if (this.#highest === Number.POSITIVE_INFINITY) return undefined;
    return nowMs + (this.#lowest + this.#highest) / 2;
  }

  /**
   * The width of what is not known, in milliseconds: the truth is at most half of it away, and before the first reply after a
   * jump of our clock up to all of it.
   */
  uncertaintyMs(skippedMs = this.#skippedMs): number {
    return this.#highest - this.#lowest + skippedMs - this.#skippedMs;
  }
}
