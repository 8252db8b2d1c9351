/**
 * A fence of one node in a cluster whose partitions move: agents, peers, late writes and a function that is killed, in steps of
 * half a second. The rules of evidence, excuse, contact and feeding are those that ship. A model without one of
 * them gives the decision a false view.
 */

import { decideAnswer, isExcused, type PeerAnswer } from "../../functions/fence-node/agent/decide-excuse.ts";
import { decideFeeding } from "../../functions/fence-node/agent/decide-feeding.ts";
import { contactAfter } from "../../functions/fence-node/agent/decide-renewal.ts";
import { decideTime, type EarlierObservation, type PeerSeen } from "../../functions/fence-node/decide-time.ts";
import type { AgentMode } from "../../functions/shared/annotations/fencing.ts";
import { ModelAgent, type ModelCluster, type Random } from "./fence-model-agent.ts";
import { bootSeconds, seconds, stepSeconds, watchdogSeconds } from "./fence-model-settings.ts";
import { drawScript, type Script } from "./fence-script.ts";

/** What is taken out of the rule. */
export type Removal =
  | "quorum"
  | "known for T"
  | "T is L"
  | "T is L + W + 2 s"
  | "two renewals"
  | "any renewal"
  | "adopted list"
  | "both lists"
  | "first success";

export interface Outcome {
  /** The pods started elsewhere while the fenced boot ran. */
  readonly isBroken: boolean;
  readonly isEvacuated: boolean;
}

interface ModelLease {
  version: number;
  renewals: number;
  contact: number;
  boot: number;
  mode: AgentMode;
  list: readonly number[];
  proposed: readonly number[];
  armedBoot: number | undefined;
}

interface Renewal {
  readonly index: number;
  readonly version: number;
  readonly renewals: number;
  readonly contact: number;
  readonly boot: number;
  readonly mode: AgentMode;
  readonly list: readonly number[] | undefined;
}

export class FenceModel implements ModelCluster {
  readonly random: Random;
  readonly agents: readonly ModelAgent[];
  readonly target: ModelAgent;
  isApiDown = false;
  readonly #removed: Removal | undefined;
  readonly #leases: readonly ModelLease[];
  readonly #script: Script;
  readonly #late: (Renewal & { readonly at: number })[] = [];
  readonly #quiet: number;
  #now = 0;
  #proposal: { version: number; readonly at: number; readonly list: readonly number[] } | undefined;
  #fence: { readonly boot: number; readonly mode: AgentMode; readonly list: readonly number[] } | undefined;
  #knownSince: number | undefined;
  #observations: EarlierObservation[] = [];
  #nextObservation = 0;
  #outcome: Outcome | undefined;

