/**
 * Pods that behave as ingesters do when they are told that they will leave: a real HTTP server for each, at its own address.
 * They keep what they were told on a disk, and log each call.
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo, LookupFunction } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Api } from "../controlplane/api.ts";
import { type Follower, follow } from "../controlplane/follow.ts";
import { lookupIn, podNamesIn } from "./pod-names.ts";

/** Identifies a pod: its replacement has the same name and another uid. */
export interface IngesterPod {
  readonly namespace: string;
  readonly name: string;
  readonly service: string;
  readonly uid: string;
}

/**
 * How a pod answers from now on. `refuse`: 409, like a locked partition. `crash`: it closes the connection without an answer.
 * `rubbish`: 200 without JSON. `huge`: 200 with 100 MB. `undated`: 200 without a timestamp.
 */
export type Behaviour =
  | "answer"
  | "refuse"
  | "crash"
  | "rubbish"
  | "huge"
  | "undated"
  | { readonly slowMs: number }
  | { readonly status: number; readonly body?: string };

export interface IngesterCall {
  readonly atMs: number;
  readonly pod: string;
  readonly uid: string;
  readonly method: string;
  readonly path: string;
  /** Status of the answer; undefined if there was none. */
  readonly status: number | undefined;
  readonly headers: Readonly<Record<string, unknown>>;
  /** True if the pod was prepared after the call. */
  readonly isPrepared: boolean;
}

/** A request to a pod. */
export interface PodCall {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, unknown>>;
}

export interface IngestersOptions {
  /** Path of the call about a delayed downscale: the pod keeps the time, and answers with it. */
  readonly delayedPath?: string;
  /** Path of the call about a downscale: any 2xx confirms it. */
  readonly shutdownPath?: string;
  /** True: a replacement has the disk of the pod before, as with a volume claim. Default: no. */
  readonly keepsDisks?: boolean;
  /** Receives each call when it is answered. */
  readonly onCall?: (call: IngesterCall) => void;
  /** Answers of pods that are no ingesters. */
  readonly respond?: (pod: IngesterPod, call: PodCall) => [status: number, body?: string];
  /** Certificate and key for https. */
  readonly secure?: { readonly cert: string; readonly key: string };
  /** `svc.` and the cluster's domain, without a final dot. */
  readonly domain?: string;
  /** Others, of another namespace: one process reaches the pods of both. They must be closed last. Absent: none. */
  readonly beside?: Ingesters;
}

interface Running {
  readonly pod: IngesterPod;
  readonly server: Server;
}

const hugeBytes = 100_000_000;

/** All ingesters of one test. */
export class Ingesters {
  /** The port of every pod. */
  readonly port: number;
  /** Resolver for `connectPods`. */
  readonly lookup: LookupFunction;
  /** `NODE_OPTIONS` with which a Node process reaches the pods by their names. */
  readonly nodeOptions: string;
  readonly calls: IngesterCall[] = [];
  /** All requests in order, including those without an answer yet. */
  readonly arrivals: Pick<IngesterCall, "atMs" | "pod" | "uid" | "method">[] = [];
  /** Start and end of each pod, by uid. */
  readonly lives: { readonly pod: string; readonly uid: string; readonly startMs: number; endMs?: number }[] = [];
  readonly #options: Required<Omit<IngestersOptions, "respond" | "secure" | "beside">> &
    Pick<IngestersOptions, "respond" | "secure">;
  readonly #folder: string;
  readonly #names: string;
  readonly #net: string;
  readonly #placeholder: Server;
  readonly #running = new Map<string, Running>();
  readonly #behaviours = new Map<string, Behaviour>();
  #addresses = 1;
  #starting: Promise<unknown> = Promise.resolve();
  #isClosed = false;

