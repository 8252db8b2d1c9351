/** One fence in virtual time: the shipped function and the shipped agents of five machines, while partitions move. */
import assert from "node:assert/strict";
import { fenceNode } from "../../functions/fence-node/function.ts";
import type { FenceStrategy } from "../../functions/shared/annotations/fencing-deletion.ts";
import { createListReader } from "../../functions/shared/cache/listing.ts";
import type { Context } from "../../functions/shared/contract/context.ts";
import { createMemory } from "../../functions/shared/contract/memory.ts";
import { silentReporter } from "../../functions/shared/contract/reporter.ts";
import { type Cluster, ClusterError, type LeaseObject } from "../../functions/shared/kubernetes/cluster.ts";
import { wrapCluster } from "../../functions/shared/kubernetes/wrap-cluster.ts";
import { protocol } from "../../functions/shared/ledger/protocol.ts";
import { VirtualTimeline } from "../fake-cluster/timeline.ts";
import { createWorld } from "../fake-cluster/world.ts";
import { createWorldCluster } from "../fake-cluster/world-cluster.ts";
import { type MachineWorld, SimulatedMachine } from "./fence-machine.ts";

/** What a run takes away from the rules. */
export type RemovedOfFence = "honest no-api" | "quorum" | "T";

export interface FenceOutcome {
  /** When the pods could start elsewhere the fenced boot still ran. */
  readonly isBroken: boolean;
  readonly evidence: string | undefined;
  /** The Node was deleted for the fence. */
  readonly isDeleted: boolean;
  /** Nothing of the fence is left in the end, after the partitions have ended. */
  readonly isClean: boolean;
}

const fencing = "sluice-fencing";
const outOfService = "node.kubernetes.io/out-of-service";
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
  #context: Context;
  #isBroken = false;
  #evidence: string | undefined;
  #isDeleted = false;
  #reads = 0;

  constructor(seed: number, removed?: RemovedOfFence) {
    this.random = randomOf(seed);
    this.removed = removed;
    this.#strategy = seed % 2 === 0 ? "out-of-service" : "node-deletion";
    const count = 3 + Math.floor(this.random() * 4);
    this.machines = Array.from({ length: count }, (_, at) => new SimulatedMachine(`node-${at}`, this));
    for (const { name } of this.machines) this.world.store.create("nodes", "", { metadata: { name } });
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
    void this.#again(10_000, () => this.#tick());
    this.timeline.after(armedAtMs, () => this.#beginTroubles());
    this.timeline.after(peaceAtMs, () => this.#makePeace());
    const isThere = () => this.world.store.find("nodes", { namespace: "", name: this.#target.name }) !== undefined;
    const isClean = () => this.#nowMs > peaceAtMs + 30_000 && this.#record() === undefined && isThere();
    await this.timeline.run(() => this.#isBroken || isClean() || this.#nowMs > endsAtMs);
    return { isBroken: this.#isBroken, evidence: this.#evidence, isDeleted: this.#isDeleted, isClean: isClean() };
  }

  get #nowMs(): number {
    return this.timeline.nowMs() - this.#startMs;
  }

  #record() {
    return this.world.store.find("leases", { namespace: fencing, name: `fence-${this.#target.name}` });
  }

  /** A process of the function, with an empty memory. */
  #newProcess(): Context {
    const cluster = this.#watched(createWorldCluster(this.world));
    const cache = createListReader(cluster, undefined);
    const common = { reporter: silentReporter, mode: "act", namespaces: undefined, memoryOf: createMemory() } as const;
    // In these partitions most nodes are not Ready, and the brake would keep the fence from being armed among them.
    return { cluster, cache, protocol, ...common, settings: { fenceStormPercent: 100 } };
  }

  /** At the write that lets the pods start elsewhere, the fenced boot must be over. */
  #watched(cluster: Cluster): Cluster {
    return wrapCluster(cluster, {
      get: async (resource, key, options) => {
        const object = await cluster.get(resource, key, options);
        return resource === "leases" ? (this.#forged(object as LeaseObject) as typeof object) : object;
      },
      patch: async (resource, key, body, options) => {
        if (this.isApiDown)
          throw new ClusterError({ code: 0, reason: "Down", message: "down", verb: "patch", resource });
        const after = await cluster.patch(resource, key, body, options);
        const { spec } = body as { spec?: { taints?: readonly { key: string }[] } };
        if (spec?.taints?.some((taint) => taint.key === outOfService)) this.#check();
        return after;
      },
      delete: async (resource, ...given) => {
        await cluster.delete(resource, ...given);
        if (resource !== "nodes") return;
        this.#isDeleted = true;
        this.#check();
      },
    });
  }

  /** A Lease as the function sees it without a rule. */
  #forged(lease: LeaseObject): LeaseObject {
    const isTarget = lease.metadata.name === `agent-${this.#target.name}`;
    const short = { "sluice.dev/agent-permit-seconds": "1", "sluice.dev/agent-watchdog-seconds": "1" };
    const eager = { "sluice.dev/agent-contact-seconds": "3600", "sluice.dev/agent-renewals": String(++this.#reads) };
    const texts = this.removed === "T" && isTarget ? short : this.removed === "quorum" && !isTarget ? eager : {};
    return { ...lease, metadata: { ...lease.metadata, annotations: { ...lease.metadata.annotations, ...texts } } };
  }

  #check(): void {
    const annotations = this.#record()?.metadata.annotations ?? {};
    this.#evidence = annotations["sluice.dev/fence-evidence"];
    const { isOn, bootId } = this.#target;
    if (isOn && bootId === annotations["sluice.dev/fence-boot-id"]) this.#isBroken = true;
  }

  async #again(everyMs: number, act: () => Promise<unknown>): Promise<never> {
    for (;;) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.timeline.after(everyMs * (0.5 + this.random()), resolve);
      await promise;
      if (!this.isApiDown) await act();
    }
  }

  async #reconcile(name: string): Promise<void> {
    // The process is killed at times, and another one begins to count.
    if (this.random() < 0.01) this.#context = this.#newProcess();
    const key = { resource: "nodes", namespace: "", name } as const;
    try {
      await fenceNode.reconcile(this.#context, key, { sweep: false });
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
    }
  }

  async #tick(): Promise<void> {
    const due = await fenceNode.listKeys(this.#context, undefined);
    for (const { name } of due) if (name !== this.#target.name) await this.#reconcile(name);
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

  #makePeace(): void {
    this.isApiDown = false;
    for (const machine of this.machines) Object.assign(machine, { group: 0, isCutOff: false, faults: 0 });
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
