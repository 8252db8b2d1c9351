/** Nodes of one real RabbitMQ cluster, as plain processes on loopback. Each keeps its data while it is down, as on a volume. */
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { eventually } from "../controlplane/api.ts";
import { freePort, releasePorts } from "../controlplane/ports.ts";
import { type Launched, launch, tail } from "../controlplane/processes.ts";
import type { Packages } from "../support/packages.ts";

const run = promisify(execFile);

/** Time that the start of a node may take on a busy machine. */
const startTimeoutMs = 240_000;

/**
 * RabbitMQ 3.10 nodes that start at the same moment ask each other for feature flags that the other has not loaded yet, and
 * end (`incompatible_feature_flags`, `badmap`). Kubernetes restarts such a container after longer and longer pauses, and so do
 * these nodes.
 */
const restartAfterMs = [0, 10_000, 20_000];

interface Node {
  readonly name: string;
  /** Address of its HTTP API. All nodes use the same port for it, as pods do. */
  readonly host: string;
  readonly ports: { readonly amqp: number; readonly management: number; readonly distribution: number };
  process: Launched | undefined;
}

export interface ToolAnswer {
  readonly code: number;
  readonly text: string;
}

export class Nodes {
  readonly #packages: Packages;
  readonly #folder: string;
  readonly #nodes: readonly Node[];
  readonly #epmdPort: number;
  #epmd: Launched | undefined;
  readonly #closing = new AbortController();

  private constructor(packages: Packages, folder: string, nodes: readonly Node[], epmdPort: number) {
    this.#packages = packages;
    this.#folder = folder;
    this.#nodes = nodes;
    this.#epmdPort = epmdPort;
  }

