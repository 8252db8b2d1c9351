/**
 * Deleted namespaces, processes that die at any step, two processes at once, and API servers that do not answer (invariant
 * M1).
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { namespace, played, refused } from "../../shared/reconcile/harness.ts";
import { finalizer, type OwnedCluster, ownedCluster, owner } from "./owned-cluster.ts";

const all = { 0: "true", 1: "true", 2: "true" };
const ending = { resource: "namespaces", namespace: "", name: namespace } as const;
const immediately = { skipLabelWaitMs: 0 };

/** The namespace of the cluster exists, as on a real API server, and is deleted. */
function removeNamespace({ harness }: OwnedCluster): void {
  harness.world.store.create("namespaces", "", { metadata: { name: namespace } });
  harness.world.store.delete("namespaces", { namespace: "", name: namespace });
}

test("namespace-ending: Sluice labels the pods of each owner within the five seconds before Kubernetes deletes them", async () => {
  const world = await ownedCluster();
  const process = world.process();
  await process.reconcile();
  removeNamespace(world);
  assert.equal(await process.reconcile(ending), "namespace-ending");
  assert.deepEqual(world.labels(), all);
  assert.equal(world.find()?.deletionTimestamp, undefined, "the owner itself is not deleted yet");
  assert.deepEqual(world.harness.problems, [], "that no Event can be sent there is expected, and quiet");
  await world.harness.goOn(120_000);
  await world.process().reconcile();
  await world.harness.goOn(5_000);
  assert.equal(world.find(), undefined);
  assert.equal(world.harness.world.store.find("namespaces", ending), undefined, "it does not hold the namespace");
});

test("a new owner in a namespace that is being deleted gets no finalizer", async () => {
  const world = await ownedCluster();
  removeNamespace(world);
  await world.process().reconcile();
  assert.deepEqual([world.find()?.finalizers ?? [], world.labels()], [[], all]);
});

test("Sluice reads no owner in a namespace that it does not serve, or that is not being deleted", async () => {
  const world = await ownedCluster();
  removeNamespace(world);
  await world.process({}, { namespaces: ["another"] }).reconcile(ending);
  assert.deepEqual(world.labels(), {});
  const living = await ownedCluster();
  living.harness.world.store.create("namespaces", "", { metadata: { name: namespace } });
  living.harness.forget();
  await living.process().reconcile(ending);
  assert.deepEqual(living.harness.requests, ["get namespaces"]);
});

test("when a process dies before or after any of its writes, another process completes the work, and M1 holds", async () => {
  for (let survived = 0; ; survived++) {
    const world = await ownedCluster();
    await world.process(immediately).reconcile();
    world.remove();
    let writes = 0;
    let isDead = false;
    world.harness.interfere = async ({ verb, resource, given }) => {
      if (verb === "patch" && resource === "rabbitmqclusters" && JSON.stringify(given).includes('"finalizers":[]'))
        assert.deepEqual(world.labels(), all, `a release after ${survived} writes`);
      if (verb !== "patch" && verb !== "create") return;
      if (writes++ < survived) return;
      isDead = true;
      throw new ClusterError({ code: 0, reason: "Dead", message: "killed", verb, resource });
    };
    await world
      .process(immediately)
      .reconcile()
      .catch(() => undefined);
    world.harness.interfere = ({ verb, resource, given }) => {
      if (verb === "patch" && resource === "rabbitmqclusters" && JSON.stringify(given).includes('"finalizers":[]'))
        assert.deepEqual(world.labels(), all, `a release after ${survived} writes and a restart`);
    };
    await world.process(immediately).reconcile();
    assert.equal(world.find(), undefined, `after ${survived} writes`);
    if (!isDead) {
      assert.ok(survived >= 4, "three labels and a release, at least");
      return;
    }
  }
});

