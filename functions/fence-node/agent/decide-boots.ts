/** Whether boots of this machine end so soon that neither isolation nor a crash may reset it again. No clock counts. Pure. */

/** What a boot leaves to the next one. */
export interface BootHistory {
  readonly bootId: string;
  /** So many boots before this one ended while the watchdog ran, each within an hour of contact. */
  readonly shortBoots: number;
  /**
   * - `idle`: the watchdog has not run in this boot.
   * - `running`: it has, and the agent has not been in contact for an hour since.
   * - `over`: an hour of contact, or an orderly stop, shows that this boot is no part of a loop.
   */
  readonly state: "idle" | "running" | "over";
}

/** So many short boots in a row are a loop, which the fence would go on with. */
const mostShortBoots = 3;

/** An hour of contact ends the count. */
const longContactMs = 3_600_000;

/** The history as a process of this boot begins with it. */
export function historyOfBoot(before: BootHistory | undefined, bootId: string): BootHistory {
  if (before === undefined) return { bootId, shortBoots: 0, state: "idle" };
  if (before.bootId === bootId) return before;
  const more = before.state === "running" ? 1 : 0;
  return { bootId, shortBoots: before.state === "over" ? 0 : before.shortBoots + more, state: "idle" };
}

/** True where this boot must not end as the last ones did: nothing but a fence resets the machine then. */
export const isLoop = ({ shortBoots }: BootHistory): boolean => shortBoots >= mostShortBoots;

/** The history once the watchdog runs: the same object where it has run before. */
export function historyAfterStart(history: BootHistory): BootHistory {
  return history.state === "idle" ? { ...history, state: "running" } : history;
}

/**
 * The history after a renewal: the same object where nothing changes.
 *
 * @param contactMs for how long the agent has been in contact with the API server
 */
export function historyAfterRenewal(history: BootHistory, contactMs: number): BootHistory {
  if (history.state === "over" || contactMs < longContactMs) return history;
  return { ...history, shortBoots: 0, state: "over" };
}

/** The history after an orderly stop. */
export const historyAfterStop = (history: BootHistory): BootHistory => ({ ...history, state: "over" });
