/**
 * On Knative, too, a tool that applies the plain manifests costs no eviction. `GITOPS_SECONDS=120` has it go on for longer, and
 * `npm test` for 20 s.
 */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { isWebhook, webhookBehind } from "../support/installed.ts";
import { Kubectl } from "../support/kubectl.ts";
import { writeBack } from "../support/written-back.ts";
import { type Act, type Stage, skipWithoutKnative, startStage, waitForOldLedger } from "./cluster/stage.ts";

const { GITOPS_SECONDS: wanted } = process.env;
const seconds = Number(wanted ?? 20);
/** Beside other tests the programs of two overlays wait for a processor: the promise of 15 s is held by the longer run, alone. */
const mostSeconds = wanted === undefined ? 30 : 15;
const path = "/pods/eviction/pin";
/** Knative's is a minute. A new process waits 20 s before it writes the key, so that between two applications none may end. */
const stableWindowMs = 30_000;

suite("a tool that applies the plain manifests on Knative", {
  skip: await skipWithoutKnative(),
  concurrency: 2,
}, () => {
  let stage: Stage;
  const acts = new Map<string, Act>();
  const options = { zones: 2, pods: 12, nodesPerZone: 2, readyAfterMs: 500, zoneBudget: { maxUnavailable: 1 } };

  before(async () => {
    stage = await startStage(stableWindowMs);
    const overlays = ["direct", "broker"] as const;
    await Promise.all(
      overlays.map(async (overlay) => acts.set(overlay, await stage.set(overlay, `written-${overlay}`, options))),
    );
  });
  after(async () => {
    await stage?.close();
  });

  for (const overlay of ["direct", "broker"]) {
    test(`the drain beside it ends without an error, and the key is asked for again within seconds: ${overlay}`, async (context) => {
      const act = acts.get(overlay);
      assert.ok(act?.replicas !== undefined);
      const { replicas, objects } = act;
      const configurations = objects.filter(isWebhook).map((one) => webhookBehind(replicas.port, one));
      await act.play(async (scene) => {
        await waitForOldLedger(scene);
        const kubectl = await Kubectl.open(stage.controlPlane);
        const isAsked = async () => {
          const [first, ...others] = await replicas.metrics("sluice_review_key_asked", { path });
          return others.every((one) => one === first) ? first === 1 : undefined;
        };
        const apply = async () => void (await kubectl.apply(configurations, "--force-conflicts"));
        const found = await writeBack(scene, { seconds, apply, isAsked }).finally(() => kubectl.close());
        const { asked, refused, gaveUp, plain } = found;
        context.diagnostic(
          `${seconds} s of applying: ${asked} reviews and a drain, ${refused.length} refused; the key is asked for ${found.seconds.toFixed(1)} s after the last`,
        );
        assert.deepEqual([refused.slice(0, 3), gaveUp], [[], 0]);
        assert.ok(asked > 100 && plain > 0, `${asked} ${plain}`);
        assert.ok(found.seconds <= mostSeconds, `${found.seconds} s`);
      });
    });
  }
});
