/**
 * Marked nodes, and two processes of `fence-node` that are killed at any write, in virtual time. Fences are counted by their
 * effects.
 */
import { fenceNode } from "../../functions/fence-node/function.ts";
import { createListReader } from "../../functions/shared/cache/listing.ts";
import type { Context } from "../../functions/shared/contract/context.ts";
import { createMemory } from "../../functions/shared/contract/memory.ts";
import { silentReporter } from "../../functions/shared/contract/reporter.ts";
import { ClusterError } from "../../functions/shared/kubernetes/cluster.ts";
import { type ClusterCall, wrapCalls } from "../../functions/shared/kubernetes/wrap-cluster.ts";
import { protocol } from "../../functions/shared/ledger/protocol.ts";
import { type Random, seededRandom } from "../fake-cluster/random.ts";
import { VirtualTimeline } from "../fake-cluster/timeline.ts";
import { createWorld } from "../fake-cluster/world.ts";
import { createWorldCluster } from "../fake-cluster/world-cluster.ts";

/** What a run takes away: `condition` lets a slot be written over another version of the Lease, `budget` counts no slot. */
export type RemovedOfSlots = "condition" | "budget";

export interface DrawnNodes {
  readonly seed: number;
  readonly most: number;
  /** How long each node takes to reset itself once it is armed, in milliseconds; undefined: it is dead. */
  readonly resetMs: readonly (number | undefined)[];
}

const fencing = "sluice-fencing";
const slotsName = "fence-slots";
const slotLastsMs = 600_000;
const endsAfterMs = 1_500_000;
const killed = new Error("the process was killed");

type Texts = Readonly<Record<string, string | undefined>>;

export class SlotsWorld {
  readonly #timeline = new VirtualTimeline();
  readonly #world = createWorld({ timeline: this.#timeline });
  readonly #startMs = this.#timeline.nowMs();
  readonly #drawn: DrawnNodes;
  readonly #removed: RemovedOfSlots | undefined;
  readonly #names: readonly string[];
  readonly #random: Random;
  /** When each fence was seen in the Lease first, by its id. */
  readonly #takenMs = new Map<string, number>();
  /** The most fences that went on at once. */
  mostAtOnce = 0;
  /** How often a process was killed. */
  kills = 0;

  constructor(drawn: DrawnNodes, removed?: RemovedOfSlots) {
    this.#drawn = drawn;
    this.#removed = removed;
    this.#random = seededRandom(drawn.seed);
    this.#names = drawn.resetMs.map((_, at) => `node-${at}`);
  }

  /** Resolves to the nodes whose fences have not ended, and what is left in the Lease of the slots. */
  async run() {
    const { store } = this.#world;
    for (const name of this.#names) {
      store.create("nodes", "", { metadata: { name } });
      this.#boot(name, 1);
      const annotations = { "sluice.dev/agent-mode": "explicit-only", "sluice.dev/agent-boot-id": `${name}-1` };
      store.create("leases", fencing, { metadata: { name: `agent-${name}`, annotations } });
    }
    for (const [at, name] of this.#names.entries()) this.#later(this.#random() * 60_000, () => this.#mark(name, at));
    for (const process of [0, 1]) for (const name of this.#names) void this.#serve(process, name);
    await this.#timeline.run(() => this.#timeline.nowMs() - this.#startMs > endsAfterMs);
    const open = this.#names.filter((name) => store.find("leases", { namespace: fencing, name: `fence-${name}` }));
    return { open, slots: this.#slots().map(({ node }) => node) };
  }

  #later(ms: number, act: () => void): void {
    this.#timeline.after(ms, act);
  }

  #boot(name: string, boot: number): void {
    const nodeInfo = { bootID: `${name}-${boot}`, systemUUID: name };
    const status = { nodeInfo, conditions: [{ type: "Ready", status: "True" }] };
    this.#world.store.patch("nodes", { namespace: "", name }, { status }, "status");
  }

  #mark(name: string, at: number): void {
    const body = { metadata: { annotations: { "sluice.dev/unhealthy": "silent" } } };
    this.#world.store.patch("nodes", { namespace: "", name }, body);
    const resetMs = this.#drawn.resetMs[at];
    if (resetMs !== undefined) this.#resetOnceArmed(name, resetMs);
  }

