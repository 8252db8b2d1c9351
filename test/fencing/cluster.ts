/** A real control plane on a bridge, and played machines as its nodes. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fingerprintOf } from "../../functions/fence-node/fingerprint.ts";
import { Api, ApiError, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { follow } from "../controlplane/follow.ts";
import { AgentCredentials } from "./agent-credentials.ts";
import { overlapsIn, type PodRun, readJournal } from "./journal.ts";
import { Machine } from "./machine.ts";
import { Bridge } from "./network.ts";
import { type FencingTimes, scaledTimes } from "./times.ts";

export const namespace = "sluice-fencing";
/** The API has no Node of ours before the kubelets have posted their status. */
const startTimeoutMs = 60_000;
const agentSource = join(import.meta.dirname, "../../functions/fence-node/agent/main.ts");
/** Kubernetes takes up to half a minute for the pods of a node. */
const cleanTimeoutMs = 90_000;
export const outOfService = "node.kubernetes.io/out-of-service";

/** W of clusters whose times are scaled down. */
export const { watchdogMs } = scaledTimes;

export interface NodeObject {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec: { readonly taints?: readonly { readonly key: string; readonly effect: string }[] };
  readonly status: {
    readonly nodeInfo: { readonly bootID: string; readonly systemUUID: string };
    readonly conditions: readonly { readonly type: string; readonly status: string }[];
  };
}

export interface LeaseObject {
  readonly metadata: {
    readonly uid: string;
    readonly resourceVersion: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
}

export class FencingCluster {
  readonly controlPlane: ControlPlane;
  readonly api: Api;
  readonly machines: readonly Machine[];
  /** Each state of each Node that a watch has shown since the start. */
  readonly history: NodeObject[] = [];
  readonly #bridge: Bridge;
  readonly #folder: string;
  readonly #credentials: AgentCredentials;
  readonly #stopping = new AbortController();
  #following: Promise<void> = Promise.resolve();

  private constructor(
    controlPlane: ControlPlane,
    api: Api,
    bridge: Bridge,
    folder: string,
    machines: readonly Machine[],
    credentials: AgentCredentials,
  ) {
    this.#credentials = credentials;
    this.controlPlane = controlPlane;
    this.api = api;
    this.#bridge = bridge;
    this.#folder = folder;
    this.machines = machines;
  }

  /**
   * Resolves when each machine is a Ready Node with an agent.
   *
   * @param settings more settings of the agents
   * @param on so many of the machines, the first ones; the others are off. Default: all
   * @param agentProgram the file of the agents. Default: the source
   */
  static async start(
    count: number,
    settings: Readonly<Record<string, string>> = {},
    times: FencingTimes = scaledTimes,
    on = count,
    agentProgram = agentSource,
  ): Promise<FencingCluster> {
    const bridge = await Bridge.create();
    const folder = mkdtempSync(join(tmpdir(), "sluice-fencing-"));
    const controlPlane = await startControlPlane({
      address: bridge.address,
      controllers: times.controllers,
      nodes: 0,
      playsPods: false,
    });
    const api = await Api.open(controlPlane, { userAgent: "fencing-test" });
    const journal = join(folder, "journal");
    writeFileSync(journal, "");
    const { hostname, port } = new URL(controlPlane.url);
    const { url, token, caFile } = controlPlane;
    const credentials = await AgentCredentials.write(api, namespace, join(folder, "credentials"), caFile);
    const agent = {
      KUBERNETES_SERVICE_HOST: hostname,
      KUBERNETES_SERVICE_PORT: port,
      AGENT_CREDENTIALS: credentials.folder,
      ...times.agent,
      ...settings,
    };
    const machines = Array.from({ length: count }, (_, at) => {
      const name = `node-${at + 1}`;
      const kubelet = { access: { url, token, caFile }, journal, renewEveryMs: times.kubeletRenewMs };
      const own = { name, address: bridge.addressOf(at + 1), folder: join(folder, name) };
      return new Machine({ ...own, bridge, watchdogMs: times.watchdogMs, agentProgram, agent, kubelet });
    });
    const cluster = new FencingCluster(controlPlane, api, bridge, folder, machines, credentials);
    try {
      const booted = machines.slice(0, on);
      await Promise.all(booted.map((machine) => machine.boot()));
      await cluster.#follow();
      for (const machine of booted) await cluster.untilUp(machine);
    } catch (error) {
      const logs = cluster.logs;
      await cluster.stop();
      throw new Error(`the cluster did not start: ${(error as Error).message}: ${logs}`, { cause: error });
    }
    return cluster;
  }

  /** What the processes of the machines have printed. */
  get logs(): string {
    return this.machines.map(({ name, log }) => `--- ${name}\n${log}`).join("\n");
  }

  /** Prints the logs of the machines, and of the server, if the test that has ended failed. */
  printLogsOf(context: object, server?: { readonly log: readonly object[] }): void {
    if (!("passed" in context) || context.passed === true) return;
    console.error(this.logs);
    for (const line of server?.log ?? []) console.error(JSON.stringify(line));
  }

  async #follow(): Promise<void> {
    const seen = (node: NodeObject) => void this.history.push(node);
    const follower = { path: "/api/v1/nodes", known: new Map<string, unknown>(), seen, gone: () => {} };
    const { ended } = await follow<NodeObject>(this.api, follower, this.#stopping.signal);
    this.#following = ended;
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#credentials.stop();
    await Promise.all(this.machines.map((machine) => machine.close()));
    await this.api.close();
    await this.#following;
    await this.controlPlane.stop();
    await this.#bridge.remove();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  machine(name: string): Machine {
    const machine = this.machines.find((one) => one.name === name);
    if (machine === undefined) throw new Error(`there is no machine ${name}`);
    return machine;
  }

