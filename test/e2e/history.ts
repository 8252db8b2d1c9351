/**
 * What became of a group's pods, told again in the order of the API server's own history. Pure, and it shares no line with
 * Sluice: whoever judges must be able to be right where the judged is wrong.
 */

/** A StatefulSet at one revision, as far as it matters here. */
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
  /** Of the condition Ready, in milliseconds since the epoch. */
  readonly readySinceMs: number;
  readonly terminating: boolean;
  readonly revision: string | undefined;
}

/** One change, at its place in the API server's history. */
export interface Sighting {
  readonly revision: number;
  /** When the observer heard of it, in milliseconds since the epoch. */
  readonly atMs: number;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly object: SeenStatefulSet | SeenPod;
}

/** A pod that was Ready, and wanted, and was deleted. */
export interface Taking {
  readonly pod: string;
  readonly zone: string;
  readonly revision: number;
  readonly atMs: number;
}

export interface Verdict {
  /** A sentence for each promise that was broken. */
  readonly violations: readonly string[];
  readonly takings: readonly Taking[];
  /** The most pods of each zone that were down at one moment, whoever was to blame. */
  readonly mostDown: Readonly<Record<string, number>>;
}

interface Slot {
  readonly zone: string;
  readonly ordinal: number;
  /** Undefined while there is none. */
  pod: SeenPod | undefined;
  /** A slot counts once it was up: pods that a user has just asked for are not yet anybody's to lose. */
  established: boolean;
  /** A Ready pod of it was deleted, and none has been back for long enough. */
  taken: boolean;
}

interface Zone {
  spec: SeenStatefulSet | undefined;
  /** Since when the update revision has been what it is. */
  revisionSinceMs: number;
  readonly slots: Map<number, Slot>;
}

/** Ready times are cut to whole seconds, and clients read the server's clock to a second. */
const clockToleranceMs = 1_000;
/** A pod may be deleted for being outdated this long after it ceased to be: the StatefulSet was read before. */
const staleReadMs = 6_000;

/** Replays a group's sightings and says which promises were broken. They may come in any order. */
export function judge(sightings: readonly Sighting[]): Verdict {
  const history = new History();
  for (const sighting of [...sightings].sort((one, other) => one.revision - other.revision)) history.apply(sighting);
  return history.verdict();
}

class History {
  readonly #zones = new Map<string, Zone>();
  readonly #violations: string[] = [];
  readonly #takings: Taking[] = [];
  readonly #mostDown: Record<string, number> = {};

  verdict(): Verdict {
    return { violations: this.#violations, takings: this.#takings, mostDown: this.#mostDown };
  }

  apply({ type, object, revision, atMs }: Sighting): void {
    for (const zone of this.#zones.values()) {
      for (const slot of zone.slots.values()) if (slot.taken && !isOut(zone, slot, atMs)) slot.taken = false;
    }
    if (object.kind === "statefulset") this.#applyStatefulSet(type, object, atMs);
    else this.#applyPod(type, object, revision, atMs);
    for (const [name, zone] of this.#zones) {
      // What there was at the beginning may have been listed in any order.
      for (const slot of zone.slots.values()) slot.established ||= isWanted(zone, slot) && isSlotUp(slot);
      this.#mostDown[name] = Math.max(this.#mostDown[name] ?? 0, downIn(zone));
    }
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
    if (!wasUp || !isWanted(zone, slot) || !(type === "DELETED" || pod.terminating)) return;
    this.#judgeTaking(zone, slot, { pod: pod.name, zone: pod.zone, revision, atMs }, before);
    slot.taken = true;
  }

  #judgeTaking(zone: Zone, slot: Slot, taking: Taking, pod: SeenPod): void {
    this.#takings.push(taking);
    const accuse = (sentence: string) =>
      this.#violations.push(`at revision ${taking.revision} ${taking.pod} was deleted ${sentence}`);
    for (const [name, other] of this.#zones) {
      const out = name === taking.zone ? [] : [...other.slots.values()].filter(({ taken }) => taken);
      if (out.length > 0) accuse(`while ${out.map(({ ordinal }) => `${name}-${ordinal}`).join(", ")} was not back`);
    }
    const { maxUnavailable, updateRevision } = zone.spec as SeenStatefulSet;
    const down = [...zone.slots.values()].filter((one) => one !== slot && isOut(zone, one, taking.atMs)).length + 1;
    if (down > maxUnavailable) accuse(`as the ${down}th pod down of its zone, where ${maxUnavailable} may be`);
    if (pod.revision === updateRevision && taking.atMs - zone.revisionSinceMs > staleReadMs) {
      accuse(`though it ran the wanted revision ${updateRevision}`);
    }
  }
}

function isWanted({ spec }: Zone, { ordinal }: Slot): boolean {
  return spec !== undefined && ordinal >= spec.start && ordinal < spec.start + spec.replicas;
}

function isUp(pod: SeenPod): boolean {
  return pod.ready && !pod.terminating;
}

function downIn(zone: Zone): number {
  return [...zone.slots.values()].filter((slot) => isWanted(zone, slot) && slot.established && !isSlotUp(slot)).length;
}

function isSlotUp({ pod }: Slot): boolean {
  return pod !== undefined && isUp(pod);
}

/** Down, or up for less than `minReadySeconds`. */
function isOut(zone: Zone, slot: Slot, atMs: number): boolean {
  if (!slot.established || !isWanted(zone, slot)) return false;
  if (slot.pod === undefined || !isUp(slot.pod)) return true;
  const minReadyMs = (zone.spec?.minReadySeconds ?? 0) * 1_000;
  return minReadyMs > 0 && atMs < slot.pod.readySinceMs + minReadyMs - clockToleranceMs;
}
