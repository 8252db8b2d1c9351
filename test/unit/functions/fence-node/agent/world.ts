/** An agent without a machine: its clock, its API server and its watchdog are played. */
import { Agent } from "../../../../../functions/fence-node/agent/agent.ts";
import type { BootHistory } from "../../../../../functions/fence-node/agent/decide-boots.ts";
import type { ExplicitOnlyReason, OwnNode } from "../../../../../functions/fence-node/agent/decide-mode.ts";
import type { LeaseAnnotations } from "../../../../../functions/fence-node/agent/decide-renewal.ts";
import type {
  AgentLease,
  ApiAnswer,
  BootMemory,
  PeerVerdict,
} from "../../../../../functions/fence-node/agent/outside.ts";
import { createPeerKey } from "../../../../../functions/fence-node/agent/peer-key.ts";
import type { AgentTimes } from "../../../../../functions/fence-node/agent/settings.ts";
import { fingerprintOf } from "../../../../../functions/fence-node/fingerprint.ts";

export const bootId = "11111111-1111-4111-8111-111111111111";
export const otherBootId = "22222222-2222-4222-8222-222222222222";
export const fenceId = "33333333-3333-4333-8333-333333333333";
export const armed = `${fenceId} ${bootId}`;

export const key = (name: string) => `sluice.dev/${name}`;

/** W, in milliseconds. */
export const watchdogMs = 10_000;
export const times = {
  node: "node-1",
  hosts: ["10.0.0.1"],
  peerPort: 9843,
  peerTimeoutMs: 4_000,
  drillEveryMs: 60_000,
  renewTimeoutMs: 3_000,
  freshMs: 20_000,
  permitMs: 40_000,
};

type Request = "read" | "create" | "patch" | "node" | "own" | "other";

export class World {
  nowMs = 1_000;
  lease: AgentLease | undefined;
  isTainted = false;
  /** Statuses that requests get in the place of an answer; 0: none comes, and the time is over. */
  readonly refused: Partial<Record<Request, number>> = {};
  readonly requests: Request[] = [];
  readonly written: LeaseAnnotations[] = [];
  /** Runs before a request is carried out. */
  before: ((request: Request) => void) | undefined;
  memory: BootMemory | undefined;
  /** What the device was sent, `o` for its opening. */
  device = "";
  time: number | ExplicitOnlyReason = watchdogMs;
  openError: string | undefined;
  /** The code with which the device refuses each byte. */
  writeError: string | undefined;
  isNoWayOut = false;
  resets = 0;
  resetError: string | undefined;
  readonly logged: string[] = [];
  history: BootHistory | undefined;
  /** Each write of the history that outlasts a reset, with what the device had got by then. */
  readonly durable: { readonly state: BootHistory["state"]; readonly device: string }[] = [];
  ownNode: OwnNode = { isExcluded: false, isInMaintenance: false };
  /** The public keys of the peers that run, by name. */
  readonly peers = new Map<string, string>();
  /** What each peer answers to the question about this boot; absent: nothing. */
  readonly answers = new Map<string, PeerVerdict>();
  /** The peers that answer drills, and how often all of them were asked for one. */
  readonly there = new Set<string>();
  drills = 0;
  /** How often peers were asked about this boot. */
  questions = 0;
  #versions = 0;

  /** A process of an agent. It takes over what an earlier one has left in memory. */
  agent(of = bootId, settings: Partial<AgentTimes> = {}): Agent {
    return new Agent(
      { ...times, ...settings },
      {
        bootId: of,
        clock: { nowMs: () => this.nowMs },
        api: {
          readLease: async () => this.#answer("read", () => this.lease),
          createLease: async (annotations) => this.#answer("create", () => this.#create(annotations)),
          patchLease: async (base, annotations) => this.#answer("patch", () => this.#patch(base, annotations)),
          readNodeTaint: async () => this.#answer("node", () => this.isTainted),
          readOwnNode: async () => this.#answer("own", () => this.ownNode),
          readLeaseOf: async (node) => this.#answer("other", () => this.#leaseOf(node)),
          readTaintOf: async () => this.#answer("other", () => false),
        },
        peers: {
          drill: async ({ name }) => {
            this.drills++;
            return this.there.has(name);
          },
          ask: async ({ name }) => {
            this.questions++;
            return this.answers.get(name);
          },
        },
        history: {
          read: () => this.history,
          write: (history, isDurable) => {
            this.history = history;
            if (isDurable) this.durable.push({ state: history.state, device: this.device });
          },
        },
        watchdog: {
          check: () => this.time,
          isNoWayOut: () => this.isNoWayOut,
          open: () => {
            if (this.openError !== undefined) throw Object.assign(new Error("open"), { code: this.openError });
            this.device += "o";
          },
          feed: () => this.#write("."),
          disarm: () => this.#write("V"),
        },
        store: {
          read: () => this.memory,
          write: (memory) => {
            this.memory = memory;
          },
        },
        log: (_level, message) => this.logged.push(message),
        reset: () => {
          if (this.resetError !== undefined) throw new Error(this.resetError);
          this.resets++;
        },
      },
    );
  }