  /** Resolves when the Node is Ready with the boot of its machine, and its agent has renewed its Lease and feeds the device. */
  async untilUp(machine: Machine): Promise<void> {
    await eventually(`${machine.name} is up`, startTimeoutMs, async () => {
      const [node, lease] = [await this.node(machine.name), await this.agentLease(machine.name)];
      const isNew = node.status.nodeInfo.bootID === machine.bootId && isReady(node);
      const hasAgent = lease.metadata.annotations?.["sluice.dev/agent-boot-id"] === machine.bootId;
      const isFed = machine.hardware.isRunning || !machine.hasWatchdog;
      return isNew && hasAgent && isFed ? true : undefined;
    });
  }

  node(name: string): Promise<NodeObject> {
    return this.api.get<NodeObject>(`/api/v1/nodes/${name}`);
  }

  agentLease(node: string): Promise<LeaseObject> {
    return this.api.get<LeaseObject>(leasePath(`agent-${node}`));
  }

  /** The address of the API server, as the machines know it. */
  get apiAddress(): string {
    return this.#bridge.address;
  }

  /** Proposes all other machines to each agent as its peers, and resolves when all of them are armed. */
  async armAll(): Promise<void> {
    const keys = await Promise.all(
      this.machines.map(async ({ name }) => [name, fingerprintOf(await this.keyOf(name))] as const),
    );
    for (const { name } of this.machines) {
      const peers = keys.filter(([peer]) => peer !== name).map(([peer, print]) => `${peer}=${print}`);
      await this.patchAgentLease(name, { "sluice.dev/agent-peers-proposed": peers.join(" ") });
    }
    for (const { name } of this.machines) {
      await eventually(`the agent of ${name} has its peers`, startTimeoutMs, async () => {
        const { annotations } = (await this.agentLease(name)).metadata;
        const [has, proposed] = ["agent-peers", "agent-peers-proposed"].map(
          (key) => annotations?.[`sluice.dev/${key}`],
        );
        return has === proposed ? true : undefined;
      });
    }
    await this.untilAllArmed();
  }

  async untilAllArmed(machines = this.machines): Promise<void> {
    for (const { name } of machines) {
      await eventually(`the agent of ${name} is armed`, startTimeoutMs, async () => {
        const { metadata } = await this.agentLease(name);
        return metadata.annotations?.["sluice.dev/agent-mode"] === "armed" ? true : undefined;
      });
    }
  }

  /** The public key of an agent. */
  async keyOf(node: string): Promise<string> {
    return (await this.agentLease(node)).metadata.annotations?.["sluice.dev/agent-key"] ?? "";
  }

  patchNode(name: string, body: object): Promise<NodeObject> {
    return this.api.patch<NodeObject>(`/api/v1/nodes/${name}`, body);
  }

  patchAgentLease(node: string, annotations: Readonly<Record<string, string | null>>): Promise<LeaseObject> {
    return this.api.patch<LeaseObject>(leasePath(`agent-${node}`), { metadata: { annotations } });
  }

  /** Asks for a fence of the node. */
  mark(node: string): Promise<NodeObject> {
    return this.patchNode(node, { metadata: { annotations: { "sluice.dev/unhealthy": "disk failed" } } });
  }

  /** Resolves when nothing of a fence is left (A6). */
  async untilClean({ name }: Machine): Promise<void> {
    await eventually(`${name} is clean`, cleanTimeoutMs, async () => {
      const [node, lease, record] = await Promise.all([
        this.node(name),
        this.agentLease(name),
        this.find(leasePath(`fence-${name}`)),
      ]);
      const isArmed = lease.metadata.annotations?.["sluice.dev/fence-armed"] !== undefined;
      return !isArmed && ours(node).length === 0 && record === undefined ? true : undefined;
    });
  }

  /** Undefined while there is no such object. */
  async find<T>(path: string): Promise<T | undefined> {
    try {
      return await this.api.get<T>(path);
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    }
  }

  /** The annotations of the record of a node, without `sluice.dev/`; none without a record. */
  async recordOf({ name }: Pick<Machine, "name">): Promise<Readonly<Record<string, string>>> {
    const lease = await this.find<{ metadata: { annotations?: Record<string, string> } }>(leasePath(`fence-${name}`));
    const texts = Object.entries(lease?.metadata.annotations ?? {});
    return Object.fromEntries(texts.map(([key, text]) => [key.replace("sluice.dev/", ""), text]));
  }

  /** What the pods have written so far. */
  get runs(): readonly PodRun[] {
    return readJournal(join(this.#folder, "journal"));
  }

  /** Forgets what the pods have written. */
  clearRuns(): void {
    writeFileSync(join(this.#folder, "journal"), "");
  }

  get overlaps(): readonly string[] {
    return overlapsIn(this.runs);
  }
}

export const leasePath = (name: string): string =>
  `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${name}`;

export const isReady = ({ status }: NodeObject): boolean =>
  status.conditions.some(({ type, status: value }) => type === "Ready" && value === "True");

/** What a fence has put on a Node. */
function ours({ metadata, spec }: NodeObject): readonly string[] {
  const annotations = Object.keys(metadata.annotations ?? {}).filter((one) => one.startsWith("sluice.dev/"));
  const taints = (spec.taints ?? [])
    .map((taint) => taint.key)
    .filter((one) => one === "sluice.dev/fence" || one === outOfService);
  return [...annotations, ...taints];
}
