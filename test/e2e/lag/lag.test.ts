import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { after, before, describe, test } from "node:test";
import { type EvictionStage, startEvictionStage } from "../../support/eviction-stage.ts";
import { skipWithoutControlPlane } from "../../support/scene.ts";
import { type Pauses, pauseControllers } from "./controllers.ts";
import { scenarios } from "./scenarios.ts";
import { tryOut } from "./trial.ts";

const forMs = 20_000;
/** Rollbacks name the cause: pods with this one need not have waited for two minutes before they are replaced. */
const seed = 7;

describe("watches that report everything late, and controllers that are stopped", {
  skip: await skipWithoutControlPlane(),
  concurrency: scenarios.length,
}, () => {
  let stage: EvictionStage;
  let pauses: Pauses;

  before(async () => {
    stage = await startEvictionStage();
    pauses = pauseControllers(stage.controlPlane, seed);
  });

  after(async () => {
    await pauses?.end();
    await stage?.stop();
  });

  for (const scenario of scenarios) {
    test(`${scenario.name}: no promise is broken, and everything comes to rest`, async (context) => {
      const outcome = await tryOut({ ...stage, scenario, seed, forMs, pauses });
      const { taken, restMs, violations, history } = outcome;
      const counts = `${taken.rollout} pods taken by rollouts, ${taken.eviction} by evictions`;
      context.diagnostic(`${counts}; at rest after ${(restMs / 1_000).toFixed(1)} s`);
      if (violations.length > 0) console.error(`what happened in ${scenario.name}:\n${history.join("\n")}`);
      assert.deepEqual(violations, []);
      assert.ok(taken.rollout > 0, "nothing was rolled, so that nothing was tested");
    });
  }
});

test("the search prints its usage, and refuses an unknown flag", () => {
  const run = (...args: string[]) =>
    spawnSync(process.execPath, [new URL("main.ts", import.meta.url).pathname, ...args], { encoding: "utf8" });
  const help = run("--help");
  assert.equal(help.status, 0);
  for (const { name, description } of scenarios) assert.ok(help.stdout.includes(`${name}: ${description}`), name);
  for (const args of [["--scenario", "none"], ["--seeds", "0"], ["--bogus"]]) {
    const { status, stderr } = run(...args);
    assert.equal(status, 2, args.join(" "));
    assert.match(stderr, /^--/);
  }
});
