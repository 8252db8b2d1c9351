/** Scenarios that tests play: no promise breaks, and what they are about does happen. */
import assert from "node:assert/strict";
import type { Draw } from "./draw.ts";
import type { Plan } from "./plan.ts";
import { simulate } from "./simulation.ts";

/** Runs seeds of a scenario, none of which may break a promise. Resolves to what happened in them. */
export async function happens(
  scenario: string,
  aim: (plan: Plan, draw: Draw) => Plan,
  seeds: number,
  what: readonly RegExp[],
): Promise<void> {
  const missing = new Set(what);
  for (let seed = 1; seed <= seeds; seed++) {
    const { violations, history } = await simulate(seed, { aim, verbose: true });
    assert.deepEqual(violations, [], `replay with: npm run simulate -- --scenario ${scenario} --seed ${seed}`);
    for (const one of missing) if (history.some((line) => one.test(line))) missing.delete(one);
  }
  assert.deepEqual([...missing].map(String), []);
}
