/** The replicas of a release behind its Service, and a drain that meets them while they are replaced. */
import { setTimeout as delay } from "node:timers/promises";
import type { TcpProxy } from "../support/drain-proxy.ts";
import { evict } from "../support/drain-webhook.ts";
import type { Scene } from "../support/scene.ts";
import type { LogLine, Server } from "../support/server.ts";

type Settings = Readonly<Record<string, string>>;

/** Two replicas. The Service leads to each from the moment it is ready until it is told to end. */
export class Replicas {
  readonly #scene: Scene;
  readonly #kubeconfig: string;
  readonly #service: TcpProxy;
  readonly #all: Server[] = [];
  #running: Server[] = [];

  private constructor(scene: Scene, kubeconfig: string, service: TcpProxy) {
    this.#scene = scene;
    this.#kubeconfig = kubeconfig;
    this.#service = service;
  }

  /** Resolves when both are ready. `service`: where the API server sends reviews. */
  static async start(scene: Scene, kubeconfig: string, service: TcpProxy, settings: Settings): Promise<Replicas> {
    const replicas = new Replicas(scene, kubeconfig, service);
    await replicas.#add(settings);
    await replicas.#add(settings);
    return replicas;
  }

  get running(): readonly Server[] {
    return this.#running;
  }

  /** What all of them have logged as an error, those that have ended too. */
  get errors(): readonly LogLine[] {
    return this.#all.flatMap(({ log }) => log.filter(({ level }) => level === "error"));
  }

  /** Replaces one after the other, as the Deployment does: another one is ready before one ends. */
  async replace(settings: Settings): Promise<void> {
    for (const old of [...this.#running]) {
      await this.#add(settings);
      this.#service.remove(old.tlsPort);
      this.#running = this.#running.filter((one) => one !== old);
      await old.stop();
    }
  }

  async #add(settings: Settings): Promise<void> {
    // Connections that there are go on for so long; those of the drain ask something each second.
    const own = { ...settings, PORT: "0", TLS_PORT: "0", SHUTDOWN_DELAY: "2s" };
    const server = await this.#scene.serve(own, { kubeconfig: this.#kubeconfig });
    await server.ready();
    this.#service.add(server.tlsPort);
    this.#running.push(server);
    this.#all.push(server);
  }
}

/** What the API server answered to the evictions of a drain. */
export interface Drained {
  readonly allowed: number;
  /** Refused for a budget, so that a drain tries again. */
  readonly refused: number;
  /** Any other answer, because of which a drain gives up. */
  readonly failures: readonly string[];
}

/** Evicts pods of the group in turn, one each second, until it is told to end. A pod that has just gone counts as nothing. */
export function drainEachSecond({ api, group }: Scene): { end(): Promise<Drained> } {
  const ending = new AbortController();
  const pods = group.statefulSets.flatMap((set) => Array.from({ length: group.pods }, (_, index) => `${set}-${index}`));
  const run = async (): Promise<Drained> => {
    const counts = { allowed: 0, refused: 0, failures: [] as string[] };
    for (let turn = 0; !ending.signal.aborted; turn++) {
      const pod = pods[turn % pods.length] ?? "";
      const { code, message } = await evict(api, group.namespace, pod);
      if (code === 201) counts.allowed++;
      else if (code === 429) counts.refused++;
      else if (code !== 404 || message !== `pods "${pod}" not found`) counts.failures.push(`${code} ${message}`);
      await delay(1_000, undefined, { signal: ending.signal }).catch(() => {});
    }
    return counts;
  };
  const ended = run();
  return {
    end: () => {
      ending.abort();
      return ended;
    },
  };
}
