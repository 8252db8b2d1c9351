/**
 * Invariants Z1 to Z4 and E1 in the true world: over pods that were Ready when a deletion or an allowed eviction of ours took
 * them, whatever any replica believed.
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

/** Invariants Z3 and Z4 allow for a read that is this old when the deletion is sent. */
const readWithinMs = 5_000;
/** A budget is known by a watch, and one that has received nothing for 30 s is read again. So is who belongs to a group. */
const knownWithinMs = 35_000;

/** When the ledger first held a reservation of a pod that has stood there since, and when each function last wrote one. */
interface Noted {
  readonly firstMs: number;
  readonly lastMs: Readonly<Partial<Record<Terms, number>>>;
  readonly group: string;
  /** A later write no longer held it: it was withdrawn, or its ledger is lost. What reserves the pod anew is another decision. */
  readonly isDropped: boolean;
}

/** True when the API server will answer 409, because the pod is not the one that was meant. A test may strip conditions. */
function isOther({ metadata }: StoredPod, { uid, resourceVersion }: Conditions): boolean {
  if (uid !== undefined && metadata.uid !== uid) return true;
  return resourceVersion !== undefined && metadata.resourceVersion !== resourceVersion;
}

export interface TrueWorldOptions {
  readonly world: World;
  readonly past: Past;
  readonly budgets: BudgetPast;
  readonly namespace: string;
  /** How far clocks may be off: availability is decided by so much less. */
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
  /** The uids of those that no later write has dropped. */
  readonly #standing = new Set<string>();
  /** Pods that came instead of those that were taken, and since when they are ready: a cross-zone delay counts from then. */
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
      // What came instead was Ready and is lost again, by no act of ours: no process answers for that hole.
      const lost = current === undefined || !isUp(current);
      if (previous.metadata.uid !== entry.uid && isUp(previous) && lost) this.#taken.delete(entry.pod);
    });
  }

  /** What came back and was lost again is ending's, or taken again; no delay counts from it any more. */
  #forgetReturned(pod: string): void {
    for (let index = this.#returned.length - 1; index >= 0; index--) {
      if (this.#returned[index]?.pod === pod) this.#returned.splice(index, 1);
    }
  }

  /** What a scale-down made unwanted is returned then and there, though a scale-up may want it again. */
  #reviewAll(): void {
    for (const entry of [...this.#taken.values()]) this.#review(entry);
  }

  /** Notes when a pod's deletion was first sent: until it arrives, the budget of then is as good as that of now. */
  noteSent({ uid }: Conditions): void {
    if (uid !== undefined && !this.#sentMs.has(uid)) this.#sentMs.set(uid, this.#world.timeline.nowMs());
  }

  /** Z3 and Z4, at the moment when a rollout sends a deletion. */
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
      // A process reads members before a deletion; only a watch reports it that a StatefulSet has become a member.
      const isKnown = groups.size === 1 && this.#past.stood(other, knownWithinMs, isMember);
      if (isKnown && this.#past.stood(other, readWithinMs, isForeign))
        this.#options.violate("Z4", `${what}, and ${other} has not been OnDelete for 5 s`);
    }
  }

  /** Notes what a write of a group's ledger has reserved or renewed, and all that it holds: later ones are for others. */
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
      // An eviction may take over what a rollout has reserved and is about to delete: each answers for its own decision.
      const firstMs = before === undefined || before.isDropped ? nowMs : before.firstMs;
      this.#reserved.set(uid, { firstMs, lastMs: { ...before?.lastMs, [by]: nowMs }, group, isDropped: false });
      this.#standing.add(uid);
    }
  }

  /** Z1, Z2 and E1, at the moment when the API server carries a deletion or an eviction out. */
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
    // Evicted because no budget governed it: Sluice promised nothing, and does not count it.
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
    // A client that asked for it since then received that nothing governs it; a process that took others since then counted it.
    if (by === "eviction" && reservedMs !== undefined && this.#isFreeSince(reservedMs, labels, windowMs)) return;
    this.#check(`${replica} took ${key.name} (${by})`, governed, situation);
  }

  /** True where a budget governed a pod at that time, and then none did. */
  #isFreeSince(sinceMs: number, labels: Readonly<Record<string, string>>, windowMs: number): boolean {
    const states = this.#options.budgets.lately(this.#world.timeline.nowMs() - sinceMs);
    const governed = states.map((objects) => governanceOf(objects, labels, (budget) => this.#spans(budget, windowMs)));
    return governed.at(-1) !== "none" && governed.slice(0, -1).includes("none");
  }

  #situationOf(entry: Taken, reservedMs: number | undefined, states: Situation["states"], windowMs: number): Situation {
    const lastMs = reservedMs ?? Number.POSITIVE_INFINITY;
    const earlier = [...this.#taken.values()].filter((other) => {
      // A rollout reserved within its own limits; an eviction that was reserved after it may go by wider ones.
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
      // An orphan is in no zone while its StatefulSet is away, and no cross-zone delay counts it. Only a watch reports that
      // the StatefulSet was made again, or that it has joined a group.
      returned: this.#returned.filter((back) => this.#past.stood(back.set, windowMs)),
      states,
      longDown,
      isOfGroup: (name) => this.#past.stood(name, windowMs, isMember),
      skewMs: this.#options.skewMs,
      takenNow: this.#taken,
    };
  }

  /** What was known of the budget may be as old as allowed: one of the states that it had since then must have let it go. */
  #check(what: string, governed: readonly Governance[], situation: Situation): void {
    const broken = governed.map((governance) => isWithinBudget(governance, situation));
    const [violation] = broken;
    if (violation === undefined || broken.includes(undefined)) return;
    this.#options.violate(violation.invariant, `${what}: ${violation.message}`);
  }

  #groupOf(set: StoredStatefulSet): string | undefined {
    return groupOf(set, this.#options.budgets.lately(0)[0] ?? []);
  }

  /** True when a budget has selected pods of two groups, by their templates, all through the last `ms`. */
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

  /** Forgets what is back, what is gone and no StatefulSet wants any more, and what went with its StatefulSet. */
  #review(entry: Taken): void {
    const { store } = this.#world;
    const { namespace } = this.#options;
    const pod = store.find("pods", { namespace, name: entry.pod });
    if (pod?.metadata.uid === entry.uid) return;
    if (pod !== undefined) this.#returnIfBack(entry, pod);
    const set = store.find("statefulsets", { namespace, name: entry.set });
    const isOrphaned = set === undefined || set.metadata.finalizers?.includes("orphan") === true;
    // A StatefulSet that leaves its pods behind is about to be made again: a pod of it that was taken is still missing.
    if (isOrphaned ? this.#hasOrphans(entry, set) : wantsOrdinal(set, entry.ordinal) && !this.#hasLeft(entry, set))
      return;
    this.#taken.delete(entry.pod);
  }

  /** A user has moved the zone to another group: what is down there is not the group's any more, once the pod is gone. */
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
