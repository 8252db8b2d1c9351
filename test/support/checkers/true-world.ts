/**
 * Invariants Z1 to Z4 and E1 by the objects of the world: over pods that were Ready when our deletion, or an eviction that we
 * allowed, took them, whatever any process believed.
 */
import type { NamespacedMetadata, StoredPod, StoredStatefulSet } from "../../fake-cluster/objects.ts";
import type { World } from "../../fake-cluster/world.ts";
import { type BudgetPast, evictions, type Governance, governanceOf, groupOf } from "./budgets.ts";
import { DownTimes } from "./down-times.ts";
import { isWithinBudget, type Situation, type Taken, type Terms } from "./limits.ts";
import type { Past } from "./past.ts";
import {
  type Budget,
  has,
  isPaused,
  isTerminating,
  isUp,
  ordinalIn,
  ownerOf,
  type Reserved,
  revisionOf,
  setNameOf,
  strategyOf,
  upSinceMs,
  wantedRevision,
  wantsOrdinal,
} from "./raw.ts";

type Key = Pick<NamespacedMetadata, "namespace" | "name">;
type Conditions = { readonly uid?: string; readonly resourceVersion?: string };

/** Age that a read may have when the deletion is sent, by invariants Z3 and Z4. */
const readWithinMs = 5_000;
/**
 * Age that a process's knowledge of a budget, or of the members of a group, may have: a watch delivers it, and is read again
 * after 30 s of silence.
 */
const knownWithinMs = 35_000;

/** When the ledger first held a pod's current reservation, and when each function last wrote one. */
interface Noted {
  readonly firstMs: number;
  readonly lastMs: Readonly<Partial<Record<Terms, number>>>;
  readonly group: string;
  /**
   * True: a later write no longer held it, so it was withdrawn or its ledger was lost. A new reservation of the pod is another
   * decision.
   */
  readonly isDropped: boolean;
}

/** True if the API server will answer 409 because the pod is another one. A test may remove conditions. */
function isOther({ metadata }: StoredPod, { uid, resourceVersion }: Conditions): boolean {
  if (uid !== undefined && metadata.uid !== uid) return true;
  return resourceVersion !== undefined && metadata.resourceVersion !== resourceVersion;
}

export interface TrueWorldOptions {
  readonly world: World;
  readonly past: Past;
  readonly budgets: BudgetPast;
  readonly namespace: string;
  /** Greatest error of clocks. The checker is as lenient about the time since which a pod is ready. */
  readonly skewMs: number;
  readonly violate: (invariant: string, message: string) => void;
}

export class TrueWorldChecker {
  readonly #options: TrueWorldOptions;
  readonly #world: World;
  readonly #past: Past;
  readonly #downTimes: DownTimes;
  readonly #taken = new Map<string, Taken>();
  readonly #sentMs = new Map<string, number>();
  readonly #reserved = new Map<string, Noted>();
  /** Uids of the reservations that no later write has dropped. */
  readonly #standing = new Set<string>();
  /** Replacements of taken pods, and since when they are ready: a cross-zone delay counts from then. */
  readonly #returned: Taken[] = [];

