/**
 * The fence of a silent node in virtual time, in clusters of any size: the shipped function on the fake cluster. Agents and
 * kubelets are played: each agent renews its Lease as often as by default, and adopts the peers that the function proposes.
 */
import { createPeerKey } from "../../../functions/fence-node/agent/peer-key.ts";
import { agentSettings } from "../../../functions/fence-node/agent/settings.ts";
import { fenceNode } from "../../../functions/fence-node/function.ts";
import { createListReader } from "../../../functions/shared/cache/listing.ts";
import type { Context } from "../../../functions/shared/contract/context.ts";
import { createMemory } from "../../../functions/shared/contract/memory.ts";
import { silentReporter } from "../../../functions/shared/contract/reporter.ts";
import { protocol } from "../../../functions/shared/ledger/protocol.ts";
import { VirtualTimeline } from "../../fake-cluster/timeline.ts";
import { createWorld } from "../../fake-cluster/world.ts";
import { createWorldCluster } from "../../fake-cluster/world-cluster.ts";

const fencing = "sluice-fencing";
const key = (name: string) => `sluice.dev/${name}`;

const defaultMs = ({ parse, fallback }: { readonly fallback: string; parse(text: string): number | undefined }) =>
  parse(fallback) ?? Number.NaN;
const renewEveryMs = defaultMs(agentSettings.renewEveryMs);
/** As a Lease names them. */
const permitSeconds = defaultMs(agentSettings.permitMs) / 1_000;
const freshSeconds = (defaultMs(agentSettings.freshMs) - defaultMs(agentSettings.renewTimeoutMs)) / 1_000;

/** Of the function. */
const tickEveryMs = (fenceNode.schedule?.everySeconds ?? Number.NaN) * 1_000;
/** By Kubernetes: the grace period of 50 s, which it checks every 5 s. */
const unknownAfterMs = 55_000;
/** The agents have their peers by then. */
const cutAtMs = 30_000;
const givenUpMs = 400_000;

export interface SimulatedFence {
  readonly nodes: number;
  /** Peers of the fenced node. */
  readonly peers: number;
  readonly markToArmedMs: number;
  readonly armedToEvidenceMs: number;
  readonly markToTaintMs: number;
}

/**
 * Cuts one node off, and marks it once its Node is Unknown.
 *
 * @param nodes of the cluster, each with an agent
 * @param watchdogSeconds of each of them
 * @throws Error if the fence does not get so far
 */
export async function simulateFence(nodes: number, watchdogSeconds: number): Promise<SimulatedFence> {
  return new SimulatedCluster(nodes, watchdogSeconds).run();
}

class SimulatedCluster {
  readonly #timeline = new VirtualTimeline();
  readonly #world = createWorld({ timeline: this.#timeline });
  readonly #context: Context;
  readonly #names: readonly string[];
  readonly #target = "node-1";
  readonly #startMs = this.#timeline.nowMs();
  #isCut = false;
  #renewals = 0;
  /** Virtual times. */
  readonly #moments: { marked?: number; armed?: number; evidence?: number; tainted?: number } = {};

  constructor(nodes: number, watchdogSeconds: number) {
    const cluster = createWorldCluster(this.#world);
    const common = { reporter: silentReporter, mode: "act", namespaces: undefined, memoryOf: createMemory() } as const;
    this.#context = { cluster, cache: createListReader(cluster, undefined), protocol, ...common, settings: {} };
    this.#names = Array.from({ length: nodes }, (_, at) => `node-${at + 1}`);
    for (const [at, name] of this.#names.entries()) this.#addNode(name, at, watchdogSeconds);
  }

  #addNode(name: string, at: number, watchdogSeconds: number): void {
    const { store } = this.#world;
    const labels = { "topology.kubernetes.io/zone": `zone-${at % 3}` };
    store.create("nodes", "", { metadata: { name, labels } });
    const nodeInfo = { bootID: `boot-of-${name}`, systemUUID: `machine-${name}` };
    store.patch("nodes", { namespace: "", name }, { status: { nodeInfo, ...readiness("True") } }, "status");
    const annotations = {
      [key("agent-mode")]: "explicit-only",
      [key("agent-boot-id")]: nodeInfo.bootID,
      [key("agent-permit-seconds")]: String(permitSeconds),
      [key("agent-watchdog-seconds")]: String(watchdogSeconds),
      [key("agent-fresh-seconds")]: String(freshSeconds),
      [key("agent-key")]: createPeerKey().publicKey,
      [key("agent-address")]: "10.0.0.1:9843",
    };
    store.create("leases", fencing, { metadata: { name: `agent-${name}`, annotations } });
  }

  async run(): Promise<SimulatedFence> {
    void this.#again(renewEveryMs, async () => this.#renewAll());
    void this.#again(tickEveryMs, async () => this.#reconcileDue());
    this.#timeline.after(cutAtMs, () => {
      this.#isCut = true;
    });
    this.#timeline.after(cutAtMs + unknownAfterMs, () => void this.#mark());
    await this.#timeline.run(() => this.#observe() || this.#nowMs > givenUpMs);
    const { marked, armed, evidence, tainted } = this.#moments;
    if (marked === undefined || armed === undefined || evidence === undefined || tainted === undefined)
      throw new Error(`the simulated fence among ${this.#names.length} nodes did not end: ${this.#recordText()}`);
    return {
      nodes: this.#names.length,
      peers: (this.#textsOf(`agent-${this.#target}`)[key("agent-peers")] ?? "").split(" ").length,
      markToArmedMs: armed - marked,
      armedToEvidenceMs: evidence - armed,
      markToTaintMs: tainted - marked,
    };
  }

