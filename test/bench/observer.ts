/** Watches a group's pods for itself, beside the contender, and says what became of them. */
import { Api, type ApiAccess } from "../controlplane/api.ts";
import type { FixtureGroup } from "../controlplane/fixtures.ts";
import { linesOf } from "../controlplane/lines.ts";
import { type ObservedPod, Tally, type ZoneReport } from "./tally.ts";

export interface Observation {
  readonly zones: readonly ZoneReport[];
  /** Pods of one zone, and zones, that were down at one moment, at most. */
  readonly mostDown: number;
  readonly mostZonesDown: number;
}

interface WatchEvent {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";
  readonly object: ObservedPod;
}

const pageSize = 500;

export class Observer {
  readonly #api: Api;
  readonly #tally: Tally;
  readonly #done = Promise.withResolvers<number>();
  #closed = false;

  private constructor(api: Api, tally: Tally) {
    this.#api = api;
    this.#tally = tally;
    // It may break off before anybody waits for the end.
    this.#done.promise.catch(() => {});
  }

  /**
   * Resolves when it watches. Throws when not all pods are up: what is counted would not be the contender's doing.
   *
   * @param isNew tells the pods that are to come
   */
  static async start(access: ApiAccess, group: FixtureGroup, isNew: (pod: ObservedPod) => boolean): Promise<Observer> {
    const api = await Api.open(access, { userAgent: "sluice-test-observer", connections: 1 });
    const zones = group.statefulSets.map((name) => name.slice(group.name.length + 1));
    const tally = new Tally({ zones, pods: group.pods, isNew });
    const observer = new Observer(api, tally);
    try {
      const path = `/api/v1/namespaces/${group.namespace}/pods`;
      const version = await observer.#list(path);
      const missing = zones.length * group.pods - tally.up;
      if (missing > 0) throw new Error(`${missing} pods are down before anything begins`);
      const answer = await api.send("GET", `${path}?watch=true&resourceVersion=${version}`);
      if (answer.statusCode !== 200) throw new Error(`the observer's watch was refused: ${answer.statusCode}`);
      observer.#follow(linesOf(answer.body)).catch((error: unknown) => observer.#fail(error));
    } catch (error) {
      await api.close();
      throw error;
    }
    return observer;
  }

  /**
   * When the last pod was up and new, by `performance.now()`. Rejects when the watch broke off: what it would
   * have told is lost.
   */
  get done(): Promise<number> {
    return this.#done.promise;
  }

  /** What was seen until now; times are relative to `startedMs` of `performance.now()`. */
  observation(startedMs = 0): Observation {
    const since = (ms: number | undefined) => (ms === undefined ? undefined : Math.round(ms - startedMs));
    const zones = this.#tally.report();
    return {
      zones: zones.map((zone) => ({ ...zone, firstDownMs: since(zone.firstDownMs), doneMs: since(zone.doneMs) })),
      mostDown: Math.max(...zones.map(({ mostDown }) => mostDown)),
      mostZonesDown: this.#tally.mostZonesDown,
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#api.close();
  }

  #fail(error: unknown): void {
    if (!this.#closed) this.#done.reject(new Error("the observer's watch broke off", { cause: error }));
  }

  async #list(path: string): Promise<string> {
    let next = "";
    for (;;) {
      const page = await this.#api.get<{
        metadata: { resourceVersion: string; continue?: string };
        items: ObservedPod[];
      }>(`${path}?limit=${pageSize}&continue=${encodeURIComponent(next)}`);
      for (const pod of page.items) this.#tally.begin(pod);
      next = page.metadata.continue ?? "";
      if (next === "") return page.metadata.resourceVersion;
    }
  }

  async #follow(lines: AsyncIterable<string>): Promise<void> {
    for await (const line of lines) this.#take(JSON.parse(line) as WatchEvent);
    throw new Error("the API server ended it");
  }

  #take({ type, object }: WatchEvent): void {
    if (type === "BOOKMARK") return;
    if (type === "ERROR") throw new Error(JSON.stringify(object));
    this.#tally.apply(type, object, performance.now());
    const { doneMs } = this.#tally;
    if (doneMs !== undefined) this.#done.resolve(doneMs);
  }
}
