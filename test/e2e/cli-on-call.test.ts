/** The commands of kubectl sluice for a person on call: the real kubectl, a real API server, and a server of Sluice. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { changeTemplate, waitForGroupReady } from "../controlplane/fixtures.ts";
import { type EvictionStage, startEvictionStage } from "../support/eviction-stage.ts";
import { Plugin } from "../support/plugin.ts";
import { play, skipWithoutControlPlane } from "../support/scene.ts";

describe("kubectl sluice for a person on call", { skip: await skipWithoutControlPlane() }, () => {
  let stage: EvictionStage;
  let plugin: Plugin;

  before(async () => {
    stage = await startEvictionStage();
    plugin = await Plugin.build(stage.controlPlane);
  });

  after(async () => {
    await plugin?.remove();
    await stage?.stop();
  });

  test("pause keeps the changed pods of a zone from being replaced, and resume lets its rollout go on", async () => {
    await play(stage.controlPlane, "paused", { zones: 2, pods: 1 }, async (scene) => {
      await scene.waitForOldLedger(await scene.serve());
      const paused = await plugin.sluice("pause paused paused-zone-b -n paused");
      assert.deepEqual([paused.code, paused.stderr], [0, ""]);
      assert.match(paused.stdout, /^grafana\.com\/rollout-paused: true is written on StatefulSet paused-zone-b\. /);
      assert.match(paused.stdout, /kubectl sluice resume paused paused-zone-b -n paused lets the rollout go on\n$/);
      await changeTemplate(stage.controlPlane, scene.group, "app:2");
      const { zone } = await scene.waitForGuard("paused");
      assert.equal(zone, "paused-zone-b");
      assert.equal(scene.observer.takings.length, 1);
      assert.equal((await plugin.sluice("resume paused -n paused --dry-run")).code, 0);
      const resumed = await plugin.sluice("resume paused -n paused");
      assert.equal(resumed.stdout, "grafana.com/rollout-paused is taken off StatefulSet paused-zone-b\n");
      await waitForGroupReady(stage.controlPlane, scene.group, { updated: true });
      assert.equal((await plugin.sluice("pause paused other -n paused")).code, 1);
      assert.equal((await plugin.sluice("pause -n paused")).code, 2);
    });
  });
});
