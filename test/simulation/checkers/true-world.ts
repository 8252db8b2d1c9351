/**
 * Invariants Z1 to Z4 and E1 in the true world: over pods that were Ready when a deletion or an allowed eviction of ours took
 * them, whatever any replica believed.
 */
import type { ObjectKey, Preconditions } from "../../../functions/shared/cluster.ts";
import { isAvailable, ordinalOf, parsePod } from "../../../functions/shared/pods.ts";
import type { Reservation } from "../../../functions/shared/reservation.ts";
import { isWanted, type StatefulSet } from "../../../functions/shared/statefulsets.ts";
import { isReady, type StoredPod } from "../../world/objects.ts";
import type { World } from "../../world/world.ts";
import { type BudgetPast, evictions } from "./budgets.ts";
import { isWithinBudget, type Taken, type Taker } from "./limits.ts";
import type { Past } from "./past.ts";

/** Invariants Z3 and Z4 allow for a read that is this old when the deletion is sent. */
const readWithinMs = 5_000;

/** When the ledger first held a reservation of a pod that has stood there since, and when each function last wrote one. */
interface Reserved {
  readonly firstMs: number;
  readonly lastMs: Readonly<Partial<Record<Taker, number>>>;
  /** A later write no longer held it: it was withdrawn, or its ledger is lost. What reserves the pod anew is another decision. */
  readonly isDropped: boolean;
}

/** A budget is known by a watch, and one that has heard nothing for 30 s is read again. */
const budgetKnownWithinMs = 35_000;

/** True when the API server will answer 409, because the pod is not the one that was meant. A test may strip conditions. */
function isOther({ metadata }: StoredPod, { uid, resourceVersion }: Partial<Preconditions>): boolean {
  if (uid !== undefined && metadata.uid !== uid) return true;
  return resourceVersion !== undefined && metadata.resourceVersion !== resourceVersion;
}

export class TrueWorldChecker {
  readonly #world: World;
  readonly #past: Past;
  readonly #namespace: string;
  readonly #violate: (invariant: string, sentence: string) => void;
  /** How far clocks may be off: availability is judged by so much less. */
  readonly #skewMs: number;
  readonly #taken = new Map<string, Taken>();
  readonly #sentMs = new Map<string, number>();
  readonly #reservedMs = new Map<string, Reserved>();
  /** Pods that came instead of those that were taken, and since when they are ready: a cross-zone delay counts from then. */
  readonly #returned: Taken[] = [];
  readonly #budgets: BudgetPast;
  worst = 0;

