/** One fence in virtual time: the shipped function and the shipped agents of five machines, while partitions move. */
import assert from "node:assert/strict";
import { fenceNode } from "../../functions/fence-node/function.ts";
import type { FenceStrategy } from "../../functions/shared/annotations/fencing-deletion.ts";
import { createListReader } from "../../functions/shared/cache/listing.ts";
import type { Context } from "../../functions/shared/contract/context.ts";
import { createMemory } from "../../functions/shared/contract/memory.ts";
import { silentReporter } from "../../functions/shared/contract/reporter.ts";
import { ClusterError } from "../../functions/shared/kubernetes/cluster.ts";
import { type ClusterCall, wrapCalls } from "../../functions/shared/kubernetes/wrap-cluster.ts";
import { protocol } from "../../functions/shared/ledger/protocol.ts";
import { VirtualTimeline } from "../fake-cluster/timeline.ts";
import { createWorld } from "../fake-cluster/world.ts";
import { createWorldCluster } from "../fake-cluster/world-cluster.ts";
import { type MachineWorld, SimulatedMachine } from "./fence-machine.ts";
import { FenceOracle, foreign } from "./fence-oracle.ts";
import { falseMemory, type RemovedOfFence, withoutRule } from "./fence-removals.ts";

export interface FenceOutcome {
  /** The first promise that was broken, with its id. */
  readonly broken: string | undefined;
  readonly evidence: string | undefined;
  /** The Node was deleted for the fence. */
  readonly isDeleted: boolean;
  /** The fence has ended after the partitions. */
  readonly hasEnded: boolean;
  /** How often a process of the function was killed. */
  readonly kills: number;
}

/** What happens to machines or to the API server. */
export interface FenceEvent {
  readonly atMs: number;
  act(): void;
}

const fencing = "sluice-fencing";
const killed = new Error("the process was killed");
const [armedAtMs, peaceAtMs, endsAtMs] = [60_000, 240_000, 600_000];

export class FenceWorld implements MachineWorld {
  readonly timeline = new VirtualTimeline();
  readonly world = createWorld({ timeline: this.timeline });
  readonly random: () => number;
  readonly machines: readonly SimulatedMachine[];
  readonly removed: RemovedOfFence | undefined;
  isApiDown = false;
  readonly #strategy: FenceStrategy;
  readonly #startMs = this.timeline.nowMs();
  readonly #oracle: FenceOracle;
  #context: Context;
  #kills = 0;

  /** @param count of the machines. Default: three to six, by the seed */
  constructor(seed: number, removed?: RemovedOfFence, count?: number) {
    this.random = randomOf(seed);
    this.removed = removed;
    this.#strategy = seed % 2 === 0 ? "out-of-service" : "node-deletion";
    const drawn = 3 + Math.floor(this.random() * 4);
    this.machines = Array.from({ length: count ?? drawn }, (_, at) => new SimulatedMachine(`node-${at}`, this));
    for (const { name } of this.machines) this.world.store.create("nodes", "", { metadata: { name } });
    const { name } = this.#target;
    const { labels, annotations, taint } = foreign;
    const body = { metadata: { labels, annotations }, spec: { taints: [taint] } };
    this.world.store.patch("nodes", { namespace: "", name }, body);
    const runningBoot = () => (this.#target.isOn ? this.#target.bootId : undefined);
    this.#oracle = new FenceOracle(this.world, fencing, { name, runningBoot });
    this.#context = this.#newProcess();
  }

  get #target(): SimulatedMachine {
    const [first] = this.machines;
    assert.ok(first);
    return first;
  }

