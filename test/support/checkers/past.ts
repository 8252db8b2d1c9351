/** What the StatefulSets of a namespace were in the last minutes: a rollout may decide on a read that is five seconds old. */
import type { StoredStatefulSet } from "../../fake-cluster/objects.ts";
import type { World } from "../../fake-cluster/world.ts";

interface Moment {
  /** From when on it was so, in milliseconds since the epoch. */
  readonly fromMs: number;
  readonly set: StoredStatefulSet | undefined;
}

/** No checker looks back further: a reservation, its deletion on its way for two minutes, and views before that. */
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
      // The first that is kept says what was so when the time that counts began.
      while (moments.length > 2 && (moments[1] as Moment).fromMs < nowMs - keptMs) moments.shift();
      this.#moments.set(final.metadata.name, moments);
    });
  }

  /** What a StatefulSet was at some time in the last `ms`, the newest first; undefined for when there was none. */
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

  /** True when there was a StatefulSet of that name all through the last `ms`, and each state of it was as asked. */
  stood(name: string, ms: number, isSo: (set: StoredStatefulSet) => boolean = () => true): boolean {
    return this.states(name, ms).every((set) => set !== undefined && isSo(set));
  }

  names(): IterableIterator<string> {
    return this.#moments.keys();
  }
}
