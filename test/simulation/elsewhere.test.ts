/** A group in another namespace that has the same name, and StatefulSets of the same names. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Actor } from "./actor.ts";
import type { Plan } from "./plan.ts";
import { never, plain } from "./rules.ts";
import { type Aim, scenarios } from "./scenarios.ts";
import type { SeedRun } from "./seed.ts";
import { simulate } from "./simulation.ts";

const rests = (plan: Plan): Plan =>
  plain(plan, {
    watching: true,
    recyclers: 0,
    loseEvents: 0,
    sweepMs: 1_000_000,
    elsewhere: { isNamesake: true, ending: "rests" },
    every: { ...never, changeTemplate: 10_000 },
  });

const beside: Aim = (plan, draw) => scenarios.elsewhere?.(plan, draw) ?? plan;

/** Counts the verdicts of reconciles by namespace, once the effects of the start are over. */
function counting({ world, isFaulty }: SeedRun, verdicts: Map<string, number>): Actor {
  let fromMs = Number.POSITIVE_INFINITY;
  return {
    name: "counting",
    begin() {
      fromMs = world.timeline.nowMs() + 20_000;
    },
    checkers: [
      {
        invariants: [],
        onVerdict(_, { namespace }) {
          if (isFaulty() && world.timeline.nowMs() >= fromMs)
            verdicts.set(namespace, (verdicts.get(namespace) ?? 0) + 1);
        },
      },
    ],
  };
}

test("a change in a group triggers no reconcile of a group of the same name in another namespace", async () => {
  const verdicts = new Map<string, number>();
  for (let seed = 1; seed <= 5; seed++) {
    const { violations } = await simulate(seed, { aim: rests, more: (run) => [counting(run, verdicts)] });
    assert.deepEqual(violations, []);
  }
  assert.ok((verdicts.get("db") ?? 0) > 100, "the group was hardly rolled");
  assert.equal(verdicts.get("elsewhere"), undefined);
});

test("groups of the same name in two namespaces are rolled independently: a stuck one does not block the other", async () => {
  const fates = { rolls: 0, stuck: 0 };
  for (let seed = 1; seed <= 40; seed++) {
    const { violations, history } = await simulate(seed, { aim: beside, verbose: true });
    assert.deepEqual(violations, [], `replay with: npm run simulate -- --scenario elsewhere --seed ${seed}`);
    if (history.some((line) => /every template of elsewhere: app:broken/.test(line))) fates.stuck++;
    if (history.some((line) => /pod +elsewhere\/group-a-0 .* terminating/.test(line))) fates.rolls++;
  }
  assert.ok(fates.stuck >= 5 && fates.rolls >= 5, JSON.stringify(fates));
});
