/** A deleted owner is released once its pods are labelled, and no sooner (invariant M1). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { refused } from "../../shared/reconcile/harness.ts";
import { finalizer, type OwnedCluster, ownedCluster, owner, statefulSet } from "./owned-cluster.ts";

/** Uid of the object that a call is about. */
const nameIn = ([, key]: readonly unknown[]) => (key as { name?: string } | undefined)?.name;
const guardsOf = ({ harness }: OwnedCluster) => harness.verdicts.map(({ guard }) => guard);
const all = { 0: "true", 1: "true", 2: "true" };

test("a live RabbitmqCluster keeps its finalizers and gets ours, and its pods get no label", async () => {
  const world = await ownedCluster();
  world.harness.world.store.patch("rabbitmqclusters", owner, { metadata: { finalizers: ["example.com/other"] } });
  assert.equal(await world.process().reconcile(), "done");
  assert.deepEqual(guardsOf(world), ["holding", "done"]);
  assert.deepEqual(world.find()?.finalizers, ["example.com/other", finalizer]);
  assert.deepEqual(world.labels(), {});
  world.harness.forget();
  assert.equal(await world.process().reconcile(), "done");
  assert.deepEqual(
    world.harness.requests,
    ["get rabbitmqclusters", "get namespaces"],
    "a second reconcile writes nothing",
  );
});

test("Sluice holds a deleted RabbitmqCluster until 90 s after its pods got the label, and then releases it", async () => {
  const world = await ownedCluster();
  const process = world.process();
  await process.reconcile();
  world.remove();
  assert.equal(await process.reconcile(), "marker-unseen");
  assert.deepEqual(world.labels(), all);
  assert.deepEqual(world.find()?.finalizers, [finalizer]);
  assert.equal(world.status()?.guard, "marker-unseen");
  await world.harness.goOn(88_000);
  assert.equal(await world.process().reconcile(), "marker-unseen", "another process counts from the same time");
  await world.harness.goOn(3_000);
  assert.equal(await world.process().reconcile(), "done");
  assert.equal(world.find(), undefined);
  assert.match(
    world.harness.events.join("\n"),
    /StopHooksReleased orders: released: all 3 pods of RabbitmqCluster orders/,
  );
});

test("with a wait of 0 Sluice releases a deleted owner as soon as a reconcile finds all of its pods labelled", async () => {
  const world = await ownedCluster();
  const process = world.process({ skipLabelWaitMs: 0 });
  await process.reconcile();
  world.remove();
  const released: unknown[] = [];
  world.harness.interfere = ({ verb, resource }) => {
    if (verb === "patch" && resource === "rabbitmqclusters") released.push(world.labels());
  };
  assert.equal(await process.reconcile(), "done");
  assert.deepEqual(released, [all]);
  assert.equal(world.find(), undefined);
});

test("if a pod is created again between label and finalizer, Sluice labels it before it releases the owner", async () => {
  const world = await ownedCluster();
  const process = world.process({ skipLabelWaitMs: 0 });
  await process.reconcile();
  world.remove();
  const seen: unknown[] = [];
  let patches = 0;
  world.harness.interfere = async ({ verb, resource }) => {
    if (verb === "patch" && resource === "pods" && ++patches === 3) {
      world.harness.world.store.delete(
        "pods",
        { namespace: owner.namespace, name: "group-server-0" },
        { gracePeriodSeconds: 0 },
      );
      world.harness.world.settle();
    }
    if (verb === "patch" && resource === "rabbitmqclusters") seen.push(world.labels());
  };
  await process.reconcile();
  assert.deepEqual(seen, [all]);
});

test("label-refused: the owner stays, its status and an Event name the pod and the reason, and the other pods have the label", async () => {
  const world = await ownedCluster();
  const process = world.process({ skipLabelWaitMs: 0 });
  await process.reconcile();
  world.remove();
  world.harness.interfere = ({ verb, resource, given }) => {
    if (verb === "patch" && resource === "pods" && nameIn(given) === "group-server-1")
      throw refused(403, "a webhook says no");
  };
  assert.equal(await process.reconcile(), "label-refused");
  assert.deepEqual(world.labels(), { 0: "true", 2: "true" });
  assert.deepEqual(world.find()?.finalizers, [finalizer]);
  assert.match(world.status()?.sentence ?? "", /^group-server-1 has no label: .* 403: .*a webhook says no/);
  assert.match(world.harness.events.join("\n"), /SkipLabelWaiting orders: label-refused: group-server-1/);
  world.harness.interfere = () => {};
  await world.harness.goOn(6_000);
  assert.equal(await world.process({ skipLabelWaitMs: 0 }).reconcile(), "done");
  assert.equal(world.find(), undefined);
});

