/** Cases from public reports: evictions that are refused for ever, although the group loses nothing by them. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { groupPods, waitForGroupReady } from "../controlplane/fixtures.ts";
import { evict, guardEvictions } from "../support/drain-webhook.ts";
import { type EvictionStage, startEvictionStage } from "../support/eviction-stage.ts";
import { play, skipWithoutControlPlane } from "../support/scene.ts";

describe("evictions that take nothing", { skip: await skipWithoutControlPlane(), concurrency: 2 }, () => {
  let stage: EvictionStage;

  before(async () => {
    stage = await startEvictionStage();
  });

  after(async () => {
    await stage?.stop();
  });

  test("broken pods of two zones do not refuse each other's eviction for ever (kubernetes#72320)", async () => {
    const options = { pods: 3, zoneBudget: { maxUnavailable: 1 } };
    const verdict = await play(stage.controlPlane, "torn", options, async (scene) => {
      await guardEvictions(scene, stage.certificate, { settings: { EVICTION_WAIT: "0" } });
      for (const zone of ["zone-a", "zone-b"]) await stage.controlPlane.kubelet.breakPod("torn", `torn-${zone}-1`);
      await eventually("the others refused", 20_000, async () =>
        (await evict(scene.api, "torn", "torn-zone-c-0")).code === 429 ? true : undefined,
      );
      for (const zone of ["zone-a", "zone-b"])
        await eventually(`${zone} let go`, 10_000, async () => {
          const { code, message } = await evict(scene.api, "torn", `torn-${zone}-1`);
          // 409: its status has changed since it was read.
          assert.ok([201, 409].includes(code), `${code} ${message}`);
          return code === 201 ? true : undefined;
        });
      await waitForGroupReady(stage.controlPlane, scene.group);
    });
    assert.deepEqual(verdict.takings, [], "no ready pod was taken");
  });

  test("a StatefulSet of 0 replicas does not block the eviction of a partition", async () => {
    const zoneBudget = { maxUnavailable: 1, podNamePartitionRegex: "migrated-zone-[a-z]-([0-9]+)" };
    const verdict = await play(stage.controlPlane, "migrated", { pods: 2, zoneBudget }, async (scene) => {
      await guardEvictions(scene, stage.certificate, { settings: { EVICTION_WAIT: "0" } });
      await scene.api.patch(scene.statefulSetPath("migrated-zone-c"), { spec: { replicas: 0 } });
      await eventually("the pods of zone-c gone", 20_000, async () =>
        (await groupPods(stage.controlPlane, scene.group)).length === 4 ? true : undefined,
      );
      await eventually("a pod let go", 20_000, async () =>
        (await evict(scene.api, "migrated", "migrated-zone-a-0")).code === 201 ? true : undefined,
      );
    });
    assert.equal(verdict.takings.filter(({ evicted }) => evicted).length, 1);
  });
});
