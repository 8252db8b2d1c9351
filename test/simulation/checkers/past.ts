/** What the StatefulSets were in the last seconds: a rollout may decide on a read that is five seconds old. */
import type { StatefulSet } from "../../../functions/shared/statefulsets.ts";
import type { World } from "../../world/world.ts";
import { statefulSetOf } from "../stale-views.ts";

interface Moment {
  /** From when on it was so, in milliseconds since the epoch. */
  readonly fromMs: number;
  readonly statefulSet: StatefulSet | undefined;
}

export class Past {
  readonly #moments = new Map<string, Moment[]>();
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
    world.store.onChange("statefulsets", ({ final, current }) => {
      const moments = this.#moments.get(final.metadata.name) ?? [];
      const statefulSet = current === undefined ? undefined : statefulSetOf(current);
      moments.push({ fromMs: world.timeline.nowMs(), statefulSet });
      if (moments.length > 60) moments.splice(0, 20);
      this.#moments.set(final.metadata.name, moments);
    });
  }

  /** What a StatefulSet was at some time in the last `ms`. */
  lately(name: string, ms: number): StatefulSet[] {
    const moments = this.#moments.get(name) ?? [];
    const since = this.#world.timeline.nowMs() - ms;
    const states: StatefulSet[] = [];
    for (let index = moments.length - 1; index >= 0; index--) {
      const { fromMs, statefulSet } = moments[index] as Moment;
      if (statefulSet !== undefined) states.push(statefulSet);
      if (fromMs <= since) break;
    }
    return states;
  }

  /** True when a StatefulSet was there all through the last `ms`. */
  stood(name: string, ms: number): boolean {
    const moments = this.#moments.get(name) ?? [];
    const since = this.#world.timeline.nowMs() - ms;
    const gone = moments.some(({ fromMs, statefulSet }) => statefulSet === undefined && fromMs >= since);
    return !gone && moments[moments.length - 1]?.statefulSet !== undefined && (moments[0]?.fromMs ?? since) <= since;
  }

  names(): Iterable<string> {
    return this.#moments.keys();
  }
}
