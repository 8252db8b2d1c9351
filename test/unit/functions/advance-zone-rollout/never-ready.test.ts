/** The night that repairs exist for: a revision that never becomes ready, a node lost besides, and `kubectl rollout undo`. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { neverReadyAfterMs } from "../../../../functions/advance-zone-rollout/repair.ts";
import { unready } from "../../../fake-cluster/kubelet.ts";
import { namespace, Passes } from "../../shared/reconcile/passes.ts";

/** A group whose first pod went to a revision that waits for `reason`, and another pod came back at it by itself. */
async function broken(reason: string, lost: string): Promise<Passes> {
  const passes = new Passes({ replicas: 3, maxUnavailable: 1 });
  const { store, kubelet } = passes.world;
  store.onChange("pods", ({ current, previous }) => {
    if (previous !== undefined || current?.spec.containers[0]?.image !== "app:2") return;
    const { uid, name } = current.metadata;
    passes.timeline.after(1, () => {
      if (store.find("pods", { namespace, name })?.metadata.uid === uid) kubelet.breakPod({ namespace, name }, reason);
    });
  });
  await passes.prepare("app:2");
  await passes.run();
  await passes.goOn(3_000);
  store.delete("pods", { namespace, name: lost }, { gracePeriodSeconds: 0 });
  await passes.goOn(3_000);
  await passes.run(true);
  assert.deepEqual([passes.imageOf("group-a-0"), passes.imageOf(lost)], ["app:2", "app:2"]);
  return passes;
}

/** Runs passes when they ask for it, or when a pod has changed; resolves to the seconds until the group is done. */
async function secondsUntilDone(passes: Passes): Promise<number> {
  const startMs = passes.cluster.monotonicMs();
  const spentMs = () => passes.cluster.monotonicMs() - startMs;
  let requeueAfterMs = 0;
  while (passes.guard !== "done" && spentMs() < 600_000) {
    let changed = false;
    const listening = passes.world.store.onChange("pods", () => {
      changed = true;
    });
    const untilMs = spentMs() + requeueAfterMs;
    while (!changed && spentMs() < untilMs) await passes.goOn(Math.min(500, untilMs - spentMs()));
    listening();
    await passes.goOn(20);
    requeueAfterMs = (await passes.run()) ?? 30_000;
  }
  assert.equal(passes.guard, "done", passes.verdicts.at(-1)?.message);
  return Math.round(spentMs() / 1000);
}

const places = [
  ["another zone", "group-b-1"],
  ["the same zone", "group-a-1"],
] as const;

for (const [where, lost] of places) {
  for (const reason of ["CrashLoopBackOff", "ContainerCreating", "ErrImageNeverPull", unready]) {
    test(`rollout undo heals a group whose new revision is ${reason} in two pods, one of ${where}`, async () => {
      const passes = await broken(reason, lost);
      passes.changeImage("app:1");
      await passes.goOn(100);
      passes.forget();
      const seconds = await secondsUntilDone(passes);
      const waitsS = reason === unready ? neverReadyAfterMs / 1000 : 0;
      assert.ok(seconds <= waitsS + 15, `${seconds} s`);
      for (const { metadata, spec } of passes.world.store.list("pods").items) {
        assert.equal(spec.containers[0]?.image, "app:1", metadata.name);
      }
      assert.equal(passes.acts[0]?.action, "repair");
      // Once the other one is back, the zone may lose what it has lost already.
      const taken = passes.acts.filter(({ action }) => action !== "record-revision").map(({ object }) => object);
      assert.deepEqual(taken.sort(), ["group-a-0", lost], "nothing healthy goes, and nothing of the wanted revision");
      assert.deepEqual(passes.problems, []);
    });
  }
}

test("a repair says in an Event what kept the pod from being ready", async () => {
  const causes = { CrashLoopBackOff: "stuck in CrashLoopBackOff", ContainerCreating: "Pending for \\d+ s" };
  for (const [reason, cause] of Object.entries({ ...causes, [unready]: "never ready in 12\\d s" })) {
    const passes = await broken(reason, "group-a-1");
    passes.changeImage("app:1");
    await passes.goOn(100);
    await secondsUntilDone(passes);
    const said = passes.events.filter((event) => event.startsWith("BrokenPodReplaced group-a:"));
    assert.ok(said.length > 0);
    for (const event of said) {
      assert.match(event, new RegExp(`: pod group-a-\\d was ${cause} on revision \\S+ and is replaced by \\S+$`));
    }
  }
});

test("pods of two zones that were ready once and broke are replaced by what mends them, zone by zone, and then all goes on", async () => {
  const passes = await new Passes({ replicas: 3 }).prepare("app:1");
  for (const name of ["group-a-1", "group-b-1"]) passes.world.kubelet.breakPod({ namespace, name }, unready);
  await passes.goOn(60_000);
  assert.deepEqual(passes.acts, []);
  passes.changeImage("app:2");
  for (let look = 0; look < 100; look++) {
    await passes.goOn(1_000);
    await passes.run();
  }
  assert.equal(passes.guard, "done");
  const done = passes.acts.map(({ action, object }) => `${action} ${object}`);
  assert.deepEqual(done.slice(0, 2), ["repair group-a-1", "delete group-b-1"]);
});