  #resetOnceArmed(name: string, resetMs: number): void {
    const agent = this.#world.store.get("leases", { namespace: fencing, name: `agent-${name}` });
    const isArmed = (agent.metadata.annotations as Texts)["sluice.dev/fence-armed"] !== undefined;
    if (isArmed) this.#later(resetMs, () => this.#boot(name, 2));
    else this.#later(1_000, () => this.#resetOnceArmed(name, resetMs));
  }

  /** One process reconciles a node again and again. Another one takes its place when it is killed. */
  async #serve(process: number, name: string): Promise<never> {
    for (let context = this.#newProcess(); ; ) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#later((5_000 + 10_000 * process) * (0.5 + this.#random()), resolve);
      await promise;
      try {
        await fenceNode.reconcile(context, { resource: "nodes", namespace: "", name }, { sweep: false });
      } catch (error) {
        if (error !== killed && !(error instanceof ClusterError)) throw error;
        context = this.#newProcess();
        this.kills++;
      }
    }
  }

  #newProcess(): Context {
    const latencyMs = () => 1 + this.#random() * 1_000;
    const cluster = wrapCalls(createWorldCluster(this.#world, { latencyMs }), (call, send) => this.#call(call, send));
    const fenceMaxConcurrent = this.#removed === "budget" ? 100 : this.#drawn.most;
    const settings = { fenceStormPercent: 100, fenceMostPerHour: 20, fenceMaxConcurrent };
    const common = { reporter: silentReporter, mode: "act", namespaces: undefined, memoryOf: createMemory() } as const;
    return { cluster, cache: createListReader(cluster, undefined), protocol, ...common, settings };
  }

  async #call({ verb, given, writes }: ClusterCall, send: () => Promise<unknown>): Promise<unknown> {
    if (writes && this.#random() < 0.01) throw killed;
    const [, key, body] = given as [string, { name?: string }, { metadata?: { resourceVersion?: string } }];
    if (this.#removed === "condition" && verb === "patch" && key.name === slotsName)
      delete body.metadata?.resourceVersion;
    const answer = await send();
    if (writes) this.#count();
    if (writes && this.#random() < 0.01) throw killed;
    return answer;
  }

  /** A fence goes on from its first write to the Node until there is evidence, and for 10 minutes at most. */
  #count(): void {
    const nowMs = this.#timeline.nowMs();
    for (const { fenceId } of this.#slots()) if (!this.#takenMs.has(fenceId)) this.#takenMs.set(fenceId, nowMs);
    const goesOn = this.#names.filter((name) => {
      const record = this.#world.store.find("leases", { namespace: fencing, name: `fence-${name}` });
      const texts: Texts = record?.metadata.annotations ?? {};
      const { taints = [] } = this.#world.store.get("nodes", { namespace: "", name }).spec ?? {};
      const isBefore = ["claimed", "armed"].includes(texts["sluice.dev/fence-phase"] ?? "");
      const takenMs = this.#takenMs.get(texts["sluice.dev/fence-id"] ?? "") ?? Number.NEGATIVE_INFINITY;
      return isBefore && taints.length > 0 && nowMs - takenMs < slotLastsMs;
    });
    const unexpired = this.#slots().filter(({ takenMs }) => nowMs - takenMs < slotLastsMs);
    this.mostAtOnce = Math.max(this.mostAtOnce, goesOn.length, unexpired.length);
  }

  #slots(): readonly { readonly fenceId: string; readonly node: string; readonly takenMs: number }[] {
    const lease = this.#world.store.find("leases", { namespace: fencing, name: slotsName });
    return JSON.parse(lease?.metadata.annotations?.["sluice.dev/fence-slots"] ?? '{"slots":[]}').slots;
  }
}
