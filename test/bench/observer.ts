/** Watches the pods of groups independently of the contender, and reports what happened to them. */
import { Api, type ApiAccess } from "../controlplane/api.ts";
import type { FixtureGroup } from "../controlplane/fixtures.ts";
import { linesOf } from "../controlplane/lines.ts";
import { type ObservedPod, Tally, type TallyOptions, type ZoneReport } from "./tally.ts";

export interface Observation {
  readonly zones: readonly ZoneReport[];
  /** Most pods of one zone, and most zones of one group, that were down at the same time. */
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
  /** Tallies by the name of the group. */
  readonly #tallies: ReadonlyMap<string, Tally>;
  readonly #done = Promise.withResolvers<number>();
  #closed = false;

  private constructor(api: Api, tallies: ReadonlyMap<string, Tally>) {
    this.#api = api;
    this.#tallies = tallies;
    // The watch may break before a caller waits for the end.
    this.#done.promise.catch(() => {});
  }

  /**
   * Resolves when it watches the groups of one namespace. Throws if a pod is down already, because the counts would not be the
   * contender's doing.
   *
   * @param isNew true for a pod of the new kind
   *
   * @param except a pod that the bench does not wait for
   */
  static async start(
    access: ApiAccess,
    groups: readonly FixtureGroup[],
    isNew: (pod: ObservedPod) => boolean,
    except?: TallyOptions["except"],
  ): Promise<Observer> {
    const api = await Api.open(access, { userAgent: "sluice-test-observer", connections: 1 });
    const tallyOf = ({ name, statefulSets, pods }: FixtureGroup): Tally => {
      const zones = statefulSets.map((statefulSet) => statefulSet.slice(name.length + 1));
      return new Tally({ zones, pods, isNew, ...(except && { except }) });
    };
    const observer = new Observer(api, new Map(groups.map((group) => [group.name, tallyOf(group)])));
    try {
      const path = `/api/v1/namespaces/${groups[0]?.namespace}/pods`;
      const version = await observer.#list(path);
      const all = groups.reduce((sum, { statefulSets, pods }) => sum + statefulSets.length * pods, 0);
      const up = [...observer.#tallies.values()].reduce((sum, tally) => sum + tally.up, 0);
      if (up < all) throw new Error(`${all - up} pods are down before anything begins`);
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
   * Time at which the last pod was up and new, by `performance.now()`. Rejects if the watch broke, because its events are
   * lost.
   */
  get done(): Promise<number> {
    return this.#done.promise;
  }

  /** The observation so far. Times are relative to `startedMs` of `performance.now()`. */
  observation(startedMs = 0): Observation {
    const since = (ms: number | undefined) => (ms === undefined ? undefined : Math.round(ms - startedMs));
    const tallies = [...this.#tallies.values()];
    const zones = tallies.flatMap((tally) => tally.report());
    return {
      zones: zones.map((zone) => ({ ...zone, firstDownMs: since(zone.firstDownMs), doneMs: since(zone.doneMs) })),
      mostDown: Math.max(...zones.map(({ mostDown }) => mostDown)),
      mostZonesDown: Math.max(...tallies.map(({ mostZonesDown }) => mostZonesDown)),
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
      for (const pod of page.items) this.#tallyOf(pod)?.begin(pod);
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
    const tally = this.#tallyOf(object);
    tally?.apply(type, object, performance.now());
    // The observation ends when all groups are done.
    if (tally?.doneMs === undefined) return;
    const done = [...this.#tallies.values()].map(({ doneMs }) => doneMs);
    if (done.every((doneMs) => doneMs !== undefined)) this.#done.resolve(Math.max(...done));
  }

  #tallyOf({ metadata }: ObservedPod): Tally | undefined {
    return this.#tallies.get(metadata.labels?.["rollout-group"] ?? "");
  }
}
