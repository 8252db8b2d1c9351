/**
 * Views that are as stale as rule R5 permits, on purpose: each part has any revision from `settled-through` on, up to 30 s
 * old.
 */

import {
  type GroupCache,
  type GroupView,
  getPod,
  silentAfterMs,
  type ViewNeed,
} from "../../functions/shared/cache/cache.ts";
import {
  getGroupOf,
  getOwnerOf,
  getStatefulSet,
  listGroups,
  listOrphans,
  listPodsMadeFor,
} from "../../functions/shared/cache/listing.ts";
import {
  type HasPods,
  parseStoredBudget,
  type StoredBudget,
  selects,
  surroundingsOf,
} from "../../functions/shared/groups/governing.ts";
import { parseDisruptionBudget } from "../../functions/shared/groups/pod-disruption-budget.ts";
import { type Cluster, ClusterError, type ZoneBudgetObject } from "../../functions/shared/kubernetes/cluster.ts";
import { type Pod, parsePod } from "../../functions/shared/workloads/pods.ts";
import { type GroupKey, parseStatefulSet, type StatefulSet } from "../../functions/shared/workloads/statefulsets.ts";
import type { StoredPod, StoredStatefulSet } from "../fake-cluster/objects.ts";
import type { World } from "../fake-cluster/world.ts";
import type { Draw } from "./draw.ts";

export interface StaleViewsOptions {
  readonly world: World;
  readonly cluster: Cluster;
  readonly draw: Draw;
  /** Shares of parts that are as old as possible, and of parts with any age in between; all others are current. */
  readonly staleness: () => {
    readonly oldest: number;
    readonly between: number;
  };
  /** Receives each view that is handed out, and the key of its group. */
  readonly onView: (key: GroupKey, view: GroupView) => void;
}

/**
 * The product's form of one world's objects, each of which is parsed once. One map for each world, because collecting a weak
 * map with thousands of dying entries is expensive.
 */
class Parsed {
  readonly #pods = new Map<StoredPod, Pod>();
  readonly #statefulSets = new Map<StoredStatefulSet, StatefulSet>();
  readonly #budgets = new Map<ZoneBudgetObject, StoredBudget>();

