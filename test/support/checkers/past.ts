/** The states of a namespace's StatefulSets in the last minutes: a rollout may decide by a read that is five seconds old. */
import type { StoredStatefulSet } from "../../fake-cluster/objects.ts";
import type { World } from "../../fake-cluster/world.ts";

interface Moment {
  /** When this state began, in milliseconds since the epoch. */
  readonly fromMs: number;
  readonly set: StoredStatefulSet | undefined;
}

/** No checker needs more: a reservation, a deletion that takes two minutes to arrive, and the views before that. */
const keptMs = 600_000;

export class Past {
  readonly #moments = new Map<string, Moment[]>();
  readonly #world: World;

  constructor(world: World, namespace: string) {
    this.#world = world;
    world.store.onChange("statefulsets", ({ final, current }) => {
      if (final.metadata.namespace !== namespace) return;
      const nowMs = world.timeline.nowMs();
      const moments = this.#moments.get(final.metadata.name) ?? [];
      moments.push({ fromMs: nowMs, set: current });
      // The first kept moment holds the state at the beginning of the kept time.
      while (moments.length > 2 && (moments[1] as Moment).fromMs < nowMs - keptMs) moments.shift();
      this.#moments.set(final.metadata.name, moments);
    });
  }

  /** States of a StatefulSet in the last `ms`, the newest first; undefined for a time without one. */
  states(name: string, ms: number): (StoredStatefulSet | undefined)[] {
    const moments = this.#moments.get(name) ?? [];
    const since = this.#world.timeline.nowMs() - ms;
    const states: (StoredStatefulSet | undefined)[] = [];
    for (let index = moments.length - 1; index >= 0; index--) {
      const { fromMs, set } = moments[index] as Moment;
      states.push(set);
      if (fromMs <= since) return states;
    }
    return [...states, undefined];
  }

  lately(name: string, ms: number): StoredStatefulSet[] {
    return this.states(name, ms).filter((set) => set !== undefined);
  }

  /** True if a StatefulSet of that name existed during all of the last `ms`, and each of its states satisfies `isSo`. */
  stood(name: string, ms: number, isSo: (set: StoredStatefulSet) => boolean = () => true): boolean {
    return this.states(name, ms).every((set) => set !== undefined && isSo(set));
  }

  names(): IterableIterator<string> {
    return this.#moments.keys();
  }
}
