/** An actor declares itself what it adds to a seed, and no other file knows about it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Actor } from "./actor.ts";
import { troublesOf } from "./actors.ts";
import { plain } from "./rules.ts";
import type { SeedRun } from "./seed.ts";
import { simulate } from "./simulation.ts";

/** An actor whose processes delete a pod in each of two zones, as a rollout would that checks nothing. */
function careless({ namespace, group }: SeedRun, received: string[]): Actor {
  return {
    name: "careless",
    roles: [
      {
        name: "careless",
        watches: "itself",
        count: 1,
        inPeace: "none",
        open({ process, cluster }) {
          const take = async (name: string) => {
            const { uid } = (await cluster.get("pods", { namespace, name })).metadata;
            await cluster.delete("pods", { namespace, name }, { uid });
          };
          void cluster
            .sleep(60_000)
            .then(() => Promise.all([take(`${group}-a-0`), take(`${group}-b-0`)]))
            .then(() => received.push(process.name));
          return undefined;
        },
      },
    ],
  };
}

test("the checkers apply the terms of its role to a function of any name", async () => {
  const received: string[] = [];
  const aim = (plan: Parameters<typeof plain>[0]) => plain(plan, { recyclers: 0, processes: 0, safetyMs: 120_000 });
  const { violations } = await simulate(1, { aim, more: (run) => [careless(run, received)] });
  assert.match(
    violations[0]?.message ?? "",
    /^careless-\d+ took group-[ab]-0 \(rollout\): group-[ab]-0 in another zone/,
  );
  assert.equal(violations[0]?.invariant, "Z1");
});

test("an actor starts, begins, makes its peace, is asked three times whether it is done, rests and stops", async () => {
  const reported: string[] = [];
  let asked = 0;
  const actor: Actor = {
    name: "diarist",
    checkers: [{ invariants: ["L1"], missing: () => (++asked < 3 ? "a page" : undefined) }],
    start: () => reported.push("start"),
    begin: () => reported.push("begin"),
    makePeace: () => reported.push("peace"),
    atRest: () => reported.push(`rest after ${asked}`),
    stop: () => reported.push("stop"),
  };
  const { violations } = await simulate(1, { more: () => [actor] });
  assert.deepEqual(violations, []);
  assert.deepEqual(reported, ["start", "begin", "peace", "rest after 3", "stop"]);
  assert.equal(asked, 4);
});

test("what a checker reports as missing until the end breaks L1, with its message", async () => {
  const actor: Actor = { name: "miser", checkers: [{ invariants: ["L1"], missing: () => "a coin is missing" }] };
  const [violation] = (await simulate(1, { more: () => [actor] })).violations;
  assert.deepEqual([violation?.invariant, violation?.message], ["L1", "a coin is missing"]);
});

test("a trouble that two actors cause, or that no actor causes, is an error", async () => {
  const crashing: Actor = { name: "other", disturbances: { crash: () => undefined } };
  await assert.rejects(simulate(1, { more: () => [crashing] }), /other brings crash, and so does another actor/);
  assert.throws(() => troublesOf([crashing]), /no actor brings .*evict/);
});
