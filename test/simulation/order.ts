/** What a search runs: with which rule removed, if any, and in which plans. */
import { removedRules } from "./rules-evictions.ts";
import { scenarios } from "./scenarios.ts";
import type { SimulationOptions } from "./seed.ts";

export interface Search {
  /** The index of a removed rule. */
  readonly removed: number | undefined;
  /** The index of a rule: the scenario that is aimed at it is played, and every rule is kept. */
  readonly aimed?: number;
  /** True for the default plan instead of the scenario that is aimed at the rule. */
  readonly isDefault: boolean;
  readonly scenario: string | undefined;
}

/** The options of each seed of a search. */
export function seedOptions({ removed, aimed, isDefault, scenario }: Search): SimulationOptions {
  const rule = removed === undefined ? undefined : removedRules[removed];
  const aimedAt = aimed === undefined ? rule : removedRules[aimed];
  const aim = scenario === undefined ? aimedAt?.aim : scenarios[scenario];
  return {
    ...(rule === undefined ? {} : { wrappers: rule.wrappers }),
    ...(aim === undefined || isDefault ? {} : { aim }),
  };
}
