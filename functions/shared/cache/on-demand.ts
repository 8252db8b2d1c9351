/**
 * Views of a process that lives only while it has work. From the first decision in a namespace on it watches that namespace and
 * decides from memory. The watches end when no function has asked for some seconds.
 */

import { BoundedMap } from "../base/bounded-map.ts";
import { hasCode, type ObjectKey, type Resource } from "../kubernetes/cluster.ts";
import { isOwnerGroup } from "../workloads/group-key.ts";
import type { GroupKey } from "../workloads/statefulsets.ts";
import type { GroupCache, ViewNeed } from "./cache.ts";
import { createListReader } from "./listing.ts";
import { NamespaceWatch, type NamespaceWatchOptions, type WatchEnd } from "./namespace-watch.ts";
import { type FollowOptions, Pauses } from "./reflector.ts";

export interface OnDemandOptions
  extends Pick<NamespaceWatchOptions, "cluster" | "idleMs" | "onChange" | "onTrouble">,
    Pick<FollowOptions, "leastBackoffMs"> {
  /** Of sweeps; all of them when undefined. */
  readonly namespaces: readonly string[] | undefined;
}

export interface OnDemandCache extends GroupCache {
  /** True while decisions about groups of the namespace are made from memory. */
  isWatched(namespace: string): boolean;
  /** Takes an event of a changed object. A watch that does not report that object within a second is ended. */
  noteEvent(resource: Resource, object: ObjectKey): void;
  /** How many watches are open. */
  readonly watches: number;
  /** Lets all watches go, and opens no more. Resolves when none is left. */
  stop(): Promise<void>;
}

/** Each has three watches, and a connection for each of them. */
const mostNamespaces = 20;
/** Sweeps reconcile all namespaces, most of which have no work, so that they leave room for the namespaces of events. */
const mostSwept = 10;
/** Pods of a namespace that are kept, at most: in more of them a group of a few is listed by its labels. */
const mostPods = 10_000;
/** A watch that serves for less than this was hardly worth its cost, and the one after the next has to wait. */
const serveMs = 10_000;
/** A namespace does not become small within seconds. */
const tooLargeRestMs = 600_000;
/** Namespaces whose watches broke lately. One that is forgotten is tried again at once. */
const rememberedRests = 1_000;

interface WatchPause {
  readonly pauses: Pauses;
  untilMs: number;
}

/** Views that list, and watch a namespace from the first decision in it on until no function has asked for `idleMs`. */
export function createOnDemandCache(options: OnDemandOptions): OnDemandCache {
  const { cluster, namespaces } = options;
  const listing = createListReader(cluster, namespaces);
  const watches = new Watches(options);
  const of = (namespace: string): GroupCache => watches.ready(namespace)?.cache ?? listing;
  return {
    // The list reader is short-lived here: it has known nothing for long.
    isLasting: false,
    async read(key, need) {
      // No watch serves a group of an owner, whose view is made of other objects.
      if (isOwnerGroup(key.group)) return listing.read(key, need);
      const watch = watches.find(key);
      if (watch !== undefined && (await watch.opened)) return watch.use(key, (cache) => cache.read(key, need));
      // A caller that needs the members alone has no work yet.
      const opened = watch === undefined && !need.membersOnly ? watches.open(key, need) : undefined;
      // These lists are requested now, after the ledger was read, and for this caller.
      if (opened !== undefined && (await opened.opened))
        return opened.use(key, (cache) => cache.readFirst(key, need, opened.beganMs));
      return listing.read(key, need);
    },
    learn: (object) => of(object.metadata.namespace ?? "").learn(object),
    groups: listing.groups,
    groupOf: listing.groupOf,
    pod: (key, lookUps) => of(key.namespace).pod(key, lookUps),
    ownerOf: (pod, lookUps) => of(pod.namespace).ownerOf(pod, lookUps),
    podsMadeFor: (statefulSet) => of(statefulSet.namespace).podsMadeFor(statefulSet),
    orphans: (namespace) => of(namespace).orphans(namespace),
    budgets: (namespace) => of(namespace).budgets(namespace),
    disruptionBudgets: (namespace) => of(namespace).disruptionBudgets(namespace),
    isWatched: (namespace) => watches.ready(namespace) !== undefined,
    noteEvent: (resource, object) => watches.ready(object.namespace)?.doubt(resource, object),
    get watches() {
      return watches.count;
    },
    stop: () => watches.stop(),
  };
}

class Watches {
  readonly #options: OnDemandOptions;
  readonly #byNamespace = new Map<string, NamespaceWatch>();
  readonly #rests = new BoundedMap<string, WatchPause>(rememberedRests);
  readonly #ending = new Set<Promise<void>>();
  #isStopped = false;

  constructor(options: OnDemandOptions) {
    this.#options = options;
  }

  get count(): number {
    return [...this.#byNamespace.values()].reduce((sum, { cache }) => sum + cache.watches, 0);
  }

  /** The watches from whose memory decisions are made now. */
  ready(namespace: string): NamespaceWatch | undefined {
    const watch = this.#byNamespace.get(namespace);
    return watch?.isReady === true && !watch.isOver() ? watch : undefined;
  }

  /** The watches for a group that are open, or are being opened. */
  find({ namespace }: GroupKey): NamespaceWatch | undefined {
    const known = this.#byNamespace.get(namespace);
    return known?.isOver() === false ? known : undefined;
  }

  /** New watches for a group; undefined if there is a reason against them. */
  open({ namespace }: GroupKey, { consistent }: ViewNeed): NamespaceWatch | undefined {
    const restsUntilMs = this.#rests.get(namespace)?.untilMs ?? Number.NEGATIVE_INFINITY;
    const most = consistent ? mostSwept : mostNamespaces;
    const rests = this.#options.cluster.monotonicMs() < restsUntilMs;
    if (rests || this.#isStopped || this.#byNamespace.size >= most) return undefined;
    const watch = new NamespaceWatch({
      ...this.#options,
      namespace,
      mostPods,
      onEnd: (...ended) => this.#ended(namespace, ...ended),
    });
    this.#byNamespace.set(namespace, watch);
    return watch;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all([...this.#byNamespace.values()].map((watch) => watch.stop()));
    await Promise.all(this.#ending);
  }

  #ended(namespace: string, watch: NamespaceWatch, how: WatchEnd, known: Iterable<GroupKey>, error?: unknown): void {
    this.#byNamespace.delete(namespace);
    const ended = watch.stop();
    this.#ending.add(ended);
    void ended.then(() => this.#ending.delete(ended));
    if (how === "broken") this.#rest(namespace, watch, error);
    if (how !== "broken" && how !== "overslept") return;
    // A reconcile may have come before the watches would have reported a change, and no event reports that again.
    for (const key of known) {
      this.#options.onChange(key, "statefulsets");
      this.#options.onChange(key, "pods");
    }
  }

  #rest(namespace: string, { beganMs }: NamespaceWatch, error: unknown): void {
    const nowMs = this.#options.cluster.monotonicMs();
    const rest = this.#rests.get(namespace) ?? { pauses: new Pauses(), untilMs: nowMs };
    this.#rests.set(namespace, rest);
    const leastMs = hasCode(error, 413) ? tooLargeRestMs : (this.#options.leastBackoffMs?.(error) ?? 0);
    rest.untilMs = nowMs + Math.max(rest.pauses.next(nowMs - beganMs < serveMs), leastMs);
  }
}
