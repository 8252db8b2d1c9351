/** Replicas of the shipped function, each of which is killed after each of its writes. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { kubeconfigText } from "../support/kubeconfig.ts";
import { type LogLine, Server } from "../support/server.ts";
import { type FencingCluster, namespace } from "./cluster.ts";
import { type CarriedOut, KillingProxy } from "./killing-proxy.ts";

/** What changes whenever a step is taken again: versions, and since when the record is in its phase. */
const changing = /"(resourceVersion|[^"]*fence-since)":"[^"]*",?|\\"resourceVersion\\":\\"\d+\\",?/g;
const stepOf = ({ method, path, body }: CarriedOut): string => `${method} ${path} ${body.replace(changing, "")}`;

/** One place for a process: the next one starts when the last one was killed. */
class Replica {
  readonly #start: (kubeconfig: string) => Promise<Server>;
  readonly #kubeconfig: string;
  #proxy: KillingProxy | undefined;
  #server: Server | undefined;
  #next: Promise<void> = Promise.resolve();
  #isStopped = false;

  /** @param start starts a process with a kubeconfig */
  constructor(kubeconfig: string, start: (kubeconfig: string) => Promise<Server>) {
    this.#kubeconfig = kubeconfig;
    this.#start = start;
  }

  async begin(
    { controlPlane }: FencingCluster,
    isFatal: (write: CarriedOut) => boolean,
    killed: (write: CarriedOut) => Promise<void>,
  ): Promise<void> {
    const kill = (write: CarriedOut) => {
      this.#next = this.#next.then(() => this.#replace(() => killed(write)));
    };
    this.#proxy = await KillingProxy.start(controlPlane, { isFatal, kill });
    writeFileSync(this.#kubeconfig, kubeconfigText(this.#proxy.url, { token: controlPlane.token }));
    this.#server = await this.#start(this.#kubeconfig);
  }

  get log(): readonly LogLine[] {
    return this.#server?.log ?? [];
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#next;
    await this.#server?.stop();
    await this.#proxy?.close();
  }

  async #replace(between: () => Promise<void>): Promise<void> {
    await this.#server?.kill();
    await between();
    if (this.#isStopped) return;
    this.#proxy?.revive();
    this.#server = await this.#start(this.#kubeconfig);
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
  readonly #replicas: readonly Replica[];
  readonly #steps = new Set<string>();

  constructor(replicas: number, more: Readonly<Record<string, string>>) {
    const settings = { FUNCTION: "fence-node", FENCE_NAMESPACE: namespace, ...more };
    const start = (kubeconfig: string) => Server.start({ kubeconfig, namespace, settings });
    this.#replicas = Array.from({ length: replicas }, (_, at) => new Replica(join(this.#folder, String(at)), start));
  }

  /** @param check runs after each write */
  async begin(cluster: FencingCluster, check: () => Promise<void>): Promise<void> {
    const isFatal = (write: CarriedOut) => {
      const isNew = !this.#steps.has(stepOf(write));
      this.#steps.add(stepOf(write));
      return isNew;
    };
    const killed = async (write: CarriedOut) => {
      this.writes.push(write);
      await check().catch((error: unknown) => this.broken.push(error));
    };
    await Promise.all(this.#replicas.map((replica) => replica.begin(cluster, isFatal, killed)));
  }

  get log(): readonly LogLine[] {
    return this.#replicas.flatMap(({ log }) => log);
  }

  async stop(): Promise<void> {
    await Promise.all(this.#replicas.map((replica) => replica.stop()));
    rmSync(this.#folder, { recursive: true });
  }
}
