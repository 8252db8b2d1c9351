import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { availableParallelism } from "node:os";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { withClaims } from "./claims/anywhere.ts";
import { createDraw } from "./draw.ts";
import { drawPlan } from "./draw-plan.ts";
import { disturbances, type Plan } from "./plan.ts";
import type { WatchFaults } from "./simulated-watch.ts";
import { simulate } from "./simulation.ts";

const main = fileURLToPath(new URL("./main.ts", import.meta.url));

const happenings = [
  /its watch of pods freezes/,
  /its watch of statefulsets freezes/,
  /is half-open for/,
  /is stopped$/m,
  /goes on$/m,
  /the clock that .* is told by/,
  /all clocks are set by -/,
  /all clocks are set by \d/,
  /deletes StatefulSet .* \(Orphan\)/,
  /deletes StatefulSet .* \(Background\)/,
  /deletes StatefulSet .* \(Foreground\)/,
  /makes StatefulSet .* again/,
  /labels StatefulSet .* as of group/,
  /labels the template of/,
  /lets the budget select/,
  /edits the ledger: garbage/,
  /edits the ledger: later/,
  /edits the ledger: foreign/,
  /is gone for good/,
  /by force/,
  /denied by the simulation/,
  /sends the review of .* again/,
  /its client gives up/,
  ...["one more", "allowed", "refused", "over", "gone", "behind"].map(
    (how) => new RegExp(`reviews wait: ${how}$`, "m"),
  ),
  /: out-of-scope/,
  /: replacement-reserved/,
  /: budget-spans-groups/,
  /every template of elsewhere: app:\d/,
  /every template of elsewhere: app:broken/,
  /newer-\d+ +keeps the ledger in a format/,
  /newer-\d+ +leaves the ledger in the format/,
  /newer-\d+ +takes /,
  /app:broken-(Unready|Unschedulable|Init|ContainerCreating)/,
];

/** The parts of a plan that no seed has had so far. */
const missing = new Set(happenings);
/** Seeds from 1 on are played once for all tests here, because they take most of the time: up to this one so far. */
let played = 0;
/** What happened in the first of them, line by line. */
const histories: (readonly string[])[] = [];
const historiesKept = 40;

/** Plays the next seed. Its history is kept, and searched, as long as that is of use. */
async function playNext() {
  const seed = ++played;
  const isKept = seed <= historiesKept;
  const result = await simulate(seed, { verbose: isKept || missing.size > 0 });
  if (isKept) histories.push(result.history);
  for (const what of missing) if (result.history.some((line) => what.test(line))) missing.delete(what);
  return result;
}

function run(...options: string[]) {
  return spawnSync(process.execPath, [main, ...options], { encoding: "utf8" });
}

test("no seed of a first few hundred breaks Z1 to Z4 or L1", async () => {
  let taken = 0;
  while (played < 300) {
    const { seed, violations, taken: gone } = await playNext();
    assert.deepEqual(violations, [], `replay with: npm run simulate -- --seed ${seed}`);
    taken += gone;
  }
  assert.ok(taken > 3_000, `only ${taken} deletions: the simulation hardly did anything`);
});

test("most seeds run the views that ship, over watches that freeze, fall silent, break and expire", () => {
  const plans = Array.from({ length: 2_000 }, (_, index) =>
    withClaims(drawPlan(createDraw(index + 1), index + 1), index + 1),
  );
  const share = (isSo: (plan: Plan) => boolean) => plans.filter(isSo).length / plans.length;
  const watched = (isSo: (faults: WatchFaults) => boolean) =>
    share(({ watching, faults }) => watching && isSo(faults.watch));
  assert.ok(share(({ watching }) => watching) >= 0.7);
  assert.ok(watched(({ freeze }) => freeze > 0) >= 0.3);
  assert.ok(watched(({ lagMs }) => lagMs > 0) >= 0.3);
  for (const fault of ["halfOpen", "break", "expire", "refuse"] as const)
    assert.ok(watched((faults) => faults[fault] > 0) >= 0.1, fault);
  assert.ok(share(({ elsewhere }) => elsewhere !== undefined) >= 0.1);
  assert.ok(share(({ versions }) => versions !== undefined) >= 0.07);
  assert.ok(share(({ claims }) => claims !== undefined) >= 0.04);
  // Only plans of suspension have functions that are uninstalled for longer than two sweeps.
  for (const kind of disturbances)
    if (kind !== "uninstall") assert.ok(share(({ every }) => every[kind] > 0) >= 0.03, kind);
});

test("every part of a plan does occur within 1,000 seeds", async () => {
  while (played < 1_000 && missing.size > 0) await playNext();
  assert.deepEqual([...missing].map(String), []);
});

test("the same seed produces the same history, line by line", async () => {
  while (played < historiesKept) await playNext();
  for (const [index, first] of histories.entries()) {
    const seed = index + 1;
    const { history } = await simulate(seed, { verbose: true });
    assert.deepEqual(history, first, `seed ${seed} is not deterministic`);
  }
  assert.equal(histories.length, historiesKept);
});

test("a failing seed prints its history and the command that replays it, and exits 1", () => {
  const { status, stdout } = run("--seeds", "200", "--without", "R3", "--workers", "1");
  assert.equal(status, 1);
  assert.match(stdout, /CHECKER\s+Z[12] is violated/);
  assert.match(stdout, /npm run simulate -- --seed \d+ --without R3/);
});

test("--only runs the plans of one kind alone", () => {
  const { status, stdout } = run("--only", "scaling", "--seed", "1", "--verbose");
  assert.equal(status, 0);
  assert.match(stdout, /autoscaler +wants \d/);
});

test("a search prints the seeds per second and the processor time of each", () => {
  const { status, stdout } = run("--seeds", "20", "--workers", "2");
  assert.equal(status, 0);
  const summary = /^20 seeds in ([\d.]+) s, (\d+) whole rollouts a second, each ([\d.]+) ms of a processor, /m.exec(
    stdout,
  );
  const [seconds, rate, eachMs] = (summary ?? []).slice(1).map(Number) as [number, number, number];
  assert.ok(Math.abs(20 / seconds - rate) <= 0.05 * rate + 1, stdout);
  // All workers together use no more than the existing processors, and a rollout takes more than microseconds.
  assert.ok(eachMs > 1 && eachMs * 20 < 1_050 * seconds * availableParallelism(), stdout);
});

test("a wrong option exits 2 and is named", () => {
  const { status, stderr } = run("--seeds", "none", "--workers", "0", "--without", "R99");
  assert.equal(status, 2);
  assert.equal(stderr.trim().split("\n").length, 3);
  assert.equal(run("--sedes", "3").status, 2);
  const only = run("--only", "everything");
  assert.deepEqual([only.status, only.stderr.includes('--only is "everything"')], [2, true]);
  assert.equal(run("--only", "scaling", "--scenario", "claims").status, 2);
});