  async run(): Promise<FenceOutcome> {
    for (const machine of this.machines) machine.boot();
    void this.#again(3_000, () => this.#reconcile(this.#target.name));
    void this.#again(10_000, () => this.#tick(this.#target.name));
    this.timeline.after(armedAtMs, () => this.#beginTroubles());
    this.timeline.after(peaceAtMs, () => this.#makePeace());
    const { name } = this.#target;
    const isThere = () => this.world.store.find("nodes", { namespace: "", name }) !== undefined;
    const hasEnded = () => this.#nowMs > peaceAtMs + 30_000 && this.#record() === undefined && isThere();
    await this.timeline.run(() => this.#oracle.broken !== undefined || hasEnded() || this.#nowMs > endsAtMs);
    const { broken, evidence, isDeleted } = this.#oracle;
    return { broken, evidence, isDeleted, hasEnded: hasEnded(), kills: this.#kills };
  }

  /**
   * Nothing is marked for so long. The API server is away for some seconds every half an hour, an agent is killed every hour,
   * and one request of fifty is lost or late. Resolves to the modes of all agents in the end.
   */
  async liveQuietly(forMs: number): Promise<readonly (string | undefined)[]> {
    const { random } = this;
    for (const machine of this.machines) {
      machine.faults = 0.02;
      machine.boot();
    }
    void this.#again(10_000, () => this.#tick(undefined));
    void this.#every(1_800_000, () => {
      this.isApiDown = true;
      this.timeline.after(random() * 8_000, () => this.#makePeace(0.02));
    });
    void this.#every(3_600_000, () => this.machines[Math.floor(random() * this.machines.length)]?.startAgent());
    await this.timeline.run(() => this.#nowMs > forMs);
    return this.modes();
  }

  /** Nothing is marked for so long, and each event happens at its time. All times are since the start. */
  async liveThrough(forMs: number, events: readonly FenceEvent[]): Promise<void> {
    for (const machine of this.machines) machine.boot();
    void this.#again(10_000, () => this.#tick(undefined));
    for (const { atMs, act } of events) this.timeline.after(atMs, act);
    await this.timeline.run(() => this.#nowMs > forMs);
  }

  /** The modes of all agents, as their Leases have them. */
  modes(): readonly (string | undefined)[] {
    return this.machines.map(({ name }) => {
      const lease = this.world.store.find("leases", { namespace: fencing, name: `agent-${name}` });
      return lease?.metadata.annotations?.["sluice.dev/agent-mode"];
    });
  }

  get #nowMs(): number {
    return this.timeline.nowMs() - this.#startMs;
  }

  #record() {
    return this.world.store.find("leases", { namespace: fencing, name: `fence-${this.#target.name}` });
  }

  /** A process of the function, with an empty memory. It is killed after a write of every fifty. */
  #newProcess(): Context {
    const name = this.#target.name;
    const fenceId = () => this.#record()?.metadata.annotations?.["sluice.dev/fence-id"] ?? "";
    const pause = () => this.#sleep(this.random() * 30_000);
    const falsely = withoutRule(this.removed, { target: name, fenceId, pause });
    const cluster = wrapCalls(createWorldCluster(this.world), async (call, send) => {
      const answer = await falsely(call, () => this.#send(call, send));
      if (call.writes && this.random() < 0.02) throw killed;
      return answer;
    });
    const cache = createListReader(cluster, undefined);
    const remember = createMemory();
    const memoryOf: Context["memoryOf"] = (key) => falseMemory(this.removed, remember(key));
    const common = { reporter: silentReporter, mode: "act", namespaces: undefined, memoryOf } as const;
    // In these partitions most nodes are not Ready, and the brake would keep the fence from being armed among them.
    return { cluster, cache, protocol, ...common, settings: { fenceStormPercent: 100 } };
  }

  async #send({ verb, resource, writes }: ClusterCall, send: () => Promise<unknown>): Promise<unknown> {
    if (writes && this.isApiDown) throw new ClusterError({ code: 0, reason: "Down", message: "down", verb, resource });
    return send();
  }

  #sleep(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.timeline.after(ms, resolve);
    return promise;
  }

  #again(everyMs: number, act: () => Promise<unknown>): Promise<never> {
    return this.#every(everyMs, async () => (this.isApiDown ? undefined : act()));
  }

  async #every(everyMs: number, act: () => unknown): Promise<never> {
    for (;;) {
      await this.#sleep(everyMs * (0.5 + this.random()));
      await act();
    }
  }

  async #reconcile(name: string): Promise<void> {
    const key = { resource: "nodes", namespace: "", name } as const;
    try {
      await fenceNode.reconcile(this.#context, key, { sweep: false });
    } catch (error) {
      if (error !== killed && !(error instanceof ClusterError)) throw error;
      if (error !== killed) return;
      // Another process begins to count.
      this.#context = this.#newProcess();
      this.#kills++;
    }
  }

  async #tick(except: string | undefined): Promise<void> {
    const due = await fenceNode.listKeys(this.#context, undefined);
    for (const { name } of due) if (name !== except) await this.#reconcile(name);
  }

  /** The target is cut off, alone or with some of its peers, and is marked; then the network changes again and again. */
  #beginTroubles(): void {
    const { random } = this;
    const faults = random() < 0.5 ? 0 : random() * 0.15;
    for (const machine of this.machines) machine.faults = faults;
    const share = random();
    for (const machine of this.machines) machine.group = random() < share ? 1 : 0;
    this.#target.group = random() < 0.3 ? 0 : 1;
    this.#target.isCutOff = this.#target.group === 0;
    this.timeline.after(random() * (random() < 0.5 ? 3_000 : 20_000), () => {
      const annotations = { "sluice.dev/unhealthy": "silent", "sluice.dev/fence-strategy": this.#strategy };
      const body = { metadata: { annotations } };
      this.world.store.patch("nodes", { namespace: "", name: this.#target.name }, body);
    });
    for (let atMs = random() * 30_000; atMs < peaceAtMs - armedAtMs; atMs += 5_000 + random() * 40_000) {
      this.timeline.after(atMs, () => this.#disturb());
    }
  }

  #disturb(): void {
    const { random } = this;
    if (this.#nowMs > peaceAtMs) return;
    const machine = this.machines[Math.floor(random() * this.machines.length)];
    const kind = random();
    if (machine === undefined) return;
    if (kind < 0.4) machine.group = Math.floor(random() * 3);
    else if (kind < 0.5) machine.isCutOff = !machine.isCutOff;
    else if (kind < 0.6) this.isApiDown = !this.isApiDown;
    else if (kind < 0.75 && machine.isOn) machine.startAgent();
    else if (kind < 0.8 && machine !== this.#target && machine.isOn) machine.reset();
    else Object.assign(machine, { group: machine === this.#target ? 1 : 0, isCutOff: false });
  }

  #makePeace(faults = 0): void {
    this.isApiDown = false;
    for (const machine of this.machines) Object.assign(machine, { group: 0, isCutOff: false, faults });
  }
}

function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = Math.imul(state ^ (state >>> 15), 1 | state);
    state = (state + Math.imul(state ^ (state >>> 7), 61 | state)) ^ state;
    return ((state ^ (state >>> 14)) >>> 0) / 4_294_967_296;
  };
}
