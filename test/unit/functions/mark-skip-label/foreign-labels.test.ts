/** A user who may write an owner, but no pods, gains no right over the pods' labels. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isKeyPermitted, parseLabelKeys } from "../../../../functions/shared/annotations/skip-labels.ts";
import { type OwnedCluster, ownedCluster, owner, statefulSet } from "./owned-cluster.ts";

const { namespace } = owner;
const podOf = (ordinal: number) => ({ namespace, name: `group-server-${ordinal}` });
const tier = { skipLabelKeys: ["tier"], skipLabelWaitMs: 0 };

function stampOf({ harness }: OwnedCluster, ordinal: number): string | undefined {
  return harness.world.store.get("pods", podOf(ordinal)).metadata.annotations?.["sluice.dev/skip-labelled-at"];
}

function relabel({ harness }: OwnedCluster, ordinal: number, labels: Readonly<Record<string, string>>): void {
  harness.world.store.patch("pods", podOf(ordinal), { metadata: { labels } });
}

test("label-taken: Sluice does not overwrite a pod's label that has another value, and the owner's status says so", async () => {
  const world = await ownedCluster({ "sluice.dev/skip-label": "tier=trusted", "sluice.dev/stop-all": "true" });
  relabel(world, 1, { tier: "isolated" });
  assert.equal(await world.process(tier).reconcile(), "label-taken");
  assert.deepEqual(world.labels("tier"), { 0: "trusted", 1: "isolated", 2: "trusted" });
  assert.match(world.status()?.sentence ?? "", /^group-server-1 gets no label: it has the label tier=isolated/);
  assert.match(world.harness.events.join("\n"), /SkipLabelWaiting orders: label-taken: group-server-1/);
  world.annotate({ "sluice.dev/stop-all": null });
  await world.process(tier).reconcile();
  assert.deepEqual(world.labels("tier"), { 1: "isolated" });
});

test("label-taken: no pod gets a key of the selector or of the template of its StatefulSet", async () => {
  const world = await ownedCluster({ "sluice.dev/skip-label": "tier", "sluice.dev/stop-all": "true" });
  const { store } = world.harness.world;
  const { labels = {} } = store.get("statefulsets", statefulSet).spec.template.metadata ?? {};
  const spec = {
    template: { metadata: { labels: { ...labels, tier: "gold" } } },
    updateStrategy: { type: "OnDelete" },
  };
  store.patch("statefulsets", statefulSet, { spec } as never);
  assert.equal(await world.process(tier).reconcile(), "label-taken");
  assert.deepEqual(world.labels("tier"), {});
  assert.match(world.status()?.sentence ?? "", /tier is in the selector or the template of group-server$/);
  const [[key, text]] = Object.entries(store.get("statefulsets", statefulSet).spec.selector.matchLabels ?? {}) as [
    [string, string],
  ];
  world.annotate({ "sluice.dev/skip-label": `${key}=other` });
  assert.equal(await world.process({ ...tier, skipLabelKeys: [key] }).reconcile(), "label-taken");
  assert.deepEqual(world.labels(key), { 0: text, 1: text, 2: text });
  assert.match(world.status()?.sentence ?? "", /is in the selector or the template of group-server$/);
});

test("no pod gets a key that SKIP_LABEL_KEYS does not list, a key of Kubernetes, or a key that Sluice itself reads", async () => {
  const settings = { skipLabelKeys: ["skipPreStopChecks", "sluice.dev/*", "kubernetes.io/*"], skipLabelWaitMs: 0 };
  for (const key of ["role", "kubernetes.io/arch", "sluice.dev/suspendable", "sluice.dev/suspended"]) {
    const world = await ownedCluster({ "sluice.dev/skip-label": key, "sluice.dev/stop-all": "true" });
    assert.equal(await world.process(settings).reconcile(), "stopping");
    assert.deepEqual([world.labels(key), world.labels()], [{}, { 0: "true", 1: "true", 2: "true" }], key);
    assert.match(world.harness.events.join("\n"), new RegExp(`pods do not get the label ${key}, though`));
    world.annotate({ "sluice.dev/skip-label": key, "sluice.dev/stop-all": "true" }, statefulSet);
    assert.equal(await world.process(settings).reconcile(statefulSet), "skip-label-malformed", key);
    assert.deepEqual(world.labels(key), {}, key);
  }
});

test("Sluice removes the label whose key the pod itself names, whatever the owner's status says", async () => {
  const world = await ownedCluster({ "sluice.dev/stop-all": "true" });
  relabel(world, 0, { role: "leader" });
  await world.process().reconcile();
  assert.match(stampOf(world, 0) ?? "", /^\d{4}-\S+Z skipPreStopChecks$/);
  const forged = { guard: "stopping", sentence: "all stop", label: "role", since: "2026-01-01T00:00:00Z" };
  world.annotate({ "sluice.dev/stop-all": null, "sluice.dev/skip-status": JSON.stringify(forged) });
  await world.process().reconcile();
  assert.deepEqual([world.labels("role"), world.labels(), stampOf(world, 0)], [{ 0: "leader" }, {}, undefined]);
});

test("if a pod already had the label, Sluice notes only the time: the pod names no key, and the label stays", async () => {
  const world = await ownedCluster();
  relabel(world, 2, { skipPreStopChecks: "yes" });
  await world.process().reconcile();
  world.remove();
  await world.process().reconcile();
  assert.match(stampOf(world, 2) ?? "", /^\d{4}-\S+Z none$/);
  assert.deepEqual(world.labels(), { 0: "true", 1: "true", 2: "yes" });
});

test("SKIP_LABEL_KEYS has whole keys and prefixes, and refuses those of Kubernetes and their subdomains", () => {
  assert.deepEqual(parseLabelKeys("skipPreStopChecks, sluice.dev/*,a.b/c"), [
    "skipPreStopChecks",
    "sluice.dev/*",
    "a.b/c",
  ]);
  for (const text of [
    "",
    "*",
    "a.b/c/*",
    "kubernetes.io/*",
    "k8s.io/x",
    "node.kubernetes.io/*",
    "x.y.k8s.io/z",
    "a,,b",
  ])
    assert.equal(parseLabelKeys(text), undefined, text);
  const permitted = ["stop", "a.b/*"];
  assert.deepEqual(
    ["stop", "a.b/c", "stops", "a.b.c/d", "x/stop"].filter((key) => isKeyPermitted(key, permitted)),
    ["stop", "a.b/c"],
  );
});