test("deadline-passed: five minutes after its deletion Sluice releases the owner anyway, after its status has said so", async () => {
  const world = await ownedCluster();
  const process = world.process({ skipLabelWaitMs: 0 });
  await process.reconcile();
  world.remove();
  const guardsAtRelease: unknown[] = [];
  world.harness.interfere = ({ verb, resource, given }) => {
    if (verb !== "patch") return;
    if (resource === "pods") throw refused(403, "a webhook says no");
    if (JSON.stringify(given).includes("finalizers")) guardsAtRelease.push(world.status()?.guard);
  };
  assert.equal(await process.reconcile(), "label-refused");
  await world.harness.goOn(298_000);
  assert.equal(await process.reconcile(), "label-refused");
  await world.harness.goOn(3_000);
  await process.reconcile();
  assert.deepEqual(guardsAtRelease, ["deadline-passed"]);
  assert.equal(world.find(), undefined);
  assert.match(
    world.harness.events.join("\n"),
    /SkipDeadlinePassed orders: .* 300 s after its deletion: group-server-0 has no label/,
  );
});

test("Sluice holds an owner that it finds after the deadline until its pods can have seen their labels, and no longer", async () => {
  const world = await ownedCluster();
  await world.process().reconcile();
  world.remove();
  const deletedMs = world.harness.timeline.nowMs();
  await world.harness.goOn(310_000);
  assert.equal(await world.process().reconcile(), "marker-unseen");
  await world.harness.goOn(88_000);
  assert.equal(await world.process().reconcile(), "marker-unseen");
  const { store } = world.harness.world;
  for (let replaced = 0; world.find() !== undefined && replaced < 10; replaced++) {
    for (const name of ["group-server-0", "group-server-1", "group-server-2"])
      store.delete("pods", { namespace: owner.namespace, name }, { gracePeriodSeconds: 0 });
    await world.harness.goOn(60_000);
    await world.process().reconcile();
  }
  assert.equal(world.find(), undefined);
  const keptMs = world.harness.timeline.nowMs() - deletedMs;
  assert.ok(keptMs > 600_000 && keptMs < 780_000, `held for ${keptMs} ms`);
});

test("a process releases an owner at its deadline only after it has warned, even if a user has overwritten the status", async () => {
  const world = await ownedCluster();
  const process = world.process();
  await process.reconcile();
  world.remove();
  await process.reconcile();
  const recorded = {
    guard: "deadline-passed",
    message: "it goes",
    label: "skipPreStopChecks",
    since: "2026-01-01T00:00:00Z",
  };
  world.annotate({ "sluice.dev/skip-status": JSON.stringify(recorded), "sluice.dev/skip-deadline": "1s" });
  await world.harness.goOn(2_000);
  const warned: unknown[] = [];
  world.harness.interfere = ({ verb, given }) => {
    if (verb === "patch" && JSON.stringify(given).includes("finalizers"))
      warned.push(world.harness.events.filter((event) => event.includes("SkipDeadlinePassed")).length);
  };
  await world.process().reconcile();
  assert.deepEqual([warned, world.find()], [[1], undefined]);
});

test("Sluice releases an owner at once that is deleted without its pods, and labels none of the pods", async () => {
  const world = await ownedCluster();
  const process = world.process();
  await process.reconcile();
  world.remove("Orphan");
  assert.equal(await process.reconcile(), "done");
  await world.harness.goOn(1_000);
  assert.equal(world.find(), undefined);
  assert.deepEqual(world.labels(), {});
});

