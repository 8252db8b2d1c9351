/** Since when pods have been down, whatever the cause. Every process knows what has lasted longer than a view may be old. */
import type { StoredStatefulSet } from "../../fake-cluster/objects.ts";
import type { World } from "../../fake-cluster/world.ts";
import type { Past } from "./past.ts";
import { isTerminating, isUp, setNameOf, wantedOrdinals, wantsOrdinal } from "./raw.ts";

export class DownTimes {
  readonly #world: World;
  readonly #past: Past;
  readonly #namespace: string;
  /** Since when each pod that is down has been so, by name. A pod that never existed is in neither map. */
  readonly #downSinceMs = new Map<string, number>();
  readonly #seen = new Set<string>();

  constructor(world: World, past: Past, namespace: string) {
    this.#world = world;
    this.#past = past;
    this.#namespace = namespace;
    world.store.onChange("pods", ({ final, current }) => {
      if (final.metadata.namespace !== namespace) return;
      const { name } = final.metadata;
      this.#seen.add(name);
      if (current !== undefined && isUp(current)) this.#downSinceMs.delete(name);
      else if (!this.#downSinceMs.has(name)) this.#downSinceMs.set(name, world.timeline.nowMs());
    });
  }

  /** The pods that were down during all of the last `ms` although a StatefulSet wanted them. */
  longDown(name: string, ms: number, isSo: (set: StoredStatefulSet) => boolean): string[] {
    if (!this.#past.stood(name, ms, isSo)) return [];
    const [now, ...before] = this.#past.lately(name, ms);
    if (now === undefined) return [];
    const since = this.#world.timeline.nowMs() - ms;
    return wantedOrdinals(now)
      .filter((ordinal) => this.#downSinceMsOf(`${name}-${ordinal}`) <= since)
      .filter((ordinal) => before.every((set) => wantsOrdinal(set, ordinal)))
      .map((ordinal) => `${name}-${ordinal}`);
  }

  /**
   * The orphaned pods of a deleted StatefulSet that exist and were down during all of the last `ms`. In that time the
   * StatefulSet was either gone or satisfied `isSo`.
   */
  leftDown(name: string, ms: number, isSo: (set: StoredStatefulSet) => boolean): string[] {
    const states = this.#past.states(name, ms);
    const [before] = this.#past.lately(name, Number.POSITIVE_INFINITY);
    if (states[0] !== undefined || before === undefined || !isSo(before)) return [];
    if (!states.every((set) => set === undefined || isSo(set))) return [];
    const since = this.#world.timeline.nowMs() - ms;
    return [...this.#world.store.ownedBy("pods", "")]
      .filter((pod) => pod.metadata.namespace === this.#namespace && setNameOf(pod.metadata.name) === name)
      .filter((pod) => !isUp(pod) && !isTerminating(pod) && this.#downSinceMsOf(pod.metadata.name) <= since)
      .map(({ metadata }) => metadata.name);
  }

  #downSinceMsOf(pod: string): number {
    return this.#downSinceMs.get(pod) ?? (this.#seen.has(pod) ? Number.POSITIVE_INFINITY : 0);
  }
}
