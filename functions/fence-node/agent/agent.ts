/**
 * The agent: it renews its Lease, feeds the watchdog while it has a permit, and stops to feed it when a fence is armed for this
 * boot.
 *
 * It has no timers of its own. `main.ts` calls {@link Agent.renew}, {@link Agent.drill} and {@link Agent.tick}.
 */

import { type ArmedFence, fenceArmed, formatArmed } from "../../shared/annotations/fencing.ts";
import { formatAddresses } from "../../shared/annotations/fencing-peers.ts";
import { isExcused } from "./decide-excuse.ts";
import type { ExplicitOnlyReason } from "./decide-mode.ts";
import {
  annotationsOf,
  type Contact,
  contactAfter,
  contactMsOf,
  fenceOfBoot,
  type LeaseAnnotations,
} from "./decide-renewal.ts";
import { Feeder } from "./feeder.ts";
import type { AgentMeasures } from "./metrics.ts";
import { Mode } from "./mode.ts";
import type { AgentLease, ApiAnswer, Outside } from "./outside.ts";
import { createPeerKey, openPeerKey, type PeerKey } from "./peer-key.ts";
import { Peers } from "./peers.ts";
import type { AgentTimes } from "./settings.ts";
import { StateLog } from "./state-log.ts";

/** How often one renewal or stop writes again after a conflict. */
const mostWrites = 5;
/** So many renewals in a row fail before the agent asks its peers. */
const failuresBeforePeers = 2;

export class Agent {
  readonly #settings: AgentTimes;
  readonly #outside: Outside;
  readonly #notes: StateLog;
  readonly #feeder: Feeder;
  readonly #peers: Peers;
  readonly #mode: Mode;
  /** Of this boot: peers know its answers by it. */
  readonly key: PeerKey;
  /** When this process began: it knows of no success before that. */
  readonly startedMs: number;
  #permitMs: number | undefined;
  #renewals = 0;
  #failures = 0;
  #lostRenewals = 0;
  /** It is never taken back: no permit is renewed in this boot any more. */
  #fence: ArmedFence | undefined;
  #isTainted = false;
  #contact: Contact | undefined;
  /** As the last answer showed it; undefined if that is unknown. */
  #lease: AgentLease | undefined;
  #isStopped = false;

