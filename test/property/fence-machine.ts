/** A machine of the simulated fences: boots, a watchdog, and the shipped agent in virtual time behind a network that fails. */
import { Agent } from "../../functions/fence-node/agent/agent.ts";
import type { BootHistory } from "../../functions/fence-node/agent/decide-boots.ts";
import type { LeaseAnnotations } from "../../functions/fence-node/agent/decide-renewal.ts";
import type { AgentApi, ApiAnswer, BootMemory, PeerRequests } from "../../functions/fence-node/agent/outside.ts";
import { PeerAnswers } from "../../functions/fence-node/agent/peer-answers.ts";
import { ClusterError } from "../../functions/shared/kubernetes/cluster.ts";
import type { VirtualTimeline } from "../fake-cluster/timeline.ts";
import type { World } from "../fake-cluster/world.ts";

/** Times of the agents, in the proportions that their settings demand: T is 34 s. */
export const watchdogMs = 6_000;
export const times = {
  renewEveryMs: 3_000,
  hosts: ["10.0.0.1"],
  peerPort: 9843,
  peerTimeoutMs: 1_000,
  drillEveryMs: 10_000,
  renewTimeoutMs: 1_000,
  freshMs: 12_000,
  permitMs: 20_000,
};
const tickMs = 1_000;
const bootMs = 10_000;
const kubeletMs = 2_000;
const fencing = "sluice-fencing";

export interface MachineWorld {
  readonly world: World;
  readonly timeline: VirtualTimeline;
  readonly random: () => number;
  readonly machines: readonly SimulatedMachine[];
  /** What a test takes away. */
  readonly removed: string | undefined;
  isApiDown: boolean;
}

export class SimulatedMachine {
  readonly name: string;
  readonly #of: MachineWorld;
  /** Machines of one group reach each other; those of group 0 reach the API server as well. */
  group = 0;
  /** It reaches the machines of its group, and not the API server. */
  isCutOff = false;
  isOn = false;
  bootId = "";
  /** Its writes are carried out late, or their answers are lost, this often. */
  faults = 0;
  /** How many its agents have sent to the API server. */
  requests = 0;
  #boots = 0;
  #bootedMs = 0;
  #process = 0;
  #memory: BootMemory | undefined;
  #history: BootHistory | undefined;
  #agent: Agent | undefined;
  #answers: PeerAnswers | undefined;
  #fedMs: number | undefined;

  constructor(name: string, of: MachineWorld) {
    this.name = name;
    this.#of = of;
  }

  get reachesApi(): boolean {
    return this.isOn && this.group === 0 && !this.isCutOff && !this.#of.isApiDown;
  }

