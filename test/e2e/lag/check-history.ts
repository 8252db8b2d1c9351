/**
 * Checks the pods that Sluice took, in the order of the API server's own history. Pure, and without any code of Sluice. Unlike
 * `history.ts` it knows who took a pod, and remembers it when the pod's StatefulSet is gone, orphaned or recreated.
 */

/** A StatefulSet at one revision. */
export interface StatefulSetSighting {
  readonly kind: "statefulset";
  readonly revision: number;
  /** When it was learnt of, in milliseconds since the epoch. */
  readonly atMs: number;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  /** The zone. */
  readonly name: string;
  readonly replicas: number;
  readonly maxUnavailable: number;
  readonly updateRevision: string | undefined;
}

/** A pod at one revision. */
export interface PodSighting {
  readonly kind: "pod";
  readonly revision: number;
  readonly atMs: number;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly name: string;
  /** Zone in the pod's name, whichever StatefulSet owns the pod. */
  readonly zone: string;
  readonly ordinal: number;
  readonly uid: string;
  /** No controller owns it: its StatefulSet was deleted without it. */
  readonly orphaned: boolean;
  readonly ready: boolean;
  readonly terminating: boolean;
  /** The API server says that an eviction took it. */
  readonly evicted: boolean;
  readonly podRevision: string | undefined;
}

export type Sighting = StatefulSetSighting | PodSighting;

/** A broken promise, and how it was broken. */
export interface Violation {
  readonly invariant: "Z1" | "Z2" | "D1";
  readonly message: string;
}

/** A pod that was Ready and that Sluice took: by a deletion of its own, or by an eviction that it allowed. */
export interface Taking {
  readonly pod: string;
  readonly by: "eviction" | "rollout";
  readonly revision: number;
  readonly atMs: number;
}

export interface Verdict {
  readonly violations: readonly Violation[];
  readonly takings: readonly Taking[];
}

interface Slot {
  readonly name: string;
  readonly ordinal: number;
  pod: PodSighting | undefined;
  /** When the pod of that uid first was. */
  bornRevision: number;
  /** Since when the slot, once up, is not: by itself, or by a user. */
  downSinceMs: number | undefined;
  /** The uid of the Ready pod that Sluice took from it, until another one is Ready there. */
  taken: string | undefined;
}

interface Zone {
  statefulSet: StatefulSetSighting | undefined;
  /** Since when `updateRevision` has been what it is. */
  wantedSince: { readonly revision: number; readonly atMs: number };
  readonly slots: Map<number, Slot>;
}

/**
 * A pod that broke by itself may be unseen for the 30 s of a silent watch, and a process that saw it last acts within 5 s more.
 */
const unseenMs = 40_000;
/** A pod may be deleted as outdated this long after it ceased to be outdated, because its StatefulSet was read 5 s before. */
const staleReadMs = 6_000;

/**
 * Replays the sightings, in any order of arrival.
 *
 * @param deleted the uids of pods whose deletion Sluice requested; users and controllers delete the others
 */
export function checkHistory(sightings: readonly Sighting[], deleted: ReadonlySet<string>): Verdict {
  const history = new History(deleted);
  for (const sighting of [...sightings].sort((one, other) => one.revision - other.revision)) {
    if (sighting.kind === "pod") history.applyPod(sighting);
    else history.applyStatefulSet(sighting);
  }
  return history;
}

class History implements Verdict {
  readonly #deleted: ReadonlySet<string>;
  readonly #zones = new Map<string, Zone>();
  readonly violations: Violation[] = [];
  readonly takings: Taking[] = [];

  constructor(deleted: ReadonlySet<string>) {
    this.#deleted = deleted;
  }

  applyStatefulSet(seen: StatefulSetSighting): void {
    const zone = this.#zoneOf(seen.name);
    if (zone.statefulSet?.updateRevision !== seen.updateRevision || seen.type === "DELETED")
      zone.wantedSince = { revision: seen.revision, atMs: seen.atMs };
    zone.statefulSet = seen.type === "DELETED" ? undefined : seen;
    this.#forgetLeft(zone);
  }

  applyPod(seen: PodSighting): void {
    const zone = this.#zoneOf(seen.zone);
    const slot = this.#slotOf(zone, seen);
    const before = slot.pod;
    const isGone = seen.type === "DELETED";
    if (isGone && before?.uid !== seen.uid) return;
    if (before?.uid !== seen.uid) slot.bornRevision = seen.revision;
    slot.pod = isGone ? undefined : seen;
    const wasStanding = before?.uid === seen.uid && !before.terminating;
    if (wasStanding && (isGone || seen.terminating)) this.#goes(zone, slot, before, seen);
    if (slot.pod !== undefined && isUp(slot.pod)) {
      slot.downSinceMs = undefined;
      if (slot.taken !== seen.uid) slot.taken = undefined;
    } else if (before !== undefined && isUp(before)) {
      slot.downSinceMs = seen.atMs;
    }
    this.#forgetLeft(zone);
  }

