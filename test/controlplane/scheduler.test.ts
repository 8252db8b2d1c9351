import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Api, eventually } from "./api.ts";
import { type ControlPlane, startControlPlane } from "./controlplane.ts";
import { createGroup, type FixtureGroup, groupPods, waitForGroupReady } from "./fixtures.ts";
import { createNode } from "./nodes.ts";

const nodeLabels = { pool: "scheduled" };

describe("pods without a node", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let api: Api;
  let group: FixtureGroup;

  before(async () => {
    controlPlane = await startControlPlane({ podsReadyAfterMs: 20 });
    api = await Api.open(controlPlane, { userAgent: "scheduler-test" });
    for (const name of ["one", "two"]) await createNode(api, { name, zone: "zone-a", labels: nodeLabels });
    group = await createGroup(controlPlane, { name: "scheduled", zones: 1, pods: 4, nodeLabels });
    await waitForGroupReady(controlPlane, group);
  });

  after(async () => {
    await api?.close();
    await controlPlane?.stop();
  });

  const cordon = (node: string, unschedulable: boolean) =>
    api.patch(`/api/v1/nodes/${node}`, { spec: { unschedulable } });

  const nodes = async (): Promise<(string | undefined)[]> =>
    (await groupPods(controlPlane, group)).map(({ spec }) => spec.nodeName).sort();

  const deletePods = async (): Promise<void> => {
    const before = new Set((await groupPods(controlPlane, group)).map(({ metadata }) => metadata.uid));
    await api.delete("/api/v1/namespaces/default/pods?labelSelector=rollout-group%3Dscheduled");
    await eventually("other pods", 10_000, async () => {
      const pods = await groupPods(controlPlane, group);
      return pods.length === 4 && pods.every(({ metadata }) => !before.has(metadata.uid)) ? true : undefined;
    });
  };

  test("are spread over the nodes that they select", async () => {
    assert.deepEqual(await nodes(), ["one", "one", "two", "two"]);
  });

  test("are not given a node that is cordoned, and wait while all are", async () => {
    await cordon("one", true);
    await deletePods();
    await waitForGroupReady(controlPlane, group);
    assert.deepEqual(await nodes(), ["two", "two", "two", "two"]);
    await cordon("two", true);
    await deletePods();
    await assert.rejects(waitForGroupReady(controlPlane, group, { timeoutMs: 1_000 }));
    assert.deepEqual(await nodes(), [undefined, undefined, undefined, undefined]);
    await cordon("one", false);
    await waitForGroupReady(controlPlane, group);
    assert.deepEqual(await nodes(), ["one", "one", "one", "one"]);
  });

  test("are not given a node with a taint that they do not tolerate", async () => {
    const taints = [{ key: "test.sluice.dev/kept", effect: "NoSchedule" }];
    await api.patch("/api/v1/nodes/one", { spec: { taints } });
    await cordon("two", false);
    await deletePods();
    await waitForGroupReady(controlPlane, group);
    assert.deepEqual(await nodes(), ["two", "two", "two", "two"]);
  });
});