  readonly pod = (object: StoredPod): Pod => remembered(this.#pods, object, parsePod);
  readonly statefulSet = (object: StoredStatefulSet): StatefulSet => {
    return remembered(this.#statefulSets, object, parseStatefulSet);
  };
  readonly budget = (object: ZoneBudgetObject): StoredBudget => remembered(this.#budgets, object, parseStoredBudget);
}

function remembered<Object, Value>(known: Map<Object, Value>, object: Object, parse: (object: Object) => Value): Value {
  let value = known.get(object);
  if (value === undefined) {
    value = parse(object);
    known.set(object, value);
  }
  return value;
}

const parsedOfWorlds = new WeakMap<World, Parsed>();

function parsedOf(world: World): Parsed {
  const parsed = parsedOfWorlds.get(world) ?? new Parsed();
  parsedOfWorlds.set(world, parsed);
  return parsed;
}

/** The world's revisions over time, so that a view can be kept at most 30 s old. */
export class RevisionClock {
  readonly #points: { readonly atMs: number; readonly revision: number }[] = [];

  note(atMs: number, revision: number): void {
    this.#points.push({ atMs, revision });
  }

  /** The newest revision of the world at that time. */
  at(ms: number): number {
    let low = 0;
    let high = this.#points.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#points[middle]?.atMs ?? 0) <= ms) low = middle + 1;
      else high = middle;
    }
    return this.#points[low - 1]?.revision ?? 0;
  }
}

const isFresh = ({ consistent, settledThrough }: ViewNeed) => consistent || settledThrough === undefined;

/** The StatefulSets of a namespace: from a memory that has reached `members-through`, or from a LIST. */
async function readSets(
  { world, cluster }: StaleViewsOptions,
  namespace: string,
  need: ViewNeed,
  revisionFor: (need: ViewNeed, oldestMs: number) => number,
): Promise<{ all: StatefulSet[]; revision?: number }> {
  const { store, timeline } = world;
  const parsed = parsedOf(world);
  if (!isFresh(need)) {
    if ((need.settledThrough ?? 0) > store.revision) throw tooLarge();
    const through = { ...need, settledThrough: need.membersThrough ?? 0 };
    const revision = revisionFor(through, timeline.nowMs() - silentAfterMs);
    return { all: store.statefulSetsAsOf(namespace, revision).map(parsed.statefulSet) };
  }
  const { items, resourceVersion } = await cluster.list("statefulsets", { namespace });
  const all = items.map((object) => parsed.statefulSet(object as StoredStatefulSet));
  return { all, revision: Number(resourceVersion) };
}

function hasPodsIn(store: World["store"]): HasPods {
  return ({ uid }, budget) =>
    [...store.ownedBy("pods", uid)].some(({ metadata }) => selects(budget, metadata.labels ?? {}));
}

/** Rule R5: a process that permits something reads each member that it knows. */
async function readMembers(cluster: Cluster, members: readonly StatefulSet[]): Promise<StatefulSet[]> {
  const read = await Promise.all(members.map((one) => getStatefulSet(cluster, one)));
  return read.filter((one) => one !== undefined);
}

function tooLarge(): ClusterError {
  const message = "Too large resource version";
  return new ClusterError({
    code: 504,
    reason: "Timeout",
    message,
    verb: "list",
    resource: "pods",
  });
}

/** The pods of each member, each member at a revision of its own. */
function readPods(
  { world }: StaleViewsOptions,
  namespace: string,
  members: readonly StatefulSet[],
  need: ViewNeed,
  revisionFor: (need: ViewNeed, oldestMs: number) => number,
): Pick<GroupView, "podsOf" | "pod" | "seenThrough"> {
  const { store, timeline } = world;
  const parsed = parsedOf(world);
  const byOwner = new Map<string, Pod[]>();
  const byName = new Map<string, Pod>();
  // Like `listPods`: a ledger's first decision accounts for everything that exists (rule R4).
  let seenThrough = need.settledThrough === undefined ? store.revision : 0;
  for (const { uid } of members) {
    const revision = revisionFor(need, timeline.nowMs() - silentAfterMs);
    const pods: Pod[] = [];
    for (const object of store.podsAsOf(namespace, revision)) {
      const pod = parsed.pod(object);
      if (pod.ownerUid !== uid) continue;
      pods.push(pod);
      byName.set(pod.name, pod);
      if (pod.resourceVersion > seenThrough) seenThrough = pod.resourceVersion;
    }
    byOwner.set(uid, pods);
  }
  return { podsOf: ({ uid }) => byOwner.get(uid) ?? [], pod: (name) => byName.get(name), seenThrough };
}

export function createStaleViews(options: StaleViewsOptions, revisions: RevisionClock): GroupCache {
  const { world, cluster, draw, staleness, onView } = options;
  const { store } = world;
  const hasPods = hasPodsIn(store);
  const parsed = parsedOf(world);

  function revisionFor(need: ViewNeed, oldestMs: number): number {
    const now = store.revision;
    if (need.consistent || need.settledThrough === undefined) return now;
    const least = Math.min(now, Math.max(need.settledThrough, revisions.at(oldestMs)));
    const { oldest, between } = staleness();
    return draw.chance(oldest) ? least : draw.chance(between) ? draw.whole(least, now) : now;
  }

  const budgetsOf = (namespace: string): StoredBudget[] =>
    store.list("zoneawarepoddisruptionbudgets", { namespace }).items.map(parsed.budget);

  async function read(key: GroupKey, need: ViewNeed): Promise<GroupView> {
    const { namespace } = key;
    const permits = need.permitSinceMs !== undefined;
    const readMs = cluster.monotonicMs();
    const { all, revision: listedAt } = await readSets(options, namespace, need, revisionFor);
    let surroundings = surroundingsOf(all, key, budgetsOf(namespace), hasPods);
    if (permits && listedAt === undefined) {
      const members = await readMembers(cluster, surroundings.workloads);
      surroundings = surroundingsOf([...members, ...surroundings.neighbours], key, surroundings.budgets, hasPods);
    }
    const view: GroupView = {
      ...surroundings,
      statefulSetsReadMs: permits || listedAt !== undefined ? readMs : undefined,
      ...readPods(options, namespace, surroundings.workloads, need, revisionFor),
      membersThrough: Math.max(0, ...surroundings.workloads.map(({ resourceVersion }) => Number(resourceVersion))),
      consistentAt: listedAt === undefined ? undefined : { pods: store.revision, statefulSets: listedAt },
    };
    onView(key, view);
    return view;
  }

  return {
    isLasting: true,
    read,
    // Reports no change to a function that waits for one, which therefore reconciles again by itself.
    onChange() {},
    learn() {},
    groups: () => listGroups(cluster, undefined),
    groupOf: (namespace, name) => getGroupOf(cluster, namespace, name),
    pod: (key) => getPod(cluster, key),
    ownerOf: (pod) => getOwnerOf(cluster, pod),
    podsMadeFor: (statefulSet) => listPodsMadeFor(cluster, statefulSet),
    orphans: (namespace) => listOrphans(cluster, namespace),
    budgets: async (namespace) => budgetsOf(namespace),
    disruptionBudgets: async (namespace) =>
      store.list("poddisruptionbudgets", { namespace }).items.map(parseDisruptionBudget),
  };
}