  boot(): void {
    this.bootId = `boot-${this.name}-${++this.#boots}`;
    this.#bootedMs = this.#of.timeline.nowMs();
    this.#memory = undefined;
    this.isOn = true;
    this.startAgent();
    void this.#whileOf(
      this.#boots,
      () => this.#boots,
      kubeletMs,
      () => this.#postStatus(),
    );
  }

  /** Starts the agent, or starts it again in the same boot. */
  startAgent(): void {
    const process = ++this.#process;
    const clock = { nowMs: () => this.#of.timeline.nowMs() - this.#bootedMs + 1_000 };
    const api = this.#api();
    const agent = new Agent(
      { ...times, node: this.name },
      {
        bootId: this.bootId,
        clock,
        api,
        peers: this.#peers(),
        watchdog: this.#watchdog(process),
        store: {
          read: () => this.#memory,
          write: (memory) => (this.#isOf(process) ? this.#remember(memory) : undefined),
        },
        history: {
          read: () => this.#history,
          write: (history) => {
            this.#history = history;
          },
        },
        log: () => {},
      },
    );
    this.#agent = agent;
    const { renewTimeoutMs } = times;
    this.#answers = new PeerAnswers({
      ...{ clock, api, renewTimeoutMs, startedMs: agent.startedMs },
      freshMs: () => agent.freshMs,
      lastSuccessMs: () => agent.lastSuccessMs,
    });
    const now = () => (this.isOn ? this.#process : 0);
    void this.#whileOf(process, now, times.renewEveryMs, () => agent.renew());
    void this.#whileOf(process, now, times.renewEveryMs, () => agent.drill());
    void this.#whileOf(process, now, tickMs, async () => agent.tick());
  }

  #remember(memory: BootMemory): void {
    this.#memory = memory;
  }

  #isOf(process: number): boolean {
    return this.isOn && this.#process === process;
  }

  /** Again and again, as long as the machine or its agent is the same one. */
  async #whileOf(one: number, now: () => number, everyMs: number, act: () => Promise<unknown>): Promise<void> {
    await this.#sleep(this.#of.random() * everyMs);
    while (this.isOn && now() === one) {
      await act();
      await this.#sleep(everyMs);
    }
  }

  #sleep(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#of.timeline.after(ms, resolve);
    return promise;
  }

  reset(): void {
    this.isOn = false;
    this.#fedMs = undefined;
    this.#of.timeline.after(bootMs, () => this.boot());
  }

  #watchdog(process: number) {
    const feed = () => {
      if (!this.#isOf(process)) return;
      const fedMs = this.#of.timeline.nowMs();
      this.#fedMs = fedMs;
      this.#of.timeline.after(watchdogMs, () => {
        if (this.isOn && this.#fedMs === fedMs) this.reset();
      });
    };
    return {
      check: () => watchdogMs,
      isNoWayOut: () => false,
      open: feed,
      // The process may be paused after its check, for less time than the watchdog waits.
      feed: () => {
        const { random, timeline } = this.#of;
        const boot = this.#boots;
        if (random() > 0.02) feed();
        else
          timeline.after(random() * watchdogMs, () =>
            boot === this.#boots && this.#fedMs !== undefined ? feed() : undefined,
          );
      },
      disarm: () => {
        this.#fedMs = undefined;
      },
    };
  }

  /** The kubelet: it posts the boot, and that it is ready. */
  async #postStatus(): Promise<void> {
    if (!this.reachesApi) return;
    const { store } = this.#of.world;
    const key = { namespace: "", name: this.name };
    // A kubelet makes its Node only when it starts.
    const isThere = store.find("nodes", key) !== undefined;
    if (!isThere && this.#registered === this.bootId) return;
    if (!isThere) store.create("nodes", "", { metadata: { name: this.name } });
    this.#registered = this.bootId;
    const nodeInfo = { bootID: this.bootId, systemUUID: `machine-${this.name}` };
    store.patch("nodes", key, { status: { nodeInfo, ...readiness(true) } }, "status");
    const postedMs = this.#of.timeline.nowMs();
    this.lastPostMs = postedMs;
    this.#of.timeline.after(8_000, () => {
      if (this.lastPostMs !== postedMs || store.find("nodes", key) === undefined) return;
      store.patch("nodes", key, { status: readiness(false) }, "status");
    });
  }

  /** The boot whose kubelet has registered. */
  #registered = "";

  lastPostMs = 0;

  /** What a peer answers, if this machine reaches it. */
  async answer(from: SimulatedMachine, publicKey: string, node: string, bootId: string) {
    const isReached = this.isOn && from.isOn && this.group === from.group && this.#agent?.key.publicKey === publicKey;
    if (!isReached) return undefined;
    if (this.#of.removed === "A-honest-no-api") return { verdict: "no-api" } as const;
    const verdict = await this.#answers?.answer(node, bootId);
    return this.isOn && from.isOn && this.group === from.group ? verdict : undefined;
  }

  #peers(): PeerRequests {
    const peerOf = (name: string) => this.#of.machines.find((one) => one.name === name);
    const timed = <T>(timeoutMs: number, fallback: T, ask: () => Promise<T> | undefined): Promise<T> => {
      const { promise, resolve } = Promise.withResolvers<T>();
      this.#of.timeline.after(timeoutMs, () => resolve(fallback));
      this.#of.timeline.after(this.#of.random() * 200, () => void ask()?.then(resolve));
      return promise;
    };
    return {
      ask: ({ name, publicKey }, { node, bootId }, timeoutMs) =>
        timed(timeoutMs, undefined, () => peerOf(name)?.answer(this, publicKey, node, bootId)),
      drill: ({ name, publicKey }, timeoutMs) =>
        timed(timeoutMs, false, async () => {
          const peer = peerOf(name);
          return peer?.isOn === true && peer.group === this.group && peer.#agent?.key.publicKey === publicKey;
        }),
    };
  }

  #api(): AgentApi {
    const { store } = this.#of.world;
    const lease = (node: string) => ({ namespace: fencing, name: `agent-${node}` });
    const shown = (node: string) => leaseOf(store.get("leases", lease(node)));
    const node = (name: string) => store.get("nodes", { namespace: "", name });
    const hasTaint = (name: string) =>
      (node(name).spec?.taints ?? []).some(({ key }: { key: string }) => key === "sluice.dev/fence");
    return {
      readLease: (timeoutMs) => this.#call(timeoutMs, false, () => shown(this.name)),
      readLeaseOf: (name, timeoutMs) => this.#call(timeoutMs, false, () => shown(name)),
      readNodeTaint: (timeoutMs) => this.#call(timeoutMs, false, () => hasTaint(this.name)),
      readTaintOf: (name, timeoutMs) => this.#call(timeoutMs, false, () => hasTaint(name)),
      readOwnNode: (timeoutMs) => this.#call(timeoutMs, false, () => ({ isExcluded: false, isInMaintenance: false })),
      createLease: (annotations, timeoutMs) =>
        this.#call(timeoutMs, true, () =>
          leaseOf(store.create("leases", fencing, { metadata: { name: `agent-${this.name}`, annotations } })),
        ),
      patchLease: ({ uid, resourceVersion }, annotations, timeoutMs) =>
        this.#call(timeoutMs, true, () =>
          leaseOf(store.patch("leases", lease(this.name), { metadata: { uid, resourceVersion, annotations } })),
        ),
    };
  }

  /** A request that may be carried out long after it was given up, and whose answer may be lost. */
  #call<T>(timeoutMs: number, isWrite: boolean, act: () => T): Promise<ApiAnswer<T>> {
    const { timeline, random } = this.#of;
    this.requests++;
    const { promise, resolve } = Promise.withResolvers<ApiAnswer<T>>();
    timeline.after(timeoutMs, () => resolve({ status: 0, message: "no answer", value: undefined }));
    if (!this.reachesApi) return promise;
    const isLate = isWrite && random() < this.faults;
    timeline.after(isLate ? 1_000 + random() * 28_000 : random() * 200, () => {
      if (this.#of.isApiDown) return;
      const answer = answerOf(act);
      if (random() < this.faults) return;
      timeline.after(random() * 200, () => (this.reachesApi ? resolve(answer) : undefined));
    });
    return promise;
  }
}

const readiness = (isReady: boolean) => ({ conditions: [{ type: "Ready", status: isReady ? "True" : "Unknown" }] });

function leaseOf({ metadata }: { metadata: { uid: string; resourceVersion: string; annotations?: LeaseAnnotations } }) {
  const { uid, resourceVersion, annotations = {} } = metadata;
  return { uid, resourceVersion, annotations };
}

function answerOf<T>(act: () => T): ApiAnswer<T> {
  try {
    return { status: 200, message: "", value: act() };
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    return { status: error.code, message: error.message, value: undefined };
  }
}