  #write(byte: string): void {
    if (this.writeError !== undefined) throw new Error(this.writeError);
    this.device += byte;
  }

  /** Another client changes the Lease. */
  annotate(annotations: Readonly<Record<string, string>>): void {
    if (this.lease === undefined) throw new Error("there is no Lease");
    const resourceVersion = String(++this.#versions);
    this.lease = { ...this.lease, resourceVersion, annotations: { ...this.lease.annotations, ...annotations } };
  }

  /** Renews and ticks as `main.ts` does, with the defaults, for so many seconds. */
  async run(agent: Agent, seconds: number): Promise<void> {
    for (let second = 0; second < seconds; second++) {
      if (second % 5 === 0) {
        await agent.renew();
        await agent.drill();
      }
      agent.tick();
      this.nowMs += 1_000;
    }
  }

  /** Starts the agents of these nodes, which answer drills, and proposes them. Returns the text of the proposal. */
  propose(...names: readonly string[]): string {
    for (const name of names) {
      this.peers.set(name, this.peers.get(name) ?? createPeerKey().publicKey);
      this.there.add(name);
    }
    const text = names.map((name) => `${name}=${fingerprintOf(this.peers.get(name) ?? "")}`).join(" ");
    this.annotate({ [key("agent-peers-proposed")]: text });
    return text;
  }

  /** Cuts the machine off the API server. */
  cutOff(): void {
    for (const request of ["read", "patch", "create", "node", "own", "other"] as const) this.refused[request] = 0;
  }

  /** The peers of these names answer so, and no other one answers. */
  answer(verdict: PeerVerdict, ...names: readonly string[]): void {
    this.answers.clear();
    for (const name of names) this.answers.set(name, verdict);
  }

  /** What the device was sent since the last call. */
  takeDevice(): string {
    const sent = this.device;
    this.device = "";
    return sent;
  }

  #answer<T>(request: Request, carryOut: () => T | number | undefined): ApiAnswer<T> {
    this.requests.push(request);
    this.before?.(request);
    const refused = this.refused[request];
    if (refused === 0 && request !== "other") this.nowMs += times.renewTimeoutMs;
    if (refused !== undefined) return { status: refused, message: "refused", value: undefined };
    const value = carryOut();
    if (value === undefined) return { status: 404, message: "not found", value };
    return typeof value === "number"
      ? { status: value, message: "refused", value: undefined }
      : { status: 200, message: "", value };
  }

  #leaseOf(node: string): AgentLease | undefined {
    const publicKey = this.peers.get(node);
    if (publicKey === undefined) return undefined;
    const annotations = { [key("agent-key")]: publicKey, [key("agent-address")]: "10.0.0.9:9843" };
    return { uid: node, resourceVersion: "1", annotations };
  }

  #create(annotations: LeaseAnnotations): AgentLease | number {
    if (this.lease !== undefined) return 409;
    this.written.push(annotations);
    const version = String(++this.#versions);
    this.lease = { uid: `uid-${version}`, resourceVersion: version, annotations };
    return this.lease;
  }

  #patch(base: AgentLease, annotations: LeaseAnnotations): AgentLease | number | undefined {
    if (this.lease === undefined) return undefined;
    if (base.uid !== this.lease.uid || base.resourceVersion !== this.lease.resourceVersion) return 409;
    this.written.push(annotations);
    this.annotate(annotations);
    return this.lease;
  }
}

/** A world whose agent has fed its device for a while. */
export async function feeding(): Promise<{ world: World; agent: Agent }> {
  const world = new World();
  const agent = world.agent();
  await world.run(agent, 12);
  world.takeDevice();
  return { world, agent };
}

/** A world whose agent is armed, with peers b, c and d. */
export async function armedAgent(): Promise<{ world: World; agent: Agent; list: string }> {
  const { world, agent } = await feeding();
  const list = world.propose("b", "c", "d");
  await world.run(agent, 15);
  if (world.lease?.annotations[key("agent-mode")] !== "armed") throw new Error("the agent is not armed");
  world.takeDevice();
  return { world, agent, list };
}
