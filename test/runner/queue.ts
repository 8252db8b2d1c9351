/**
 * Decides which test file runs next: the slowest first, so that none is left to run alone at the end, and as many at once as
 * the processors can carry. A file that mostly waits takes a small share of a processor, so that others run beside it.
 */

/** A file that must still run. */
export interface Waiting {
  readonly file: string;
  /** Duration of its last run; undefined if it has not run here yet: such files keep their order. */
  readonly tookMs: number | undefined;
  /** Share of one processor that it takes, from 0 to 1. */
  readonly share: number;
  /** Only one file of a group runs at a time. */
  readonly group?: string | undefined;
}

/**
 * Shares are the largest that were measured, and added up they are a quarter more than files use together. Where less is in use,
 * the running files count for that, but at least for this part of their shares: one that waits may want its processor again.
 */
const leastOfShares = 0.8;

/** The sum of measured shares may be off by this much. A rounding error must not keep a processor idle. */
const roundingError = 0.001;

export class Queue {
  readonly #waiting: Waiting[];
  readonly #known: ReadonlyMap<string, Waiting>;
  readonly #processors: number;

  /** @param processors that the running files may use together */
  constructor(files: readonly Waiting[], processors: number) {
    this.#waiting = files.toSorted((one, other) => (other.tookMs ?? 0) - (one.tookMs ?? 0));
    this.#known = new Map(files.map((one) => [one.file, one]));
    this.#processors = processors;
  }

  /**
   * The next file to run beside the running ones; undefined if none is left, or none of them fits.
   *
   * @param used processors that the running files use together; undefined: not measured, so that their shares count
   */
  next(running: Iterable<string>, used = Number.POSITIVE_INFINITY): string | undefined {
    const beside = [...running].flatMap((file) => this.#known.get(file) ?? []);
    const shares = beside.reduce((sum, { share }) => sum + share, 0);
    const free = this.#processors - Math.min(shares, Math.max(used, shares * leastOfShares));
    const groups = new Set(beside.flatMap(({ group }) => group ?? []));
    const mayRun = ({ share, group }: Waiting) =>
      beside.length === 0 || (share <= free + roundingError && (group === undefined || !groups.has(group)));
    const index = this.#waiting.findIndex(mayRun);
    return index < 0 ? undefined : this.#waiting.splice(index, 1)[0]?.file;
  }
}
