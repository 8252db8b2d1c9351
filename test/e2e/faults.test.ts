import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { changeTemplate } from "../controlplane/fixtures.ts";
import { play, skipWithoutControlPlane } from "../support/scene.ts";

/** One after another, because an API server that goes away is gone for all clients. */
describe("when processes die in the middle of a rollout", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;

  before(async () => {
    controlPlane = await startControlPlane();
  });

  after(() => controlPlane?.stop());

  test("if the API server is killed and comes back, the rollout ends, and no promise is broken", async () => {
    const options = { zones: 3, pods: 4, maxUnavailable: 2 };
    const { takings } = await play(controlPlane, "restarted", options, async (scene) => {
      const { observer } = scene;
      const server = await scene.serve();
      await changeTemplate(controlPlane, scene.group, "app:2");
      await scene.waitForTakings(4);
      await controlPlane.restartApiServer();
      await scene.waitForTakings(8);
      await controlPlane.restartApiServer({ downMs: 3_000 });
      await scene.waitForRollout("app:2", 120_000);
      await eventually("the server ready again", 10_000, async () =>
        (await fetch(`${server.url}/readyz`)).status === 200 ? true : undefined,
      );
      assert.ok(observer.gaps > 0, "the observer had to read the changes that its watch missed");
    });
    assert.equal(takings.length, 12, "every pod goes once");
  });
});
