/**
 * A clock of this process that also counts the time that the machine has slept through.
 *
 * Linux's monotonic clock stands still while a machine is suspended, or a virtual one is paused: five seconds of it may be an
 * hour for everybody else, and what was reserved before has long been dropped (rules R9, R10). The wall clock knows.
 */

/** How far the wall clock may run ahead before that is time that was slept through: less than R9 and R10 leave between them. */
const toleranceMs = 1_000;
/** Who keeps a wall clock right makes it run faster for a while: by up to so much of the time that passes. */
const slewPerMs = 0.001;

export interface ClockSources {
  /** Never goes back; may stand still while the machine sleeps. */
  monotonicMs(): number;
  /** Since the epoch; an operator may set it. */
  wallMs(): number;
}

/**
 * Milliseconds that never go back. A wall clock that is set back changes nothing; one that is set forward looks like sleep, and
 * costs an act that is given up as late.
 */
export class SteadyClock {
  readonly #sources: ClockSources;
  /** What the wall clock was ahead of the monotonic one, when last they agreed on how much time had passed. */
  #aheadMs: number;
  #lastMs: number;
  #skippedMs = 0;

  constructor(sources: ClockSources) {
    this.#sources = sources;
    this.#lastMs = sources.monotonicMs();
    this.#aheadMs = sources.wallMs() - this.#lastMs;
  }

  /** The time now: for whatever must not be done later than at a moment. */
  nowMs(): number {
    const monotonicMs = this.#sources.monotonicMs();
    const aheadMs = this.#sources.wallMs() - monotonicMs;
    const slewMs = Math.max(0, monotonicMs - this.#lastMs) * slewPerMs;
    this.#lastMs = Math.max(this.#lastMs, monotonicMs);
    // Many short sleeps count as a long one: what is tolerated is forgotten only as slowly as a clock is slewed.
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

  /** How much of {@link nowMs} the wall clock alone has told: not to be relied on by what has to have lasted. */
  skippedMs(): number {
    return this.#skippedMs;
  }
}