test("two processes at the same time label each pod once, and release the owner once", async () => {
  const world = await ownedCluster();
  await world.process(immediately).reconcile();
  world.remove();
  world.harness.forget();
  const [one, other] = [world.process(immediately), world.process(immediately)];
  await Promise.all([one.run(), other.run()]);
  assert.equal(world.find(), undefined);
  const done = world.harness.acts
    .filter(({ result }) => result === "done")
    .map(({ action, object }) => `${action} ${object}`);
  assert.deepEqual(done.toSorted(), [
    "label group-server-0",
    "label group-server-1",
    "label group-server-2",
    "remove-finalizer orders",
  ]);
});

test("if the API server does not answer for one pod, the others still get the label, and Sluice reconciles again", async () => {
  const world = await ownedCluster();
  const process = world.process(immediately);
  await process.reconcile();
  world.remove();
  world.harness.interfere = ({ verb, resource, given }) => {
    if (verb === "patch" && resource === "pods" && (given[1] as { name: string }).name.endsWith("-0"))
      throw refused(503, "away");
  };
  await assert.rejects(process.run(), /away/);
  assert.deepEqual(world.labels(), { 1: "true", 2: "true" });
  assert.deepEqual(world.find()?.finalizers, [finalizer]);
});

test("owner-refused: if a webhook refuses a write to the owner, Sluice reports the refusal and writes again", async () => {
  const world = await ownedCluster();
  const process = world.process();
  world.harness.interfere = ({ verb, resource }) => {
    if (verb === "patch" && resource === "rabbitmqclusters") throw refused(422, "not so");
  };
  assert.equal((await process.run()).requeueAfterMs, 5_000);
  assert.equal(world.harness.guard, "owner-refused");
  assert.match(world.harness.problems.join(), /RabbitmqCluster orders cannot be written: .* 422: not so/);
  assert.match(world.harness.events.join(), /SkipLabelWaiting orders: owner-refused/);
});

test("without RabbitMQ's operator there are no owners, and Sluice reports no error", async () => {
  const world = await ownedCluster();
  world.harness.interfere = ({ resource }) => {
    if (resource === "rabbitmqclusters") throw refused(404, "the server could not find the requested resource");
  };
  assert.deepEqual(await world.process().keys(), []);
});

test("an object of a listed kind is an owner when it opts in, even if further objects stand between it and its pods", async () => {
  const world = await ownedCluster({ "sluice.dev/skip-label": "none" });
  const { store } = world.harness.world;
  const definition = {
    group: "brokers.example.com",
    version: "v1",
    kind: "Broker",
    plural: "brokers",
    isNamespaced: true,
  };
  const resource = store.define(definition);
  store.create(resource, namespace, {
    metadata: { name: "top", annotations: { "sluice.dev/skip-label": "sluice.dev/let-go" } },
  });
  const { uid } = store.get(resource, { namespace, name: "top" }).metadata;
  const reference = { apiVersion: "brokers.example.com/v1", kind: "Broker", name: "top", uid, controller: true };
  store.patch("rabbitmqclusters", owner, { metadata: { ownerReferences: [reference] } });
  const settings = {
    skipLabelKinds: [
      { kind: "Broker", group: "brokers.example.com" },
      { kind: "Typo", group: "" },
    ],
  };
  const process = world.process({ ...settings, ...immediately });
  assert.deepEqual(await process.keys(), ["orders", "top"]);
  assert.match(world.harness.problems.join(), /SKIP_LABEL_KINDS: the API server serves no kind "Typo"/);
  const top = { resource, namespace, name: "top" };
  await process.reconcile(top);
  assert.deepEqual(world.find(top)?.finalizers, [finalizer]);
  world.remove("Background", top);
  const seen: unknown[] = [];
  world.harness.interfere = ({ verb, resource: of }) => {
    if (verb === "patch" && of === resource) seen.push(world.labels("sluice.dev/let-go"));
  };
  await played(world.harness.timeline, Promise.resolve());
  await process.reconcile(top);
  assert.deepEqual([seen.at(-1), world.find(top)], [all, undefined]);
});