  get #nowMs(): number {
    return this.#timeline.nowMs() - this.#startMs;
  }

  async #again(everyMs: number, act: () => Promise<unknown>): Promise<never> {
    for (;;) {
      await act();
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#timeline.after(everyMs, resolve);
      await promise;
    }
  }

  #textsOf(lease: string): Readonly<Record<string, string>> {
    const found = this.#world.store.find("leases", { namespace: fencing, name: lease });
    return found?.metadata.annotations ?? {};
  }

  #recordText(): string {
    return JSON.stringify(this.#textsOf(`fence-${this.#target}`));
  }

  #renewAll(): void {
    this.#renewals++;
    const contact = { [key("agent-contact-seconds")]: String(Math.round(this.#nowMs / 1_000)) };
    for (const name of this.#names) {
      if (name === this.#target && this.#isCut) continue;
      const lease = { namespace: fencing, name: `agent-${name}` };
      const proposed = this.#textsOf(lease.name)[key("agent-peers-proposed")];
      const adopted = proposed === undefined ? {} : { [key("agent-peers")]: proposed, [key("agent-mode")]: "armed" };
      const annotations = { [key("agent-renewals")]: String(this.#renewals), ...contact, ...adopted };
      this.#world.store.patch("leases", lease, { metadata: { annotations } });
    }
  }

  async #reconcileDue(): Promise<void> {
    for (const { name } of await fenceNode.listKeys(this.#context, undefined)) {
      // Timers of the fence reconcile its node once it is marked.
      if (name !== this.#target || this.#moments.marked === undefined) await this.#reconcile(name);
    }
  }

  #reconcile(name: string) {
    return fenceNode.reconcile(this.#context, { resource: "nodes", namespace: "", name }, { sweep: false });
  }

  async #mark(): Promise<void> {
    const { store } = this.#world;
    const node = { namespace: "", name: this.#target };
    store.patch("nodes", node, { status: readiness("Unknown") }, "status");
    store.patch("nodes", node, { metadata: { annotations: { [key("unhealthy")]: "silent" } } });
    this.#moments.marked = this.#nowMs;
    for (;;) {
      const { requeueAfterMs = tickEveryMs } = await this.#reconcile(this.#target);
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#timeline.after(requeueAfterMs, resolve);
      await promise;
    }
  }

  /** Notes what has come. True once the pods may go. */
  #observe(): boolean {
    const moments = this.#moments;
    if (this.#textsOf(`agent-${this.#target}`)[key("fence-armed")] !== undefined) moments.armed ??= this.#nowMs;
    if (this.#textsOf(`fence-${this.#target}`)[key("fence-evidence")] === "time") moments.evidence ??= this.#nowMs;
    const taints = this.#world.store.get("nodes", { namespace: "", name: this.#target }).spec?.taints ?? [];
    const isTainted = taints.some((taint: { key: string }) => taint.key === "node.kubernetes.io/out-of-service");
    if (isTainted) moments.tainted ??= this.#nowMs;
    return isTainted;
  }
}

const readiness = (status: "True" | "Unknown") => ({ conditions: [{ type: "Ready", status }] });
