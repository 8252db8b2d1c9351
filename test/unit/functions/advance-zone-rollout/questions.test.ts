/** Rollouts of pods that are asked before they go (rule R22), over a small world. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { AskedPods, critical, rabbit } from "../../shared/health/asked-pods.ts";
import { namespace, Passes } from "../../shared/reconcile/passes.ts";

async function stage(
  annotations: Readonly<Record<string, string>> = rabbit,
): Promise<{ passes: Passes; pods: AskedPods }> {
  const passes = new Passes({ replicas: 3, zones: ["a"], maxUnavailable: 3 });
  const pods = new AskedPods(passes, ["group-a"], annotations);
  passes.restart({ pods: pods.http(passes.cluster) });
  await passes.prepare();
  return { passes, pods };
}
const deleted = ({ acts }: Passes) => acts.filter(({ action }) => action === "delete").map(({ object }) => object);

test("a pod is asked before it is deleted, and one goes at a time whatever the limit is", async () => {
  const { passes, pods } = await stage();
  await passes.run();
  assert.deepEqual([deleted(passes), pods.takeAsked()], [["group-a-0"], ["group-a-0"]]);
  await passes.goOn(200);
  await passes.run();
  assert.deepEqual([deleted(passes), pods.takeAsked(), passes.guard], [["group-a-0"], [], "health-beside-others"]);
});

test("a rollout ends, one pod after the other", async () => {
  const { passes, pods } = await stage();
  for (let pass = 0; pass < 60 && passes.guard !== "done"; pass++) {
    await passes.run();
    await passes.goOn(2_000);
  }
  assert.deepEqual(deleted(passes), ["group-a-0", "group-a-1", "group-a-2"]);
  assert.deepEqual(pods.takeAsked(), ["group-a-0", "group-a-1", "group-a-2"]);
});

test("health-bad: one that says no stays, and the next one is asked; the verdict names the queues", async () => {
  const { passes, pods } = await stage();
  pods.says.set("group-a-0", critical);
  await passes.run();
  assert.deepEqual([deleted(passes), pods.takeAsked()], [["group-a-1"], ["group-a-0", "group-a-1"]]);
  const all = await stage();
  all.pods.others = critical;
  const requeueAfterMs = await all.passes.run();
  assert.deepEqual([deleted(all.passes), all.passes.guard], [[], "health-bad"]);
  assert.match(
    all.passes.verdicts.at(-1)?.message ?? "",
    /^group-a-0 stays: .*queue 'orders' in vhost '\/'; 3 outdated pods wait$/,
  );
  assert.ok(
    requeueAfterMs !== undefined && requeueAfterMs <= 10_000,
    "no event tells that the others can do without it",
  );
  all.passes.world.store.patch(
    "statefulsets",
    { namespace, name: "group-a" },
    {
      metadata: { annotations: { "sluice.dev/health-question": null, "sluice.dev/health-secret": null } },
    },
  );
  await all.passes.goOn(200);
  await all.passes.run();
  assert.equal(deleted(all.passes).length, 3, "the StatefulSet does not ask any more");
});

test("no answer: it waits, or one goes where its StatefulSet says so", async () => {
  const { passes, pods } = await stage();
  pods.others = "break";
  await passes.run();
  assert.deepEqual([deleted(passes), passes.guard], [[], "health-unknown"]);
  const open = await stage({ ...rabbit, "health-unknown": "go" });
  open.pods.others = "break";
  await open.passes.run();
  assert.deepEqual(deleted(open.passes), ["group-a-0"]);
});

test("a deletion comes within 5 s of what it rests on, though the pod answers after 4 s", async () => {
  const { passes, pods } = await stage();
  pods.slowMs = 4_000;
  await passes.run();
  assert.deepEqual(
    passes.acts.map(({ object, result }) => [object, result]),
    [["group-a-0", "done"]],
  );
});

test("a pod that was labelled so that its stop hook lets go is not asked", async () => {
  const { passes, pods } = await stage();
  pods.others = critical;
  const annotations = { "sluice.dev/skip-labelled-at": "2026-01-01T00:00:00Z" };
  passes.world.annotate({ namespace, name: "group-a-1" }, annotations, "pods");
  await passes.run();
  assert.deepEqual([deleted(passes), pods.takeAsked().includes("group-a-1")], [["group-a-1"], false]);
});

test("question-malformed: no pod goes, and the object is told what to write", async () => {
  const { passes, pods } = await stage({ "health-question": "http", "health-url": "//other/" });
  await passes.run();
  assert.deepEqual([deleted(passes), passes.guard, pods.asked], [[], "question-malformed", []]);
  assert.ok(
    passes.events.some((event) => /^MalformedAnnotation group-a: annotation sluice.dev\/health-url/.test(event)),
  );
});

test("what is broken is replaced without a question, and without one nothing is asked", async () => {
  const { passes, pods } = await stage();
  pods.others = critical;
  passes.world.kubelet.breakPod({ namespace, name: "group-a-1" });
  await passes.goOn(1_000);
  await passes.run();
  assert.ok(passes.acts.some(({ action, object }) => action === "repair" && object === "group-a-1"));
  const plain = await new Passes({ replicas: 3, zones: ["a"], maxUnavailable: 3 }).prepare();
  await plain.run();
  assert.equal(deleted(plain).length, 3);
  assert.equal(plain.count("get secrets"), 0);
});
