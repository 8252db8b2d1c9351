/** Feeds the watchdog of the machine, starves it, or resets the machine without it, as decided. */
import { messageOf } from "../../shared/base/error-message.ts";
import { decideFeeding, type FeedingView, mayDisarm } from "./decide-feeding.ts";
import type { ExplicitOnlyReason } from "./decide-mode.ts";
import type { Outside } from "./outside.ts";
import type { StateLog } from "./state-log.ts";

const longestTickMs = 1_000;
const ticksPerWatchdog = 5;

/** What the agent knows when it decides about feeding. */
export type Permission = Pick<FeedingView, "permitMs" | "permitLifeMs" | "isArmed" | "fence" | "isTainted" | "isLoop">;

export interface StartCallbacks {
  /** The device is about to be started. A slow disk must delay this, and not a feed. */
  beforeStart(): void;
  /** It has been started, which a process that takes over has to know. */
  afterStart(): void;
}

export class Feeder {
  readonly #outside: Outside;
  readonly #notes: StateLog;
  readonly #notify: StartCallbacks;
  #watchdog: number | ExplicitOnlyReason;
  #isOpen = false;
  #isStarted: boolean;
  #fedMs: number;
  #hasReset = false;
  #feeds = 0;

  /** @param isStarted an earlier process of this boot has started the device */
  constructor(outside: Outside, notes: StateLog, isStarted: boolean, notify: StartCallbacks) {
    this.#outside = outside;
    this.#notes = notes;
    this.#isStarted = isStarted;
    this.#notify = notify;
    this.#fedMs = outside.clock.nowMs();
    this.#watchdog = outside.watchdog.check();
  }

  /** Time of the watchdog in milliseconds, or why there is none that can be used. */
  get watchdog(): number | ExplicitOnlyReason {
    return this.#watchdog;
  }

  /** The device runs, and resets the machine unless it is fed. */
  get isStarted(): boolean {
    return this.#isStarted;
  }

  /** Undefined if there is no watchdog that can be used. */
  get watchdogMs(): number | undefined {
    return typeof this.#watchdog === "number" ? this.#watchdog : undefined;
  }

  /** How often this process has fed the device. */
  get feeds(): number {
    return this.#feeds;
  }

  /** Milliseconds until the next {@link tick}. */
  get tickMs(): number {
    return Math.min((this.watchdogMs ?? Number.POSITIVE_INFINITY) / ticksPerWatchdog, longestTickMs);
  }

  /** Decides and writes without an `await` in between, so that a process that stands still starves the device. */
  tick(permission: Permission): void {
    const verdict = decideFeeding({
      ...permission,
      nowMs: this.#outside.clock.nowMs(),
      watchdogMs: this.watchdogMs,
      fedMs: this.#isStarted ? this.#fedMs : undefined,
    });
    if (verdict === "feed") this.#feed();
    if (verdict === "starve") this.#starve(permission);
    if (verdict === "reset") this.#reset(permission);
  }

  /** Reads the time of the device again, which the node's own configuration may have changed. */
  checkTime(): void {
    if (!this.#isOpen) return;
    const watchdog = this.#outside.watchdog.check();
    if (typeof watchdog === "number") this.#watchdog = watchdog;
  }

  /** Stops the device if it may be stopped. Returns false if it still runs. */
  disarm(stop: { readonly isAcknowledged: boolean; readonly fence: FeedingView["fence"] }): boolean {
    const { watchdog, log } = this.#outside;
    if (!this.#isOpen) return !this.#isStarted;
    if (!mayDisarm({ ...stop, isNoWayOut: watchdog.isNoWayOut() })) {
      log("warn", "the watchdog still runs: another agent must take over before it resets the machine");
      return false;
    }
    try {
      watchdog.disarm();
    } catch (error) {
      log("warn", `the watchdog cannot be stopped: ${messageOf(error)}`);
      return false;
    }
    this.#isOpen = false;
    this.#isStarted = false;
    return true;
  }

  #feed(): void {
    this.#notes.clear("stop");
    if (!this.#isOpen) this.#open();
    if (!this.#isOpen) return;
    try {
      this.#outside.watchdog.feed();
      this.#feeds++;
      this.#fedMs = this.#outside.clock.nowMs();
      this.#notes.clear("feed");
    } catch (error) {
      this.#notes.note("feed", "warn", `the watchdog was not fed: ${messageOf(error)}`);
    }
  }

  #starve(permission: Permission): void {
    this.#notes.note("stop", "warn", `${whyOf(permission)}: the watchdog is not fed any more`);
    // A device that runs must not be opened again, because that would feed it.
    if (!this.#isStarted) this.#open();
  }

  #open(): void {
    const { watchdog, clock } = this.#outside;
    if (this.watchdogMs === undefined) this.#watchdog = watchdog.check();
    if (this.watchdogMs === undefined) {
      this.#notes.note("device", "warn", `no watchdog is used: ${this.#watchdog}`);
      return;
    }
    try {
      this.#notify.beforeStart();
      watchdog.open();
      this.#isOpen = true;
      this.#fedMs = clock.nowMs();
      const message = `the watchdog runs, and resets the machine ${this.#watchdog} ms after its last feed`;
      this.#notes.note("device", "info", message);
      this.#isStarted = true;
      this.#notify.afterStart();
    } catch (error) {
      this.#watchdog = (error as NodeJS.ErrnoException).code === "EBUSY" ? "watchdog-busy" : "no-watchdog";
      this.#notes.note("device", "warn", `the watchdog cannot be opened: ${messageOf(error)}`);
    }
  }

  #reset(permission: Permission): void {
    const { reset } = this.#outside;
    if (this.#hasReset) return;
    try {
      if (reset === undefined) throw new Error("AGENT_RESET_FILE is not set");
      reset();
      this.#hasReset = true;
      this.#notes.note("reset", "warn", `${whyOf(permission)}: the machine was reset without its watchdog`);
    } catch (error) {
      this.#notes.note("reset", "warn", `the machine cannot be reset without its watchdog: ${messageOf(error)}`);
    }
  }
}

function whyOf({ fence }: Permission): string {
  if (fence !== undefined) return `fence ${fence.fenceId} is armed for this boot`;
  return "the API server and the peers have not answered, so that the permit of this node has run out";
}
