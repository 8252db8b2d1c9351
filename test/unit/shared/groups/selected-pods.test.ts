/** A budget governs StatefulSets by the labels of their templates and pods, and not by the StatefulSets' own labels (S4). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { addBudget, Replica } from "../../functions/evaluate-eviction/group-commit/reviews.ts";
import { Harness, namespace } from "../reconcile/harness.ts";

test("a StatefulSet whose own labels differ from its pods' is a zone of the budget that selects the pods", async () => {
  const harness = new Harness();
  const { store } = harness.world;
  const labels = { "rollout-group": null, app: "another" };
  for (const name of ["group-a", "group-b"]) {
    const spec = { template: { metadata: { labels: { app: "db" } } } };
    store.patch("statefulsets", { namespace, name }, { metadata: { labels }, spec });
  }
  for (const { metadata } of store.list("pods").items) {
    store.patch("pods", { namespace, name: metadata.name }, { metadata: { labels: { app: "db" } } });
  }
  addBudget(harness, { selector: { matchLabels: { app: "db" } }, maxUnavailable: 1 });
  const replica = new Replica(harness);
  await replica.guards(replica.review("group-a-0"));
  await harness.goOn(60_000);
  store.delete("pods", { namespace, name: "group-b-1" }, { gracePeriodSeconds: 0 });
  assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["zones-down"]);
  await harness.goOn(5_000);
  assert.deepEqual(await replica.guards(replica.review("group-a-0"), replica.review("group-b-0")), [
    "allowed",
    "zones-down",
  ]);
});

test("a budget over two groups is refused even if only the pods' labels show it", async () => {
  const harness = new Harness({ zones: [] });
  const { store } = harness.world;
  for (const name of ["g1-a", "g1-b", "g2-a", "g2-b"]) {
    const labels = { "rollout-group": name.slice(0, 2) };
    store.create("statefulsets", namespace, statefulSetOf(name, labels, { ...labels, app: "db" }));
  }
  harness.world.settle();
  addBudget(harness, { selector: { matchLabels: { app: "db" } }, maxUnavailable: 1 });
  const replica = new Replica(harness);
  const both = () => replica.guards(replica.review("g1-a-0"), replica.review("g2-a-0"));
  await both();
  await harness.goOn(60_000);
  assert.deepEqual(await both(), ["budget-spans-groups", "budget-spans-groups"]);
});

/** A StatefulSet with labels of its own, and other labels for its pods. */
function statefulSetOf(name: string, own: object, forPods: object): object {
  const labels = { ...forPods, name };
  const containers = [{ name: "app", image: "app:1" }];
  return {
    metadata: { name, labels: own },
    spec: {
      replicas: 2,
      serviceName: "db",
      selector: { matchLabels: { name } },
      podManagementPolicy: "Parallel",
      updateStrategy: { type: "OnDelete" },
      template: { metadata: { labels }, spec: { terminationGracePeriodSeconds: 30, containers } },
    },
  };
}
