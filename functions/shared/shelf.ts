/** A few objects of one type, kept by a watch: budgets of both kinds. What is not heard of for a while is listed anew. */
import type { Cluster, Metadata, WatchEvent } from "./cluster.ts";
import type { Store } from "./memory.ts";
import { silentAfterMs } from "./views.ts";

interface Kept<T> {
  readonly namespace: string;
  readonly uid: string;
  readonly generation: number;
  readonly resourceVersion: number;
  readonly value: T;
}

/** What became of an object that a watch told of; `ignored`: its spec is the one that is known. */
export type Seen = "updated" | "ignored" | "deleted";

export interface Shelf<T> {
  readonly store: Store<{ readonly metadata: Metadata }>;
  /** What is on it of a namespace: as the watch told in the last 30 s, or by `list`. Rejects as that does. */
  read(namespace: string, list: () => Promise<readonly { readonly metadata: Metadata }[]>): Promise<readonly T[]>;
}

/** An empty shelf. `seen` hears of every object that the watch tells of. */
export function createShelf<T, O extends { readonly metadata: Metadata }>(
  clock: Pick<Cluster, "monotonicMs">,
  parse: (object: O) => T,
  seen: (value: T, how: Seen) => void,
): Shelf<T> {
  const kept = new Map<string, Kept<T>>();
  let reached = 0;
  let heardMs = Number.NEGATIVE_INFINITY;
  const listedMs = new Map<string, number>();
  const heard = (revision: number) => {
    reached = Math.max(reached, revision);
    heardMs = clock.monotonicMs();
  };
  const put = (object: O): void => {
    const { namespace = "", name, uid, generation = 0 } = object.metadata;
    const resourceVersion = Number(object.metadata.resourceVersion);
    const before = kept.get(`${namespace}/${name}`);
    if (before !== undefined && before.resourceVersion > resourceVersion) return;
    const value = parse(object);
    kept.set(`${namespace}/${name}`, { namespace, uid, generation, resourceVersion, value });
    // A budget without a status subresource in use changes its generation with every change of its spec.
    seen(value, before?.uid === uid && generation > 0 && before.generation >= generation ? "ignored" : "updated");
  };
  const remove = (path: string): void => {
    const before = kept.get(path);
    if (kept.delete(path) && before !== undefined) seen(before.value, "deleted");
  };
  const replace = (objects: readonly O[], namespace?: string): void => {
    const listed = new Set(objects.map(({ metadata }) => `${metadata.namespace ?? ""}/${metadata.name}`));
    for (const [path, one] of [...kept]) {
      if ((namespace === undefined || one.namespace === namespace) && !listed.has(path)) remove(path);
    }
    for (const object of objects) put(object);
  };
  return {
    store: {
      replace(objects, resourceVersion) {
        replace(objects as readonly O[]);
        heard(Number(resourceVersion));
      },
      apply(event: WatchEvent<{ readonly metadata: Metadata }>) {
        if (event.type === "BOOKMARK") return heard(Number(event.resourceVersion));
        const { namespace = "", name, resourceVersion } = event.object.metadata;
        const path = `${namespace}/${name}`;
        // A list may have told of one that was made again since.
        const isNews = (kept.get(path)?.resourceVersion ?? 0) <= Number(resourceVersion);
        if (event.type !== "DELETED") put(event.object as O);
        else if (isNews) remove(path);
        heard(Number(resourceVersion));
      },
    },
    async read(namespace, list) {
      const askedMs = clock.monotonicMs();
      const before = reached;
      if (askedMs - Math.max(heardMs, listedMs.get(namespace) ?? heardMs) > silentAfterMs) {
        const objects = (await list()) as readonly O[];
        // Whatever the watch or a list that was asked for later told meanwhile is newer.
        if (reached === before && askedMs >= (listedMs.get(namespace) ?? askedMs)) {
          replace(objects, namespace);
          listedMs.set(namespace, askedMs);
        }
      }
      return [...kept.values()].filter((one) => one.namespace === namespace).map(({ value }) => value);
    },
  };
}
