/** Pods that are down, of which some wait for their rollout: the restart of the others may be what the rollout waits for. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { namespace } from "../../shared/reconcile/harness.ts";
import { RestartStage } from "./stage.ts";

const podKey = (name: string) => ({ namespace, name });
const template = { spec: { containers: [{ name: "app", image: "app:2" }] } };

/** So many outdated pods that are down, above one that has the wanted revision and is down as well. */
async function stageWith(outdated: number): Promise<RestartStage> {
  const stage = await new RestartStage({}, outdated + 2).begun();
  const { store, kubelet } = stage.world;
  store.patch("statefulsets", podKey("group-a"), { spec: { template } } as never);
  store.delete("pods", podKey("group-a-1"), { gracePeriodSeconds: 0 });
  await stage.goOn(5_000);
  for (let ordinal = 1; ordinal < outdated + 2; ordinal++) {
    kubelet.breakPod(podKey(`group-a-${ordinal}`), "Unready");
    stage.write(`group-a-${ordinal}`, "schedule-rolling");
  }
  return stage;
}

for (const outdated of [1, 9])
  test(`a pod that is down restarts in its turn, although ${outdated} before it wait for their rollout`, async () => {
    const stage = await stageWith(outdated);
    await stage.until("its stop", () => stage.claims.length > 0, 10);
    assert.deepEqual(
      stage.claims.map(({ processes }) => Object.keys(processes ?? {})),
      [["group-a-1"]],
    );
  });

test("rollout-due: of pods that are down, and that all wait for their rollout, the first one is named", async () => {
  const stage = await stageWith(2);
  stage.write("group-a-1", null);
  await stage.step();
  assert.deepEqual([stage.claims, stage.guard], [[], "rollout-due"]);
});