  #zoneOf(name: string): Zone {
    const none = { statefulSet: undefined, wantedSince: { revision: 0, atMs: 0 }, slots: new Map<number, Slot>() };
    const zone = this.#zones.get(name) ?? none;
    this.#zones.set(name, zone);
    return zone;
  }

  #slotOf(zone: Zone, { name, ordinal }: PodSighting): Slot {
    const none = { name, ordinal, pod: undefined, bornRevision: 0, downSinceMs: undefined, taken: undefined };
    const slot = zone.slots.get(ordinal) ?? none;
    zone.slots.set(ordinal, slot);
    return slot;
  }

  /** A slot that is no longer wanted is no loss: it was scaled away, or its zone has left with all its pods. */
  #forgetLeft({ statefulSet, slots }: Zone): void {
    const hasLeft = statefulSet === undefined && ![...slots.values()].some(({ pod }) => pod && isOrphan(pod));
    for (const slot of slots.values()) {
      if (slot.pod !== undefined) continue;
      if (!hasLeft && (statefulSet === undefined || slot.ordinal < statefulSet.replicas)) continue;
      slot.taken = undefined;
      slot.downSinceMs = undefined;
    }
  }

  /** @param pod as it was before it went @param seen as it goes */
  #goes(zone: Zone, slot: Slot, pod: PodSighting, seen: PodSighting): void {
    const isEvicted = pod.evicted || seen.evicted;
    const isRolled = !isEvicted && this.#deleted.has(pod.uid);
    if (!isEvicted && !isRolled) return;
    if (isRolled) this.#checkRevision(zone, slot, pod, seen);
    if (!pod.ready) return;
    const by = isEvicted ? "eviction" : "rollout";
    this.takings.push({ pod: pod.name, by, revision: seen.revision, atMs: seen.atMs });
    const accuse = (invariant: Violation["invariant"], message: string) =>
      this.#accuse(invariant, seen, `${pod.name} was taken by ${by === "rollout" ? "a" : "an"} ${by} ${message}`);
    for (const [name, other] of this.#zones) {
      const taken = [...other.slots.values()].filter((one) => one.taken !== undefined);
      if (name === seen.zone || taken.length === 0) continue;
      const away = other.statefulSet === undefined ? ", whose StatefulSet was away" : "";
      accuse("Z1", `while ${taken.map((one) => one.name).join(", ")} was not back${away}`);
    }
    const others = [...zone.slots.values()].filter((one) => one !== slot && isDown(one, seen.atMs));
    const most = zone.statefulSet?.maxUnavailable;
    if (most !== undefined && others.length + 1 > most) {
      accuse("Z2", `beside ${others.map((one) => one.name).join(", ")}, where ${most} may be down`);
    }
    slot.taken = pod.uid;
  }

  /** A rollout must not take a pod that runs, or will run, the wanted revision. */
  #checkRevision({ statefulSet, wantedSince }: Zone, slot: Slot, pod: PodSighting, seen: PodSighting): void {
    if (statefulSet?.updateRevision === undefined || pod.podRevision !== statefulSet.updateRevision) return;
    const sinceMs = seen.atMs - wantedSince.atMs;
    const cameForIt = slot.bornRevision > wantedSince.revision;
    if (!cameForIt && sinceMs <= staleReadMs) return;
    const came = cameForIt ? ", and had come for it" : "";
    const since = `wanted for ${(sinceMs / 1_000).toFixed(1)} s${came}`;
    this.#accuse("D1", seen, `${pod.name} was deleted by a rollout though it was of the revision ${since}`);
  }

  #accuse(invariant: Violation["invariant"], { revision }: Sighting, message: string): void {
    this.violations.push({ invariant, message: `at revision ${revision} ${message}` });
  }
}

function isUp(pod: PodSighting): boolean {
  return pod.ready && !pod.terminating;
}

function isOrphan(pod: PodSighting): boolean {
  return pod.orphaned && !pod.terminating;
}

/** Taken and not back, or down by itself for so long that every process must know. */
function isDown({ taken, downSinceMs }: Slot, atMs: number): boolean {
  return taken !== undefined || (downSinceMs !== undefined && atMs - downSinceMs > unseenMs);
}
