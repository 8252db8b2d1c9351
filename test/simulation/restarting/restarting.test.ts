/** Restarts of processes in the simulation break no promise, and everything does happen. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Plan } from "../plan.ts";
import { simulate } from "../simulation.ts";
import { restarting, restartingAnywhere } from "./scenarios.ts";

async function happens(scenario: string, aim: (plan: Plan) => Plan, seeds: number, what: readonly RegExp[]) {
  const missing = new Set(what);
  for (let seed = 1; seed <= seeds; seed++) {
    const { violations, history } = await simulate(seed, { aim: (plan) => aim(plan), verbose: true });
    assert.deepEqual(violations, [], `replay with: npm run simulate -- --scenario ${scenario} --seed ${seed}`);
    for (const one of missing) if (history.some((line) => one.test(line))) missing.delete(one);
  }
  assert.deepEqual([...missing].map(String), []);
}

test("restarts by the shipped function leave allocation as the user had it, and end, however late their calls are (P1 to P6)", () => {
  const done = [/manager +group-[ab]-\d stops/, /manager +group-[ab]-\d has started/, /write cancel on/, /are broken/];
  const verdicts = [/verdict restart-joining/, /verdict restart-calling/, /verdict manager-silent/];
  return happens("restarting", restarting, 20, [...done, ...verdicts, /restarter-\d+ is killed/, /set allocation to/]);
});

test("restarts that are killed after any write, beside rollouts, drains and scale-downs, end as well (P1 to P6)", () => {
  const beside = [/verdict zone-restarting-process/, /evict .*: zone-restarting-process/, /user +scales group-[ab]/];
  return happens("restarting-anywhere", restartingAnywhere, 15, [...beside, /restarter-\d+ is killed/]);
});