  /** Goes on with what an earlier process of this boot has left, and then needs no API to feed the device. */
  constructor(settings: AgentTimes, outside: Outside) {
    this.#settings = settings;
    this.#outside = outside;
    this.#notes = new StateLog(outside.log);
    this.startedMs = outside.clock.nowMs();
    const { bootId, store } = outside;
    const read = store.read();
    const memory = read?.bootId === bootId ? read : undefined;
    this.#permitMs = memory?.permitMs;
    this.#renewals = memory?.renewals ?? 0;
    this.#fence = memory?.armed === undefined ? undefined : fenceArmed.parse(memory.armed);
    this.#isTainted = this.#fence !== undefined && memory?.isTainted === true;
    this.key = openPeerKey(memory?.publicKey ?? "", memory?.secret ?? "") ?? createPeerKey();
    const { node, peerTimeoutMs } = settings;
    this.#peers = new Peers({ node, bootId, peerTimeoutMs }, outside, memory);
    this.#mode = new Mode(settings, outside, this.#peers, this.#notes, memory);
    this.#feeder = new Feeder(outside, this.#notes, memory?.isDeviceStarted === true, {
      beforeStart: () => this.#mode.noteStart(),
      afterStart: () => this.#remember(),
    });
  }

  /** Milliseconds until the next {@link tick}. */
  get tickMs(): number {
    return this.#feeder.tickMs;
  }

  /** When the request was sent that the API server answered last; undefined if it has answered none of this process. */
  get lastSuccessMs(): number | undefined {
    return this.#contact?.lastMs;
  }

  /** How old a success may be that is contact, in milliseconds. */
  get freshMs(): number {
    return this.#mode.freshMs;
  }

  get measures(): AgentMeasures {
    const [permitMs, renewals, isFenced] = [this.#permitMs, this.#renewals, this.#fence !== undefined];
    const { isArmed, why } = this.#mode;
    return { permitMs, renewals, lostRenewals: this.#lostRenewals, feeds: this.#feeder.feeds, isArmed, why, isFenced };
  }

  /** Decides about the device, and writes to it without an `await` in between. */
  tick(): void {
    if (this.#isStopped) return;
    const { isArmed, isLoop } = this.#mode;
    const permitLifeMs = this.#mode.permitLifeMs(this.#feeder.watchdogMs);
    const [permitMs, fence, isTainted] = [this.#permitMs, this.#fence, this.#isTainted];
    this.#feeder.tick({ permitMs, permitLifeMs, isArmed, fence, isTainted, isLoop });
  }

  /**
   * One renewal of the Lease, and of the permit where an answer shows no fence of this boot. Once two have failed in a row, the
   * agent asks its peers. Never rejects.
   */
  async renew(): Promise<void> {
    const { clock } = this.#outside;
    this.#feeder.checkTime();
    const deadlineMs = clock.nowMs() + this.#settings.renewTimeoutMs;
    const leftMs = () => Math.max(1, deadlineMs - clock.nowMs());
    this.#failures++;
    const isNew = this.#lease === undefined && (await this.#readLease(leftMs)) === "created";
    if (this.#lease !== undefined && !isNew) await this.#writeLease(this.#lease, leftMs);
    if (this.#failures >= failuresBeforePeers && this.#fence === undefined) await this.#askPeers();
    if (this.#fence !== undefined && !this.#isTainted) await this.#readTaint();
    if (this.#failures > 0) this.#lostRenewals++;
    this.#mode.noteRenewal(contactMsOf(this.#contact));
    this.#remember();
  }

  /** Asks each peer whether it is there, where that is due. Before the first success nothing is. Never rejects. */
  async drill(): Promise<void> {
    if (this.#contact !== undefined) await this.#mode.drill();
  }

  /** Reads the Lease, and creates it if there is none. */
  async #readLease(leftMs: () => number): Promise<"read" | "created" | "failed"> {
    const { api, clock } = this.#outside;
    const sentMs = clock.nowMs();
    const read = await api.readLease(leftMs());
    if (read.status !== 404) return this.#noteAnswer(read, sentMs) ? "read" : "failed";
    const { annotations, isArmed } = this.#compose();
    const createdMs = clock.nowMs();
    if (!this.#noteAnswer(await api.createLease(annotations, leftMs()), createdMs)) return "failed";
    this.#acknowledge(isArmed);
    return "created";
  }

  /** An API server that can read and not write costs no permit, because a GET follows a refusal. */
  async #writeLease(base: AgentLease, leftMs: () => number): Promise<void> {
    const { api, clock } = this.#outside;
    const { annotations, isArmed } = this.#compose();
    const sentMs = clock.nowMs();
    const answer = await api.patchLease(base, annotations, leftMs());
    if (answer.value !== undefined) this.#renewals++;
    if (answer.value !== undefined || answer.status === 0) {
      this.#notes.clear("write");
      if (this.#noteAnswer(answer, sentMs)) this.#acknowledge(isArmed);
      return;
    }
    // A conflict is no fault: the function has armed a fence, or an earlier request was carried out late.
    if (answer.status !== 409)
      this.#notes.note("write", "warn", `the Lease was not renewed: ${answer.status} ${answer.message}`);
    await this.#readLease(leftMs);
  }

  /** True if the answer shows the Lease. */
  #noteAnswer({ status, message, value }: ApiAnswer<AgentLease>, sentMs: number): boolean {
    if (value === undefined) this.#notes.note("answer", "warn", `no answer shows the Lease: ${status} ${message}`);
    else this.#notes.clear("answer");
    // A request without an answer may have been carried out. Then the next one conflicts, and a GET follows.
    if (value !== undefined || status !== 0) this.#lease = value;
    if (value === undefined) return false;
    this.#failures = 0;
    this.#fence ??= fenceOfBoot(value.annotations, this.#outside.bootId);
    if (this.#fence === undefined) this.#permitMs = sentMs;
    const answeredMs = this.#outside.clock.nowMs();
    this.#contact = contactAfter(this.#contact, { sentMs, answeredMs }, this.freshMs);
    this.#peers.note(value.annotations);
    this.#mode.note(value.annotations);
    return true;
  }

  /**
   * What the next write of the Lease says. What the API server may know is in force before it knows it, also for a process that
   * takes over. A fence leaves all as it is but what shows that the agent runs.
   */
  #compose(): { readonly annotations: LeaseAnnotations; readonly isArmed: boolean } {
    if (this.#fence !== undefined) {
      return { annotations: this.#annotations(undefined, ""), isArmed: this.#mode.isArmed };
    }
    const peers = this.#peers.adopt();
    const why = this.#mode.next(this.#feeder.watchdog, this.#permitMs !== undefined);
    this.#remember();
    return { annotations: this.#annotations(why, peers), isArmed: why === undefined };
  }

  /** The API server has what the last write named. A fence leaves the mode as it was. */
  #acknowledge(isArmed: boolean): void {
    if (this.#fence === undefined) this.#mode.acknowledge(isArmed);
  }

  #annotations(why: ExplicitOnlyReason | "stopped" | undefined, peers: string): LeaseAnnotations {
    const { permitMs, freshMs, renewTimeoutMs, hosts = [], peerPort: port } = this.#settings;
    return annotationsOf({
      mode: why === "stopped" ? "disarmed" : why === undefined ? "armed" : "explicit-only",
      why,
      bootId: this.#outside.bootId,
      permitLifeMs: permitMs,
      watchdogMs: this.#feeder.watchdogMs,
      freshMs,
      renewTimeoutMs,
      renewals: this.#renewals + 1,
      contactMs: contactMsOf(this.#contact),
      peers,
      publicKey: this.key.publicKey,
      addresses: formatAddresses(hosts.map((host) => ({ host, port }))),
      fence: this.#fence,
    });
  }

  /**
   * An answer that shows no fence is a permit, and so are the answers of most peers that they do not reach the API server either.
   * A peer that knows of a fence has also seen the taint.
   */
  async #askPeers(): Promise<void> {
    const { clock, bootId } = this.#outside;
    const sentMs = clock.nowMs();
    const answers = await this.#peers.ask();
    const fenceId = [...answers.values()].find(({ verdict }) => verdict === "stop")?.fenceId;
    if (fenceId !== undefined) {
      this.#fence = { fenceId, bootId };
      this.#isTainted = true;
      return;
    }
    const verdicts = new Map([...answers].map(([peer, { verdict }]) => [peer, verdict]));
    const isAlive = [...verdicts.values()].includes("alive");
    if (isAlive || isExcused(this.#peers.lists, verdicts)) this.#permitMs = sentMs;
  }

  async #readTaint(): Promise<void> {
    const { status, message, value } = await this.#outside.api.readNodeTaint(this.#settings.renewTimeoutMs);
    const id = this.#fence?.fenceId;
    if (value === true) this.#isTainted = true;
    else if (value === false)
      this.#notes.note("taint", "warn", `fence ${id} is armed for this boot, but the Node has no taint`);
    else {
      const why = `${status} ${message}`;
      this.#notes.note("taint", "warn", `fence ${id} is armed for this boot; its Node cannot be read: ${why}`);
    }
  }

  /**
   * Writes the mode `disarmed`, and stops the device if the API server has acknowledged that, unless a fence is armed. The caller
   * has ended its renewals, and goes on with its ticks until this resolves. Never rejects.
   *
   * @returns false if the device still runs
   */
  async stop(): Promise<boolean> {
    const isAcknowledged = this.#fence === undefined && (await this.#writeDisarmed());
    this.#isStopped = true;
    if (isAcknowledged) this.#mode.noteStop();
    const isDisarmed = this.#feeder.disarm({ isAcknowledged, fence: this.#fence });
    if (isDisarmed) this.#remember();
    return isDisarmed;
  }

  /** True once the API server has acknowledged it on a Lease that shows no fence of this boot. */
  async #writeDisarmed(): Promise<boolean> {
    const { api, clock, bootId } = this.#outside;
    const deadlineMs = clock.nowMs() + this.#settings.renewTimeoutMs;
    const leftMs = () => Math.max(1, deadlineMs - clock.nowMs());
    for (let writes = 0; writes < mostWrites && this.#lease !== undefined; writes++) {
      const answer = await api.patchLease(this.#lease, this.#annotations("stopped", this.#peers.adopt()), leftMs());
      if (answer.value !== undefined) {
        this.#mode.acknowledge(false);
        return true;
      }
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
      isDeviceStarted: this.#feeder.isStarted,
      publicKey: this.key.publicKey,
      secret: this.key.secret,
      ...this.#mode.memory,
      ...this.#peers.memory,
    });
  }
}
