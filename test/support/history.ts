/**
 * Replays what happened to a group's pods in the order of the API server's history. Pure. It shares no line with Sluice, so
 * that it can be right where Sluice is wrong.
 */

/** A StatefulSet at one revision, with the fields that matter here. */
export interface SeenStatefulSet {
  readonly kind: "statefulset";
  readonly name: string;
  readonly start: number;
  readonly replicas: number;
  readonly maxUnavailable: number;
  readonly minReadySeconds: number;
  readonly updateRevision: string | undefined;
  readonly deleting: boolean;
}

/** A pod of a StatefulSet at one revision. */
export interface SeenPod {
  readonly kind: "pod";
  readonly name: string;
  readonly uid: string;
  /** The StatefulSet that owns it. */
  readonly zone: string;
  readonly ordinal: number;
  readonly ready: boolean;
  /** Time of the condition Ready, in milliseconds since the epoch. */
  readonly readySinceMs: number;
  readonly terminating: boolean;
  /** True: the API server reports an eviction, so the pod may have any revision. */
  readonly evicted: boolean;
  readonly revision: string | undefined;
}

/**
 * The promise of a ZoneAwarePodDisruptionBudget that governs all of the pods, in addition to the limits of the StatefulSets.
 */
export interface Promised {
  /** For a zone; with partitions, for a partition over all zones. */
  readonly maxUnavailable: number;
  /** Partition of a pod, by the pod's name. With partitions, several zones may have pods down. */
  readonly partitionOf?: (pod: string) => string;
}

/** One change at its place in the API server's history. */
export interface Sighting {
  readonly revision: number;
  /** When the observer learnt of it, in milliseconds since the epoch. */
  readonly atMs: number;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly object: SeenStatefulSet | SeenPod;
}

/** A pod that was deleted although it was Ready and wanted. */
export interface Taking {
  readonly pod: string;
  readonly zone: string;
  readonly evicted: boolean;
  readonly revision: number;
  readonly atMs: number;
}

export interface Verdict {
  /** A message for each broken promise. */
  readonly violations: readonly string[];
  readonly takings: readonly Taking[];
  /** Names of the pods that were deleted or evicted before they were ever Ready, as a client that names a pod may do. */
  readonly neverReady: readonly string[];
  /** The most pods of each zone, or of each partition, that were down at the same time, whatever the cause. */
  readonly mostDown: Readonly<Record<string, number>>;
}

interface Slot {
  readonly zone: string;
  /** Name of the zone's pod of that ordinal, existing or not. */
  readonly name: string;
  readonly ordinal: number;
  /** Undefined while it does not exist. */
  pod: SeenPod | undefined;
  /** True once the pod was up: Sluice cannot lose a pod that a user has only just asked for. */
  established: boolean;
  /** True: its Ready pod was deleted, and no replacement has been back for long enough. */
  taken: boolean;
}

interface Zone {
  spec: SeenStatefulSet | undefined;
  /** Since when the update revision has had its value. */
  revisionSinceMs: number;
  readonly slots: Map<number, Slot>;
}

/** Ready times have whole seconds, and clients read the server's clock in seconds. */
const clockToleranceMs = 1_000;
/** Time for which a pod may still be deleted as outdated after it no longer is, because the StatefulSet was read before. */
const staleReadMs = 6_000;

/** Replays a group's sightings, given in any order, and returns the broken promises. */
export function checkHistory(sightings: readonly Sighting[], promised?: Promised): Verdict {
  const history = new History(promised);
  for (const sighting of [...sightings].sort((one, other) => one.revision - other.revision)) history.apply(sighting);
  return history.verdict();
}

class History {
  readonly #promised: Promised | undefined;
  readonly #zones = new Map<string, Zone>();
  readonly #violations: string[] = [];
  readonly #takings: Taking[] = [];
  readonly #neverReady: string[] = [];
  /** Uids of pods that were Ready. */
  readonly #wereReady = new Set<string>();
  readonly #mostDown: Record<string, number> = {};

  constructor(promised: Promised | undefined) {
    this.#promised = promised;
  }

  verdict(): Verdict {
    const [violations, takings, neverReady] = [this.#violations, this.#takings, this.#neverReady];
    return { violations, takings, neverReady, mostDown: this.#mostDown };
  }

  apply({ type, object, revision, atMs }: Sighting): void {
    for (const zone of this.#zones.values()) {
      for (const slot of zone.slots.values()) if (slot.taken && !isOut(zone, slot, atMs)) slot.taken = false;
    }
    if (object.kind === "statefulset") this.#applyStatefulSet(type, object, atMs);
    else this.#applyPod(type, object, revision, atMs);
    const down: Record<string, number> = {};
    for (const [zone, slot] of this.#slots()) {
      // The objects that existed at the beginning may have been listed in any order.
      slot.established ||= isWanted(zone, slot) && isSlotUp(slot);
      const share = this.#promised?.partitionOf?.(slot.name) ?? slot.zone;
      down[share] = (down[share] ?? 0) + (isDown(zone, slot) ? 1 : 0);
    }
    for (const [share, count] of Object.entries(down)) {
      this.#mostDown[share] = Math.max(this.#mostDown[share] ?? 0, count);
    }
  }

  #slots(): [Zone, Slot][] {
    return [...this.#zones.values()].flatMap((zone) =>
      [...zone.slots.values()].map((slot): [Zone, Slot] => [zone, slot]),
    );
  }

  #zoneOf(name: string): Zone {
    const zone = this.#zones.get(name) ?? { spec: undefined, revisionSinceMs: 0, slots: new Map<number, Slot>() };
    this.#zones.set(name, zone);
    return zone;
  }

