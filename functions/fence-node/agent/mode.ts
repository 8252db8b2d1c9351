/** The mode of an agent as the API server may know it, and what it rests on: drills, its own Node, and earlier boots. */

import {
  type BootHistory,
  historyAfterRenewal,
  historyAfterStart,
  historyAfterStop,
  historyOfBoot,
  isLoop,
} from "./decide-boots.ts";
import { type ExplicitOnlyReason, type OwnNode, whyExplicitOnly } from "./decide-mode.ts";
import { type LeaseAnnotations, modeOfLease, type StoredTimes } from "./decide-renewal.ts";
import type { BootMemory, Outside } from "./outside.ts";
import type { Peers } from "./peers.ts";
import type { AgentSettings } from "./settings.ts";
import type { StateLog } from "./state-log.ts";

type ModeTimes = Pick<AgentSettings, "permitMs" | "freshMs" | "renewTimeoutMs" | "drillEveryMs">;

export class Mode {
  readonly #times: ModeTimes;
  readonly #outside: Outside;
  readonly #peers: Peers;
  readonly #notes: StateLog;
  #isArmed: boolean;
  #why: ExplicitOnlyReason | undefined;
  #node: OwnNode | undefined;
  #drilledMs: number | undefined;
  #history: BootHistory;
  /** As the Lease has them. A fence counts by these until the API server shows others. */
  #stored: StoredTimes;

  constructor(times: ModeTimes, outside: Outside, peers: Peers, notes: StateLog, memory: BootMemory | undefined) {
    this.#times = times;
    this.#outside = outside;
    this.#peers = peers;
    this.#notes = notes;
    this.#isArmed = memory?.isArmed === true;
    this.#stored = memory?.storedTimes ?? {};
    this.#history = historyOfBoot(outside.history.read(), outside.bootId);
  }

  /** True from before `armed` is written to the acknowledgement of another mode. */
  get isArmed(): boolean {
    return this.#isArmed;
  }

  /** Why the last renewal did not write `armed`; undefined if it did, or if there was none. */
  get why(): ExplicitOnlyReason | undefined {
    return this.#why;
  }

  /**
   * How long a permit lasts, in milliseconds: no longer than the Lease has it. A watchdog that fires later than the Lease has it
   * shortens the permit by twice the difference, because a fence waits for the permit and for two times of the watchdog.
   */
  permitLifeMs(watchdogMs: number | undefined): number {
    const { permitMs = Number.POSITIVE_INFINITY, watchdogMs: storedMs = 0 } = this.#stored;
    const laterMs = storedMs === 0 || watchdogMs === undefined ? 0 : Math.max(0, watchdogMs - storedMs);
    return Math.min(this.#times.permitMs, permitMs) - 2 * laterMs;
  }

  /** How old a success may be that is contact, in milliseconds: no less than the Lease has it. */
  get freshMs(): number {
    return Math.max(this.#times.freshMs, (this.#stored.freshMs ?? 0) + this.#times.renewTimeoutMs);
  }

  /** True where boots of this machine end so soon that nothing but a fence may reset it. */
  get isLoop(): boolean {
    return isLoop(this.#history);
  }

  get memory(): Pick<BootMemory, "isArmed" | "storedTimes"> {
    return { isArmed: this.#isArmed, storedTimes: this.#stored };
  }

  /**
   * The API server shows the Lease. What it says of this boot is in force, also where this process does not remember that it was
   * written.
   */
  note(annotations: LeaseAnnotations): void {
    const stored = modeOfLease(annotations);
    if (stored.bootId !== this.#outside.bootId) return;
    if (stored.isArmed) this.#isArmed = true;
    this.#stored = stored.times;
  }

  /**
   * Why the next renewal does not write `armed`; undefined if it does. The agent behaves as `armed` from now on then.
   *
   * @param hasSucceeded the API server has shown this boot its Lease
   */
  next(watchdog: number | ExplicitOnlyReason, hasSucceeded: boolean): ExplicitOnlyReason | undefined {
    const why = whyExplicitOnly({
      watchdog,
      hasSucceeded,
      lists: this.#peers.lists,
      drills: this.#peers.drills,
      node: this.#node,
      isLoop: this.isLoop,
      isArmed: this.#isArmed,
    });
    if (why === undefined) this.#isArmed = true;
    this.#why = why;
    return why;
  }

  /** The API server has acknowledged a write of a mode. */
  acknowledge(isArmed: boolean): void {
    if (isArmed)
      this.#notes.note("mode", "info", "the mode is armed: without the API server and peers the node is reset");
    else if (this.#isArmed)
      this.#notes.note("mode", "warn", "the mode is explicit-only: a fence alone resets the node");
    this.#isArmed = isArmed;
  }

  /** Asks each peer whether it is there, once a minute and when others are proposed; and reads the Node. Never rejects. */
  async drill(): Promise<void> {
    const nowMs = this.#outside.clock.nowMs();
    const isDue = this.#drilledMs === undefined || nowMs - this.#drilledMs >= this.#times.drillEveryMs;
    if (!isDue && !this.#peers.isDrillDue) return;
    this.#drilledMs = nowMs;
    const { value, status, message } = await this.#outside.api.readOwnNode(this.#times.renewTimeoutMs);
    if (value === undefined) this.#notes.note("node", "warn", `the Node cannot be read: ${status} ${message}`);
    else this.#notes.clear("node");
    this.#node = value ?? this.#node;
    await this.#peers.drill();
  }

  /** The watchdog is about to be started: this boot may be part of a loop, and end before the system writes it to disk. */
  noteStart(): void {
    this.#writeHistory(historyAfterStart(this.#history), true);
  }

  /** A renewal has ended: it may show that this boot is part of no loop. */
  noteRenewal(contactMs: number): void {
    this.#writeHistory(historyAfterRenewal(this.#history, contactMs));
  }

  /** An orderly stop has ended the agent. */
  noteStop(): void {
    this.#writeHistory(historyAfterStop(this.#history));
  }

  #writeHistory(history: BootHistory, isDurable = false): void {
    if (history === this.#history) return;
    this.#history = history;
    this.#outside.history.write(history, isDurable);
  }
}
