/** Owners whose pods have stop hooks, in the simulation: no promise breaks, everything does happen, and the hooks end. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createDraw } from "../draw.ts";
import { drawPlan } from "../draw-plan.ts";
import type { Plan, PlannedSkipLabels } from "../plan.ts";
import { simulate } from "../simulation.ts";
import { skippingAnywhere, withSkipLabels } from "./anywhere.ts";
import { skipping, skippingWith } from "./scenarios.ts";

const happenings = [
  /marker-\d+ +label \S+: done/,
  /marker-\d+ +label \S+: refused/,
  /marker-\d+ +label \S+: changed/,
  /marker-\d+ +unlabel \S+: done/,
  /marker-\d+ +remove-finalizer \S+: done/,
  /marker-\d+ +remove-finalizer \S+: changed/,
  /marker-\d+ is killed/,
  /marker-\d+ is stopped/,
  /verdict holding/,
  /verdict letting-alone/,
  /verdict marker-unseen/,
  /verdict label-refused/,
  /verdict deadline-passed/,
  /verdict namespace-ending/,
  /verdict stopping/,
  /verdict labels-withdrawn/,
  /hook +of \S+ sees the label/,
  /hook +of \S+ waits for the label/,
  /user +deletes the namespace/,
  /user +(delete|deleteForeground|deleteOrphan) \S+/,
  /user +deleteStatefulSet/,
  /user +(strip|optOut|hold|deadline|edit|stopAll) \S+/,
  /user +(deletePod|unlabel|labelByHand) \S+/,
  /webhook +refuses the labels/,
];

test("owners that are deleted and stopped in every way break no promise, and all of it happens", async () => {
  const missing = new Set(happenings);
  for (let seed = 1; seed <= 100; seed++) {
    const { violations, history } = await simulate(seed, { aim: (plan, draw) => skipping(plan, draw), verbose: true });
    assert.deepEqual(violations, [], `replay with: npm run simulate -- --only skip-labels --seed ${seed}`);
    for (const what of missing) if (history.some((line) => what.test(line))) missing.delete(what);
  }
  assert.deepEqual([...missing].map(String), []);
});

test("such owners beside whatever a seed has drawn break no promise, and some seeds of the default plan have them", async () => {
  for (let seed = 1; seed <= 30; seed++) {
    const { violations } = await simulate(seed, { aim: skippingAnywhere });
    assert.deepEqual(violations, [], `replay with: npm run simulate -- --only skip-labels-anywhere --seed ${seed}`);
  }
  const seeds = Array.from({ length: 3_000 }, (_, index) => index + 1);
  const plans = seeds.map((seed) => withSkipLabels(drawPlan(createDraw(seed), seed), seed));
  const share = plans.filter((plan) => plan.skipLabels !== undefined).length / seeds.length;
  assert.ok(share > 0.005 && share < 0.015, `${share} of all seeds`);
});

const quiet: PlannedSkipLabels = {
  clusters: 2,
  replicas: 3,
  markers: 1,
  waitMs: 90_000,
  everyMs: 60_000,
  deeds: [],
  lagMs: 80_000,
  frozen: 0,
  blocking: 1,
  refuseMs: 0,
};

/** The log lines of the stop hooks in a few seeds in which nothing else goes wrong. */
async function hooks(skipLabels: Partial<PlannedSkipLabels>): Promise<readonly string[]> {
  // A StatefulSet is protected only from the first sweep that finds it, so sweeps come before users here.
  const aim = (plan: Plan) => skippingWith(plan, { ...quiet, ...skipLabels }, { safetyMs: 400_000, sweepMs: 1_000 });
  const reported: string[] = [];
  for (let seed = 1; seed <= 10; seed++) {
    const { violations, history } = await simulate(seed, { aim, verbose: true });
    assert.deepEqual(violations, []);
    reported.push(...history.filter((line) => / hook +of (rabbit|quorum)/.test(line)));
  }
  assert.ok(reported.length > 20, `${reported.length} hooks began`);
  return reported;
}

const isHung = (line: string) => line.includes("waits for the label");

test("if nothing else goes wrong, no stop hook of a deleted owner hangs, however slow its node is", async () => {
  assert.deepEqual((await hooks({ deeds: ["delete"] })).filter(isHung), []);
});

test("in a deleted namespace no stop hook hangs if its node shows it the label within four seconds", async () => {
  assert.deepEqual((await hooks({ deeds: ["deleteNamespace"], lagMs: 4_000 })).filter(isHung), []);
});

test("hooks do hang if nodes never show a label, and if an owner is deleted in the foreground", async () => {
  assert.ok((await hooks({ deeds: ["delete"], frozen: 1 })).some(isHung));
  assert.ok((await hooks({ deeds: ["deleteForeground"] })).some(isHung));
});
