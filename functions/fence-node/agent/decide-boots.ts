/** Whether boots of this machine end so soon that isolation must not reset it again. No clock is compared. Pure. */

/** What a boot leaves to the next one. */
export interface BootHistory {
  readonly bootId: string;
  /** So many boots before this one ended while armed, each within an hour of contact. */
  readonly shortBoots: number;
  /**
   * - `unarmed`: the agent has not been armed in this boot.
   * - `armed`: it has, and has not been in contact for an hour since.
   * - `over`: an hour of contact, or an orderly stop, shows that this boot is no part of a loop.
   */
  readonly state: "unarmed" | "armed" | "over";
}

/** An hour of contact ends the count. */
const longContactMs = 3_600_000;

/** The history as a process of this boot begins with it. */
export function historyOfBoot(before: BootHistory | undefined, bootId: string): BootHistory {
  if (before === undefined) return { bootId, shortBoots: 0, state: "unarmed" };
  if (before.bootId === bootId) return before;
  const more = before.state === "armed" ? 1 : 0;
  return { bootId, shortBoots: before.state === "over" ? 0 : before.shortBoots + more, state: "unarmed" };
}

/** The history after a renewal: the same object where nothing changes. */
export function historyAfter(
  history: BootHistory,
  { isArmed, contactMs }: { readonly isArmed: boolean; readonly contactMs: number },
): BootHistory {
  if (history.state === "over") return history;
  if (contactMs >= longContactMs) return { ...history, shortBoots: 0, state: "over" };
  return isArmed && history.state === "unarmed" ? { ...history, state: "armed" } : history;
}

/** The history after an orderly stop. */
export const historyAfterStop = (history: BootHistory): BootHistory => ({ ...history, state: "over" });