test("Sluice never touches pods of another owner, even if all labels are the same", async () => {
  const world = await ownedCluster();
  const { store } = world.harness.world;
  const { labels, ownerReferences } = store.get("pods", {
    namespace: owner.namespace,
    name: "group-server-0",
  }).metadata;
  const foreign = ownerReferences?.map((one) => ({ ...one, uid: "of-another" }));
  store.create("pods", owner.namespace, {
    metadata: { name: "foreign-9", labels, ownerReferences: foreign },
    spec: { containers: [] },
  });
  const process = world.process({ skipLabelWaitMs: 0 });
  await process.reconcile();
  world.remove();
  world.harness.interfere = ({ verb, given }) => {
    if (verb === "patch") assert.notEqual(nameIn(given), "foreign-9");
  };
  await process.reconcile();
  assert.equal(world.find(), undefined);
});

test("Sluice does not confuse an owner with a deleted one that had the same name and another uid", async () => {
  const world = await ownedCluster();
  const process = world.process({ skipLabelWaitMs: 0 });
  await process.reconcile();
  world.remove();
  const { store } = world.harness.world;
  let isReplaced = false;
  world.harness.interfere = ({ verb, resource, given }) => {
    if (
      isReplaced ||
      verb !== "patch" ||
      resource !== "rabbitmqclusters" ||
      !JSON.stringify(given).includes("finalizers")
    )
      return;
    isReplaced = true;
    store.patch("rabbitmqclusters", owner, { metadata: { finalizers: [] } });
    const annotations = { "sluice.dev/skip-label": "skipPreStopChecks" };
    store.create("rabbitmqclusters", owner.namespace, { metadata: { name: owner.name, annotations }, spec: {} });
  };
  assert.equal(await process.reconcile(), "done");
  assert.deepEqual(world.find()?.finalizers, [finalizer], "it is a live one, and is held like any other");
  assert.equal(world.find()?.deletionTimestamp, undefined);
});

test("if a user removes the finalizer of a deleted owner, the owner goes, and Sluice does not create it again", async () => {
  const world = await ownedCluster();
  const process = world.process();
  await process.reconcile();
  world.remove();
  await process.reconcile();
  world.harness.world.store.patch("rabbitmqclusters", owner, { metadata: { finalizers: [] } });
  assert.equal(await process.reconcile(), "done");
  assert.equal(world.find(), undefined);
  assert.deepEqual(
    world.harness.requests.filter((request) => request.startsWith("create") && request !== "create events"),
    [],
  );
});

test("Sluice releases an owner without a StatefulSet and without pods at once", async () => {
  const world = await ownedCluster();
  const process = world.process();
  await process.reconcile();
  world.harness.world.removeStatefulSet(statefulSet);
  await world.harness.goOn(5_000);
  world.remove();
  assert.equal(await process.reconcile(), "done");
  assert.equal(world.find(), undefined);
});

test("Sluice releases a deleted RabbitmqCluster that is paused like any other", async () => {
  const world = await ownedCluster();
  const labels = { "rabbitmq.com/pauseReconciliation": "true" };
  world.harness.world.store.patch("rabbitmqclusters", owner, { metadata: { labels } });
  const process = world.process({ skipLabelWaitMs: 0 });
  await process.reconcile();
  world.remove();
  await process.reconcile();
  assert.equal(world.find(), undefined);
});

test("an Event names the pods that terminate before they had the label, and Sluice does not wait for them", async () => {
  const world = await ownedCluster();
  const process = world.process({ skipLabelWaitMs: 0 });
  await process.reconcile();
  const pods = { namespace: owner.namespace, name: "group-server-2" };
  world.harness.world.store.delete("pods", pods, { gracePeriodSeconds: 604_800 });
  world.remove();
  await process.reconcile();
  assert.equal(world.find(), undefined);
  assert.deepEqual(world.labels(), { 0: "true", 1: "true" });
  assert.match(
    world.harness.events.join("\n"),
    /MarkerUnreachable orders: group-server-2 was terminating before it had the label/,
  );
});

test("Sluice holds and releases a StatefulSet that opts in with its own label in the same way", async () => {
  const world = await ownedCluster({ "sluice.dev/skip-label": "none" });
  world.annotate({ "sluice.dev/skip-label": "sluice.dev/let-go=now" }, statefulSet);
  const process = world.process({ skipLabelWaitMs: 0 });
  assert.deepEqual(await process.keys(), ["orders", "group-server"]);
  await process.reconcile(statefulSet);
  assert.deepEqual(world.find(statefulSet)?.finalizers, [finalizer]);
  world.remove("Background", statefulSet);
  const seen: unknown[] = [];
  world.harness.interfere = ({ verb, resource, given }) => {
    if (verb === "patch" && resource === "statefulsets" && JSON.stringify(given).includes("finalizers"))
      seen.push(world.labels("sluice.dev/let-go"));
  };
  await process.reconcile(statefulSet);
  assert.deepEqual(seen, [{ 0: "now", 1: "now", 2: "now" }]);
  assert.equal(world.find(statefulSet), undefined);
});

