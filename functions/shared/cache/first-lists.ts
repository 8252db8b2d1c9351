/** Decides when the first lists of all namespaces have come. */
import { type Cluster, hasCode } from "../kubernetes/cluster.ts";
import { silentAfterMs } from "./cache.ts";

/** The first lists of one namespace. */
export class FirstLists {
  readonly #clock: Pick<Cluster, "monotonicMs">;
  readonly #startedMs: number;
  readonly #listed: Promise<void>[] = [];
  readonly #refused = Promise.withResolvers<void>();

  constructor(clock: Pick<Cluster, "monotonicMs">) {
    this.#clock = clock;
    this.#startedMs = clock.monotonicMs();
  }

  /** Expects one more list. Returns the function to call when that list is in memory. */
  expect(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#listed.push(promise);
    return resolve;
  }

  /** The API server has answered one of them with an error. An empty memory passes for recent until 30 s after the start. */
  failed(error: unknown): void {
    const isSilent = this.#clock.monotonicMs() - this.#startedMs > silentAfterMs;
    if (isSilent && hasCode(error, 403)) this.#refused.resolve();
  }

  /** Resolves when all lists are in memory. */
  async whole(): Promise<void> {
    await Promise.all(this.#listed);
  }

  /** Resolves when all are in memory, or may not be read: from then on each decision lists by itself. */
  async settled(): Promise<void> {
    await Promise.race([this.whole(), this.#refused.promise]);
  }
}

/**
 * Resolves when at least one namespace is in memory, and no other is on its way. A namespace that may not be read delays no
 * other, because it may have been deleted, and our right with it.
 */
export async function allListed(lists: readonly FirstLists[]): Promise<void> {
  await Promise.all([Promise.race(lists.map((one) => one.whole())), ...lists.map((one) => one.settled())]);
}
