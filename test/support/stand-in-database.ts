/**
 * A database of several nodes as its HTTP interface shows it: settings, members, master. For tests without a real one, and for
 * answers that a real one does not give. The nodes share one state, as a cluster does.
 */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";

export interface StandInNode {
  readonly name: string;
  ip: string;
  roles: readonly string[];
  /** False: its process does not run, so that nothing answers. */
  isUp: boolean;
  /** False: it runs, and has not joined, or has lost its master. It then knows only itself. */
  isMember: boolean;
}

export interface StandInRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

export interface StandInReply {
  readonly status: number;
  readonly body: string;
}

type Settings = Record<string, string>;

export const allocationKey = "cluster.routing.allocation.enable";
export const markerKey = "cluster.metadata.sluice_restart_hold";

export class StandInDatabase {
  readonly nodes: readonly StandInNode[];
  readonly persistent: Settings = {};
  readonly transient: Settings = {};
  /** False: a master is elected, and shows no settings and takes none before it has recovered the state of the cluster. */
  isRecovered = true;
  /** `NODE METHOD PATH`, with the body of a PUT, in the order in which the requests came. */
  readonly requests: string[] = [];
  /** `USER:PASSWORD` that each request needs; undefined: none. */
  password: string | undefined;
  /** Answers in place of the database; undefined: it answers itself. */
  interfere: (node: StandInNode, request: StandInRequest) => StandInReply | "break" | undefined = () => undefined;
  readonly #servers: Server[] = [];

  constructor(names: readonly string[], roles: readonly string[] = ["cluster_manager", "data", "ingest"]) {
    this.nodes = names.map((name, index) => ({ name, ip: `10.0.0.${index + 1}`, roles, isUp: true, isMember: true }));
  }

  node(name: string): StandInNode {
    const found = this.nodes.find((one) => one.name === name);
    if (found === undefined) throw new Error(`no node ${name}`);
    return found;
  }

  /** How often a method was used on a path of these nodes. */
  count(method: string, path: string): number {
    return this.requests.filter((one) => one.includes(` ${method} ${path}`)).length;
  }

  /** The answer of one node; `break` where its process does not run. */
  answer(name: string, request: StandInRequest): StandInReply | "break" {
    const node = this.node(name);
    if (!node.isUp) return "break";
    const { method, path, body, headers } = request;
    this.requests.push(`${name} ${method} ${path}${method === "PUT" ? ` ${body}` : ""}`);
    const other = this.interfere(node, request);
    if (other !== undefined) return other;
    const expected = this.password === undefined ? undefined : `Basic ${btoa(this.password)}`;
    if (expected !== undefined && headers.authorization !== expected) return { status: 401, body: "Unauthorized" };
    return this.#reply(node, method, path.replace(/\?.*$/s, ""), body);
  }

  /** One server for all nodes: a request says by its header `host` which node it means. Resolves to the port. */
  async serve(): Promise<number> {
    const server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        const { method = "", url: path = "", headers } = request;
        const [name = ""] = (headers.host ?? "").split(".");
        const reply = this.answer(name, { method, path, headers, body: Buffer.concat(chunks).toString("utf8") });
        if (reply === "break") request.socket.destroy();
        else response.writeHead(reply.status, { "content-type": "application/json; charset=UTF-8" }).end(reply.body);
      });
    });
    this.#servers.push(server);
    const { promise, resolve } = Promise.withResolvers<void>();
    server.listen(0, "127.0.0.1", resolve);
    await promise;
    return (server.address() as AddressInfo).port;
  }

  close(): void {
    for (const server of this.#servers) {
      server.close();
      server.closeAllConnections();
    }
  }

  #reply(node: StandInNode, method: string, path: string, body: string): StandInReply {
    const route = `${method} ${path}`;
    if (route === "GET /_nodes/http") return json(this.#listNodes(node));
    if (route === "GET /_cluster/state/master_node,blocks") return json(this.#state(node));
    if (!node.isMember) return json({ error: { type: "cluster_manager_not_discovered_exception" }, status: 503 }, 503);
    if (route === "GET /_cluster/settings") return json(this.isRecovered ? this.#settings : noSettings);
    if (!this.isRecovered) return json({ error: { type: "cluster_block_exception" }, status: 503 }, 503);
    if (route === "PUT /_cluster/settings") return this.#change(JSON.parse(body));
    if (route === "POST /_flush") return json({ _shards: { total: 2, successful: 2, failed: 0 } });
    return json({ error: `no handler found for uri [${path}] and method [${method}]` }, 400);
  }

  get #settings(): unknown {
    return { persistent: this.persistent, transient: this.transient };
  }

  get #members(): readonly StandInNode[] {
    return this.nodes.filter(({ isUp, isMember }) => isUp && isMember);
  }

  #listNodes(node: StandInNode): unknown {
    const listed = node.isMember ? this.#members : [node];
    const nodes = listed.map(({ name, ip, roles }) => [idOf(name), { name, host: ip, ip, roles }] as const);
    const _nodes = { total: nodes.length, successful: nodes.length, failed: 0 };
    return { _nodes, nodes: Object.fromEntries(nodes) };
  }

  #state({ isMember }: StandInNode): unknown {
    const master = this.#members.find(({ roles }) => roles.includes("cluster_manager") || roles.includes("master"));
    const id = isMember && master !== undefined ? idOf(master.name) : null;
    const global = { 1: { description: "state not recovered / initialized", retryable: true } };
    return { cluster_name: "stand-in", cluster_uuid: "u", master_node: id, blocks: this.isRecovered ? {} : { global } };
  }

  #change({ persistent = {} }: { readonly persistent?: Readonly<Record<string, string | null>> }): StandInReply {
    for (const [name, value] of Object.entries(persistent)) {
      if (value === null) delete this.persistent[name];
      else this.persistent[name] = value;
    }
    return json({ acknowledged: true, persistent, transient: {} });
  }
}

const noSettings = { persistent: {}, transient: {} };

const idOf = (name: string): string => `id-${name}`;

function json(document: unknown, status = 200): StandInReply {
  return { status, body: JSON.stringify(document) };
}