  /** Creates the nodes of a cluster, none of which runs yet. */
  static async make(packages: Packages, size: number): Promise<Nodes> {
    const folder = await mkdtemp(join(tmpdir(), "sluice-rabbitmq-"));
    const nodes: Node[] = [];
    const management = await freePort();
    // A network for each process, so that two do not meet: all of 127/8 is this machine.
    const net = `127.${1 + (process.pid % 250)}.254`;
    for (let index = 0; index < size; index++) {
      const ports = { amqp: await freePort(), management, distribution: await freePort() };
      nodes.push({ name: `rabbit-${index}@localhost`, host: `${net}.${index + 1}`, ports, process: undefined });
    }
    const made = new Nodes(packages, folder, nodes, await freePort());
    await mkdir(join(folder, "home"));
    // Erlang refuses a cookie that other users can read.
    await writeFile(join(folder, "home/.erlang.cookie"), randomBytes(16).toString("hex"), { mode: 0o400 });
    await writeFile(join(folder, "enabled_plugins"), "[rabbitmq_management].\n");
    for (const [index, node] of nodes.entries()) await made.#configure(index, node);
    // Otherwise the first node would start one, which would stay.
    made.#epmd = made.#launch("epmd", ["-port", String(made.#epmdPort)], "epmd", {});
    await eventually("epmd answers", 10_000, async () => ((await made.#epmdListens()) ? true : undefined));
    return made;
  }

  get size(): number {
    return this.#nodes.length;
  }

  nameOf(index: number): string {
    return this.#node(index).name;
  }

  /** host:port of each node, in order. */
  get addresses(): readonly string[] {
    return this.#nodes.map(({ ports }) => `127.0.0.1:${ports.amqp}`);
  }

  /** Port of the HTTP API at every node's own address. */
  get managementPort(): number {
    return this.#node(0).ports.management;
  }

  hostOf(index: number): string {
    return this.#node(index).host;
  }

  logOf(index: number): string {
    return join(this.#folder, `node-${index}.log`);
  }

  /** The environment of the node's tools, and of a stop gate beside it. */
  environment(index: number): Readonly<Record<string, string>> {
    const { name } = this.#node(index);
    return {
      PATH: this.#packages.path,
      LD_LIBRARY_PATH: this.#packages.libraries,
      HOME: join(this.#folder, "home"),
      LANG: "C.UTF-8",
      ERL_EPMD_PORT: String(this.#epmdPort),
      ERL_EPMD_ADDRESS: "127.0.0.1",
      RABBITMQ_NODENAME: name,
      RABBITMQ_CONF_ENV_FILE: "/dev/null",
      // A tool has little to do: threads that spin while they wait would take processors from the nodes.
      RABBITMQ_CTL_ERL_ARGS: "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none",
    };
  }

  /**
   * Resolves when the node serves clients. The first node makes the cluster, and the others join it by themselves. A node that
   * ends while it starts is started again, as a container is.
   */
  async start(index: number): Promise<void> {
    const node = this.#node(index);
    if (node.process !== undefined && node.process.end() === undefined) throw new Error(`${node.name} runs already`);
    for (const pauseMs of [...restartAfterMs, undefined]) {
      const end = await this.#startOnce(index, node);
      if (end === undefined) return;
      if (pauseMs === undefined) throw new Error(end);
      await delay(pauseMs, undefined, { signal: this.#closing.signal });
    }
  }

  /** Resolves to the reason of its end, or to undefined once it serves. */
  async #startOnce(index: number, node: Node): Promise<string | undefined> {
    const { name, ports } = node;
    const started = this.#launch("rabbitmq-server", [], `node-${index}`, {
      ...this.environment(index),
      // Makes RabbitMQ run in the launched process, and not in a child of it.
      RUNNING_UNDER_SYSTEMD: "1",
      RABBITMQ_NODE_PORT: String(ports.amqp),
      RABBITMQ_DIST_PORT: String(ports.distribution),
      RABBITMQ_CONFIG_FILE: join(this.#folder, `node-${index}.conf`),
      RABBITMQ_ENABLED_PLUGINS_FILE: join(this.#folder, "enabled_plugins"),
      RABBITMQ_LOG_BASE: join(this.#folder, "log"),
      RABBITMQ_LOGS: "-",
      RABBITMQ_MNESIA_BASE: join(this.#folder, "data"),
      RABBITMQ_PID_FILE: join(this.#folder, `node-${index}.pid`),
      RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: "+S 1:1 -kernel inet_dist_use_interface {127,0,0,1}",
    });
    node.process = started;
    const lastLines = () => tail(this.logOf(index), 20);
    const outcome = await eventually(`${name} serves`, startTimeoutMs, async () => {
      // An ended node is no longer asked, so that its end need not wait for its start.
      if (started.end() !== undefined) return "ended";
      const { status } = await this.ask<{ status: string }>(index, "/api/health/checks/local-alarms");
      // The HTTP API answers before the node accepts clients.
      return status === "ok" && (await this.serves(index)) ? "serves" : undefined;
    }).catch(async (error: Error) => {
      throw new Error(`${error.message}: ${await lastLines()}`, { cause: error });
    });
    return outcome === "ended" ? `${name} ended: ${await lastLines()}` : undefined;
  }

  isRunning(index: number): boolean {
    const { process } = this.#node(index);
    return process !== undefined && process.end() === undefined;
  }

  /** Resolves to whether the node accepts clients now. */
  serves(index: number): Promise<boolean> {
    return new Promise((resolve) => {
      const socket = connect({ host: "127.0.0.1", port: this.#node(index).ports.amqp });
      const end = (serves: boolean) => {
        socket.destroy();
        resolve(serves);
      };
      socket.once("connect", () => end(true)).once("error", () => end(false));
      socket.setTimeout(2_000, () => end(false));
    });
  }

  /**
   * Sends SIGTERM, and SIGKILL after `graceMs`; with 0 SIGKILL at once. Resolves, when the process is gone, to whether it
   * ended by itself.
   */
  async stop(index: number, graceMs: number): Promise<boolean> {
    const node = this.#node(index);
    if (node.process === undefined) return true;
    if (graceMs === 0) node.process.signal("SIGKILL");
    const end = await node.process.stop(graceMs);
    node.process = undefined;
    return end.signal !== "SIGKILL";
  }

  /** Stops the process (SIGSTOP), which keeps its connections. */
  freeze(index: number): void {
    this.#node(index).process?.signal("SIGSTOP");
  }

  thaw(index: number): void {
    this.#node(index).process?.signal("SIGCONT");
  }

  /** Runs one of RabbitMQ's tools for this node. */
  async tool(index: number, command: string, ...args: string[]): Promise<ToolAnswer> {
    const options = { env: this.environment(index) as NodeJS.ProcessEnv };
    return await run("env", [command, ...args], options).then(
      ({ stdout, stderr }) => ({ code: 0, text: stdout + stderr }),
      ({ code, stdout, stderr }) => ({ code, text: `${stdout}${stderr}` }),
    );
  }

  /** Stops the HTTP API of a running node, or starts it again. */
  async setManagement(index: number, runs: boolean): Promise<void> {
    const expression = `ok = application:${runs ? "start" : "stop"}(rabbitmq_management).`;
    const { code, text } = await this.tool(index, "rabbitmqctl", "eval", expression);
    if (code !== 0) throw new Error(`${this.nameOf(index)}: ${text}`);
  }

  /** A request to the management API of a node. Throws if there is no answer. */
  async ask<T>(index: number, path: string, method = "GET", body?: unknown): Promise<T> {
    const authorization = `Basic ${Buffer.from("guest:guest").toString("base64")}`;
    const { host, ports } = this.#node(index);
    const response = await fetch(`http://${host}:${ports.management}${path}`, {
      method,
      headers: { authorization, "content-type": "application/json" },
      signal: AbortSignal.timeout(5_000),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return (text === "" ? undefined : JSON.parse(text)) as T;
  }

  /** Ends everything, and removes the data. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all(this.#nodes.map((_, index) => this.stop(index, 0)));
    await this.#epmd?.stop(1_000);
    const ports = this.#nodes.flatMap((node) => Object.values(node.ports));
    releasePorts(this.#epmdPort, ...ports);
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }

  #node(index: number): Node {
    const node = this.#nodes[index];
    if (node === undefined) throw new Error(`there is no node ${index}`);
    return node;
  }

  #launch(command: string, args: readonly string[], name: string, more: Readonly<Record<string, string>>): Launched {
    const env = { ...process.env, PATH: this.#packages.path, LD_LIBRARY_PATH: this.#packages.libraries, ...more };
    return launch(command, args, { env, output: { file: join(this.#folder, `${name}.log`) } });
  }

  async #configure(index: number, { host, ports }: Node): Promise<void> {
    const lines = [
      `listeners.tcp.1 = 127.0.0.1:${ports.amqp}`,
      `management.tcp.ip = ${host}`,
      `management.tcp.port = ${ports.management}`,
      "loopback_users = none",
      "log.console.level = warning",
      "cluster_formation.peer_discovery_backend = classic_config",
      ...this.#nodes.map(({ name }, n) => `cluster_formation.classic_config.nodes.${n + 1} = ${name}`),
    ];
    await writeFile(join(this.#folder, `node-${index}.conf`), `${lines.join("\n")}\n`);
  }

  /** Checks by a connection, because a check that listens there itself could take the port just when epmd starts. */
  #epmdListens(): Promise<boolean> {
    return new Promise((resolve) => {
      const socket = connect({ host: "127.0.0.1", port: this.#epmdPort });
      socket.once("connect", () => resolve(true));
      socket.once("error", () => resolve(false));
      socket.once("connect", () => socket.destroy());
    });
  }
}
