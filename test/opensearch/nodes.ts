/**
 * Nodes of one real cluster of OpenSearch or Elasticsearch, on addresses of their own of the loopback network. Each keeps its
 * data while it is down, as on a volume. The file with its settings is the same for all, and the environment has what differs,
 * as in the pods of a StatefulSet.
 */
import { chmod, chown, cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fetch } from "undici";
import { eventually } from "../controlplane/api.ts";
import { freePort, releasePorts } from "../controlplane/ports.ts";
import { type End, type Launched, launch, tail } from "../controlplane/processes.ts";
import type { Product } from "./program.ts";
import { Security, withoutTls } from "./security.ts";

/** Time that a start, or a change in the cluster, may take on a busy machine. */
export const slowMs = 240_000;

/** OpenSearch refuses to run as root. */
const isRoot = process.getuid?.() === 0;
/** A user without rights, on most systems. */
const otherUser = 65_534;
/** The group that must be able to read the files of a node; undefined where that is this process's own. */
export const nodeGroup = isRoot ? otherUser : undefined;

/** Without these flags of the distribution a node takes 30 s to stop. */
const flags = [
  "-Dlog4j2.disable.jmx=true",
  "-Dlog4j.shutdownHookEnabled=false",
  "-Dio.netty.noUnsafe=true",
  "-Dio.netty.noKeySetOptimization=true",
  "-Dio.netty.recycler.maxCapacityPerThread=0",
  "-Dio.netty.allocator.numDirectArenas=0",
];

/** As the script of OpenSearch's distribution sets them. */
const ofDistribution = ["-Dopensearch.distribution.type=tar", "-Dopensearch.bundled_jdk=false"];

/** The setting that names the nodes which form a new cluster. */
const firstMasters: Readonly<Record<Product, string>> = {
  opensearch: "cluster.initial_cluster_manager_nodes",
  elasticsearch: "cluster.initial_master_nodes",
};

const logging = `status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%-25c{1.}] [%node_name] %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
`;

export const allocation = "cluster.routing.allocation.enable";
export const marker = "cluster.metadata.sluice_restart_hold";

/** What a node has answered. */
export interface NodeAnswer<T = unknown> {
  readonly status: number;
  readonly body: T;
}

export interface Health {
  readonly status: string;
  readonly number_of_nodes: number;
  readonly initializing_shards: number;
}

export interface NodesOptions {
  /** Default: OpenSearch. */
  readonly product?: Product;
  /** For nodes that can have TLS, and have none at first. */
  readonly security?: Security;
}

export class Nodes {
  readonly names: readonly string[];
  /** The port of HTTP at every node's own address, as with pods. */
  readonly port: number;
  readonly #folder: string;
  readonly #product: Product;
  readonly #transportPort: number;
  readonly #network: string;
  /** Undefined for nodes that cannot have TLS. */
  readonly #security: Security | undefined;
  readonly #processes = new Map<string, Launched>();

  private constructor(folder: string, names: readonly string[], ports: readonly number[], options: NodesOptions) {
    this.#folder = folder;
    this.#product = options.product ?? "opensearch";
    this.names = names;
    const [port = 0, transportPort = 0] = ports;
    this.port = port;
    this.#transportPort = transportPort;
    this.#security = options.security;
    // A network for each process, so that two do not meet: all of 127/8 is this machine.
    this.#network = `127.${1 + (process.pid % 250)}.253`;
  }

  /** Prepares nodes of these names, none of which runs yet. `home`: the folder of their program. */
  static async make(home: string, names: readonly string[], options: NodesOptions = {}): Promise<Nodes> {
    const folder = await mkdtemp(join(tmpdir(), "sluice-opensearch-"));
    const nodes = new Nodes(folder, names, [await freePort(), await freePort()], options);
    // The other user can read nothing in the home of root, where the cache is.
    await chmod(folder, 0o755);
    const copy = join(folder, "home");
    const optional = join(home, "optional");
    await cp(home, copy, { recursive: true, filter: (path) => path !== optional });
    if (options.security !== undefined) await Security.install(home, copy);
    for (const name of names) await nodes.#prepare(name);
    return nodes;
  }

