/** Reads a quorum queue several times a second, and keeps the lowest values. */
import { setTimeout as delay } from "node:timers/promises";
import type { Nodes } from "./nodes.ts";
import { queueState } from "./queues.ts";

const EVERY_MS = 200;

export interface Samples {
  taken: number;
  /** Samples in which some node reported the queue. */
  answered: number;
  /** Members of the queue that are online. */
  leastOnline: number;
  mostOnline: number;
  /** Nodes that accept clients. */
  leastServing: number;
}

export class Sampler {
  readonly #nodes: Nodes;
  readonly #queue: string;
  readonly #samples: Samples;
  #isSampling = false;
  #sampling: Promise<void> = Promise.resolve();

  constructor(nodes: Nodes, queue: string) {
    this.#nodes = nodes;
    this.#queue = queue;
    this.#samples = { taken: 0, answered: 0, leastOnline: nodes.size, mostOnline: 0, leastServing: nodes.size };
  }

  start(): void {
    this.#isSampling = true;
    this.#sampling = this.#run();
  }

  async stop(): Promise<Samples> {
    this.#isSampling = false;
    await this.#sampling;
    return this.#samples;
  }

  async #run(): Promise<void> {
    while (this.#isSampling) {
      await this.#take();
      await delay(EVERY_MS);
    }
  }

  async #take(): Promise<void> {
    const samples = this.#samples;
    const indices = Array.from({ length: this.#nodes.size }, (_, index) => index);
    const running = indices.filter((index) => this.#nodes.isRunning(index));
    samples.taken++;
    const serve = await Promise.all(indices.map((index) => this.#nodes.serves(index)));
    samples.leastServing = Math.min(samples.leastServing, serve.filter((serves) => serves).length);
    const states = await Promise.all(running.map((index) => queueState(this.#nodes, index, this.#queue)));
    const counts = states.flatMap((state) => (state === undefined ? [] : [state.online.length]));
    if (counts.length === 0) return;
    samples.answered++;
    // A node asks the others at once. A node that is starting may reach no other yet, so the largest count is right.
    const online = Math.max(...counts);
    samples.leastOnline = Math.min(samples.leastOnline, online);
    samples.mostOnline = Math.max(samples.mostOnline, online);
  }
}
