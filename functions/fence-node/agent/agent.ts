/**
 * The agent: it renews its Lease, feeds the watchdog, and stops to feed it when a fence is armed for this boot.
 *
 * It has no timers of its own. `main.ts` calls {@link Agent.renew} and {@link Agent.tick}.
 */

import { type ArmedFence, fenceArmed, formatArmed } from "../../shared/annotations/fencing.ts";
import { messageOf } from "../../shared/base/error-message.ts";
import { decideFeeding, mayDisarm } from "./decide-feeding.ts";
import {
  annotationsOf,
  type Contact,
  contactAfter,
  type ExplicitOnlyReason,
  fenceOfBoot,
  type LeaseAnnotations,
} from "./decide-renewal.ts";
import type { AgentLease, ApiAnswer, Outside } from "./outside.ts";
import type { AgentSettings } from "./settings.ts";

const longestTickMs = 1_000;
const ticksPerWatchdog = 5;
/** How often one renewal or stop writes again after a conflict. */
const mostWrites = 5;

export type AgentTimes = Pick<AgentSettings, "renewTimeoutMs" | "freshMs" | "permitMs">;

export class Agent {
  readonly #times: AgentTimes;
  readonly #outside: Outside;
  #permitMs: number | undefined;
  #renewals = 0;
  /** It is never taken back: no permit is renewed in this boot any more. */
  #fence: ArmedFence | undefined;
  #isTainted = false;
  #contact: Contact | undefined;
  /** As the last answer showed it; undefined if that is unknown. */
  #lease: AgentLease | undefined;
  #watchdog: number | ExplicitOnlyReason;
  #isOpen = false;
  #isDeviceStarted = false;
  #fedMs: number;
  #hasReset = false;
  #isStopped = false;
  /** Messages that were logged, by topic, so that a state is logged once. */
  readonly #logged = new Map<string, string>();

  /** Goes on with what an earlier process of this boot has left, and then needs no API to feed the device. */
  constructor(times: AgentTimes, outside: Outside) {
    this.#times = times;
    this.#outside = outside;
    this.#fedMs = outside.clock.nowMs();
    this.#watchdog = outside.watchdog.check();
    const memory = outside.store.read();
    if (memory?.bootId !== outside.bootId) return;
    this.#permitMs = memory.permitMs;
    this.#renewals = memory.renewals ?? 0;
    this.#fence = memory.armed === undefined ? undefined : fenceArmed.parse(memory.armed);
    this.#isTainted = this.#fence !== undefined && memory.isTainted === true;
    this.#isDeviceStarted = memory.isDeviceStarted === true;
  }

