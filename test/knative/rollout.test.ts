/** Rollouts that Knative's own programs drive: the overlays as they are rendered, functions behind queue-proxy and scaled from zero. */
import assert from "node:assert/strict";
import { after, before, suite, type TestContext, test } from "node:test";
import { changeTemplate } from "../controlplane/fixtures.ts";
import {
  type Act,
  type Stage,
  skipWithoutKnative,
  startStage,
  waitForOldLedger,
  waitForZero,
} from "./cluster/stage.ts";

const zones = 3;
const pods = 20;
const budget = 5;
const readyAfterMs = 1_000;
/** Knative's is a minute. */
const stableWindowMs = 3_000;

suite("on Knative's data plane and the real API server", { skip: await skipWithoutKnative() }, () => {
  let stage: Stage;
  let direct: Act;
  let brokered: Act;
  // All at once: their ledgers have to grow old.
  before(async () => {
    stage = await startStage(stableWindowMs);
    const group = { zones, pods, maxUnavailable: budget, readyAfterMs };
    [direct, brokered] = await Promise.all([
      stage.set("direct", "direct", { ...group, admission: false }),
      stage.set("broker", "brokered", { ...group, admission: false }),
    ]);
  });
  after(() => stage?.close());

  async function rollFromZero(context: TestContext, { activator, play }: Act): Promise<void> {
    const { takings } = await play(async (scene) => {
      await waitForOldLedger(scene);
      await waitForZero(activator);
      const { starts } = activator;
      const startedMs = performance.now();
      await changeTemplate(stage.controlPlane, scene.group, "app:2");
      await scene.waitForTakings(1);
      const firstMs = performance.now() - startedMs;
      await scene.waitForRollout("app:2");
      const tookMs = performance.now() - startedMs;
      const limitMs = zones * Math.ceil(pods / budget) * readyAfterMs;
      context.diagnostic(`time / limit: ${(tookMs / limitMs).toFixed(2)} (${(tookMs / 1_000).toFixed(1)} s)`);
      context.diagnostic(`from the change to the first pod, a cold start in between: ${firstMs.toFixed(0)} ms`);
      assert.ok(activator.starts > starts, "it was at zero");
      await waitForZero(activator);
    });
    assert.equal(takings.length, zones * pods, "every pod goes once");
  }

  test("events alone drive a rollout from the sources to the function, which starts from zero and ends there", async (context) => {
    await rollFromZero(context, direct);
  });

  test("the same through a Broker: ingress, channel, the filter of the Trigger", async (context) => {
    await rollFromZero(context, brokered);
  });
});
