/** Where a search for a seed looks: with a rule taken away or not, in a scenario or in the default plan. */
import { removedRules } from "./rules-evictions.ts";
import { scenarios } from "./scenarios.ts";
import type { SimulationOptions } from "./seed.ts";

export interface Search {
  /** The index of a removed rule. */
  readonly removed: number | undefined;
  /** The default plan, and not the scenario that is aimed at the rule. */
  readonly isDefault: boolean;
  readonly scenario: string | undefined;
}

/** What each seed of a search is given. */
export function seedOptions({ removed, isDefault, scenario }: Search): SimulationOptions {
  const rule = removed === undefined ? undefined : removedRules[removed];
  const aim = scenario === undefined ? rule?.aim : scenarios[scenario];
  return {
    ...(rule === undefined ? {} : { wrappers: rule.wrappers }),
    ...(aim === undefined || isDefault ? {} : { aim }),
  };
}
