/** Restarts of processes in the simulation break no promise, and everything does happen. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { happens } from "../happens.ts";
import { simulate } from "../simulation.ts";
import { restartRules } from "./rules-restarting.ts";
import {
  parking,
  restarting,
  restartingAnywhere,
  restartingLate,
  restartingTogether,
  withParking,
} from "./scenarios.ts";

test("restarts by the shipped function leave allocation as the user had it, and end, however late their calls are (P1 to P6)", () => {
  const done = [
    /manager +group-[ab]-\d stops/,
    /manager +group-[ab]-\d has started/,
    /write cancel on/,
    /are broken/,
    /write trigger \d/,
    /write stop true/,
  ];
  const verdicts = [/verdict restart-joining/, /verdict restart-calling/, /verdict manager-silent/];
  return happens("restarting", (plan) => withParking(restarting(plan)), 20, [
    ...done,
    ...verdicts,
    /restarter-\d+ is killed/,
    /set allocation to/,
  ]);
});

test("processes that are parked stay down while the others go on, and run again when their users want them (P1 to P6)", () => {
  const parked = [
    /is parked in place/,
    /verdict restart-parked/,
    /evict .*parked until .* \(parked\)/,
    /write stop false/,
  ];
  return happens("parking", parking, 15, parked);
});

test("with each message twice and up to 40 s late, and functions that slept for ten minutes, P1 to P4 hold", () => {
  const late = [/manager +group-[ab]-\d has started/, /restarter-\d+ goes on/, /set allocation to/];
  return happens("restarting-late", restartingLate, 6, late);
});

test("without epochs a late call is seen to stop a process that is newer than its claim (P4)", async () => {
  const { wrappers } = restartRules.find(({ rule }) => rule === "P-epoch") ?? assert.fail("no such rule");
  const broken = new Set<string>();
  for (let seed = 1; seed <= 3; seed++) {
    const { violations } = await simulate(seed, { aim: (plan) => restartingLate(plan), wrappers });
    for (const { invariant, message } of violations)
      if (/stops \S+ of \S+, and its claim names/.test(message)) broken.add(invariant);
  }
  assert.deepEqual([...broken], ["P4"]);
});

test("restarts that are killed after any write, beside rollouts, drains and scale-downs, end as well (P1 to P6)", () => {
  const beside = [/verdict zone-restarting-process/, /evict .*: zone-restarting-process/, /user +scales group-[ab]/];
  return happens("restarting-anywhere", (plan) => withParking(restartingAnywhere(plan)), 15, [
    ...beside,
    /restarter-\d+ is killed/,
    /write stop true/,
  ]);
});

test("none of the processes that restart together starts before all are down, whatever becomes of their pods (P1 to P6)", () => {
  const ends = [/manager +group-[abc]-\d stops/, /manager +group-[abc]-\d has started/, /verdict restart-gathering/];
  const troubles = [
    /nothing starts before/,
    /the server of group-[abc]-\d is silent/,
    /deletes StatefulSet group-[abc]/,
  ];
  return happens("restarting-together", (plan) => withParking(restartingTogether(plan)), 15, [
    ...ends,
    ...troubles,
    /restarter-\d+ is killed/,
  ]);
});
