import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { changeTemplate, type FixtureGroup, groupManifests, groupPods } from "../controlplane/fixtures.ts";
import { ANNOTATIONS } from "../controlplane/kubelet.ts";
import { play, type Scene, skipWithoutControlPlane } from "../support/scene.ts";

/** Three zones of three pods, one of which may be down: a rollout of nine steps. */
const small = { zones: 3, pods: 3, maxUnavailable: 1 };

/** Starts a rollout to app:2 and resolves when it is in the middle: a zone is done and the next one has begun. */
async function rollHalfway(scene: Scene): Promise<void> {
  await scene.serve();
  await changeTemplate(scene.controlPlane, scene.group, "app:2");
  await scene.waitForTakings(4);
}

describe("what users change in the middle of a rollout", {
  skip: await skipWithoutControlPlane(),
  concurrency: 4,
}, () => {
  let controlPlane: ControlPlane;

  before(async () => {
    controlPlane = await startControlPlane();
  });

  after(() => controlPlane?.stop());

  test("if the template is changed again in the middle, all pods run the last one in the end", async () => {
    await play(controlPlane, "changed-again", small, async (scene) => {
      await rollHalfway(scene);
      await changeTemplate(controlPlane, scene.group, "app:3");
      await scene.waitForRollout("app:3");
    });
  });

  test("if the template is rolled back, only the pods that had moved are replaced", async () => {
    const { takings } = await play(controlPlane, "rolled-back", small, async (scene) => {
      await rollHalfway(scene);
      await changeTemplate(controlPlane, scene.group, "app:1");
      await scene.waitForRollout("app:1");
    });
    const pods = new Set(takings.map(({ pod }) => pod));
    assert.ok(pods.size < 9, `${pods.size} pods were taken, although only some had moved`);
    assert.ok(pods.size < takings.length, "pods that had moved were taken twice");
  });

  test("zones that are scaled up and down are rolled to the end", async () => {
    await play(controlPlane, "scaled", small, async (scene) => {
      await rollHalfway(scene);
      const [first = "", , third = ""] = scene.group.statefulSets;
      await scene.api.patch(scene.statefulSetPath(third), { spec: { replicas: 5 } });
      await scene.api.patch(scene.statefulSetPath(first), { spec: { replicas: 1 } });
      await scene.waitForRollout("app:2");
      assert.equal((await groupPods(controlPlane, scene.group)).length, 1 + 3 + 5);
    });
  });

  test("a zone that is added is waited for, and belongs to the group", async () => {
    await play(controlPlane, "added", small, async (scene) => {
      await rollHalfway(scene);
      const { name, namespace, statefulSets } = scene.group;
      const podAnnotations = { [ANNOTATIONS.readyAfterMs]: "300" };
      const manifest = groupManifests({ ...small, name, namespace, zones: 4, podAnnotations, image: "app:2" })[3];
      await scene.api.post(`/apis/apps/v1/namespaces/${namespace}/statefulsets`, manifest);
      const larger: FixtureGroup = { ...scene.group, statefulSets: [...statefulSets, "added-zone-d"] };
      await scene.waitForRollout("app:2", 90_000, larger);
      await changeTemplate(controlPlane, larger, "app:3");
      await scene.waitForRollout("app:3", 90_000, larger);
    });
  });

  test("a zone that is deleted is forgotten, and the others are rolled", async () => {
    await play(controlPlane, "deleted", small, async (scene) => {
      await rollHalfway(scene);
      const [first = "", second = "", third = ""] = scene.group.statefulSets;
      await scene.api.delete(scene.statefulSetPath(second), { propagationPolicy: "Background" });
      const gone = ({ metadata }: { metadata: { name: string } }) => !metadata.name.startsWith(second);
      await eventually("the pods of the deleted zone gone", 30_000, async () =>
        (await groupPods(controlPlane, scene.group)).every(gone) ? true : undefined,
      );
      await scene.waitForRollout("app:2", 90_000, { ...scene.group, statefulSets: [first, third] });
    });
  });

  test("no second pod goes before the first has been ready for minReadySeconds", async () => {
    const minReadySeconds = 4;
    const options = { zones: 2, pods: 2, maxUnavailable: 1, minReadySeconds };
    const { takings } = await play(controlPlane, "min-ready", options, async (scene) => {
      await scene.serve();
      await changeTemplate(controlPlane, scene.group, "app:2");
      await scene.waitForRollout("app:2");
    });
    const times = takings.map(({ atMs }) => atMs).sort((one, other) => one - other);
    const gaps = times.slice(1).map((atMs, index) => atMs - (times[index] ?? 0));
    assert.equal(takings.length, 4);
    // Ready times are cut to whole seconds.
    for (const gapMs of gaps) assert.ok(gapMs >= (minReadySeconds - 1) * 1_000, `the next pod went after ${gapMs} ms`);
  });

  test("a ledger that is deleted permits nothing for ten seconds, and the rollout ends", async () => {
    await play(controlPlane, "ledger-gone", small, async (scene) => {
      const server = await scene.serve();
      await changeTemplate(controlPlane, scene.group, "app:2");
      await scene.waitForTakings(3);
      const before = await server.metric("sluice_verdicts_total", { guard: "ledger-new" });
      const { metadata } = await scene.api.get<{ metadata: { uid: string } }>(scene.ledgerPath);
      await scene.api.delete(scene.ledgerPath);
      const createdMs = await eventually("another ledger", 30_000, async () => {
        const ledger = await scene.api.get<{ metadata: { uid: string } }>(scene.ledgerPath);
        return ledger.metadata.uid === metadata.uid ? undefined : Date.now();
      });
      await scene.waitForRollout("app:2");
      const during = scene.observer.takings.filter(({ atMs }) => atMs > createdMs && atMs < createdMs + 9_000);
      assert.deepEqual(during, [], "pods taken under a ledger newer than ten seconds");
      assert.ok((await server.metric("sluice_verdicts_total", { guard: "ledger-new" })) > before);
    });
  });
});
