/** Clients of a database that use its Ready pods, as a Service does: one writes and one reads, without end. */
import { setTimeout as delay } from "node:timers/promises";
import type { Health } from "./nodes.ts";
import type { Pods } from "./pods.ts";

const index = "documents";
/** Short enough for each stop to meet many requests, and long enough to leave the processors to the nodes. */
const pauseMs = 100;

interface Found {
  readonly _shards: { readonly failed: number };
  readonly hits: { readonly total: { readonly value: number } };
}

export class Traffic {
  /** The ids of all documents whose write was acknowledged. */
  readonly acknowledged: string[] = [];
  /** What the reader got in place of all documents that were there at first. */
  readonly readErrors: string[] = [];
  /** The fewest members that the reader has seen. */
  fewestNodes = Number.POSITIVE_INFINITY;
  readonly #pods: Pods;
  readonly #stopping = new AbortController();
  #ended: Promise<unknown> = Promise.resolve();
  #turn = 0;

  private constructor(pods: Pods) {
    this.#pods = pods;
  }

  /** Writes so many documents, and begins to write more and to read. */
  static async start(pods: Pods, documents: number): Promise<Traffic> {
    const traffic = new Traffic(pods);
    const first = pods.names[0] ?? "";
    const copies = pods.names.length - 1;
    const settings = { number_of_shards: 1, number_of_replicas: copies, "index.refresh_interval": "1s" };
    await pods.nodes.ask(first, `/${index}`, "PUT", { settings });
    const ids = Array.from({ length: documents }, (_, number) => `first-${number}`);
    const lines = ids.flatMap((_id) => [JSON.stringify({ index: { _id } }), JSON.stringify({ text: _id })]);
    const path = `/${index}/_bulk?refresh=true`;
    const { body } = await pods.nodes.ask<{ readonly errors: boolean }>(first, path, "POST", `${lines.join("\n")}\n`);
    if (body.errors) throw new Error("documents were refused");
    traffic.acknowledged.push(...ids);
    await pods.nodes.green(first);
    traffic.#ended = Promise.all([traffic.#write(), traffic.#read(documents)]);
    return traffic;
  }

  /** Resolves when both have ended. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#ended;
  }

  /** The acknowledged documents that this node does not find. */
  async lost(name: string): Promise<readonly string[]> {
    interface Documents {
      readonly docs: readonly { readonly _id: string; readonly found: boolean }[];
    }
    const ids = this.acknowledged;
    const { body } = await this.#pods.nodes.ask<Documents>(name, `/${index}/_mget?_source=false`, "POST", { ids });
    const found = new Set(body.docs.filter((one) => one.found).map(({ _id }) => _id));
    return ids.filter((id) => !found.has(id));
  }

  /** A Ready pod, each in its turn. */
  #next(): string {
    const ready = [...this.#pods.ready];
    return ready[this.#turn++ % Math.max(1, ready.length)] ?? this.#pods.names[0] ?? "";
  }

  async #write(): Promise<void> {
    for (let number = 0; !this.#stopping.signal.aborted; number++) {
      const id = `more-${number}`;
      const { status } = await this.#pods.nodes
        .ask(this.#next(), `/${index}/_doc/${id}`, "PUT", { text: id })
        .catch(() => ({ status: 0 }));
      if (status === 201) this.acknowledged.push(id);
      await delay(pauseMs);
    }
  }

  async #read(documents: number): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const name = this.#next();
      const failure = await this.#readOnce(name, documents).catch((error) => `${error}: ${error.cause}`);
      if (failure !== undefined) this.readErrors.push(`${name}: ${failure}`);
      await delay(pauseMs);
    }
  }

  async #readOnce(name: string, documents: number): Promise<string | undefined> {
    const search = await this.#pods.nodes.ask<Found>(name, `/${index}/_search?size=0&track_total_hits=true`);
    if (search.status !== 200) return JSON.stringify(search.body);
    const { _shards: shards, hits } = search.body;
    if (shards.failed > 0 || hits.total.value < documents) return `${hits.total.value} documents`;
    const { body } = await this.#pods.nodes.ask<Health>(name, "/_cluster/health?local=true");
    this.fewestNodes = Math.min(this.fewestNodes, body.number_of_nodes);
    return undefined;
  }
}
