/** What checkers remember of each namespace: its StatefulSets and budgets as they were in the last minutes. */
import type { GroupView } from "../../functions/shared/views/view.ts";
import { BudgetPast } from "../stage/checkers/budgets.ts";
import type { SeenView } from "../stage/checkers/ledger-write.ts";
import { Past } from "../stage/checkers/past.ts";
import type { World } from "../world/world.ts";
import { seenView } from "./seen-view.ts";

export class Pasts {
  /** From before the first StatefulSet was made. */
  readonly sets: Past;
  readonly #world: World;
  readonly #budgets = new Map<string, BudgetPast>();

  constructor(world: World) {
    this.#world = world;
    this.sets = new Past(world);
  }

  /** Remembers from when it is first asked: the budgets that a seed begins with have been there ever since. */
  budgets(namespace: string): BudgetPast {
    const budgets = this.#budgets.get(namespace) ?? new BudgetPast(this.#world, namespace);
    this.#budgets.set(namespace, budgets);
    return budgets;
  }

  /** The objects that a view was made of. */
  seen(view: GroupView, namespace: string): SeenView {
    return seenView(view, this.#world, this.budgets(namespace), namespace);
  }
}
