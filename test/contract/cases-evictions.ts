/** Evictions apart from their webhooks: dry runs and PodDisruptionBudgets. For clusters that speak HTTP. */
import assert from "node:assert/strict";
import { webhookCases } from "./cases-webhooks.ts";
import { createPod, type EvictionFixture, eventually, isReady, readyPod } from "./fixture.ts";
import {
  type EvictionCase,
  isUntouched,
  mutating,
  otherUid,
  pinning,
  terminates,
  withWebhooks,
  wrongUid,
} from "./with-webhooks.ts";

const dryRuns: readonly EvictionCase[] = [
  withWebhooks(
    "R16: a dry run, requested in the query or in the Eviction, is reviewed and carried out without a trace",
    async (fixture, webhooks, pod) => {
      await webhooks.register(fixture, mutating, "first");
      await webhooks.known(fixture, "first");
      const inside = { deleteOptions: { dryRun: ["All"] } };
      for (const [eviction, query] of [
        [{}, "dryRun=All"],
        [inside, ""],
        [inside, "dryRun=All"],
      ] as const) {
        assert.equal((await fixture.evict("pod", eviction, query)).code, 201);
        const [review] = webhooks.take();
        // The review has the flag only if the query had it: kubectl drain writes it into the Eviction.
        assert.equal(review?.request.dryRun, query !== "");
        assert.deepEqual(review?.request.object.deleteOptions?.dryRun, eviction === inside ? ["All"] : undefined);
      }
      webhooks.answer = (review) => pinning(review, otherUid);
      for (const [eviction, query] of [
        [{}, "dryRun=All"],
        [inside, ""],
      ] as const) {
        const { code, status } = await fixture.evict("pod", eviction, query);
        assert.deepEqual([code, status.message], [409, wrongUid(pod)]);
      }
      assert.equal((await fixture.evict("pod", { deleteOptions: { dryRun: ["Some"] } })).code, 422);
      assert.equal((await fixture.evict("pod", {}, "dryRun=Some")).code, 422);
      await isUntouched(fixture, pod);
    },
  ),
];

const budgets: readonly EvictionCase[] = [
  withWebhooks(
    "R15: a PodDisruptionBudget that allows no disruption refuses after the webhooks: 429 with a cause",
    async (fixture, webhooks, pod) => {
      await webhooks.register(fixture, mutating, "first");
      await webhooks.known(fixture, "first");
      await allowing(fixture, "budget", { disruptionsAllowed: 0 }, { minAvailable: 1 });
      for (const query of ["", "dryRun=All"]) {
        const { code, status } = await fixture.evict("pod", {}, query);
        assert.deepEqual([code, status.reason], [429, "TooManyRequests"]);
        assert.equal(status.message, "Cannot evict pod as it would violate the pod's disruption budget.");
        const message = "The disruption budget budget needs 1 healthy pods and has 1 currently";
        assert.deepEqual(status.details, { causes: [{ reason: "DisruptionBudget", message }] });
      }
      assert.equal(webhooks.take().length, 2);
      await isUntouched(fixture, pod);
    },
  ),
  withWebhooks(
    "a PodDisruptionBudget that allows one disruption lets the pod go, and one that does not select the pod has no effect",
    async (fixture) => {
      await allowing(fixture, "budget", { disruptionsAllowed: 1 }, { minAvailable: 0 });
      const selector = { matchExpressions: [{ key: "app", operator: "NotIn", values: ["set"] }] };
      await allowing(fixture, "other", { disruptionsAllowed: 0 }, { minAvailable: 1, selector });
      assert.equal((await fixture.evict("pod")).code, 201);
      await terminates(fixture);
    },
  ),
  withWebhooks("two PodDisruptionBudgets for one pod are answered with 500", async (fixture, _webhooks, pod) => {
    await allowing(fixture, "one", { disruptionsAllowed: 1 }, { minAvailable: 0 });
    await allowing(fixture, "two", { disruptionsAllowed: 1 }, { minAvailable: 0 });
    const { code, status } = await fixture.evict("pod");
    assert.equal(code, 500);
    assert.match(status.message ?? "", /^This pod has more than one PodDisruptionBudget/);
    await isUntouched(fixture, pod);
  }),
  withWebhooks(
    "an unready pod goes if the others are enough for its PodDisruptionBudget, and they stay",
    async (fixture) => {
      const { cluster, namespace } = fixture;
      await createPod(fixture, "other", { labels: { app: "set" } });
      const other = await readyPod(fixture, "other");
      await breaks(fixture);
      await allowing(fixture, "budget", { disruptionsAllowed: 0 }, { minAvailable: 1 });
      await eventually(
        "a budget that counts one pod",
        () => cluster.get("poddisruptionbudgets", { namespace, name: "budget" }),
        ({ status }) => status?.currentHealthy === 1 && status.disruptionsAllowed === 0,
      );
      assert.equal((await fixture.evict("other")).code, 429);
      await isUntouched(fixture, other);
      assert.equal((await fixture.evict("pod")).code, 201);
      await terminates(fixture);
    },
  ),
  withWebhooks("an unready pod goes if its PodDisruptionBudget says AlwaysAllow", async (fixture) => {
    const spec = { minAvailable: 1, unhealthyPodEvictionPolicy: "AlwaysAllow" };
    await allowing(fixture, "budget", { disruptionsAllowed: 0 }, spec);
    await breaks(fixture);
    assert.equal((await fixture.evict("pod")).code, 201);
    await terminates(fixture);
  }),
];

export const evictionCases: readonly EvictionCase[] = [...webhookCases, ...dryRuns, ...budgets];

/** A PodDisruptionBudget for the pod, with the status that a controller would write. */
async function allowing(
  { cluster, namespace }: EvictionFixture,
  name: string,
  { disruptionsAllowed }: { readonly disruptionsAllowed: number },
  spec: { readonly minAvailable: number; readonly [field: string]: unknown },
): Promise<void> {
  const selector = { matchLabels: { app: "set" } };
  await cluster.create("poddisruptionbudgets", namespace, { metadata: { name }, spec: { selector, ...spec } });
  const healthy = { currentHealthy: 1, desiredHealthy: spec.minAvailable, expectedPods: 1 };
  const status = { observedGeneration: 1, disruptionsAllowed, ...healthy };
  await cluster.patch("poddisruptionbudgets", { namespace, name }, { status }, { subresource: "status" });
}

async function breaks(fixture: EvictionFixture): Promise<void> {
  const { cluster, namespace } = fixture;
  await fixture.breakPod("pod", "CrashLoopBackOff");
  await eventually(
    "a pod that is not ready",
    () => cluster.get("pods", { namespace, name: "pod" }),
    (pod) => !isReady(pod),
  );
}
