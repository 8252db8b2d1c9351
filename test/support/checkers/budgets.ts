/** What the ZoneAwarePodDisruptionBudgets were in the last seconds: a process may decide by what its watch reported 30 s ago. */
import type { StoredObject, StoredStatefulSet } from "../../fake-cluster/objects.ts";
import type { World } from "../../fake-cluster/world.ts";
import { type Budget, groupLabel, has, type Labels, readBudget } from "./raw.ts";

/** The function whose reservations are evictions. */
export const evictions = "evaluate-eviction";

/** What governed a pod at one time. `ungovernable`: an invalid budget, several, or one over several groups. */
export type Governance = "none" | "ungovernable" | Budget;

type Objects = readonly StoredObject[];

export class BudgetPast {
  readonly #moments: { readonly fromMs: number; readonly objects: Objects }[] = [];
  readonly #world: World;
  /** Every state of each, by uid and generation. */
  readonly #versions = new Map<string, StoredObject>();

  constructor(world: World, namespace: string) {
    this.#world = world;
    const note = () => {
      const objects = world.store.list("zoneawarepoddisruptionbudgets", { namespace }).items;
      for (const object of objects) this.#versions.set(`${object.metadata.uid} ${object.metadata.generation}`, object);
      this.#moments.push({ fromMs: world.timeline.nowMs(), objects });
    };
    note();
    world.store.onChange("zoneawarepoddisruptionbudgets", note);
  }

  version(uid: string, generation: number): StoredObject | undefined {
    return this.#versions.get(`${uid} ${generation}`);
  }

  /** All that there were at some time in the last `ms`. */
  lately(ms: number): Objects[] {
    const since = this.#world.timeline.nowMs() - ms;
    const states: Objects[] = [];
    for (let index = this.#moments.length - 1; index >= 0; index--) {
      const moment = this.#moments[index] as { readonly fromMs: number; readonly objects: Objects };
      states.push(moment.objects);
      if (moment.fromMs <= since) break;
    }
    return states;
  }
}

/** What governs a pod of these labels. An invalid budget may mean any pod that its selector names. */
export function governanceOf(objects: Objects, labels: Labels, spans: (budget: Budget) => boolean): Governance {
  const selecting = objects.filter(({ spec }) =>
    has(labels, (spec as { selector: { matchLabels: Labels } }).selector.matchLabels),
  );
  const [only] = selecting;
  if (only === undefined) return "none";
  const budget = readBudget(only);
  return selecting.length > 1 || budget === undefined || spans(budget) ? "ungovernable" : budget;
}

/** The group whose ledger keeps a StatefulSet's reservations: its own, or the one that a budget over its pods makes. */
export function groupOf(set: StoredStatefulSet, objects: Objects): string | undefined {
  const own = set.metadata.labels?.[groupLabel];
  if (own !== undefined) return own;
  const budget = objects.find(({ spec }) => {
    return has(
      set.spec.template.metadata?.labels,
      (spec as { selector: { matchLabels: Labels } }).selector.matchLabels,
    );
  });
  return budget === undefined ? undefined : `budget:${budget.metadata.name}`;
}