  async #prepare(name: string): Promise<void> {
    for (const made of ["", "config", "data", "logs", "tmp"]) {
      const folder = this.path(name, made);
      await mkdir(folder);
      if (isRoot) await chown(folder, otherUser, otherUser);
    }
    await writeFile(join(this.configOf(name), "log4j2.properties"), logging);
    await this.#security?.configure(this.path("home"), this.configOf(name));
  }

  path(...parts: readonly string[]): string {
    return join(this.#folder, ...parts);
  }

  /** The folder in which a node expects its main file. */
  configOf(name: string): string {
    return this.path(name, "config");
  }

  addressOf(name: string): string {
    return `${this.#network}.${this.names.indexOf(name) + 1}`;
  }

  /** The main file, for all nodes, by its name. `more`: as of `settings`. */
  files(more?: readonly string[]): Readonly<Record<string, string>> {
    return { [`${this.#product}.yml`]: this.settings(more) };
  }

  /** The text of the main file, for all nodes. `more`: further lines, or others in the place of lines with the same key. */
  settings(more: readonly string[] = this.#security ? withoutTls : []): string {
    const lines = [
      "cluster.name: sluice",
      "node.name: $" + "{NODE_NAME}",
      "network.host: $" + "{NODE_ADDRESS}",
      "path.data: $" + "{NODE_FOLDER}/data",
      "path.logs: $" + "{NODE_FOLDER}/logs",
      `http.port: ${this.port}`,
      `transport.port: ${this.#transportPort}`,
      `${firstMasters[this.#product]}: [${this.names.join(", ")}]`,
      `discovery.seed_hosts: [${this.names.map((name) => `"${this.addressOf(name)}:${this.#transportPort}"`).join(", ")}]`,
      // A full disk of this machine is no matter of a test.
      "cluster.routing.allocation.disk.threshold_enabled: false",
    ];
    const keyOf = (line: string) => line.slice(0, line.indexOf(":"));
    const changed = new Set(more.map(keyOf));
    return `${[...lines.filter((line) => !changed.has(keyOf(line))), ...more].join("\n")}\n`;
  }

  environment(name: string): Readonly<Record<string, string>> {
    return { NODE_NAME: name, NODE_ADDRESS: this.addressOf(name), NODE_FOLDER: this.path(name) };
  }

  /** The command line of a node. It ends with its parent. */
  commandOf(name: string): readonly [string, ...string[]] {
    const home = this.path("home");
    // A process that changes its user loses what bound it to its parent before.
    const user = isRoot ? [`--reuid=${otherUser}`, `--regid=${otherUser}`, "--clear-groups"] : [];
    return [
      "setpriv",
      ...user,
      ...["--pdeathsig", "KILL", "--", "java", "-Xms256m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"],
      // Its files would stay behind in the system's folder.
      ...["-XX:-UsePerfData", `-Djava.io.tmpdir=${this.path(name, "tmp")}`, "-Djava.security.manager=allow"],
      ...flags,
      ...(this.#product === "opensearch"
        ? [
            ...[`-Dopensearch.path.home=${home}`, `-Dopensearch.path.conf=${this.configOf(name)}`, ...ofDistribution],
            ...["-cp", `${home}/lib/*`, "org.opensearch.bootstrap.OpenSearch"],
          ]
        : ["-cp", `${home}/lib/*:${home}/classes`, "ElasticsearchNode", home, this.configOf(name)]),
    ];
  }

  /** Starts a node with these settings, and resolves when it answers. Throws with its last lines if it ends before that. */
  async start(name: string, settings = this.settings()): Promise<void> {
    await writeFile(join(this.configOf(name), `${this.#product}.yml`), settings);
    const [file, ...args] = this.commandOf(name);
    const log = this.path(`${name}.log`);
    const env = { PATH: process.env.PATH, ...this.environment(name) };
    const launched = launch(file, args, { env, output: { file: log } });
    this.#processes.set(name, launched);
    const outcome = await eventually(`${name} answers`, slowMs, async () => {
      if (launched.end() !== undefined) return launched.end()?.summary;
      return (await this.ask(name, "/")).status === 200 ? "answers" : undefined;
    });
    if (outcome !== "answers") throw new Error(`${name} ended with ${outcome}: ${await tail(log, 20)}`);
  }

  /** Sends SIGTERM, and SIGKILL after `graceMs`. Resolves when the process is gone. */
  async stop(name: string, graceMs = slowMs): Promise<End | undefined> {
    const end = await this.#processes.get(name)?.stop(graceMs);
    this.#processes.delete(name);
    return end;
  }

  /** A request to a node, over TLS if it has that. Rejects if there is no answer within a minute. */
  async ask<T = unknown>(name: string, path: string, method = "GET", body?: unknown): Promise<NodeAnswer<T>> {
    if (this.#security === undefined) return this.askBy("http", name, path, method, body);
    return this.askBy<T>("https", name, path, method, body).catch(() =>
      this.askBy<T>("http", name, path, method, body),
    );
  }

  /** The same, by one scheme alone. The user and the password go to https only. */
  async askBy<T = unknown>(
    scheme: "http" | "https",
    name: string,
    path: string,
    method = "GET",
    body?: unknown,
  ): Promise<NodeAnswer<T>> {
    const { agent, authorization } = (scheme === "https" && this.#security) || {};
    const answer = await fetch(`${scheme}://${this.addressOf(name)}:${this.port}${path}`, {
      method,
      headers: { "content-type": "application/json", ...(authorization && { authorization }) },
      ...(agent && { dispatcher: agent }),
      signal: AbortSignal.timeout(60_000),
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    return { status: answer.status, body: JSON.parse(await answer.text()) as T };
  }

  /** The persistent settings of the cluster, as this node answers. */
  async settingsAt(name: string): Promise<Readonly<Record<string, string>>> {
    interface Answer {
      readonly persistent: Readonly<Record<string, string>>;
    }
    return (await this.ask<Answer>(name, "/_cluster/settings?flat_settings=true")).body.persistent;
  }

  /** Writes persistent settings of the cluster; null removes one. Resolves to the status of the answer. */
  async set(name: string, persistent: Readonly<Record<string, string | null>>): Promise<number> {
    return (await this.ask(name, "/_cluster/settings", "PUT", { persistent })).status;
  }

  /** Waits until this node sees a green cluster with all nodes. */
  green(name: string): Promise<Health> {
    const query = `wait_for_status=green&wait_for_nodes=${this.names.length}&wait_for_no_initializing_shards=true`;
    return eventually(`${name} sees a green cluster`, slowMs, async () => {
      const { status, body } = await this.ask<Health>(name, `/_cluster/health?${query}&timeout=5s`);
      return status === 200 ? body : undefined;
    });
  }

  /** Ends everything, and removes the data. */
  async close(): Promise<void> {
    await Promise.all([...this.#processes.keys()].map((name) => this.stop(name, 0)));
    releasePorts(this.port, this.#transportPort);
    await this.#security?.close();
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}
