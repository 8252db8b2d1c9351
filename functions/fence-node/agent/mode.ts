/** The mode of an agent as the API server may know it, and what it rests on: drills, its own Node, and earlier boots. */

import { type BootHistory, historyAfter, historyAfterStop, historyOfBoot } from "./decide-boots.ts";
import { type ExplicitOnlyReason, type OwnNode, whyExplicitOnly } from "./decide-mode.ts";
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
  #node: OwnNode | undefined;
  #drilledMs: number | undefined;
  #history: BootHistory;
  /** Undefined until the API server has acknowledged some in this boot. */
  #acknowledged: { readonly permitMs: number; readonly freshMs: number } | undefined;

  constructor(times: ModeTimes, outside: Outside, peers: Peers, notes: StateLog, memory: BootMemory | undefined) {
    this.#times = times;
    this.#outside = outside;
    this.#peers = peers;
    this.#notes = notes;
    const { isArmed = false, acknowledgedPermitMs: permitMs, acknowledgedFreshMs: freshMs } = memory ?? {};
    this.#isArmed = isArmed;
    this.#acknowledged = permitMs === undefined || freshMs === undefined ? undefined : { permitMs, freshMs };
    this.#history = historyOfBoot(outside.history.read(), outside.bootId);
  }

  /** True from before `armed` is written to the acknowledgement of another mode. */
  get isArmed(): boolean {
    return this.#isArmed;
  }

  /** How long a permit lasts, in milliseconds: the shorter of two times while the API server may know either. */
  get permitLifeMs(): number {
    return Math.min(this.#times.permitMs, this.#acknowledged?.permitMs ?? Number.POSITIVE_INFINITY);
  }

  /** How old a success may be that is contact, in milliseconds: the longer of two times while the API server may know either. */
  get freshMs(): number {
    return Math.max(this.#times.freshMs, this.#acknowledged?.freshMs ?? 0);
  }

  get memory(): Pick<BootMemory, "isArmed" | "acknowledgedPermitMs" | "acknowledgedFreshMs"> {
    return {
      isArmed: this.#isArmed,
      acknowledgedPermitMs: this.#acknowledged?.permitMs,
      acknowledgedFreshMs: this.#acknowledged?.freshMs,
    };
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
      shortBoots: this.#history.shortBoots,
      isArmed: this.#isArmed,
    });
    if (why === undefined) this.#isArmed = true;
    return why;
  }

  /** The API server has acknowledged a write of a mode, and of the times of this process. */
  acknowledge(isArmed: boolean): void {
    if (isArmed)
      this.#notes.note("mode", "info", "the mode is armed: without the API server and peers the node is reset");
    else if (this.#isArmed)
      this.#notes.note("mode", "warn", "the mode is explicit-only: a fence alone resets the node");
    this.#isArmed = isArmed;
    this.#acknowledged = { permitMs: this.#times.permitMs, freshMs: this.#times.freshMs };
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

  /** A renewal has ended: whether this boot may be part of a loop. */
  noteRenewal(contactMs: number): void {
    this.#writeHistory(historyAfter(this.#history, { isArmed: this.#isArmed, contactMs }));
  }

  /** An orderly stop has ended the agent. */
  noteStop(): void {
    this.#writeHistory(historyAfterStop(this.#history));
  }

  #writeHistory(history: BootHistory): void {
    if (history === this.#history) return;
    const { bootId, shortBoots, state } = this.#history;
    const isEqual = history.bootId === bootId && history.shortBoots === shortBoots && history.state === state;
    this.#history = history;
    if (!isEqual) this.#outside.history.write(history);
  }
}