test("a process that was suspended after its reads does not act on them, and reconciles again", async () => {
  const world = await ownedCluster();
  const process = world.process({ skipLabelWaitMs: 0 });
  await process.reconcile();
  world.remove();
  let isStopped = false;
  const seen: unknown[] = [];
  world.harness.interfere = async ({ verb, resource, given }) => {
    if (verb === "patch" && JSON.stringify(given).includes("finalizers")) seen.push(world.labels());
    const isLabelled = Object.keys(world.labels()).length === 3;
    if (isStopped || !isLabelled || verb !== "list" || resource !== "statefulsets") return;
    isStopped = true;
    const { store } = world.harness.world;
    store.delete("pods", { namespace: owner.namespace, name: "group-server-0" }, { gracePeriodSeconds: 0 });
    await world.harness.context.cluster.sleep(40_000);
  };
  await process.reconcile();
  assert.deepEqual([isStopped, seen, world.find()], [true, [all], undefined]);
});

test("Sluice neither removes nor overwrites a label that a user had set before", async () => {
  const world = await ownedCluster();
  const pod = { namespace: owner.namespace, name: "group-server-0" };
  world.harness.world.store.patch("pods", pod, { metadata: { labels: { skipPreStopChecks: "false" } } });
  const process = world.process({ skipLabelWaitMs: 0 });
  await process.reconcile();
  assert.deepEqual(world.labels(), { 0: "false" }, "a live owner's pods are left alone");
  world.remove();
  const seen: unknown[] = [];
  world.harness.interfere = ({ verb, resource }) => {
    if (verb === "patch" && resource === "rabbitmqclusters") seen.push(world.labels());
  };
  await process.reconcile();
  assert.deepEqual(seen, [{ 0: "false", 1: "true", 2: "true" }], "a stop hook takes any text for the marker");
});

test("skip-label-malformed: Sluice reports the text, leaves a live StatefulSet alone, and holds a deleted one until its deadline", async () => {
  const world = await ownedCluster({ "sluice.dev/skip-label": "none" });
  world.annotate({ "sluice.dev/skip-label": "let go" }, statefulSet);
  const process = world.process();
  assert.equal(await process.reconcile(statefulSet), "skip-label-malformed");
  assert.deepEqual(world.find(statefulSet)?.finalizers ?? [], []);
  world.harness.world.store.patch("statefulsets", statefulSet, { metadata: { finalizers: [finalizer] } });
  world.annotate({ "sluice.dev/skip-deadline": "20s" }, statefulSet);
  world.remove("Background", statefulSet);
  assert.equal(await process.reconcile(statefulSet), "skip-label-malformed");
  await world.harness.goOn(21_000);
  await process.reconcile(statefulSet);
  assert.equal(world.find(statefulSet), undefined);
  assert.match(
    world.harness.events.join("\n"),
    /MalformedAnnotation group-server: .*write KEY or KEY=VALUE of a label, or none/,
  );
  assert.match(world.harness.events.join("\n"), /SkipDeadlinePassed group-server/);
});

test("with SKIP_LABEL_FINALIZER=remove live owners lose our finalizer, and Sluice still releases deleted ones in order", async () => {
  const world = await ownedCluster();
  await world.process().reconcile();
  world.harness.forget();
  assert.equal(await world.process({ skipLabelFinalizer: "remove" }).reconcile(), "done");
  assert.deepEqual(guardsOf(world), ["letting-alone", "done"]);
  assert.deepEqual(world.find()?.finalizers ?? [], []);
});

test("in shadow mode Sluice writes nothing", async () => {
  const world = await ownedCluster();
  await world.process().reconcile();
  world.remove();
  world.harness.forget();
  await world.process({}, { mode: "shadow" }).reconcile();
  assert.deepEqual(
    world.harness.calls.filter(({ verb }) => verb === "patch" || verb === "create"),
    [],
  );
  assert.equal(world.harness.verdicts.at(-1)?.guard, "labelling");
});
