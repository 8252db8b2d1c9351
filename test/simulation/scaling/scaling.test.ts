/** Sizes in the simulation: no promise breaks, everything does happen, and the checkers see broken promises. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { PodHttp } from "../../../functions/shared/http/pod-http.ts";
import { createDraw, type Draw } from "../draw.ts";
import { drawPlan } from "../draw-plan.ts";
import type { Plan } from "../plan.ts";
import type { Wrappers } from "../replica.ts";
import { simulate } from "../simulation.ts";
import { scalingAnywhere, withScaling } from "./anywhere.ts";
import { forgetful, scaling } from "./scenarios.ts";

const happenings = [
  /autoscaler +wants/,
  /follower-\d+ +raise group-[abc]: done/,
  /follower-\d+ +lower group-[abc]: done/,
  /delayer-\d+ +lower group-[abc]: done/,
  /verdict delay-running/,
  /verdict pod-not-prepared/,
  /verdict zone-scaling-down/,
  /verdict (downscale|size)-refused/,
  /review of group-[abc]: allowed/,
  /review of group-[abc]: zone-scaling-down/,
  /user +has scaled/,
  /user +may not scale/,
  /(follower|delayer|releaser|preparer)-\d+ is killed/,
  /verdict prepared-/,
];

test("sizes that follow, mirror, wait for a delay and are prepared break no promise, and all of it happens", async () => {
  const missing = new Set(happenings);
  for (let seed = 1; seed <= 60; seed++) {
    const { violations, history } = await simulate(seed, { aim: (plan, draw) => scaling(plan, draw), verbose: true });
    assert.deepEqual(violations, [], `replay with: npm run simulate -- --scenario scaling --seed ${seed}`);
    for (const what of missing) if (history.some((line) => what.test(line))) missing.delete(what);
  }
  assert.deepEqual([...missing].map(String), []);
});

test("sizes that change beside whatever a seed has drawn break no promise, and some seeds of the default plan have them", async () => {
  for (let seed = 1; seed <= 40; seed++) {
    const { violations } = await simulate(seed, { aim: scalingAnywhere });
    assert.deepEqual(violations, [], `replay with: npm run simulate -- --only scaling-anywhere --seed ${seed}`);
  }
  const seeds = Array.from({ length: 2_000 }, (_, index) => index + 1);
  const plans = seeds.map((seed) => withScaling(drawPlan(createDraw(seed), seed), seed));
  const share = plans.filter((plan) => plan.scaling !== undefined).length / seeds.length;
  assert.ok(share > 0.01 && share < 0.03, `${share} of all seeds`);
});

test("a claim ends by itself even if a user has removed from its StatefulSet how its pods are told", async () => {
  let taken = 0;
  for (let seed = 1; seed <= 30; seed++) {
    const { violations, history } = await simulate(seed, { aim: forgetful, verbose: true });
    assert.deepEqual(violations, [], `seed ${seed}`);
    if (
      history.some((line) => /wants the pods of group-[abc] told no more/.test(line)) &&
      history.some((line) => /verdict downscale-taken-back/.test(line))
    )
      taken++;
  }
  assert.ok(taken > 3, `${taken} seeds`);
});

/** Calls of one method are never sent, and are answered as a pod would answer. */
function unsent(method: "POST" | "DELETE"): Wrappers {
  const answer = { status: 200, contentType: "application/json", retryAfterMs: undefined, body: '{"timestamp":1}' };
  const pods = (real: PodHttp): PodHttp => ({
    send: (address, request, options) =>
      request.method === method ? Promise.resolve(answer) : real.send(address, request, options),
  });
  return { pods };
}

/** The invariants that break within this many seeds. */
async function broken(wrappers: Wrappers, changes: Partial<Plan>, seeds: number): Promise<string> {
  const aim = (plan: Plan, draw: Draw) => scaling(plan, draw, changes);
  for (let seed = 1; seed <= seeds; seed++) {
    const { violations } = await simulate(seed, { aim, wrappers });
    const [first] = violations;
    if (first !== undefined) return `${first.invariant}: ${first.message}`;
  }
  return "nothing";
}

test("D1: the checker sees that pods leave that were never told, though a function believes that they know", async () => {
  assert.match(await broken(unsent("POST"), {}, 40), /^D1: /);
});

test("D2: the checker sees pods that stay and are never told so", async () => {
  assert.match(await broken(unsent("DELETE"), {}, 40), /\(D2\)$/);
});
