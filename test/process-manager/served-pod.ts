/** A played pod with the shipped server beside its runner, and a client that speaks as a function does. */
import { mkdir, writeFile } from "node:fs/promises";
import { type ClientRequest, type IncomingMessage, request } from "node:http";
import { request as requestTls } from "node:https";
import { join } from "node:path";
import type { ProcessVerb } from "../../functions/advance-process-restart/process-manager/decide-call.ts";
import type { ManagedState } from "../../functions/advance-process-restart/process-manager/decide-state.ts";
import type { StatusBody } from "../../functions/advance-process-restart/process-manager/managed-process.ts";
import { eventually } from "../controlplane/api.ts";
import { freePort } from "../controlplane/ports.ts";
import { type Launched, launch } from "../controlplane/processes.ts";
import { PlayedPod, type PodOptions, patienceMs } from "./pod.ts";
import type { RunnerShell } from "./shells.ts";

const program = join(import.meta.dirname, "../../functions/advance-process-restart/process-manager/main.ts");
export const podUid = "0c9ff5a5-6f5c-4c8e-9d3c-1a5d6d5e0f11";
export const token = "token-of-this-pod";

export interface Answered {
  readonly status: number;
  readonly body: StatusBody & { readonly message?: string };
}

export interface Asked {
  readonly method?: string;
  readonly authorization?: string | undefined;
  readonly body?: string | Buffer;
  /** For HTTPS. */
  readonly authority?: string;
}

export interface CallFields {
  readonly epoch: number;
  readonly sum?: string | undefined;
  readonly restartId?: string;
  readonly uid?: string;
}

export interface ServedPodOptions extends PodOptions {
  /** Default: clients have no time to leave. */
  readonly drainSeconds?: string;
  /** Default: 127.0.0.1. */
  readonly address?: string;
  /** Default: a free one, which is reserved. */
  readonly port?: number;
}

export class ServedPod {
  readonly pod: PlayedPod;
  readonly address: string;
  readonly port: number;
  readonly #drainSeconds: string;
  #server: Launched | undefined;
  #given: Readonly<Record<string, string>> = {};

  private constructor(pod: PlayedPod, port: number, { drainSeconds = "0", address = "127.0.0.1" }: ServedPodOptions) {
    this.pod = pod;
    this.port = port;
    this.address = address;
    this.#drainSeconds = drainSeconds;
  }

  static async make(shell: RunnerShell, options: ServedPodOptions = {}): Promise<ServedPod> {
    const pod = await PlayedPod.make(shell, options);
    await mkdir(pod.path("token"));
    await writeFile(pod.path("token", "token"), `${token}\n`);
    return new ServedPod(pod, options.port ?? (await freePort()), options);
  }

  /** The environment of the server. */
  get environment(): Readonly<Record<string, string>> {
    return {
      ...this.pod.volumes,
      POD_UID: podUid,
      POD_IP: this.address,
      SLUICE_PORT: `${this.port}`,
      SLUICE_TOKEN_FILE: this.pod.path("token", "token"),
      SLUICE_CERTIFICATE: this.pod.path("certificate"),
      SLUICE_DRAIN_SECONDS: this.#drainSeconds,
    };
  }

  /** Starts the server, without waiting for it. `environment`: default, that of the last one. */
  launchServer(environment = this.#given): Launched {
    this.#given = environment;
    this.#server = launch(process.execPath, [program], {
      env: { ...this.environment, ...environment },
      output: { file: this.pod.path("server-log") },
    });
    return this.#server;
  }

  /** Starts the server, and waits until it answers. */
  async serve(): Promise<Launched> {
    const server = this.launchServer();
    await eventually(
      "the server answers",
      patienceMs,
      async () => (await this.ask("/health")).status === 200 || undefined,
    );
    return server;
  }

  /** Ends the server as `kill -9` does, and starts another. */
  async killServer(): Promise<void> {
    this.#server?.signal("SIGKILL");
    await this.#server?.ended;
    await this.serve();
  }

  /** Rejects if the connection ends without an answer. */
  ask(path: string, asked: Asked = {}): Promise<Answered> {
    const { method = "GET", body, authority } = asked;
    const authorization = "authorization" in asked ? asked.authorization : `Bearer ${token}`;
    const { promise, resolve, reject } = Promise.withResolvers<Answered>();
    const headers = authorization === undefined ? {} : { authorization };
    const options = { host: this.address, port: this.port, path, method, headers, agent: false as const };
    const receive = async (answer: IncomingMessage) => {
      const text = Buffer.concat(await Array.fromAsync(answer as AsyncIterable<Buffer>)).toString("utf8");
      resolve({ status: answer.statusCode ?? 0, body: JSON.parse(text) });
    };
    const outgoing: ClientRequest =
      authority === undefined ? request(options) : requestTls({ ...options, ca: authority });
    outgoing.on("response", (answer) => receive(answer).catch(reject));
    outgoing.on("error", reject);
    outgoing.end(body);
    return promise;
  }

  call(verb: ProcessVerb, { epoch, sum, restartId = "restart-1", uid = podUid }: CallFields): Promise<Answered> {
    const body = JSON.stringify({ podUid: uid, restartId, epoch, configChecksum: sum });
    return this.ask(`/es/${verb}`, { method: "POST", body });
  }

  async status(): Promise<StatusBody> {
    return (await this.ask("/es/status")).body;
  }

  /** The first status in this state. */
  reached(state: ManagedState): Promise<StatusBody> {
    return eventually(`${state}; ${this.pod.log()}`, patienceMs, async () => {
      const status = await this.status();
      return status.state === state ? status : undefined;
    });
  }

  async remove(): Promise<void> {
    this.#server?.signal("SIGKILL");
    await this.#server?.ended;
    await this.pod.remove();
  }
}
