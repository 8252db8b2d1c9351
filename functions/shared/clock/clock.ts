/** The time of one process, as everything that waits is given it: simulations have a virtual one. */
export interface Clock {
  /** Never goes back, in milliseconds. */
  monotonicMs(): number;
  /** Resolves after `ms`, or at once when the signal is aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}
