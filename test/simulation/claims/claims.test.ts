/** Claims of every kind in the simulation: nothing breaks, and each of them does happen. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { simulate } from "../simulation.ts";
import { claiming, claimingAnywhere } from "./scenarios.ts";

const happenings = [
  /claims \{"id":"scale-down-/,
  /claims \{"id":"volume-/,
  /claims \{"id":"process-/,
  /claims \{"id":"node-/,
  /scale-down-\d+ is settled/,
  /scale-down-\d+ is over/,
  /volume-\d+ is settled/,
  /process-\d+ is settled/,
  /node-\d+ is settled/,
  /node-\d+ is over/,
  /later +claims a zone/,
  /later +ends its claim/,
  /taker-\d+ is killed/,
  /verdict zone-scaling-down/,
  /verdict zone-removing-volume/,
  /verdict zone-restarting-process/,
  /verdict zone-losing-node/,
  /verdict zone-claim-unknown/,
  /evict .*: zone-scaling-down/,
  /evict .*: zone-removing-volume/,
  /evict .*: zone-restarting-process/,
  /evict .*: zone-losing-node/,
  /evict .*: zone-claim-unknown/,
];

test("claims of every kind, and of one that nobody knows, beside rollouts and drains break no promise, and all of it happens", async () => {
  const missing = new Set(happenings);
  for (let seed = 1; seed <= 60; seed++) {
    const { violations, history } = await simulate(seed, { aim: (plan) => claiming(plan), verbose: true });
    assert.deepEqual(violations, [], `replay with: npm run simulate -- --scenario claims --seed ${seed}`);
    for (const what of missing) if (history.some((line) => what.test(line))) missing.delete(what);
  }
  assert.deepEqual([...missing].map(String), []);
});

test("claims beside whatever troubles a seed has drawn break no promise, and end", async () => {
  for (let seed = 1; seed <= 40; seed++) {
    const { violations } = await simulate(seed, { aim: claimingAnywhere });
    assert.deepEqual(violations, [], `replay with: npm run simulate -- --scenario claims-anywhere --seed ${seed}`);
  }
});
