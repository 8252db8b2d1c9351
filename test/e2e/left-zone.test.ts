import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { waitForGroupReady } from "../controlplane/fixtures.ts";
import { runKubectl } from "../support/drain.ts";
import { evict, guardEvictions } from "../support/drain-webhook.ts";
import { type EvictionStage, startEvictionStage } from "../support/eviction-stage.ts";
import { play, skipWithoutControlPlane } from "../support/scene.ts";

interface Made {
  readonly metadata: { readonly name: string; readonly labels?: object; readonly annotations?: object };
  readonly spec: object;
}

describe("a zone whose StatefulSet is deleted without its pods", { skip: await skipWithoutControlPlane() }, () => {
  let stage: EvictionStage;

  before(async () => {
    stage = await startEvictionStage();
  });

  after(async () => {
    await stage?.stop();
  });

  test("no pod of another zone is evicted while an orphan is down (pulumi-kubernetes#1831)", async () => {
    const options = { pods: 2, zoneBudget: { maxUnavailable: 1 } };
    await play(stage.controlPlane, "left", options, async (scene) => {
      await guardEvictions(scene, stage.certificate, { settings: { EVICTION_WAIT: "0" } });
      const { controlPlane } = stage;
      await scene.waitForGuard("done");
      await controlPlane.kubelet.breakPod("left", "left-zone-b-0");
      await scene.waitForGuard("zone-settling");
      const before = await evict(scene.api, "left", "left-zone-a-0");
      assert.equal(before.code, 429);
      const path = scene.statefulSetPath("left-zone-b");
      const { metadata, spec } = await scene.api.get<Made>(path);
      const deleted = await runKubectl(
        controlPlane,
        "-n",
        "left",
        "delete",
        "statefulset",
        "left-zone-b",
        "--cascade=orphan",
      );
      assert.equal(deleted.code, 0, deleted.stderr);
      const untilMs = performance.now() + 10_000;
      let message = "";
      while (performance.now() < untilMs) {
        const answer = await evict(scene.api, "left", "left-zone-a-0");
        assert.equal(answer.code, 429, answer.message);
        ({ message } = answer);
      }
      assert.match(message, /left-zone-b-0 is not ready, and its StatefulSet left-zone-b is gone/);
      const { name, labels, annotations } = metadata;
      const again = { apiVersion: "apps/v1", kind: "StatefulSet", metadata: { name, labels, annotations }, spec };
      await scene.api.post("/apis/apps/v1/namespaces/left/statefulsets", again);
      await scene.waitForGuard("zone-settling");
      await controlPlane.kubelet.healPod("left", "left-zone-b-0");
      await waitForGroupReady(controlPlane, scene.group);
      await eventually("the pod evicted", 20_000, async () => {
        return (await evict(scene.api, "left", "left-zone-a-0")).code === 201 ? true : undefined;
      });
      await waitForGroupReady(controlPlane, scene.group);
    });
  });
});