  #applyStatefulSet(type: Sighting["type"], object: SeenStatefulSet, atMs: number): void {
    const zone = this.#zoneOf(object.name);
    if (zone.spec?.updateRevision !== object.updateRevision) zone.revisionSinceMs = atMs;
    zone.spec = type === "DELETED" || object.deleting ? undefined : object;
    for (const slot of zone.slots.values()) {
      if (isWanted(zone, slot)) continue;
      slot.established = false;
      slot.taken = false;
    }
  }

  #applyPod(type: Sighting["type"], pod: SeenPod, revision: number, atMs: number): void {
    const zone = this.#zoneOf(pod.zone);
    const slot = zone.slots.get(pod.ordinal) ?? {
      zone: pod.zone,
      name: pod.name,
      ordinal: pod.ordinal,
      pod: undefined,
      established: false,
      taken: false,
    };
    zone.slots.set(pod.ordinal, slot);
    const before = slot.pod;
    const wasUp = before !== undefined && before.uid === pod.uid && isUp(before);
    if (type === "DELETED" && before?.uid !== pod.uid) return;
    slot.pod = type === "DELETED" ? undefined : pod;
    if (isUp(pod)) this.#wereReady.add(pod.uid);
    const isGoing = type === "DELETED" || pod.terminating;
    const isNews = isGoing && before?.uid === pod.uid && !before.terminating;
    if (isNews && !this.#wereReady.has(pod.uid)) this.#neverReady.push(pod.name);
    if (!wasUp || !isWanted(zone, slot) || !isGoing) return;
    const evicted = before.evicted || pod.evicted;
    this.#checkTaking(zone, slot, { pod: pod.name, zone: pod.zone, evicted, revision, atMs }, before);
    slot.taken = true;
  }

  #checkTaking(zone: Zone, slot: Slot, taking: Taking, pod: SeenPod): void {
    this.#takings.push(taking);
    const accuse = (message: string) =>
      this.#violations.push(`at revision ${taking.revision} ${taking.pod} was deleted ${message}`);
    const { maxUnavailable, updateRevision } = zone.spec as SeenStatefulSet;
    const { partitionOf, maxUnavailable: promised = maxUnavailable } = this.#promised ?? {};
    const outBesides = this.#slots().filter(([its, one]) => one !== slot && isOut(its, one, taking.atMs));
    if (partitionOf === undefined) {
      const down = outBesides.filter(([its]) => its === zone).length + 1;
      const most = taking.evicted ? promised : Math.min(promised, maxUnavailable);
      if (down > most) accuse(`as the ${down}th pod down of its zone, where ${most} may be`);
      for (const names of this.#takenElsewhere(taking.zone)) accuse(`while ${names} was not back`);
    } else {
      const partition = partitionOf(taking.pod);
      const down = outBesides.filter(([, { name }]) => partitionOf(name) === partition).length + 1;
      if (down > promised) accuse(`as the ${down}th pod down of ${partition}, where ${promised} may be`);
    }
    if (!taking.evicted && pod.revision === updateRevision && taking.atMs - zone.revisionSinceMs > staleReadMs) {
      accuse(`though it ran the wanted revision ${updateRevision}`);
    }
  }

  /** For each other zone with taken pods: those that are not back. */
  #takenElsewhere(zone: string): string[] {
    const others = [...this.#zones].filter(([name]) => name !== zone).map(([, { slots }]) => [...slots.values()]);
    const taken = others.map((slots) => slots.filter((slot) => slot.taken).map(({ name }) => name));
    return taken.filter((names) => names.length > 0).map((names) => names.join(", "));
  }
}

function isWanted({ spec }: Zone, { ordinal }: Slot): boolean {
  return spec !== undefined && ordinal >= spec.start && ordinal < spec.start + spec.replicas;
}

function isUp(pod: SeenPod): boolean {
  return pod.ready && !pod.terminating;
}

function isDown(zone: Zone, slot: Slot): boolean {
  return isWanted(zone, slot) && slot.established && !isSlotUp(slot);
}

function isSlotUp({ pod }: Slot): boolean {
  return pod !== undefined && isUp(pod);
}

/** True if the pod is down, or has been up for less than `minReadySeconds`. */
function isOut(zone: Zone, slot: Slot, atMs: number): boolean {
  if (!slot.established || !isWanted(zone, slot)) return false;
  if (slot.pod === undefined || !isUp(slot.pod)) return true;
  const minReadyMs = (zone.spec?.minReadySeconds ?? 0) * 1_000;
  return minReadyMs > 0 && atMs < slot.pod.readySinceMs + minReadyMs - clockToleranceMs;
}