  constructor(options: {
    world: World;
    past: Past;
    budgets: BudgetPast;
    namespace: string;
    skewMs: number;
    violate: (invariant: string, sentence: string) => void;
  }) {
    this.#world = options.world;
    this.#past = options.past;
    this.#budgets = options.budgets;
    this.#namespace = options.namespace;
    this.#skewMs = options.skewMs;
    this.#violate = options.violate;
    this.#world.store.onChange("statefulsets", () => this.#reviewAll());
    this.#world.store.onChange("pods", ({ final, previous, current }) => {
      if (current === undefined || current.metadata.deletionTimestamp !== undefined)
        this.#forgetReturned(final.metadata.name);
      const entry = this.#taken.get(final.metadata.name);
      if (entry !== undefined && current === undefined) this.#review(entry);
      if (entry === undefined || previous === undefined) return;
      this.#returnIfBack(entry, previous);
      // What came instead was Ready and is lost again, by no act of ours: that hole is nobody's but fate's.
      const lost = current === undefined || current.metadata.deletionTimestamp !== undefined || !isReady(current);
      if (previous.metadata.uid !== entry.uid && isReady(previous) && lost) this.#taken.delete(entry.pod);
    });
  }

  /** What came back and was lost again is fate's, or taken again; no delay counts from it any more. */
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
  noteSent({ uid }: Partial<Preconditions>): void {
    if (uid !== undefined && !this.#sentMs.has(uid)) this.#sentMs.set(uid, this.#world.timeline.nowMs());
  }

  /** Z3 and Z4, at the moment when a rollout sends a deletion. */
  onSent(replica: string, key: ObjectKey, preconditions: Preconditions): void {
    const pod = this.#world.store.find("pods", key);
    if (pod === undefined || isOther(pod, preconditions)) return;
    const { ownerUid, revision } = parsePod(pod);
    const name = pod.metadata.name.replace(/-\d+$/, "");
    const states = this.#past.lately(name, readWithinMs).filter(({ uid }) => uid === ownerUid);
    const what = `${replica} deletes ${key.name}`;
    if (!states.some(({ updateRevision }) => updateRevision !== undefined && updateRevision !== revision)) {
      this.#violate("Z3", `${what} of revision ${revision}, which no StatefulSet of the last 5 s called outdated`);
    }
    if (states.length > 0 && states.every(({ paused }) => paused))
      this.#violate("Z4", `${what}, and ${name} has been paused for 5 s`);
    const group = states[0]?.group;
    for (const other of this.#past.names()) {
      if (!this.#past.stood(other, readWithinMs)) continue;
      const members = this.#past.lately(other, readWithinMs).filter((state) => state.group === group);
      if (members.length > 0 && members.every(({ strategy }) => strategy !== "OnDelete")) {
        this.#violate("Z4", `${what}, and ${other} has not been OnDelete for 5 s`);
      }
    }
  }

  /** Notes what a ledger write has reserved or renewed, and all that it holds: later reservations are others' to answer for. */
  noteWritten(made: readonly Reservation[], all: readonly Reservation[]): void {
    const held = new Set(all.map(({ uid }) => uid));
    for (const [uid, reserved] of this.#reservedMs) {
      if (!held.has(uid) && !reserved.isDropped) this.#reservedMs.set(uid, { ...reserved, isDropped: true });
    }
    for (const reservation of made) this.#noteReserved(reservation);
  }

  #noteReserved({ uid, by: name }: Reservation): void {
    const by: Taker = name === evictions ? "eviction" : "rollout";
    const nowMs = this.#world.timeline.nowMs();
    const before = this.#reservedMs.get(uid);
    // An eviction may take over what a rollout has reserved and is about to delete: each answers for its own decision.
    const firstMs = before === undefined || before.isDropped ? nowMs : before.firstMs;
    this.#reservedMs.set(uid, { firstMs, lastMs: { ...before?.lastMs, [by]: nowMs }, isDropped: false });
  }

  /** Z1, Z2 and E1, at the moment when the API server carries a deletion or an eviction out. */
  onArrived(replica: string, by: Taker | "ungoverned", key: ObjectKey, preconditions: Partial<Preconditions>): void {
    const pod = this.#world.store.find("pods", key);
    if (pod === undefined || pod.metadata.deletionTimestamp !== undefined || !isReady(pod)) return;
    if (isOther(pod, preconditions)) return;
    const { uid } = pod.metadata;
    const statefulSet = pod.metadata.name.replace(/-\d+$/, "");
    this.#reviewAll();
    const atMs = this.#world.timeline.nowMs();
    const reserved = this.#reservedMs.get(uid);
    const reservedMs = by === "ungoverned" ? undefined : reserved?.lastMs[by];
    const sinceMs = Math.min(this.#sentMs.get(uid) ?? atMs, reservedMs ?? atMs);
    const governed = this.#budgets.lately(budgetKnownWithinMs + atMs - sinceMs);
    // Evicted because no budget governed it: nobody promised anything, and nobody counts it.
    if (by === "ungoverned") {
      if (!governed.includes("none")) this.#violate("E1", `${replica} took ${key.name}, and a budget governed it`);
      return;
    }
    const ordinal = ordinalOf(key.name);
    const firstMs = reserved?.firstMs ?? Number.NEGATIVE_INFINITY;
    const entry: Taken = {
      uid,
      pod: key.name,
      statefulSet,
      ordinal,
      atMs,
      by,
      reservedMs: firstMs,
      readyMs: undefined,
    };
    const lastMs = reservedMs ?? Number.POSITIVE_INFINITY;
    const earlier = [...this.#taken.values()].filter((other) => {
      // A rollout reserved within its own limits; an eviction that was reserved after it may go by wider ones.
      return !(by === "rollout" && other.by === "eviction" && other.reservedMs > lastMs);
    });
    this.#taken.set(key.name, entry);
    this.worst = Math.max(
      this.worst,
      [...this.#taken.values()].filter((other) => other.statefulSet === statefulSet).length,
    );
    const states = this.#past.lately(statefulSet, readWithinMs + atMs - sinceMs);
    const returned = this.#returned.filter((back) => this.#statefulSet(back.statefulSet)?.group !== undefined);
    const situation = { entry, earlier, returned, states, skewMs: this.#skewMs, takenNow: this.#taken };
    // What was known of the budget may be as old as allowed: one of the states that it had since then must have let it go.
    const broken = governed.map((governance) => isWithinBudget(governance, situation));
    const [violation] = broken;
    if (violation === undefined || broken.includes(undefined)) return;
    this.#violate(violation.invariant, `${replica} took ${key.name} (${by}): ${violation.sentence}`);
  }

  #statefulSet(name: string): StatefulSet | undefined {
    const object = this.#world.store.find("statefulsets", { namespace: this.#namespace, name });
    return object === undefined ? undefined : this.#past.lately(name, 0)[0];
  }

  /** Forgets what is back, what nobody wants any more and is gone, and what has left the group by a user's hand. */
  #review(entry: Taken): void {
    const statefulSet = this.#statefulSet(entry.statefulSet);
    if (statefulSet?.group === undefined) {
      this.#taken.delete(entry.pod);
      return;
    }
    const pod = this.#world.store.find("pods", { namespace: this.#namespace, name: entry.pod });
    if (pod !== undefined) this.#returnIfBack(entry, pod);
    // What a user has scaled away is down no more, once the pod that we took is gone.
    if (pod?.metadata.uid !== entry.uid && !isWanted(statefulSet, entry.ordinal)) this.#taken.delete(entry.pod);
  }

  #returnIfBack(entry: Taken, object: StoredPod): void {
    const pod = parsePod(object);
    if (pod.uid === entry.uid) return;
    const minReadySeconds = this.#statefulSet(entry.statefulSet)?.minReadySeconds ?? 0;
    const lenientSeconds = Math.max(0, minReadySeconds - (2 * this.#skewMs) / 1000 - 2);
    const nowMs = this.#world.timeline.nowMs();
    if (!isAvailable(pod, lenientSeconds, nowMs)) return;
    this.#taken.delete(entry.pod);
    this.#returned.push({ ...entry, readyMs: pod.readySinceMs });
    if (this.#returned.length > 100) this.#returned.splice(0, 50);
  }
}
