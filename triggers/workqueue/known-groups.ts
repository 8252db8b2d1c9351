/** Remembers the group of each StatefulSet as a reconcile last saw it, so that an event about a known one costs no read. */
import { BoundedMap } from "../../functions/shared/base/bounded-map.ts";
import type { GroupCache, GroupView } from "../../functions/shared/cache/cache.ts";
import { type GroupKey, isStatefulSet, type StatefulSet } from "../../functions/shared/workloads/statefulsets.ts";

/** More StatefulSets than a cluster has; beyond them the one that was learnt first is forgotten. */
export const mostKnown = 100_000;

/** It learns only from answers of the API server, never from an event: only a client that creates StatefulSets can fill it. */
export class KnownGroups {
  readonly #groups = new BoundedMap<string, GroupKey>(mostKnown);
  readonly #onMove: (to: GroupKey) => void;

  /** `onMove` is called with the new group when a StatefulSet is found to have left another one. */
  constructor(onMove: (to: GroupKey) => void) {
    this.#onMove = onMove;
  }

  /** Undefined for a StatefulSet that is unknown, or was last seen in no group. */
  groupOf(namespace: string, statefulSet: string): GroupKey | undefined {
    return this.#groups.get(`${namespace}/${statefulSet}`);
  }

  /** The same cache. Its reads are remembered here. */
  learningFrom(cache: GroupCache): GroupCache {
    return {
      ...cache,
      read: async (key, need) => {
        const view = await cache.read(key, need);
        this.#learn(key, view);
        return view;
      },
      groups: (namespace) => cache.groups(namespace, (one) => this.#put(one)),
      groupOf: async (namespace, name) => {
        const found = await cache.groupOf(namespace, name);
        this.#put({ namespace, name, group: found?.group });
        return found;
      },
    };
  }

  #learn(key: GroupKey, { workloads, neighbours }: GroupView): void {
    for (const one of workloads.filter(isStatefulSet)) this.#put(one);
    for (const one of neighbours) this.#put(one);
    if (workloads.length > 0) return;
    for (const [path, { namespace, group }] of this.#groups) {
      if (namespace === key.namespace && group === key.group) this.#groups.delete(path);
    }
  }

  #put({ namespace, name, group }: Pick<StatefulSet, "namespace" | "name" | "group">): void {
    const path = `${namespace}/${name}`;
    const before = this.#groups.get(path);
    if (before?.group === group) return;
    this.#groups.delete(path);
    if (group === undefined) return;
    this.#groups.set(path, { namespace, group });
    if (before !== undefined) this.#onMove({ namespace, group });
  }
}
