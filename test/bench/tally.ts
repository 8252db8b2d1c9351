/** Counts, change by change, the pods of a group that are down. Pure: the observer feeds it from a watch. */

/** The part of a Pod that shows whether it is down. */
export interface ObservedPod {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly deletionTimestamp?: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly spec: { readonly containers: readonly { readonly image: string }[] };
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

export interface ZoneReport {
  readonly zone: string;
  /** Most of its pods that were down at one moment of the API server's history. */
  readonly mostDown: number;
  /** When its first pod was down, and when its last was up and new; undefined: never. */
  readonly firstDownMs: number | undefined;
  readonly doneMs: number | undefined;
}

interface Zone {
  /** Names of the pods that are Ready and not terminating, and whether each is new. */
  readonly up: Map<string, boolean>;
  mostDown: number;
  firstDownMs: number | undefined;
  doneMs: number | undefined;
}

export interface TallyOptions {
  /** Names of the zones, as in the label `zone` of their pods. */
  readonly zones: readonly string[];
  /** Number of pods of each zone. */
  readonly pods: number;
  /** True for a pod of the new kind. */
  readonly isNew: (pod: ObservedPod) => boolean;
  /** A pod that never becomes Ready, and for which the bench does not wait. */
  readonly except?: { readonly zone: string; readonly name: string };
}

/** A pod is down while it is missing, terminating or not Ready. */
export class Tally {
  readonly #options: TallyOptions;
  readonly #zones: Map<string, Zone>;
  /** Uid of the current pod of each name, so that a late event of its predecessor is ignored. */
  readonly #uids = new Map<string, string>();
  #mostZonesDown = 0;

  constructor(options: TallyOptions) {
    this.#options = options;
    this.#zones = new Map(
      options.zones.map((zone) => [
        zone,
        { up: new Map<string, boolean>(), mostDown: 0, firstDownMs: undefined, doneMs: undefined },
      ]),
    );
  }

  /** Notes a pod as it is before counting begins. */
  begin(pod: ObservedPod): void {
    this.#put(pod);
  }

  /** Notes a change, in the order of the API server's history, with the time of the caller's clock. */
  apply(type: "ADDED" | "MODIFIED" | "DELETED", pod: ObservedPod, nowMs: number): void {
    if (type === "DELETED") this.#remove(pod);
    else this.#put(pod);
    let down = 0;
    for (const zone of this.#zones.values()) {
      const missing = this.#options.pods - zone.up.size;
      if (missing > 0) {
        down++;
        zone.firstDownMs ??= nowMs;
        zone.mostDown = Math.max(zone.mostDown, missing);
      }
    }
    this.#mostZonesDown = Math.max(this.#mostZonesDown, down);
    const zone = this.#zoneOf(pod);
    if (zone !== undefined) {
      const isDone = this.#isDone(zone, pod.metadata.labels?.zone);
      zone.doneMs = isDone ? (zone.doneMs ?? nowMs) : undefined;
    }
  }

  /** Number of pods that are up. */
  get up(): number {
    return [...this.#zones.values()].reduce((sum, zone) => sum + zone.up.size, 0);
  }

  /** Most zones that had a pod down at the same time. */
  get mostZonesDown(): number {
    return this.#mostZonesDown;
  }

  /** When the last pod was up and new; undefined while one is not. */
  get doneMs(): number | undefined {
    const done = [...this.#zones.values()].map(({ doneMs }) => doneMs);
    return done.every((doneMs) => doneMs !== undefined) ? Math.max(...done) : undefined;
  }

  report(): ZoneReport[] {
    return [...this.#zones].map(([zone, { mostDown, firstDownMs, doneMs }]) => ({
      zone,
      mostDown,
      firstDownMs,
      doneMs,
    }));
  }

  #zoneOf({ metadata }: ObservedPod): Zone | undefined {
    return this.#zones.get(metadata.labels?.zone ?? "");
  }

  #put(pod: ObservedPod): void {
    const { name, uid, deletionTimestamp } = pod.metadata;
    this.#uids.set(name, uid);
    const ready = pod.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") ?? false;
    if (ready && deletionTimestamp === undefined) this.#zoneOf(pod)?.up.set(name, this.#options.isNew(pod));
    else this.#zoneOf(pod)?.up.delete(name);
  }

  #remove(pod: ObservedPod): void {
    const { name, uid } = pod.metadata;
    if (this.#uids.get(name) !== uid) return;
    this.#uids.delete(name);
    this.#zoneOf(pod)?.up.delete(name);
  }

  #isDone({ up }: Zone, zone: string | undefined): boolean {
    const { pods, except } = this.#options;
    const isLess = except?.zone === zone && !up.has(except?.name ?? "");
    if (up.size < pods - (isLess ? 1 : 0)) return false;
    return [...up.values()].every(Boolean);
  }
}
