/** How much of the processors is in use, measured while the same files run. */
import { availableParallelism, cpus } from "node:os";

/** Files wait and work by turns, and begin with work: a shorter time shows one of the two. */
const leastMs = 10_000;

interface Sample {
  readonly atMs: number;
  /** Idle time of all processors since the machine started. */
  readonly idleMs: number;
}

const readMachine = (): Sample => {
  return { atMs: performance.now(), idleMs: cpus().reduce((sum, { times }) => sum + times.idle, 0) };
};

/** Whether the processors of the machine are those of this process. In a container they may be more. */
const isWhole = (): boolean => cpus().length === availableParallelism();

export class Usage {
  readonly #processors: number;
  readonly #read: () => Sample;
  #samples: Sample[];

  /** @param read default: of the machine */
  constructor(processors: number, read = readMachine) {
    this.#processors = processors;
    this.#read = read;
    this.#samples = [read()];
  }

  /** Measures the machine; undefined if this process may use only a part of it, whose use is not known. */
  static ofMachine(): Usage | undefined {
    return isWhole() ? new Usage(availableParallelism()) : undefined;
  }

  /** Forgets what was measured, because other files run from now on. */
  begin(): void {
    this.#samples = [this.#read()];
  }

  /** Processors in use over the last ten seconds or a little more; undefined while the same files run for a shorter time. */
  used(): number | undefined {
    const now = this.#read();
    const isOld = ({ atMs }: Sample) => now.atMs - atMs >= leastMs;
    const index = this.#samples.findLastIndex(isOld);
    this.#samples = [...this.#samples.slice(Math.max(0, index)), now];
    const [from] = this.#samples;
    if (index < 0 || from === undefined) return undefined;
    return Math.max(0, this.#processors - (now.idleMs - from.idleMs) / (now.atMs - from.atMs));
  }
}
