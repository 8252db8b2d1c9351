/** Since when pods have been away, by the objects of the world: which ordinals a StatefulSet wanted, and which pods existed. */
import type { StoredObject, StoredStatefulSet } from "../../fake-cluster/objects.ts";
import type { Change } from "../../fake-cluster/watch-log.ts";
import type { SeedRun } from "../seed.ts";
import { firstOf, isWanted, podOf } from "./raw.ts";

/**
 * Greatest age of a state that a request acts on, in milliseconds: its process read at most five seconds before, and the
 * request takes time.
 */
export const underWayMs = 12_000;

interface Version {
  readonly atMs: number;
  readonly set: StoredStatefulSet;
}

export class Absences {
  readonly #run: SeedRun;
  /** Recent states of a StatefulSet, by its name. */
  readonly #versions = new Map<string, readonly Version[]>();
  /** When the last pod of a name went, and when a StatefulSet last stopped wanting one. */
  readonly #goneMs = new Map<string, number>();
  readonly #unwantedMs = new Map<string, number>();
  /** When a volume claim was created, by its uid. */
  readonly #madeMs = new Map<string, number>();

  constructor(run: SeedRun) {
    this.#run = run;
    const { store } = run.world;
    store.onChange("statefulsets", ({ previous, current }) => {
      if (previous !== undefined) this.#noteUnwanted(previous, current);
      if (current !== undefined) this.#noteSet(current);
    });
    store.onChange("pods", ({ current, final: { metadata } }) => {
      if (current === undefined && metadata.namespace === run.namespace) this.#goneMs.set(metadata.name, this.#nowMs);
    });
    store.onChange("persistentvolumeclaims", ({ previous, current }: Change<StoredObject>) => {
      if (previous === undefined && current !== undefined) this.#madeMs.set(current.metadata.uid, this.#nowMs);
    });
  }

  get #nowMs(): number {
    return this.#run.world.timeline.nowMs();
  }

  #noteSet(set: StoredStatefulSet): void {
    if (set.metadata.namespace !== this.#run.namespace) return;
    const before = this.#versions.get(set.metadata.name) ?? [];
    const since = before.findLastIndex(({ atMs }) => atMs <= this.#nowMs - underWayMs);
    this.#versions.set(set.metadata.name, [...before.slice(Math.max(0, since)), { atMs: this.#nowMs, set }]);
  }

  /** The states of the StatefulSet that a process which acts now may have read. */
  lately(name: string): readonly StoredStatefulSet[] {
    const all = this.#versions.get(name) ?? [];
    const since = all.findLastIndex(({ atMs }) => atMs <= this.#nowMs - underWayMs);
    return all.slice(Math.max(0, since)).map(({ set }) => set);
  }

  #noteUnwanted(before: StoredStatefulSet, after: StoredStatefulSet | undefined): void {
    const { metadata, spec } = before;
    if (metadata.namespace !== this.#run.namespace) return;
    for (let ordinal = firstOf(before); ordinal < firstOf(before) + spec.replicas; ordinal++) {
      if (after === undefined || !isWanted(after, ordinal))
        this.#unwantedMs.set(`${metadata.name}-${ordinal}`, this.#nowMs);
    }
  }

  /** When the last pod of that name went; minus infinity if there was none. */
  goneMs(pod: string): number {
    return this.#goneMs.get(pod) ?? Number.NEGATIVE_INFINITY;
  }

  /**
   * Time for which a volume claim's pod has been neither there nor wanted, counted from the claim's creation at the earliest,
   * in milliseconds.
   */
  awayMs(claim: StoredObject): number {
    const pod = podOf(claim);
    const sinceMs = Math.max(
      this.goneMs(pod),
      this.#unwantedMs.get(pod) ?? Number.NEGATIVE_INFINITY,
      this.#madeMs.get(claim.metadata.uid) ?? Number.NEGATIVE_INFINITY,
    );
    return this.#nowMs - sinceMs;
  }
}
