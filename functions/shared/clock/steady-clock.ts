/**
 * A clock of this process that also counts the time that the machine has slept through.
 *
 * Linux's monotonic clock stops while a machine is suspended, or a virtual machine is paused. Five seconds of it may be an hour
 * for other processes, which have long dropped this one's reservations (rules R9, R10). Only the wall clock shows that.
 */

/** How far the wall clock may run ahead before that counts as sleep: less than R9 and R10 leave between them. */
const toleranceMs = 1_000;
/** A time service that corrects a wall clock makes it run faster, by up to this share of the time that passes. */
const slewPerMs = 0.001;

export interface ClockSources {
  /** Never goes back; may stand still while the machine sleeps. */
  monotonicMs(): number;
  /** Since the epoch; an operator may set it. */
  wallMs(): number;
}

/**
 * Milliseconds that never go back. A wall clock that is set back changes nothing. One that is set forward counts as sleep, so
 * that an act may be given up as late.
 */
export class SteadyClock {
  readonly #sources: ClockSources;
  /** Lead of the wall clock over the monotonic one when both last agreed on how much time had passed. */
  #aheadMs: number;
  #lastMs: number;
  #skippedMs = 0;

  constructor(sources: ClockSources) {
    this.#sources = sources;
    this.#lastMs = sources.monotonicMs();
    this.#aheadMs = sources.wallMs() - this.#lastMs;
  }

  /** The time now, for what must not be done after a given time. */
  nowMs(): number {
    const monotonicMs = this.#sources.monotonicMs();
    const aheadMs = this.#sources.wallMs() - monotonicMs;
    const slewMs = Math.max(0, monotonicMs - this.#lastMs) * slewPerMs;
    this.#lastMs = Math.max(this.#lastMs, monotonicMs);
    // Many short sleeps count as a long one, because a tolerated lead is forgotten only as slowly as a clock is slewed.
    const expectedMs = Math.min(aheadMs, this.#aheadMs + slewMs);
    const sleptMs = aheadMs - expectedMs;
    this.#aheadMs = sleptMs > toleranceMs ? aheadMs : expectedMs;
    if (sleptMs > toleranceMs) this.#skippedMs += sleptMs;
    return this.#lastMs + this.#skippedMs;
  }

  /** The wall clock as it stands, in milliseconds since the epoch. */
  wallMs(): number {
    return this.#sources.wallMs();
  }

  /** The part of {@link nowMs} that only the wall clock has told. A minimum duration must not rely on it. */
  skippedMs(): number {
    return this.#skippedMs;
  }
}
