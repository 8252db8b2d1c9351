import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { changeTemplate, groupPods } from "../controlplane/fixtures.ts";
import { UNREADY } from "../controlplane/podstatus.ts";
import { play, skipWithoutControlPlane } from "../support/scene.ts";

const small = { zones: 3, pods: 3, maxUnavailable: 1 };

describe("pods that break", { skip: await skipWithoutControlPlane(), concurrency: 4 }, () => {
  let controlPlane: ControlPlane;

  before(async () => {
    controlPlane = await startControlPlane();
  });

  after(() => controlPlane?.stop());

  test("a broken revision is replaced as soon as there is a newer one, and never takes a second zone", async () => {
    const { mostDown } = await play(controlPlane, "broken", small, async (scene) => {
      await scene.serve({ SWEEP_INTERVAL: "1s" });
      await changeTemplate(controlPlane, scene.group, "app:broken");
      await scene.waitForTakings(1);
      const crashing = await eventually("a pod in CrashLoopBackOff", 30_000, async () => {
        const pods = await groupPods(controlPlane, scene.group);
        return pods.find(({ status }) => JSON.stringify(status).includes("CrashLoopBackOff"));
      });
      assert.equal(crashing.metadata.name, "broken-zone-a-0");
      const { sentence: message } = await scene.waitForGuard("budget");
      assert.match(message, /broken-zone-a: 1 of 3 down/);
      const repairedAt = performance.now();
      await changeTemplate(controlPlane, scene.group, "app:2");
      await eventually("the broken pod replaced", 10_000, async () => {
        const pods = await groupPods(controlPlane, scene.group);
        return pods.every(({ metadata }) => metadata.uid !== crashing.metadata.uid) ? true : undefined;
      });
      assert.ok(performance.now() - repairedAt < 7_000, "the replacement waits for nothing");
      await scene.waitForRollout("app:2");
    });
    assert.deepEqual(mostDown, { "broken-zone-a": 1, "broken-zone-b": 1, "broken-zone-c": 1 });
  });

  test("a template that cures a pod of every zone is rolled out, although all of these are down (cloud-on-k8s#1827)", async () => {
    await play(controlPlane, "mended", small, async (scene) => {
      await scene.serve({ SWEEP_INTERVAL: "1s" });
      await scene.waitForGuard("done");
      // The pods were ready once, run, and are not ready: nothing in their status shows that they never will be.
      for (const zone of scene.group.statefulSets)
        await controlPlane.kubelet.breakPod(scene.group.namespace, `${zone}-1`, UNREADY);
      await scene.waitForGuard("zones-down");
      await changeTemplate(controlPlane, scene.group, "app:2");
      await scene.waitForRollout("app:2");
    });
  });

  test("a paused zone that is not ready blocks the others until it is resumed", async () => {
    await play(controlPlane, "paused", small, async (scene) => {
      const server = await scene.serve({ SWEEP_INTERVAL: "1s" });
      const [first = ""] = scene.group.statefulSets;
      const pause = (paused: string | null) =>
        scene.api.patch(scene.statefulSetPath(first), {
          metadata: { annotations: { "grafana.com/rollout-paused": paused } },
        });
      await pause("true");
      await controlPlane.kubelet.breakPod(scene.group.namespace, `${first}-1`);
      await changeTemplate(controlPlane, scene.group, "app:2");
      const { zone, sentence: message } = await scene.waitForGuard("paused-zone-down");
      assert.equal(zone, first);
      assert.match(message, /paused-zone-a: 1 of 3 down \(1 not ready\) and is paused; the other zones wait/);
      const seen = await server.metric("sluice_verdicts_total", { guard: "paused-zone-down" });
      await eventually("the guard still there after five more looks", 30_000, async () =>
        (await server.metric("sluice_verdicts_total", { guard: "paused-zone-down" })) >= seen + 5 ? true : undefined,
      );
      assert.deepEqual(scene.observer.takings, []);
      const event = await scene.waitForEvent("RolloutWaiting");
      assert.match(event.message, /^paused-zone-down: /);
      await pause(null);
      await scene.waitForRollout("app:2");
    });
  });

  test("a paused zone that is ready is left as it is, and the others are rolled", async () => {
    const { takings } = await play(controlPlane, "left", small, async (scene) => {
      await scene.serve();
      const [first = "", ...others] = scene.group.statefulSets;
      await scene.api.patch(scene.statefulSetPath(first), {
        metadata: { annotations: { "grafana.com/rollout-paused": "true" } },
      });
      await changeTemplate(controlPlane, scene.group, "app:2");
      const { sentence: message } = await scene.waitForGuard("paused", 60_000);
      assert.match(message, /left-zone-a is paused with 3 outdated pods; every other zone is done/);
      assert.deepEqual([...new Set(scene.observer.takings.map(({ zone }) => zone))], others);
    });
    assert.equal(takings.length, 6);
  });
});
