/**
 * The simulation is worth something only if it finds what it looks for: each rule of the reservation protocol, taken away in
 * a scenario that makes its fault likely, is found within 1,000 seeds, and the same seed is clean while the rule is kept.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { removedRules } from "./rules-evictions.ts";
import { simulate } from "./simulation.ts";

const seedsAtMost = 1_000;

for (const { rule, removed, breaks, aim, wrappers } of removedRules) {
  test(`without ${rule} (${removed}) the simulation finds a violation within ${seedsAtMost} seeds`, async (context) => {
    for (let seed = 1; seed <= seedsAtMost; seed++) {
      const [violation] = (await simulate(seed, { aim, wrappers })).violations;
      if (violation === undefined) continue;
      context.diagnostic(`seed ${seed}: ${violation.invariant}: ${violation.message}`);
      assert.ok(
        breaks.includes(violation.invariant),
        `${violation.invariant} broke, one of ${breaks.join(", ")} should have`,
      );
      const kept = await simulate(seed, { aim });
      assert.deepEqual(kept.violations, [], `seed ${seed} is violated even while ${rule} is kept`);
      return;
    }
    assert.fail(`${seedsAtMost} seeds without ${rule} broke no promise`);
  });
}

/** Rules without which nothing stands: seeds that are not aimed at one find that it is missing. */
const found = new Set([
  "settled-through: views of any age are taken",
  "moving settled-through with the view",
  "the reservation before the act",
  "the reservation before the allowance",
]);

for (const { rule, removed, wrappers } of removedRules.filter((one) => found.has(one.removed))) {
  test(`without ${rule} (${removed}) the default plan breaks a promise within ${seedsAtMost} seeds`, async (context) => {
    for (let seed = 1; seed <= seedsAtMost; seed++) {
      const [violation] = (await simulate(seed, { wrappers })).violations;
      if (violation === undefined) continue;
      context.diagnostic(`seed ${seed}: ${violation.invariant}: ${violation.message}`);
      assert.match(violation.invariant, /^(Z[12]|E1)$/);
      assert.deepEqual((await simulate(seed)).violations, [], `seed ${seed} is violated even while ${rule} is kept`);
      return;
    }
    assert.fail(`${seedsAtMost} seeds without ${rule} broke no promise`);
  });
}