  /** Milliseconds until the next {@link tick}. */
  get tickMs(): number {
    return Math.min((this.#watchdogMs ?? Number.POSITIVE_INFINITY) / ticksPerWatchdog, longestTickMs);
  }

  /** Undefined if there is no watchdog that can be used. */
  get #watchdogMs(): number | undefined {
    return typeof this.#watchdog === "number" ? this.#watchdog : undefined;
  }

  /** Decides and writes without an `await` in between, so that a process that stands still starves the device. */
  tick(): void {
    if (this.#isStopped) return;
    const { clock } = this.#outside;
    const verdict = decideFeeding({
      nowMs: clock.nowMs(),
      permitMs: this.#permitMs,
      permitLifeMs: this.#times.permitMs,
      fence: this.#fence,
      isTainted: this.#isTainted,
      watchdogMs: this.#watchdogMs,
      fedMs: this.#isDeviceStarted ? this.#fedMs : undefined,
    });
    if (verdict === "feed") this.#feed();
    if (verdict === "starve") this.#starve();
    if (verdict === "reset") this.#reset();
  }

  #feed(): void {
    if (!this.#isOpen) this.#open();
    if (!this.#isOpen) return;
    try {
      this.#outside.watchdog.feed();
      this.#fedMs = this.#outside.clock.nowMs();
      this.#clear("feed");
    } catch (error) {
      this.#note("feed", "warn", `the watchdog was not fed: ${messageOf(error)}`);
    }
  }

  #starve(): void {
    this.#note(
      "stop",
      "warn",
      `fence ${this.#fence?.fenceId} is armed for this boot: the watchdog is not fed any more`,
    );
    // A device that runs must not be opened again, because that would feed it.
    if (this.#isDeviceStarted) return;
    this.#open();
  }

  #open(): void {
    const { watchdog, clock } = this.#outside;
    if (this.#watchdogMs === undefined) this.#watchdog = watchdog.check();
    if (this.#watchdogMs === undefined) {
      this.#note("device", "warn", `no watchdog is used: ${this.#watchdog}`);
      return;
    }
    try {
      watchdog.open();
      this.#isOpen = true;
      this.#fedMs = clock.nowMs();
      this.#note(
        "device",
        "info",
        `the watchdog runs, and resets the machine ${this.#watchdogMs} ms after its last feed`,
      );
      this.#isDeviceStarted = true;
      this.#remember();
    } catch (error) {
      this.#watchdog = (error as NodeJS.ErrnoException).code === "EBUSY" ? "watchdog-busy" : "no-watchdog";
      this.#note("device", "warn", `the watchdog cannot be opened: ${messageOf(error)}`);
    }
  }

  #reset(): void {
    const { reset } = this.#outside;
    if (this.#hasReset) return;
    try {
      if (reset === undefined) throw new Error("AGENT_RESET_FILE is not set");
      reset();
      this.#hasReset = true;
      this.#note("reset", "warn", `fence ${this.#fence?.fenceId}: the machine was reset without its watchdog`);
    } catch (error) {
      this.#note("reset", "warn", `the machine cannot be reset without its watchdog: ${messageOf(error)}`);
    }
  }

  /** One renewal of the Lease, and of the permit where an answer shows no fence of this boot. Never rejects. */
  async renew(): Promise<void> {
    const { clock } = this.#outside;
    if (this.#isOpen) this.#checkTime();
    const deadlineMs = clock.nowMs() + this.#times.renewTimeoutMs;
    const leftMs = () => Math.max(1, deadlineMs - clock.nowMs());
    const isNew = this.#lease === undefined && (await this.#readLease(leftMs)) === "created";
    if (this.#lease !== undefined && !isNew) await this.#writeLease(this.#lease, leftMs);
    if (this.#fence !== undefined && !this.#isTainted) await this.#readTaint();
    this.#remember();
  }

  /** Reads W again, which the node's own configuration may have changed. */
  #checkTime(): void {
    const watchdog = this.#outside.watchdog.check();
    if (typeof watchdog === "number") this.#watchdog = watchdog;
  }

  /** Reads the Lease, and creates it if there is none. */
  async #readLease(leftMs: () => number): Promise<"read" | "created" | "failed"> {
    const { api, clock } = this.#outside;
    const sentMs = clock.nowMs();
    const read = await api.readLease(leftMs());
    if (read.status !== 404) return this.#noteAnswer(read, sentMs) ? "read" : "failed";
    const createdMs = clock.nowMs();
    return this.#noteAnswer(await api.createLease(this.#annotations(), leftMs()), createdMs) ? "created" : "failed";
  }

  /** An API server that can read and not write costs no permit, because a GET follows a refusal. */
  async #writeLease(base: AgentLease, leftMs: () => number): Promise<void> {
    const { api, clock } = this.#outside;
    const sentMs = clock.nowMs();
    const answer = await api.patchLease(base, this.#annotations(), leftMs());
    if (answer.value !== undefined) this.#renewals++;
    if (answer.value !== undefined || answer.status === 0) {
      this.#clear("write");
      this.#noteAnswer(answer, sentMs);
      return;
    }
    // A conflict is no fault: the function has armed a fence, or an earlier request was carried out late.
    if (answer.status !== 409)
      this.#note("write", "warn", `the Lease was not renewed: ${answer.status} ${answer.message}`);
    await this.#readLease(leftMs);
  }

  /** True if the answer shows the Lease. */
  #noteAnswer({ status, message, value }: ApiAnswer<AgentLease>, sentMs: number): boolean {
    if (value === undefined) this.#note("answer", "warn", `no answer shows the Lease: ${status} ${message}`);
    else this.#clear("answer");
    // A request without an answer may have been carried out. Then the next one conflicts, and a GET follows.
    if (value !== undefined || status !== 0) this.#lease = value;
    if (value === undefined) return false;
    this.#fence ??= fenceOfBoot(value.annotations, this.#outside.bootId);
    if (this.#fence === undefined) this.#permitMs = sentMs;
    this.#contact = contactAfter(this.#contact, sentMs, this.#times.freshMs);
    return true;
  }

  #annotations(mode: "explicit-only" | "disarmed" = "explicit-only"): LeaseAnnotations {
    const why = typeof this.#watchdog === "number" ? "no-peers" : this.#watchdog;
    const { permitMs, freshMs, renewTimeoutMs } = this.#times;
    return annotationsOf({
      mode,
      why: mode === "disarmed" ? "stopped" : why,
      bootId: this.#outside.bootId,
      permitLifeMs: permitMs,
      watchdogMs: this.#watchdogMs,
      freshMs,
      renewTimeoutMs,
      renewals: this.#renewals + 1,
      contactMs: this.#contact === undefined ? 0 : this.#contact.lastMs - this.#contact.sinceMs,
      fence: this.#fence,
    });
  }

  async #readTaint(): Promise<void> {
    const { status, message, value } = await this.#outside.api.readNodeTaint(this.#times.renewTimeoutMs);
    const id = this.#fence?.fenceId;
    if (value === true) this.#isTainted = true;
    else if (value === false)
      this.#note("taint", "warn", `fence ${id} is armed for this boot, but the Node has no taint`);
    else
      this.#note("taint", "warn", `fence ${id} is armed for this boot; its Node cannot be read: ${status} ${message}`);
  }