  private constructor(options: IngestersOptions, placeholder: Server, net: string) {
    this.#options = {
      delayedPath: "/ingester/prepare-instance-ring-downscale",
      shutdownPath: "/ingester/prepare-shutdown",
      keepsDisks: false,
      domain: "svc.cluster.local",
      onCall: () => {},
      ...options,
    };
    this.#placeholder = placeholder;
    this.#net = net;
    this.port = (placeholder.address() as AddressInfo).port;
    this.#folder = mkdtempSync(join(tmpdir(), "ingesters-"));
    for (const room of ["names", "disks"]) mkdirSync(join(this.#folder, room));
    this.#names = options.beside === undefined ? join(this.#folder, "names") : options.beside.#names;
    this.lookup = lookupIn(this.#names);
    this.nodeOptions = podNamesIn(this.#names);
  }

  /** Takes a port for all of them. */
  static async open(options: IngestersOptions = {}): Promise<Ingesters> {
    // A network for each process, so that two do not meet: all of 127/8 is this machine.
    const net = `127.${1 + (process.pid % 250)}`;
    const placeholder = createServer();
    await listening(placeholder, 0, `${net}.255.254`);
    return new Ingesters(options, placeholder, net);
  }

  /** The annotation with their URL. Sluice replaces the host by each pod's own. */
  get url(): string {
    return `http://pod:${this.port}${this.#options.delayedPath}`;
  }

  /** Starts a pod, or replaces the one of its name. A pod that runs already stays. */
  start(pod: IngesterPod): Promise<void> {
    return this.#inTurn(() => this.#start(pod));
  }

  /** Ends a pod, but keeps its disk. Does nothing if another pod has its name by now. */
  stop({ name, uid }: Pick<IngesterPod, "name" | "uid">): Promise<void> {
    return this.#inTurn(() => this.#stop(name, uid));
  }

  /** Restarts the process of a pod: it stays the same pod, with the same disk. */
  restart(name: string): Promise<void> {
    return this.#inTurn(async () => {
      const { pod } = this.#runningPod(name);
      await this.#stop(name, pod.uid);
      await this.#start(pod);
    });
  }

  /** Sets how a pod of this name answers from now on, also its replacements. */
  behave(name: string, behaviour: Behaviour): void {
    this.#behaviours.set(name, behaviour);
  }

  /** Lines of /etc/hosts for all running pods, for programs that take no resolver. */
  hosts(): string {
    const lines = readdirSync(this.#names).map((name) => `${readFileSync(join(this.#names, name), "utf8")} ${name}\n`);
    return lines.join("");
  }

  /** Since when the pod has been prepared, in Unix seconds; undefined if it is not. */
  preparedSince(name: string, path = this.#options.delayedPath): number | undefined {
    try {
      return Number(readFileSync(this.#disk(name, path), "utf8"));
    } catch {
      return undefined;
    }
  }

  /** Writes to a pod's disk that another client has prepared it. */
  prepare(name: string, timestamp: number, path = this.#options.delayedPath): void {
    writeFileSync(this.#disk(name, path), String(timestamp));
  }

  /** Names of the running pods of a StatefulSet that are prepared. */
  preparedPods(path = this.#options.delayedPath): string[] {
    return [...this.#running.keys()].filter((name) => this.preparedSince(name, path) !== undefined).sort();
  }

  /** Runs an ingester for each pod of a namespace, from Running until it is gone. */
  async followPods(api: Api, namespace: string, signal: AbortSignal): Promise<void> {
    const known = new Map<string, IngesterPod>();
    const follower: Follower<FollowedPod> = {
      path: `/api/v1/namespaces/${namespace}/pods`,
      known,
      seen: ({ metadata: { name, uid }, spec, status }) => {
        if (status?.phase !== "Running" || known.has(uid)) return;
        const pod = { namespace, name, uid, service: spec.subdomain ?? "" };
        known.set(uid, pod);
        void this.start(pod);
      },
      gone: (uid) => {
        const pod = known.get(uid);
        known.delete(uid);
        if (pod !== undefined) void this.stop(pod);
      },
    };
    await follow(api, follower, signal);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#starting;
    await Promise.all([...this.#running.values(), { server: this.#placeholder }].map(({ server }) => ended(server)));
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.#starting.then(work);
    this.#starting = done.catch(() => {});
    return done;
  }

  async #start(pod: IngesterPod): Promise<void> {
    const { name, uid, service, namespace } = pod;
    const before = this.#running.get(name);
    // A watch may report a pod after all of them have ended.
    if (this.#isClosed || before?.pod.uid === uid) return;
    if (before !== undefined) await this.#stop(name, before.pod.uid);
    const isAnother = this.lives.some((life) => life.pod === name) && !this.lives.some((life) => life.uid === uid);
    if (isAnother && !this.#options.keepsDisks) {
      for (const path of this.#paths()) rmSync(this.#disk(name, path), { force: true });
    }
    const number = this.#addresses++;
    const address = `${this.#net}.${number >> 8}.${number % 256}`;
    const { secure } = this.#options;
    const answer = (request: IncomingMessage, response: ServerResponse) => this.#answer(pod, request, response);
    const server = secure === undefined ? createServer(answer) : createSecureServer(secure, answer);
    await listening(server, this.port, address);
    this.#running.set(name, { pod, server });
    this.lives.push({ pod: name, uid, startMs: Date.now() });
    writeFileSync(this.#nameFile(name, service, namespace), address);
  }

  async #stop(name: string, uid: string): Promise<void> {
    const running = this.#running.get(name);
    if (running === undefined || running.pod.uid !== uid) return;
    this.#running.delete(name);
    rmSync(this.#nameFile(name, running.pod.service, running.pod.namespace), { force: true });
    await ended(running.server);
    const life = this.lives.findLast((one) => one.uid === uid);
    if (life !== undefined) life.endMs = Date.now();
  }

  #answer(pod: IngesterPod, request: IncomingMessage, response: ServerResponse): void {
    const { method = "", url = "", headers } = request;
    const behaviour = this.#behaviours.get(pod.name) ?? "answer";
    const end = (status: number | undefined, body: string | Buffer = "") => {
      const isPrepared = this.#paths().includes(url) && this.preparedSince(pod.name, url) !== undefined;
      const { name, uid } = pod;
      const call = { atMs: Date.now(), pod: name, uid, method, path: url, status, headers, isPrepared };
      this.calls.push(call);
      this.#options.onCall(call);
      if (status === undefined) response.destroy();
      else response.writeHead(status, { "content-type": "application/json" }).end(body);
    };
    this.arrivals.push({ atMs: Date.now(), pod: pod.name, uid: pod.uid, method });
    request.resume();
    if (behaviour === "crash") end(undefined);
    else if (behaviour === "refuse") end(409, "the partition is locked");
    else if (behaviour === "rubbish") end(200, "<html>");
    else if (behaviour === "huge") end(200, Buffer.alloc(hugeBytes, "x"));
    else if (behaviour === "undated") end(200, "{}");
    else if (behaviour === "answer") end(...this.#act(pod, { method, path: url, headers }));
    else if ("status" in behaviour) end(behaviour.status, behaviour.body);
    else setTimeout(() => end(...this.#act(pod, { method, path: url, headers })), behaviour.slowMs);
  }

  #act(pod: IngesterPod, call: PodCall): [status: number, body?: string] {
    const { delayedPath, respond } = this.#options;
    if (respond !== undefined) return respond(pod, call);
    const { name } = pod;
    const { method, path } = call;
    if (!this.#paths().includes(path)) return [404];
    if (method === "POST") {
      if (this.preparedSince(name, path) === undefined) this.prepare(name, Math.floor(Date.now() / 1000), path);
    } else if (method === "DELETE") rmSync(this.#disk(name, path), { force: true });
    else if (method !== "GET") return [405];
    const timestamp = this.preparedSince(name, path) ?? 0;
    if (path === delayedPath) return [200, JSON.stringify({ timestamp })];
    return method === "GET" ? [200, timestamp === 0 ? "unset" : "set"] : [204];
  }

  #paths(): string[] {
    return [this.#options.delayedPath, this.#options.shutdownPath];
  }

  #runningPod(name: string): Running {
    const running = this.#running.get(name);
    if (running === undefined) throw new Error(`${name} does not run`);
    return running;
  }

  #nameFile(name: string, service: string, namespace: string): string {
    return join(this.#names, `${name}.${service}.${namespace}.${this.#options.domain}`);
  }

  #disk(name: string, path: string): string {
    return join(this.#folder, "disks", `${name}${path.replaceAll("/", "_")}`);
  }
}

interface FollowedPod {
  readonly metadata: { readonly name: string; readonly uid: string };
  readonly spec: { readonly subdomain?: string };
  readonly status?: { readonly phase?: string };
}

function listening(server: Server, port: number, address: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, address, resolve);
  });
}

async function ended(server: Server): Promise<void> {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}
