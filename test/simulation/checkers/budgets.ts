/** What the ZoneAwarePodDisruptionBudgets were in the last seconds: a process may decide by what its watch told 30 s ago. */
import type { ZoneBudget } from "../../../functions/shared/budgets.ts";
import { parseStoredBudget } from "../../../functions/shared/governing.ts";
import type { World } from "../../world/world.ts";

/** The function whose reservations are evictions. */
export const evictions = "evaluate-eviction";

/** What governed the pods of the group at one time. `ungovernable`: an invalid budget, or several. */
export type Governance = "none" | "ungovernable" | ZoneBudget;

export class BudgetPast {
  readonly #moments: { readonly fromMs: number; readonly governance: Governance }[] = [];
  readonly #world: World;

  constructor(world: World, namespace: string) {
    this.#world = world;
    const note = () => {
      const stored = world.store.list("zoneawarepoddisruptionbudgets", { namespace }).items.map(parseStoredBudget);
      const [only] = stored;
      const single =
        only !== undefined && stored.length === 1 && "budget" in only.parsed ? only.parsed.budget : undefined;
      const governance = stored.length === 0 ? "none" : (single ?? "ungovernable");
      this.#moments.push({ fromMs: world.timeline.nowMs(), governance });
    };
    note();
    world.store.onChange("zoneawarepoddisruptionbudgets", note);
  }

  /** What governed at some time in the last `ms`. */
  lately(ms: number): Governance[] {
    const since = this.#world.timeline.nowMs() - ms;
    const states: Governance[] = [];
    for (let index = this.#moments.length - 1; index >= 0; index--) {
      const moment = this.#moments[index] as { readonly fromMs: number; readonly governance: Governance };
      states.push(moment.governance);
      if (moment.fromMs <= since) break;
    }
    return states;
  }
}