  /**
   * Writes the mode `disarmed`, and stops the device if the API server has acknowledged that, unless a fence is armed. The caller
   * has ended its renewals, and goes on with its ticks until this resolves. Never rejects.
   *
   * @returns false if the device still runs
   */
  async stop(): Promise<boolean> {
    const { watchdog, log } = this.#outside;
    const isAcknowledged = this.#fence === undefined && (await this.#writeDisarmed());
    this.#isStopped = true;
    if (!this.#isOpen) return !this.#isDeviceStarted;
    const fence = this.#fence;
    if (!mayDisarm({ isAcknowledged, fence, isNoWayOut: watchdog.isNoWayOut() })) {
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
    this.#isDeviceStarted = false;
    this.#remember();
    return true;
  }

  /** True once the API server has acknowledged it on a Lease that shows no fence of this boot. */
  async #writeDisarmed(): Promise<boolean> {
    const { api, clock, bootId } = this.#outside;
    const deadlineMs = clock.nowMs() + this.#times.renewTimeoutMs;
    const leftMs = () => Math.max(1, deadlineMs - clock.nowMs());
    for (let writes = 0; writes < mostWrites && this.#lease !== undefined; writes++) {
      const answer = await api.patchLease(this.#lease, this.#annotations("disarmed"), leftMs());
      if (answer.value !== undefined) return true;
      if (answer.status !== 409) return false;
      this.#lease = (await api.readLease(leftMs())).value;
      this.#fence ??= this.#lease === undefined ? undefined : fenceOfBoot(this.#lease.annotations, bootId);
      if (this.#fence !== undefined) return false;
    }
    return false;
  }

  #remember(): void {
    this.#outside.store.write({
      bootId: this.#outside.bootId,
      permitMs: this.#permitMs,
      renewals: this.#renewals,
      armed: this.#fence === undefined ? undefined : formatArmed(this.#fence),
      isTainted: this.#isTainted,
      isDeviceStarted: this.#isDeviceStarted,
    });
  }

  /** Logs a message of a topic unless it was the topic's last one. */
  #note(topic: string, level: "info" | "warn", message: string): void {
    if (this.#logged.get(topic) === message) return;
    this.#logged.set(topic, message);
    this.#outside.log(level, message);
  }

  /** The topic has nothing to log any more, so that its next message is logged. */
  #clear(topic: string): void {
    this.#logged.delete(topic);
  }
}