  constructor(options: TrueWorldOptions) {
    this.#options = options;
    this.#world = options.world;
    this.#past = options.past;
    this.#downTimes = new DownTimes(options.world, options.past, options.namespace);
    this.#world.store.onChange("statefulsets", () => this.#reviewAll());
    this.#world.store.onChange("pods", ({ final, previous, current }) => {
      const { name, namespace } = final.metadata;
      if (namespace !== options.namespace) return;
      if (current === undefined || isTerminating(current)) {
        this.#forgetReturned(name);
        this.#reviewAll();
      }
      const entry = this.#taken.get(name);
      if (entry === undefined || previous === undefined) return;
      this.#returnIfBack(entry, previous);
      // The replacement was Ready and is lost again, though no function took it: no process answers for this gap.
      const lost = current === undefined || !isUp(current);
      if (previous.metadata.uid !== entry.uid && isUp(previous) && lost) this.#taken.delete(entry.pod);
    });
  }

  /** A replacement that is lost or taken again starts no delay any more. */
  #forgetReturned(pod: string): void {
    for (let index = this.#returned.length - 1; index >= 0; index--) {
      if (this.#returned[index]?.pod === pod) this.#returned.splice(index, 1);
    }
  }

  /**
   * Checks all pods at once, because a pod that a scale-down no longer wants counts as returned even if a scale-up wants it
   * again.
   */
  #reviewAll(): void {
    for (const entry of [...this.#taken.values()]) this.#review(entry);
  }

  /** Notes when a pod's deletion was first sent: until it arrives, the budgets of that time still apply. */
  noteSent({ uid }: Conditions): void {
    if (uid !== undefined && !this.#sentMs.has(uid)) this.#sentMs.set(uid, this.#world.timeline.nowMs());
  }

  /** Checks Z3 and Z4 when a rollout sends a deletion. */
  onSent(replica: string, key: Key, preconditions: Conditions): void {
    const pod = this.#world.store.find("pods", key);
    if (pod === undefined || isOther(pod, preconditions)) return;
    const name = setNameOf(key.name);
    const revision = revisionOf(pod);
    // Let go of a moment ago: a process that looked up to five seconds before saw whose it was.
    const owner = ownerOf(pod);
    const isOwner = ({ metadata }: { readonly metadata: { readonly uid: string } }) =>
      owner === undefined || metadata.uid === owner;
    const states = this.#past.lately(name, readWithinMs).filter(isOwner);
    const what = `${replica} deletes ${key.name}`;
    const isOutdated = states.some((set) => wantedRevision(set) !== undefined && wantedRevision(set) !== revision);
    if (!isOutdated) {
      this.#options.violate(
        "Z3",
        `${what} of revision ${revision}, which no StatefulSet of the last 5 s called outdated`,
      );
    }
    if (states.length > 0 && states.every(isPaused))
      this.#options.violate("Z4", `${what}, and ${name} has been paused for 5 s`);
    const groups = new Set(states.map((set) => this.#groupOf(set)));
    const isMember = (set: StoredStatefulSet) => groups.has(this.#groupOf(set));
    const isForeign = (set: StoredStatefulSet) => isMember(set) && strategyOf(set) !== "OnDelete";
    for (const other of this.#past.names()) {
      // A process reads the members before a deletion, but learns only from a watch that a StatefulSet has become one.
      const isKnown = groups.size === 1 && this.#past.stood(other, knownWithinMs, isMember);
      if (isKnown && this.#past.stood(other, readWithinMs, isForeign))
        this.#options.violate("Z4", `${what}, and ${other} has not been OnDelete for 5 s`);
    }
  }

  /** Notes what a write of a group's ledger has reserved or renewed, and which reservations it no longer holds. */
  noteWritten(group: string, made: readonly Reserved[], all: readonly Reserved[]): void {
    const named = new Set(all.map(({ uid }) => uid));
    for (const uid of this.#standing) {
      const noted = this.#reserved.get(uid) as Noted;
      if (noted.group !== group || named.has(uid)) continue;
      this.#standing.delete(uid);
      this.#reserved.set(uid, { ...noted, isDropped: true });
    }
    const nowMs = this.#world.timeline.nowMs();
    for (const { uid, by: name } of made) {
      const by: Terms = name === evictions ? "eviction" : "rollout";
      const before = this.#reserved.get(uid);
      // An eviction may take over a pod that a rollout has reserved and is about to delete: each answers for its own decision.
      const firstMs = before === undefined || before.isDropped ? nowMs : before.firstMs;
      this.#reserved.set(uid, { firstMs, lastMs: { ...before?.lastMs, [by]: nowMs }, group, isDropped: false });
      this.#standing.add(uid);
    }
  }

  /** Checks Z1, Z2 and E1 when the API server carries out a deletion or an eviction. */
  onArrived(replica: string, by: Terms | "ungoverned", key: Key, preconditions: Conditions): void {
    const pod = this.#world.store.find("pods", key);
    if (pod === undefined || !isUp(pod) || isOther(pod, preconditions)) return;
    this.#reviewAll();
    const { uid, labels = {} } = pod.metadata;
    const atMs = this.#world.timeline.nowMs();
    const noted = this.#reserved.get(uid);
    const reservedMs = by === "ungoverned" ? undefined : noted?.lastMs[by];
    const sinceMs = Math.min(this.#sentMs.get(uid) ?? atMs, reservedMs ?? atMs);
    const windowMs = knownWithinMs + atMs - sinceMs;
    const { violate, budgets } = this.#options;
    const governed = budgets.lately(windowMs).map((objects) => {
      return governanceOf(objects, labels, (budget) => this.#spans(budget, windowMs));
    });
    // Sluice promises nothing for a pod that no budget governs, and does not count it.
    if (by === "ungoverned") {
      if (!governed.includes("none")) violate("E1", `${replica} took ${key.name}, and a budget governed it`);
      return;
    }
    const set = setNameOf(key.name);
    const states = this.#past.lately(set, readWithinMs + atMs - sinceMs);
    const entry: Taken = {
      uid,
      pod: key.name,
      set,
      labels,
      group: noted?.group ?? (states[0] === undefined ? undefined : this.#groupOf(states[0])),
      ordinal: ordinalIn(key.name),
      atMs,
      by,
      reservedMs: noted?.firstMs ?? Number.NEGATIVE_INFINITY,
      readyMs: undefined,
    };
    const situation = this.#situationOf(entry, reservedMs, states, windowMs);
    // A client that asked again was told that no budget governs the pod; a process that took other pods meanwhile counted it.
    if (by === "eviction" && reservedMs !== undefined && this.#isFreeSince(reservedMs, labels, windowMs)) return;
    this.#check(`${replica} took ${key.name} (${by})`, governed, situation);
  }

  /** True if a budget governed the pod at that time, and at some later time none did. */
  #isFreeSince(sinceMs: number, labels: Readonly<Record<string, string>>, windowMs: number): boolean {
    const states = this.#options.budgets.lately(this.#world.timeline.nowMs() - sinceMs);
    const governed = states.map((objects) => governanceOf(objects, labels, (budget) => this.#spans(budget, windowMs)));
    return governed.at(-1) !== "none" && governed.slice(0, -1).includes("none");
  }

  #situationOf(entry: Taken, reservedMs: number | undefined, states: Situation["states"], windowMs: number): Situation {
    const lastMs = reservedMs ?? Number.POSITIVE_INFINITY;
    const earlier = [...this.#taken.values()].filter((other) => {
      // A rollout's reservation obeyed its own limits; a later eviction may obey wider ones.
      return !(entry.by === "rollout" && other.by === "eviction" && other.reservedMs > lastMs);
    });
    this.#taken.set(entry.pod, entry);
    const isMember = (set: StoredStatefulSet) => this.#groupOf(set) === entry.group;
    const longDown = new Map<string, string[]>();
    for (const name of this.#past.names()) {
      const down = [
        ...this.#downTimes.longDown(name, windowMs, isMember),
        ...this.#downTimes.leftDown(name, windowMs, isMember),
      ];
      if (down.length > 0) longDown.set(name, down);
    }
    return {
      entry,
      earlier,
      // An orphan belongs to no zone while its StatefulSet is gone, and no cross-zone delay counts it. Only a watch reports
      // that the StatefulSet was made again, or has joined a group.
      returned: this.#returned.filter((back) => this.#past.stood(back.set, windowMs)),
      states,
      longDown,
      isOfGroup: (name) => this.#past.stood(name, windowMs, isMember),
      skewMs: this.#options.skewMs,
      takenNow: this.#taken,
    };
  }

  /** A process may know an old budget: one of the states since then must have allowed it. */
  #check(what: string, governed: readonly Governance[], situation: Situation): void {
    const broken = governed.map((governance) => isWithinBudget(governance, situation));
    const [violation] = broken;
    if (violation === undefined || broken.includes(undefined)) return;
    this.#options.violate(violation.invariant, `${what}: ${violation.message}`);
  }

  #groupOf(set: StoredStatefulSet): string | undefined {
    return groupOf(set, this.#options.budgets.lately(0)[0] ?? []);
  }

  /** True if a budget has selected, by their templates, pods of two groups during all of the last `ms`. */
  #spans({ selected }: Budget, ms: number): boolean {
    const groups = new Set<string | undefined>();
    for (const name of this.#past.names()) {
      const [now] = this.#past.lately(name, ms);
      if (now === undefined) continue;
      const group = this.#groupOf(now);
      const isSelected = ({ spec, metadata }: StoredStatefulSet) =>
        has(spec.template.metadata?.labels, selected) &&
        metadata.labels?.["rollout-group"] === now.metadata.labels?.["rollout-group"];
      if (this.#past.stood(name, ms, isSelected)) groups.add(group);
    }
    return groups.size > 1;
  }

  /** Forgets pods that are back, pods that are gone and no longer wanted, and pods that went with their StatefulSet. */
  #review(entry: Taken): void {
    const { store } = this.#world;
    const { namespace } = this.#options;
    const pod = store.find("pods", { namespace, name: entry.pod });
    if (pod?.metadata.uid === entry.uid) return;
    if (pod !== undefined) this.#returnIfBack(entry, pod);
    const set = store.find("statefulsets", { namespace, name: entry.set });
    const isOrphaned = set === undefined || set.metadata.finalizers?.includes("orphan") === true;
    // A StatefulSet that leaves its pods behind will be made again, so a taken pod of it is still missing.
    if (isOrphaned ? this.#hasOrphans(entry, set) : wantsOrdinal(set, entry.ordinal) && !this.#hasLeft(entry, set))
      return;
    this.#taken.delete(entry.pod);
  }

  /** True if a user has moved the zone to another group: once its pod is gone, the old group no longer misses it. */
  #hasLeft({ group }: Taken, set: StoredStatefulSet): boolean {
    return this.#groupOf(set) !== group;
  }

  #hasOrphans({ set: name }: Taken, set: StoredStatefulSet | undefined): boolean {
    const { namespace } = this.#options;
    const pods =
      set === undefined ? this.#world.store.ownedBy("pods", "") : this.#world.store.ownedBy("pods", set.metadata.uid);
    for (const pod of pods) {
      if (pod.metadata.namespace === namespace && setNameOf(pod.metadata.name) === name && !isTerminating(pod))
        return true;
    }
    return false;
  }

  #returnIfBack(entry: Taken, pod: StoredPod): void {
    if (pod.metadata.uid === entry.uid) return;
    const { skewMs, namespace } = this.#options;
    const set = this.#world.store.find("statefulsets", { namespace, name: entry.set });
    const lenientMs = Math.max(0, 1000 * (set?.spec.minReadySeconds ?? 0) - 2 * skewMs - 2_000);
    const sinceMs = upSinceMs(pod);
    if (sinceMs === undefined || this.#world.timeline.nowMs() - sinceMs < lenientMs) return;
    this.#taken.delete(entry.pod);
    this.#returned.push({ ...entry, readyMs: sinceMs });
    if (this.#returned.length > 100) this.#returned.splice(0, 50);
  }
}
