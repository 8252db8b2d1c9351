/** Functions that watch on demand, with everything else that a seed has drawn. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { wrapCluster } from "../../functions/shared/kubernetes/wrap-cluster.ts";
import type { Wrappers } from "./replica.ts";
import { type Aim, scenarios } from "./scenarios.ts";
import { simulate } from "./simulation.ts";

const aim: Aim = (plan, draw) => scenarios.onDemand?.(plan, draw) ?? plan;

/** Counts open watches, and watches that were opened. */
function counted() {
  const count = { open: 0, most: 0, begun: 0 };
  const connection: Wrappers["connection"] = (cluster) =>
    wrapCluster(cluster, {
      watch: (...call) => {
        const watch = cluster.watch(...call);
        return (async function* () {
          count.begun++;
          count.most = Math.max(count.most, ++count.open);
          try {
            yield* watch;
          } finally {
            count.open--;
          }
        })() as typeof watch;
      },
    });
  return { count, wrappers: { connection } };
}

test("none of the first hundred seeds breaks a promise while functions watch on demand", async () => {
  let taken = 0;
  for (let seed = 1; seed <= 100; seed++) {
    const result = await simulate(seed, { aim });
    assert.deepEqual(result.violations, [], `replay with: npm run simulate -- --scenario onDemand --seed ${seed}`);
    taken += result.taken;
  }
  assert.ok(taken > 1_000, `only ${taken} deletions: the simulation hardly did anything`);
});

test("in most seeds watches are opened, closed and opened again", async () => {
  let again = 0;
  for (let seed = 1; seed <= 60; seed++) {
    const { count, wrappers } = counted();
    await simulate(seed, { aim, wrappers });
    assert.ok(count.begun > 0, `seed ${seed} watched nothing`);
    if (count.begun > 3 * count.most) again++;
  }
  assert.ok(again >= 30, `only ${again} of 60`);
});
