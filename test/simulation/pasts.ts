/** What checkers remember of each namespace: the states of its StatefulSets and budgets in the last minutes. */
import type { GroupView } from "../../functions/shared/cache/cache.ts";
import type { World } from "../fake-cluster/world.ts";
import { BudgetPast } from "../support/checkers/budgets.ts";
import type { SeenView } from "../support/checkers/ledger-write.ts";
import { Past } from "../support/checkers/past.ts";
import { seenView } from "./seen-view.ts";

export class Pasts {
  readonly #world: World;
  readonly #sets = new Map<string, Past>();
  readonly #budgets = new Map<string, BudgetPast>();

  constructor(world: World) {
    this.#world = world;
  }

  /** Remembers from the first call on, which must come before the first StatefulSet of the namespace is made. */
  sets(namespace: string): Past {
    const sets = this.#sets.get(namespace) ?? new Past(this.#world, namespace);
    this.#sets.set(namespace, sets);
    return sets;
  }

  /** Remembers from the first call on. The budgets that exist then count as having always existed. */
  budgets(namespace: string): BudgetPast {
    const budgets = this.#budgets.get(namespace) ?? new BudgetPast(this.#world, namespace);
    this.#budgets.set(namespace, budgets);
    return budgets;
  }

  /** The stored objects behind a view. */
  seen(view: GroupView, namespace: string): SeenView {
    return seenView(view, this.#world, this.budgets(namespace), namespace);
  }
}
