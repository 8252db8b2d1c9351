/** The case for repairs: a revision that never becomes ready, a lost node, and then `kubectl rollout undo`. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { neverReadyAfterMs } from "../../../../functions/advance-zone-rollout/repair.ts";
import { unready } from "../../../fake-cluster/kubelet.ts";
import { Harness, namespace } from "../../shared/reconcile/harness.ts";

/** A group whose first pod has a revision that waits for `reason`, while another pod came back with that revision by itself. */
async function broken(reason: string, lost: string): Promise<Harness> {
  const harness = new Harness({ replicas: 3, maxUnavailable: 1 });
  const { store, kubelet } = harness.world;
  store.onChange("pods", ({ current, previous }) => {
    if (previous !== undefined || current?.spec.containers[0]?.image !== "app:2") return;
    const { uid, name } = current.metadata;
    harness.timeline.after(1, () => {
      if (store.find("pods", { namespace, name })?.metadata.uid === uid) kubelet.breakPod({ namespace, name }, reason);
    });
  });
  await harness.prepare("app:2");
  await harness.run();
  await harness.goOn(3_000);
  store.delete("pods", { namespace, name: lost }, { gracePeriodSeconds: 0 });
  await harness.goOn(3_000);
  await harness.run(true);
  assert.deepEqual([harness.imageOf("group-a-0"), harness.imageOf(lost)], ["app:2", "app:2"]);
  return harness;
}

/** Reconciles when a reconcile asked for it, or when a pod has changed. Resolves to the seconds until the group is done. */
async function secondsUntilDone(harness: Harness): Promise<number> {
  const startMs = harness.cluster.monotonicMs();
  const spentMs = () => harness.cluster.monotonicMs() - startMs;
  let requeueAfterMs = 0;
  while (harness.guard !== "done" && spentMs() < 600_000) {
    let changed = false;
    const listening = harness.world.store.onChange("pods", () => {
      changed = true;
    });
    const untilMs = spentMs() + requeueAfterMs;
    while (!changed && spentMs() < untilMs) await harness.goOn(Math.min(500, untilMs - spentMs()));
    listening();
    await harness.goOn(20);
    requeueAfterMs = (await harness.run()) ?? 30_000;
  }
  assert.equal(harness.guard, "done", harness.verdicts.at(-1)?.message);
  return Math.round(spentMs() / 1000);
}

const places = [
  ["another zone", "group-b-1"],
  ["the same zone", "group-a-1"],
] as const;

for (const [where, lost] of places) {
  for (const reason of ["CrashLoopBackOff", "ContainerCreating", "ErrImageNeverPull", unready]) {
    test(`rollout undo heals a group whose new revision is ${reason} in two pods, one of ${where}`, async () => {
      const harness = await broken(reason, lost);
      harness.changeImage("app:1");
      await harness.goOn(100);
      harness.forget();
      const seconds = await secondsUntilDone(harness);
      const waitsS = reason === unready ? neverReadyAfterMs / 1000 : 0;
      assert.ok(seconds <= waitsS + 15, `${seconds} s`);
      for (const { metadata, spec } of harness.world.store.list("pods").items) {
        assert.equal(spec.containers[0]?.image, "app:1", metadata.name);
      }
      assert.equal(harness.acts[0]?.action, "repair");
      // Once the other pod is back, the zone may go on with the pod that it has lost already.
      const taken = harness.acts.filter(({ action }) => action !== "record-revision").map(({ object }) => object);
      assert.deepEqual(taken.sort(), ["group-a-0", lost], "nothing healthy goes, and nothing of the wanted revision");
      assert.deepEqual(harness.problems, []);
    });
  }
}

test("the Event of a repair says what kept the pod from being ready", async () => {
  const causes = { CrashLoopBackOff: "stuck in CrashLoopBackOff", ContainerCreating: "Pending for \\d+ s" };
  for (const [reason, cause] of Object.entries({ ...causes, [unready]: "never ready in 12\\d s" })) {
    const harness = await broken(reason, "group-a-1");
    harness.changeImage("app:1");
    await harness.goOn(100);
    await secondsUntilDone(harness);
    const replaced = harness.events.filter((event) => event.startsWith("BrokenPodReplaced group-a:"));
    assert.ok(replaced.length > 0);
    for (const event of replaced) {
      assert.match(event, new RegExp(`: pod group-a-\\d was ${cause} on revision \\S+ and is replaced by \\S+$`));
    }
  }
});

test("pods of two zones that broke after being ready are replaced by a revision that mends them, zone by zone, and then the rollout goes on", async () => {
  const harness = await new Harness({ replicas: 3 }).prepare("app:1");
  for (const name of ["group-a-1", "group-b-1"]) harness.world.kubelet.breakPod({ namespace, name }, unready);
  await harness.goOn(60_000);
  assert.deepEqual(harness.acts, []);
  harness.changeImage("app:2");
  for (let round = 0; round < 100; round++) {
    await harness.goOn(1_000);
    await harness.run();
  }
  assert.equal(harness.guard, "done");
  const done = harness.acts.map(({ action, object }) => `${action} ${object}`);
  assert.deepEqual(done.slice(0, 2), ["repair group-a-1", "delete group-b-1"]);
});
