/** The ZoneAwarePodDisruptionBudgets of the last seconds: a process may decide by what its watch delivered 30 s ago. */
import type { StoredObject, StoredStatefulSet } from "../../fake-cluster/objects.ts";
import type { World } from "../../fake-cluster/world.ts";
import { type Budget, groupLabel, has, type Labels, readBudget } from "./raw.ts";

/** Name of the function whose reservations are evictions. */
export const evictions = "evaluate-eviction";

/** The budget of a pod at one time. `ungovernable`: an invalid budget, several budgets, or one over several groups. */
export type Governance = "none" | "ungovernable" | Budget;

type Objects = readonly StoredObject[];

export class BudgetPast {
  readonly #moments: { readonly fromMs: number; readonly objects: Objects }[] = [];
  readonly #world: World;
  /** Every version of each budget, by uid and generation. */
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

  /** The budgets at each time in the last `ms`, the newest first. */
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

/** The budget of a pod with these labels. An invalid budget still governs every pod that its selector matches. */
export function governanceOf(objects: Objects, labels: Labels, spans: (budget: Budget) => boolean): Governance {
  const selecting = objects.filter(({ spec }) =>
    has(labels, (spec as { selector: { matchLabels: Labels } }).selector.matchLabels),
  );
  const [only] = selecting;
  if (only === undefined) return "none";
  const budget = readBudget(only);
  return selecting.length > 1 || budget === undefined || spans(budget) ? "ungovernable" : budget;
}

/** The group whose ledger holds a StatefulSet's reservations: its own group, or the one of a budget over its pods. */
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
