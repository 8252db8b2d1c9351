/**
 * Evictions that pin no uid, as rollout-operator's users have their webhook registered, beside a rollout of the same pods: by
 * name alone an eviction takes whichever pod is there when it arrives. `DRAINS=20` plays as many rollouts and drains.
 */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Api } from "../controlplane/api.ts";
import { changeTemplate, groupPods } from "../controlplane/fixtures.ts";
import { addNodes, drainNodes } from "../support/drain.ts";
import { evict, guardEvictions } from "../support/drain-webhook.ts";
import { type EvictionStage, startEvictionStage } from "../support/eviction-stage.ts";
import { play, type Scene, skipWithoutControlPlane } from "../support/scene.ts";

const drains = Number(process.env.DRAINS ?? 2);
const name = "by-name";
const options = { pods: 4, maxUnavailable: 2, nodesPerZone: 1, readyAfterMs: 400, zoneBudget: { maxUnavailable: 2 } };
const zones = ["zone-a", "zone-b", "zone-c"];

/**
 * Evicts every pod of the group by its name, each again and again until `signal` is aborted. Resolves to the number of
 * allowances.
 */
async function storm({ controlPlane, group }: Scene, signal: AbortSignal): Promise<number> {
  const pods = (await groupPods(controlPlane, group)).map(({ metadata }) => metadata.name);
  const api = await Api.open(controlPlane, { userAgent: "sluice-test-storm", connections: 2 * pods.length });
  let allowed = 0;
  const pursue = async (pod: string): Promise<void> => {
    while (!signal.aborted) {
      const { code, message } = await evict(api, group.namespace, pod);
      if (code === 201) allowed++;
      assert.ok([201, 404, 409, 429].includes(code), `a drain gives up at ${code} ${message}`);
    }
  };
  try {
    await Promise.all([...pods, ...pods].map(pursue));
  } finally {
    await api.close();
  }
  return allowed;
}

describe("evictions by name beside a rollout", { skip: await skipWithoutControlPlane() }, () => {
  let stage: EvictionStage;

  before(async () => {
    stage = await startEvictionStage();
  });

  after(async () => {
    await stage?.stop();
  });

  test("in a rollout and a drain of all nodes at once, without pinned uids, no pod is taken before it was Ready once", async (context) => {
    const verdict = await play(stage.controlPlane, name, options, async (scene) => {
      const { api, controlPlane, group } = scene;
      await guardEvictions(scene, stage.certificate, { kind: "Validating" });
      for (let drain = 1; drain <= drains; drain++) {
        const leaving = zones.map((zone) => `${name}-${zone}-${drain}`);
        for (const zone of zones) await addNodes(api, group, zone, 1, drain + 1);
        const over = new AbortController();
        const storming = storm(scene, over.signal);
        await changeTemplate(controlPlane, group, `app:${drain + 1}`);
        const rolled = scene.waitForTakings(scene.observer.takings.length + 12);
        await rolled.finally(() => over.abort());
        const allowed = await storming;
        await drainNodes(controlPlane, api, leaving, 90_000);
        await scene.waitForRollout(`app:${drain + 1}`);
        context.diagnostic(`drain ${drain}: ${allowed} evictions of the storm were allowed`);
      }
    });
    const evicted = verdict.takings.filter((one) => one.evicted).length;
    context.diagnostic(`${verdict.takings.length} pods were taken, ${evicted} of them evicted`);
    assert.deepEqual(verdict.neverReady, []);
  });
});
