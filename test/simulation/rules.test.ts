/**
 * The simulation is useful only if it finds faults. Each rule of the reservation protocol is removed in a scenario that makes
 * its fault likely: a violation must be found within 1,000 seeds, and the same seed must be clean while the rule is kept.
 */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { defaultRules, keyOf, readFoundSeeds } from "./found-seeds.ts";
import type { RemovedRule } from "./rules.ts";
import { removedRules } from "./rules-evictions.ts";
import { simulate } from "./simulation.ts";

const seedsAtMost = 1_000;
const foundSeeds = readFoundSeeds();

/** Searches for a seed that finds the removed rule, in the rule's own scenario or in the default plan. */
async function find(removedRule: RemovedRule, breaks: readonly string[], isDefault: boolean, context: TestContext) {
  const { rule, wrappers } = removedRule;
  const aim = isDefault ? {} : { aim: removedRule.aim };
  const remembered = foundSeeds.get(keyOf(removedRule, isDefault)) ?? 0;
  if (remembered >= 1 && remembered <= seedsAtMost) {
    const [violation] = (await simulate(remembered, { ...aim, wrappers })).violations;
    const isFound = violation !== undefined && breaks.includes(violation.invariant);
    if (isFound && (await simulate(remembered, aim)).violations.length === 0) return;
  }
  context.diagnostic("the table has no seed that finds it: npm run simulate -- --without each --write");
  for (let seed = 1; seed <= seedsAtMost; seed++) {
    const [violation] = (await simulate(seed, { ...aim, wrappers })).violations;
    if (violation === undefined) continue;
    context.diagnostic(`seed ${seed}: ${violation.invariant}: ${violation.message}`);
    assert.ok(
      breaks.includes(violation.invariant),
      `${violation.invariant} broke, one of ${breaks.join(", ")} should have`,
    );
    assert.deepEqual((await simulate(seed, aim)).violations, [], `seed ${seed} is violated even while ${rule} is kept`);
    return;
  }
  assert.fail(`${seedsAtMost} seeds without ${rule} broke no promise`);
}

for (const removedRule of removedRules) {
  const { rule, removed, breaks } = removedRule;
  test(`without ${rule} (${removed}) the simulation finds a violation within ${seedsAtMost} seeds`, (context) =>
    find(removedRule, breaks, false, context));
}

for (const removedRule of defaultRules) {
  const { rule, removed } = removedRule;
  test(`without ${rule} (${removed}) the default plan breaks a promise within ${seedsAtMost} seeds`, (context) =>
    find(removedRule, ["Z1", "Z2", "E1"], true, context));
}

test("no scenario that is aimed at a rule breaks a promise while every rule is kept", async () => {
  for (const [index, { aim, rule }] of removedRules.entries()) {
    // In seed 6 of a scenario of R21, a write of the ledger arrives when its process has given it up and has read newer views.
    const { violations } = await simulate(6, { aim });
    assert.deepEqual(violations, [], `scenario ${index + 1}, which is aimed at ${rule}, seed 6`);
  }
});

test("the table of seeds names only rules that exist", () => {
  const keys = new Set([
    ...removedRules.map((rule) => keyOf(rule, false)),
    ...defaultRules.map((rule) => keyOf(rule, true)),
  ]);
  assert.deepEqual(
    [...foundSeeds.keys()].filter((key) => !keys.has(key)),
    [],
  );
});
