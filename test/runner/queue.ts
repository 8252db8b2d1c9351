/**
 * Decides which test file runs next: the slowest first, so that none is left to run alone in the end, and as many at once as
 * the processors bear. A file that mostly waits takes a small share of a processor, so that others run beside it.
 */

/** A file that has to run. */
export interface Waiting {
  readonly file: string;
  /** How long it took the last time; undefined where it has not run here yet: such files keep their order. */
  readonly tookMs: number | undefined;
  /** Part of one processor that it takes, from 0 to 1. */
  readonly share: number;
  /** Of the files with the same name here one runs at a time. */
  readonly group?: string | undefined;
}

/** Shares are sums of measured figures: a rounding error must not keep a processor idle. */
const roundingError = 0.001;

export class Queue {
  readonly #waiting: Waiting[];
  readonly #known: ReadonlyMap<string, Waiting>;
  readonly #processors: number;

  /** @param processors that the running files may take together */
  constructor(files: readonly Waiting[], processors: number) {
    this.#waiting = files.toSorted((one, other) => (other.tookMs ?? 0) - (one.tookMs ?? 0));
    this.#known = new Map(files.map((one) => [one.file, one]));
    this.#processors = processors;
  }

  /** The next file beside those that run; undefined where none is left, or none of those left may run beside them. */
  next(running: Iterable<string>): string | undefined {
    const beside = [...running].flatMap((file) => this.#known.get(file) ?? []);
    const free = this.#processors - beside.reduce((sum, { share }) => sum + share, 0);
    const groups = new Set(beside.flatMap(({ group }) => group ?? []));
    const mayRun = ({ share, group }: Waiting) =>
      beside.length === 0 || (share <= free + roundingError && (group === undefined || !groups.has(group)));
    const index = this.#waiting.findIndex(mayRun);
    return index < 0 ? undefined : this.#waiting.splice(index, 1)[0]?.file;
  }
}
