/** Which file of a phase runs next: the slowest first, so that none is left to run alone in the end; one heavy file at a time. */

export class Queue {
  readonly #heavy: string[];
  readonly #light: string[];
  readonly #isHeavy: ReadonlySet<string>;

  /** @param lastMs what a file took the last time; undefined where it has not run here yet: such files keep their order */
  constructor(heavy: readonly string[], light: readonly string[], lastMs: (file: string) => number | undefined) {
    const bySlowness = (one: string, other: string) => (lastMs(other) ?? 0) - (lastMs(one) ?? 0);
    this.#heavy = heavy.toSorted(bySlowness);
    this.#light = light.filter((file) => !heavy.includes(file)).toSorted(bySlowness);
    this.#isHeavy = new Set(heavy);
  }

  /** The next file beside those that run; undefined where none is left. */
  next(running: Iterable<string>): string | undefined {
    const isTaken = [...running].some((file) => this.#isHeavy.has(file));
    return (isTaken ? undefined : this.#heavy.shift()) ?? this.#light.shift() ?? this.#heavy.shift();
  }
}
