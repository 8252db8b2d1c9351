/** The clock of a process, which all waits go by. Simulations have a virtual one. */
export interface Clock {
  /** Never goes back, in milliseconds. */
  monotonicMs(): number;
  /** Resolves after `ms`, or at once when the signal is aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}
