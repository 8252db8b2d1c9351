/** Replicas of a shipped function, each of which is killed after each of its writes. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ControlPlane } from "../controlplane/controlplane.ts";
import type { ProxyAddress, Upstream } from "./forwarding.ts";
import { type CarriedOut, type Killer, KillingProxy, WritesInTurn } from "./killing-proxy.ts";
import { kubeconfigText } from "./kubeconfig.ts";
import { type LogLine, Server } from "./server.ts";

export interface MortalOptions {
  readonly controlPlane: Pick<ControlPlane, "url" | "caFile" | "token">;
  readonly namespace: string;
  readonly settings: Readonly<Record<string, string>>;
  /** Default: 1. */
  readonly replicas?: number;
  /** Whether a request to the API server, or to a pod, is one of the writes that matter: Events are no state, for example. */
  readonly isWrite: (method: string, path: string) => boolean;
  /** What a write has in common with the one that a next process does in its place. */
  readonly stepOf: (write: CarriedOut) => string;
  /** Runs after each write, while the replica is dead. */
  readonly check?: () => Promise<void>;
  /** Other servers that the one replica writes to, and where it reaches them. */
  readonly others?: readonly { readonly upstream: Upstream; readonly at: ProxyAddress }[];
}

/** One place for a process: the next one starts when the last one was killed. */
class Replica {
  readonly #kubeconfig: string;
  readonly #options: MortalOptions;
  readonly #writes = new WritesInTurn();
  readonly #proxies: KillingProxy[] = [];
  #server: Server | undefined;
  #next: Promise<void> = Promise.resolve();
  #isStopped = false;

  constructor(kubeconfig: string, options: MortalOptions) {
    this.#kubeconfig = kubeconfig;
    this.#options = options;
  }

  async begin(isFatal: (write: CarriedOut) => boolean, killed: (write: CarriedOut) => Promise<void>): Promise<void> {
    const { controlPlane, isWrite, others = [] } = this.#options;
    const kill = (write: CarriedOut) => {
      this.#next = this.#next.then(() => this.#replace(() => killed(write)));
    };
    const killer: Killer = { isWrite, isFatal, kill };
    const { url, caFile, token } = controlPlane;
    const api = await KillingProxy.start({ url, ca: readFileSync(caFile, "utf8") }, killer, this.#writes);
    this.#proxies.push(api);
    for (const { upstream, at } of others)
      this.#proxies.push(await KillingProxy.start(upstream, killer, this.#writes, at));
    writeFileSync(this.#kubeconfig, kubeconfigText(api.url, { token }));
    this.#server = await this.#start();
  }

  get log(): readonly LogLine[] {
    return this.#server?.log ?? [];
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#next;
    await this.#server?.stop();
    for (const proxy of this.#proxies) await proxy.close();
  }

  #start(): Promise<Server> {
    const { namespace, settings } = this.#options;
    return Server.start({ kubeconfig: this.#kubeconfig, namespace, settings });
  }

  async #replace(between: () => Promise<void>): Promise<void> {
    await this.#server?.kill();
    await between();
    if (this.#isStopped) return;
    this.#writes.revive();
    this.#server = await this.#start();
  }
}

/**
 * A step that a process takes once more does not end it. Otherwise no fence would be armed here: an agent renews its Lease, on
 * which arming rests, sooner than a process starts.
 */
export class MortalFunction {
  /** Each of them has ended a process. */
  readonly writes: CarriedOut[] = [];
  /** What the check after a write has thrown. */
  readonly broken: unknown[] = [];
  readonly #folder = mkdtempSync(join(tmpdir(), "sluice-killed-"));
  readonly #options: MortalOptions;
  readonly #replicas: readonly Replica[];
  readonly #steps = new Set<string>();

  private constructor(options: MortalOptions) {
    const { replicas = 1 } = options;
    this.#options = options;
    this.#replicas = Array.from({ length: replicas }, (_, at) => new Replica(join(this.#folder, String(at)), options));
  }

  /** Resolves when each replica has started for the first time. */
  static async start(options: MortalOptions): Promise<MortalFunction> {
    const { stepOf, check } = options;
    const mortal = new MortalFunction(options);
    const isFatal = (write: CarriedOut) => {
      const step = stepOf(write);
      const isNew = !mortal.#steps.has(step);
      mortal.#steps.add(step);
      return isNew;
    };
    const killed = async (write: CarriedOut) => {
      mortal.writes.push(write);
      await check?.().catch((error: unknown) => mortal.broken.push(error));
    };
    await Promise.all(mortal.#replicas.map((replica) => replica.begin(isFatal, killed)));
    return mortal;
  }

  /** The steps after which a process was killed, as `stepOf` names them. */
  get steps(): readonly string[] {
    return this.writes.map(this.#options.stepOf);
  }

  get log(): readonly LogLine[] {
    return this.#replicas.flatMap(({ log }) => log);
  }

  async stop(): Promise<void> {
    await Promise.all(this.#replicas.map((replica) => replica.stop()));
    rmSync(this.#folder, { recursive: true });
  }
}
