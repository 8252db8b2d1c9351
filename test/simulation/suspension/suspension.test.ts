/**
 * Suspended volumes in the simulation: no promise breaks, everything does happen, and some seeds of the default plan have
 * them.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createDraw } from "../draw.ts";
import { drawPlan } from "../draw-plan.ts";
import { simulate } from "../simulation.ts";
import { suspendingAnywhere, withSuspension } from "./anywhere.ts";
import { suspending, witnessed } from "./scenarios.ts";

const happenings = [
  /suspender-\d+ +protect group-[abc]-\d: done/,
  /suspender-\d+ +lower group-[abc]: done/,
  /suspender-\d+ +raise group-[abc]: done/,
  /suspender-\d+ +stamp group-[abc]-\d: done/,
  /suspender-\d+ +clear group-[abc]-\d: done/,
  /suspender-\d+ +answer-recover group-[abc]-\d: done/,
  /collector-\d+ +remove group-[abc]-\d: done/,
  /collector-\d+ +release group-[abc]-\d: done/,
  /verdict (not-drained|drain-lost)/,
  /verdict duration-(malformed|missing)/,
  /verdict on-hold/,
  /verdict mode-none/,
  /verdict retention-conflict/,
  /verdict deleted-by-others/,
  /verdict (in-use|volume-shared)/,
  /verdict zone-removing-volume/,
  /verdict request-incomplete/,
  /user +writes that \S+ has been suspended for an hour/,
  /autoscaler +scales/,
  /user +scales group-[abc] down/,
  /user +has the ordinals of group-[abc] begin at/,
  /user +restores \S+ from a copy/,
  /user +uninstalls suspender, collector/,
  /user +edits the ledger/,
  /user +labels StatefulSet group-[abc] as of group/,
  /(suspender|collector)-\d+ is killed/,
];

test("volumes that are suspended, wanted back and removed break no promise, and all happens", async () => {
  const missing = new Set(happenings);
  for (let seed = 1; seed <= 150; seed++) {
    const verbose = missing.size > 0;
    const { violations, history } = await simulate(seed, { aim: (plan, draw) => suspending(plan, draw), verbose });
    assert.deepEqual(violations, [], `replay with: npm run simulate -- --scenario suspension --seed ${seed}`);
    for (const what of missing) if (history.some((line) => what.test(line))) missing.delete(what);
  }
  assert.deepEqual([...missing].map(String), []);
});

test("volumes suspended beside whatever a seed has drawn break no promise; some default seeds have them", async () => {
  for (let seed = 1; seed <= 40; seed++) {
    const { violations } = await simulate(seed, { aim: suspendingAnywhere });
    assert.deepEqual(violations, [], `replay with: npm run simulate -- --only suspension-anywhere --seed ${seed}`);
  }
  const seeds = Array.from({ length: 2_000 }, (_, index) => index + 1);
  const plans = seeds.map((seed) => withSuspension(drawPlan(createDraw(seed), seed), seed));
  const share = plans.filter((plan) => plan.suspension !== undefined).length / seeds.length;
  assert.ok(share > 0.003 && share < 0.02, `${share} of all seeds`);
});

test("a single pod that lies about the data of others causes no removal, and data that no pod needs any more is removed", async () => {
  let removed = 0;
  for (let seed = 1; seed <= 20; seed++) {
    const { violations, history } = await simulate(seed, { aim: witnessed, verbose: true });
    assert.deepEqual(violations, [], `seed ${seed}`);
    assert.ok(
      history.some((line) => /verdict drain-refused/.test(line)),
      `seed ${seed}`,
    );
    if (history.some((line) => /collector-\d+ +remove group-[abc]-\d: done/.test(line))) removed++;
  }
  assert.ok(removed > 10, `${removed} seeds`);
});