  constructor(seed: number, removed?: Removal) {
    this.random = randomOf(seed);
    this.#removed = removed;
    const count = 3 + Math.floor(this.random() * 6);
    const target = Math.floor(this.random() * count);
    this.#quiet = (seed >>> 3) % 9;
    this.agents = Array.from({ length: count }, (_, index) => {
      const list = this.drawPeers(index, count);
      return new ModelAgent(index, this.random() * seconds.interval, list);
    });
    const [first] = this.agents;
    this.target = this.agents[target] ?? (first as ModelAgent);
    this.#leases = this.agents.map(({ list }) => ({
      version: 0,
      renewals: 0,
      contact: 0,
      boot: 0,
      mode: "armed",
      list,
      proposed: list,
      armedBoot: undefined,
    }));
    this.#script = drawScript(this);
  }

  /** Plays until the fence has its evidence, or ends without. */
  run(): Outcome {
    for (; this.#now < 340 && this.#outcome === undefined; this.#now += stepSeconds) this.#step();
    return this.#outcome ?? { isBroken: false, isEvacuated: false };
  }

  drawPeers(index: number, count = this.agents.length): readonly number[] {
    const list = [...Array(count).keys()].filter((other) => other !== index && this.random() < 0.7);
    return list.length > 0 ? list : [(index + 1) % count];
  }

  #step(): void {
    this.#script.step(this.#now);
    for (const write of this.#late.filter(({ at }) => at <= this.#now)) {
      this.#commit(write);
      this.#late.splice(this.#late.indexOf(write), 1);
    }
    this.#propose();
    for (const agent of this.agents) this.#act(agent);
    for (const agent of this.agents) {
      if (agent.isUp && agent.pausedUntil !== undefined && this.#isStarved(agent)) this.#reset(agent);
    }
    this.#arm();
    this.#observe();
  }

  /** The function proposes peers; it may have read the Lease long before, as a process that was paused has. */
  #propose(): void {
    const lease = this.#leaseOf(this.target.index);
    if (this.#script.proposals.some((at) => this.#now >= at && this.#now < at + stepSeconds)) {
      const at = this.#now + (this.random() < 0.3 ? this.random() * 20 : 0);
      this.#proposal = { version: lease.version, at, list: this.drawPeers(this.target.index) };
    }
    if (this.#proposal === undefined || this.#now < this.#proposal.at || this.isApiDown) return;
    if (this.random() < 0.6) this.#proposal.version = lease.version;
    if (lease.version === this.#proposal.version && lease.armedBoot === undefined) {
      lease.version++;
      lease.proposed = this.#proposal.list;
    }
    this.#proposal = undefined;
  }

  #act(agent: ModelAgent): void {
    if (!agent.isUp) {
      if (this.#now - agent.downSince >= bootSeconds) this.#boot(agent);
      return;
    }
    if (agent.isToRestart || (agent !== this.target && this.random() < 0.0005)) this.#restart(agent);
    if (agent.pausedUntil !== undefined) {
      if (this.#now < agent.pausedUntil) return;
      // The write that was paused after its check.
      agent.pausedUntil = undefined;
      agent.fed = this.#now;
    }
    if (this.#now >= agent.nextRenewal) this.#renew(agent);
    this.#feed(agent);
  }

  #boot(agent: ModelAgent): void {
    const lease = this.#leaseOf(agent.index);
    const now = this.#now;
    Object.assign(agent, { isUp: true, booted: now, started: now, fed: now, isArmed: false, isStopping: false });
    Object.assign(agent, {
      failures: 0,
      nextRenewal: now + 1,
      lastSuccess: Number.NEGATIVE_INFINITY,
      contact: undefined,
    });
    Object.assign(agent, { pausedUntil: undefined, knownVersion: lease.version, list: lease.list, pending: undefined });
  }

  /** The agent of a peer starts again in the same boot. */
  #restart(agent: ModelAgent): void {
    const started = this.#now;
    Object.assign(agent, { isToRestart: false, started, failures: 0, contact: undefined });
    agent.lastSuccess = Number.NEGATIVE_INFINITY;
  }

  #renew(agent: ModelAgent): void {
    agent.nextRenewal = this.#now + seconds.interval;
    if (this.#reaches(agent)) this.#write(agent);
    else agent.failures++;
    if (agent.failures >= 2 && agent.isArmed && !agent.isStopping) this.#askPeers(agent);
  }

  #write(agent: ModelAgent): void {
    const lease = this.#leaseOf(agent.index);
    const isNew = agent.pending === undefined && lease.proposed !== agent.list && agent.seenProposal === lease.proposed;
    if (isNew && !agent.isStopping && this.random() < 0.7) agent.pending = agent.seenProposal;
    const { index, knownVersion: version, pending: list, booted: boot, contact } = agent;
    const renewals = agent.isAcknowledged ? agent.renewals + 1 : agent.renewals;
    const contactSeconds = contact === undefined ? 0 : (contact.lastMs - contact.sinceMs) / 1_000;
    // An agent behaves as armed before it says so. The first renewal of a boot may be carried out, and its answer be lost.
    const mode = agent.isArmed || this.#removed === "first success" ? "armed" : "explicit-only";
    const write: Renewal = { index, version, renewals, contact: contactSeconds, boot, mode, list };
    const draw = this.random();
    const isLate = agent.lateRenewals > 0 || (list !== undefined && this.random() < agent.lateListChance);
    if (agent.lateRenewals > 0) agent.lateRenewals--;
    if (draw < 0.06 || isLate) {
      Object.assign(agent, { renewals, isAcknowledged: false, failures: agent.failures + 1 });
      this.#late.push({ ...write, at: this.#now + 1 + this.random() * 28 });
    } else if (draw < 0.12) {
      // Carried out, and its answer is lost.
      if (this.#commit(write)) Object.assign(agent, { renewals, isAcknowledged: false });
      agent.failures++;
    } else if (this.#commit(write)) this.#acknowledge(agent, renewals);
    else this.#readAgain(agent);
  }

  #acknowledge(agent: ModelAgent, renewals: number): void {
    const lease = this.#leaseOf(agent.index);
    Object.assign(agent, { renewals, isAcknowledged: true, knownVersion: lease.version, seenProposal: lease.proposed });
    if (agent.pending !== undefined) Object.assign(agent, { list: agent.pending, pending: undefined });
    this.#succeed(agent);
  }

  /** A conflict, and then a GET. */
  #readAgain(agent: ModelAgent): void {
    const lease = this.#leaseOf(agent.index);
    Object.assign(agent, { knownVersion: lease.version, seenProposal: lease.proposed });
    if (agent.pending !== undefined && lease.list === agent.pending) {
      Object.assign(agent, { list: agent.pending, pending: undefined });
    }
    if (lease.renewals >= agent.renewals) Object.assign(agent, { renewals: lease.renewals, isAcknowledged: true });
    this.#succeed(agent);
  }

  #succeed(agent: ModelAgent): void {
    const nowMs = this.#now * 1_000;
    agent.contact = contactAfter(agent.contact, { sentMs: nowMs, answeredMs: nowMs }, seconds.fresh * 1_000);
    Object.assign(agent, { lastSuccess: this.#now, failures: 0, isArmed: true });
    if (this.#leaseOf(agent.index).armedBoot === agent.booted) agent.isStopping = true;
    else agent.permit = this.#now;
  }

  #askPeers(agent: ModelAgent): void {
    const current = agent.pending === undefined ? [agent.list] : [agent.list, agent.pending];
    const lists = this.#removed === "both lists" ? current.slice(-1) : current;
    const answers = new Map<string, PeerAnswer>();
    for (const index of new Set(lists.flat())) {
      const peer = this.agents[index];
      if (peer === undefined || !peer.isUp || peer.group !== agent.group || peer.pausedUntil !== undefined) continue;
      answers.set(`${index}`, this.#answerOf(peer, agent));
    }
    const received = [...answers.values()];
    const names = lists.map((list) => list.map(String));
    if (received.includes("stop")) agent.isStopping = true;
    else if (received.includes("alive") || isExcused(names, answers)) agent.permit = this.#now;
  }

  #answerOf(peer: ModelAgent, asking: ModelAgent): PeerAnswer {
    const lease = this.#leaseOf(asking.index);
    const bootId = `${asking.booted}`;
    const fence = lease.armedBoot === asking.booted ? { fenceId: "fence", bootId } : undefined;
    return decideAnswer({
      nowMs: this.#now * 1_000,
      startedMs: peer.started * 1_000,
      lastSuccessMs: Number.isFinite(peer.lastSuccess) ? peer.lastSuccess * 1_000 : undefined,
      freshMs: seconds.fresh * 1_000,
      bootId,
      lease: this.#reaches(peer) ? { bootId: `${lease.boot}`, fence, hasTaint: true } : "unread",
    });
  }

  /** An agent that has read of the fence finds the taint on its Node. */
  #feed(agent: ModelAgent): void {
    if (this.#isStarved(agent)) {
      this.#reset(agent);
      return;
    }
    const verdict = decideFeeding({
      nowMs: this.#now * 1_000,
      permitMs: agent.permit * 1_000,
      permitLifeMs: seconds.permitLife * 1_000,
      isArmed: agent.isArmed,
      fence: agent.isStopping ? { fenceId: "fence", bootId: `${agent.booted}` } : undefined,
      isTainted: true,
      isLoop: false,
      watchdogMs: watchdogSeconds * 1_000,
      fedMs: agent.fed * 1_000,
    });
    if (verdict !== "feed") return;
    const left = seconds.permitLife - (this.#now - agent.permit);
    const pauseChance = agent === this.target ? this.#script.pauseChance(left) : 0.001;
    if (this.random() < pauseChance) agent.pausedUntil = this.#now + this.random() * watchdogSeconds;
    else agent.fed = this.#now;
  }

  #isStarved(agent: ModelAgent): boolean {
    return this.#now - agent.fed >= watchdogSeconds;
  }

  #reset(agent: ModelAgent): void {
    Object.assign(agent, { isUp: false, downSince: this.#now, pausedUntil: undefined });
  }

  /** One conditional write of the target's Lease, for the boot that it names, once the target has been silent for seconds. */
  #arm(): void {
    const lease = this.#leaseOf(this.target.index);
    if (this.isApiDown || this.#fence !== undefined || this.#now <= 20) return;
    if (this.#now - this.target.lastSuccess <= this.#quiet) return;
    lease.version++;
    lease.armedBoot = lease.boot;
    const list = this.#removed === "adopted list" ? lease.proposed : lease.list;
    this.#fence = { boot: lease.boot, mode: lease.mode, list };
    this.#knownSince = this.#now;
  }

  #observe(): void {
    const fence = this.#fence;
    if (fence === undefined) return;
    if (this.random() < 0.004) {
      // The process of the function is killed.
      this.#knownSince = undefined;
      this.#observations = [];
    }
    if (this.isApiDown || this.#now < this.#nextObservation) return;
    this.#nextObservation = this.#now + 1 + this.random() * 4;
    this.#knownSince ??= this.#now;
    if (this.#leaseOf(this.target.index).boot !== fence.boot) {
      this.#outcome = { isBroken: false, isEvacuated: false };
      return;
    }
    if (this.#decide(fence.mode, fence.list, this.#knownSince)) {
      const isBroken = this.target.isUp && this.target.booted === fence.boot;
      this.#outcome = { isBroken, isEvacuated: true };
    }
    const renewals = new Map(this.#leases.map((lease, index) => [`${index}`, lease.renewals]));
    this.#observations = [...this.#observations.slice(-19), { beganMs: this.#now * 1_000, renewals }];
  }

  #decide(mode: AgentMode, list: readonly number[], knownSince: number): boolean {
    const nowMs = this.#now * 1_000;
    const marginSeconds = 2;
    const shorter = { "T is L": 2 * watchdogSeconds + marginSeconds, "T is L + W + 2 s": watchdogSeconds };
    const cut = this.#removed === "T is L" || this.#removed === "T is L + W + 2 s" ? shorter[this.#removed] : 0;
    return (
      decideTime({
        beganMs: nowMs,
        endedMs: nowMs,
        armedMs: this.#removed === "known for T" ? Number.NEGATIVE_INFINITY : knownSince * 1_000,
        mode,
        isBootOfNode: true,
        permitLifeMs: (seconds.permitLife - cut) * 1_000,
        watchdogMs: watchdogSeconds * 1_000,
        isReporting: false,
        peers: list.map((index) => this.#peerSeen(index)),
        observations: this.#observations,
      }).kind === "stopped"
    );
  }

  #peerSeen(index: number): PeerSeen {
    const { contact, renewals } = this.#leaseOf(index);
    const seen = {
      name: `${index}`,
      hasListedKey: true,
      contactMs: contact * 1_000,
      renewals,
      freshMs: (seconds.fresh - seconds.answer) * 1_000,
    };
    if (this.#removed === "quorum") return { ...seen, contactMs: Number.MAX_VALUE, renewals: Number.MAX_VALUE };
    if (this.#removed === "two renewals") return { ...seen, renewals: renewals + 1 };
    return this.#removed === "any renewal" ? { ...seen, renewals: renewals + 2 } : seen;
  }

  #reaches(agent: ModelAgent): boolean {
    return agent.isUp && agent.group === 0 && !this.isApiDown;
  }

  #commit({ index, version, renewals, contact, boot, mode, list }: Renewal): boolean {
    const lease = this.#leaseOf(index);
    if (lease.version !== version) return false;
    Object.assign(lease, { version: version + 1, renewals, contact, boot, mode, list: list ?? lease.list });
    return true;
  }

  #leaseOf(index: number): ModelLease {
    const lease = this.#leases[index];
    if (lease === undefined) throw new Error(`there is no agent ${index}`);
    return lease;
  }
}

function randomOf(seed: number): Random {
  let state = seed;
  return () => {
    state = Math.imul(state ^ (state >>> 15), 1 | state);
    state = (state + Math.imul(state ^ (state >>> 7), 61 | state)) ^ state;
    return ((state ^ (state >>> 14)) >>> 0) / 4_294_967_296;
  };
}
