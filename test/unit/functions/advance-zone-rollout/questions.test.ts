/** Rollouts of pods that are asked before they go (rule R22), in a fake cluster. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { AskedPods, critical, rabbit } from "../../shared/health/asked-pods.ts";
import { Harness, namespace } from "../../shared/reconcile/harness.ts";

async function stage(
  annotations: Readonly<Record<string, string>> = rabbit,
): Promise<{ harness: Harness; pods: AskedPods }> {
  const harness = new Harness({ replicas: 3, zones: ["a"], maxUnavailable: 3 });
  const pods = new AskedPods(harness, ["group-a"], annotations);
  harness.restart({ pods: pods.http(harness.cluster) });
  await harness.prepare();
  return { harness, pods };
}
const deleted = ({ acts }: Harness) => acts.filter(({ action }) => action === "delete").map(({ object }) => object);

test("a rollout asks each pod before it deletes it, and one pod goes at a time whatever the limit is", async () => {
  const { harness, pods } = await stage();
  await harness.run();
  assert.deepEqual([deleted(harness), pods.takeAsked()], [["group-a-0"], ["group-a-0"]]);
  await harness.goOn(200);
  await harness.run();
  assert.deepEqual([deleted(harness), pods.takeAsked(), harness.guard], [["group-a-0"], [], "health-beside-others"]);
});

test("a rollout ends, one pod after the other", async () => {
  const { harness, pods } = await stage();
  for (let round = 0; round < 60 && harness.guard !== "done"; round++) {
    await harness.run();
    await harness.goOn(2_000);
  }
  assert.deepEqual(deleted(harness), ["group-a-0", "group-a-1", "group-a-2"]);
  assert.deepEqual(pods.takeAsked(), ["group-a-0", "group-a-1", "group-a-2"]);
});

test("health-bad: a pod that says no stays, and the next one is asked; the verdict names the queues", async () => {
  const { harness, pods } = await stage();
  pods.replies.set("group-a-0", critical);
  await harness.run();
  assert.deepEqual([deleted(harness), pods.takeAsked()], [["group-a-1"], ["group-a-0", "group-a-1"]]);
  const all = await stage();
  all.pods.others = critical;
  const requeueAfterMs = await all.harness.run();
  assert.deepEqual([deleted(all.harness), all.harness.guard], [[], "health-bad"]);
  assert.match(
    all.harness.verdicts.at(-1)?.message ?? "",
    /^group-a-0 stays: .*queue 'orders' in vhost '\/'; 3 outdated pods wait$/,
  );
  assert.ok(
    requeueAfterMs !== undefined && requeueAfterMs <= 10_000,
    "no event reports that the others can do without it",
  );
  all.harness.world.store.patch(
    "statefulsets",
    { namespace, name: "group-a" },
    {
      metadata: { annotations: { "sluice.dev/health-question": null, "sluice.dev/health-secret": null } },
    },
  );
  await all.harness.goOn(200);
  await all.harness.run();
  assert.equal(deleted(all.harness).length, 3, "the StatefulSet does not ask any more");
});

test("without an answer the rollout waits, or one pod goes if its StatefulSet says so", async () => {
  const { harness, pods } = await stage();
  pods.others = "break";
  await harness.run();
  assert.deepEqual([deleted(harness), harness.guard], [[], "health-unknown"]);
  const open = await stage({ ...rabbit, "health-unknown": "go" });
  open.pods.others = "break";
  await open.harness.run();
  assert.deepEqual(deleted(open.harness), ["group-a-0"]);
});

test("a rollout deletes a pod within 5 s of the reads that the deletion rests on, even if the pod answers after 4 s", async () => {
  const { harness, pods } = await stage();
  pods.slowMs = 4_000;
  await harness.run();
  assert.deepEqual(
    harness.acts.map(({ object, result }) => [object, result]),
    [["group-a-0", "done"]],
  );
});

test("a rollout does not ask a pod with the label that ends its stop hook", async () => {
  const { harness, pods } = await stage();
  pods.others = critical;
  const annotations = { "sluice.dev/skip-labelled-at": "2026-01-01T00:00:00Z" };
  harness.world.annotate({ namespace, name: "group-a-1" }, annotations, "pods");
  await harness.run();
  assert.deepEqual([deleted(harness), pods.takeAsked().includes("group-a-1")], [["group-a-1"], false]);
});

test("question-malformed: no pod goes, and an Event on the object says what to write", async () => {
  const { harness, pods } = await stage({ "health-question": "http", "health-url": "//other/" });
  await harness.run();
  assert.deepEqual([deleted(harness), harness.guard, pods.asked], [[], "question-malformed", []]);
  assert.ok(
    harness.events.some((event) => /^MalformedAnnotation group-a: annotation sluice.dev\/health-url/.test(event)),
  );
});

test("a rollout replaces broken pods without a question, and asks nothing without the annotation", async () => {
  const { harness, pods } = await stage();
  pods.others = critical;
  harness.world.kubelet.breakPod({ namespace, name: "group-a-1" });
  await harness.goOn(1_000);
  await harness.run();
  assert.ok(harness.acts.some(({ action, object }) => action === "repair" && object === "group-a-1"));
  const plain = await new Harness({ replicas: 3, zones: ["a"], maxUnavailable: 3 }).prepare();
  await plain.run();
  assert.equal(deleted(plain).length, 3);
  assert.equal(plain.count("get secrets"), 0);
});
