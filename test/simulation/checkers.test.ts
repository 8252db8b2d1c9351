/** The checkers are independent: they share no code with the product, forget nothing, and also count what breaks by itself. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { VirtualTimeline } from "../fake-cluster/timeline.ts";
import { createWorld } from "../fake-cluster/world.ts";
import { BudgetPast } from "../support/checkers/budgets.ts";
import { Past } from "../support/checkers/past.ts";
import { TrueWorldChecker } from "../support/checkers/true-world.ts";

const folder = new URL("../support/checkers/", import.meta.url).pathname;
const namespace = "db";
const group = "group";
const newTemplate = { spec: { template: { spec: { containers: [{ name: "app", image: "app:2" }] } } } };

/** Three zones of two pods at rest, and a rollout that takes the pods that a test names and keeps no promise. */
class Scene {
  readonly violations: string[] = [];
  readonly timeline = new VirtualTimeline();
  readonly world = createWorld({ timeline: this.timeline });
  readonly past = new Past(this.world, namespace);
  readonly #checker = new TrueWorldChecker({
    world: this.world,
    past: this.past,
    budgets: new BudgetPast(this.world, namespace),
    namespace,
    skewMs: 0,
    violate: (invariant, message) => this.violations.push(`${invariant} ${message}`),
  });

  constructor() {
    this.world.addGroup({ namespace, group, zones: ["a", "b", "c"], replicas: 2, maxUnavailable: 1 });
    this.world.settle();
    this.goOn(60_000);
  }

  goOn(ms: number): void {
    this.timeline.runUntil(this.timeline.nowMs() + ms);
  }

  send(name: string): void {
    const { uid } = this.world.store.get("pods", { namespace, name }).metadata;
    this.#checker.onSent("replica", { namespace, name }, { uid });
  }

  /** Writes into the ledger that a function has reserved the pod. */
  reserve(name: string, by: string): void {
    const { uid } = this.world.store.get("pods", { namespace, name }).metadata;
    const made = [{ uid, by, set: name.slice(0, -2), ordinal: Number(name.at(-1)), stampMs: this.timeline.nowMs() }];
    this.#checker.noteWritten(group, made, made);
  }

  take(name: string, by: "rollout" | "eviction" = "rollout"): void {
    const { uid } = this.world.store.get("pods", { namespace, name }).metadata;
    this.#checker.onArrived("replica", by, { namespace, name }, { uid });
    this.world.store.delete("pods", { namespace, name }, { preconditions: { uid } });
  }
}

test("no checker imports anything of the product", () => {
  const files = globSync("*.ts", { cwd: folder });
  assert.ok(files.length >= 6);
  for (const file of files) {
    const text = readFileSync(join(folder, file), "utf8");
    assert.doesNotMatch(text, /from "[^"]*functions\//, `${file} shares code with what it checks`);
  }
});

test("a pod that was taken is still missing when its StatefulSet is deleted without its pods, to be made again", () => {
  const scene = new Scene();
  scene.take("group-a-0");
  scene.world.removeStatefulSet({ namespace, name: "group-a" }, "Orphan");
  scene.goOn(10_000);
  assert.equal(scene.world.store.find("statefulsets", { namespace, name: "group-a" }), undefined);
  scene.take("group-b-0");
  assert.deepEqual(scene.violations, [
    "Z1 replica took group-b-0 (rollout): group-a-0 in another zone was taken and is not back",
  ]);
});

test("a pod that was taken counts no more when its zone is deleted with all that it has", () => {
  const scene = new Scene();
  scene.take("group-a-0");
  scene.world.removeStatefulSet({ namespace, name: "group-a" });
  scene.goOn(10_000);
  scene.take("group-b-0");
  assert.deepEqual(scene.violations, []);
});

test("a StatefulSet that is not OnDelete stops its group after 5 s; one that joins like that, when every view must show it", () => {
  const z4 = "Z4 replica deletes group-b-0, and group-c has not been OnDelete for 5 s";
  for (const [joinsAgain, forMs, violations] of [
    [false, 4_000, []],
    [false, 6_000, [z4]],
    [true, 34_000, []],
    [true, 36_000, [z4]],
  ] as const) {
    const scene = new Scene();
    const other = { namespace, name: "group-c" };
    const label = (value: string | null) => ({ metadata: { labels: { "rollout-group": value } } });
    scene.world.store.patch("statefulsets", { namespace, name: "group-b" }, newTemplate);
    if (joinsAgain) scene.world.store.patch("statefulsets", other, label(null));
    scene.goOn(60_000);
    scene.world.store.patch("statefulsets", other, { spec: { updateStrategy: { type: "RollingUpdate" } } });
    if (joinsAgain) scene.world.store.patch("statefulsets", other, label(group));
    scene.goOn(forMs);
    scene.send("group-b-0");
    assert.deepEqual(scene.violations, violations, `${joinsAgain} ${forMs}`);
  }
});

test("pods that broke by themselves count as down once that is older than any view may be", () => {
  for (const [forMs, violations] of [
    [10_000, []],
    [60_000, ["Z2 replica took group-a-0 (rollout): group-a-1 are down, 1 may be with it"]],
  ] as const) {
    const scene = new Scene();
    scene.world.kubelet.breakPod({ namespace, name: "group-a-1" });
    scene.goOn(forMs);
    scene.take("group-a-0");
    assert.deepEqual(scene.violations, violations);
  }
});

test("no healthy pod goes while a pod of another zone has been down for long, also when Sluice did not take it", () => {
  const scene = new Scene();
  scene.world.kubelet.breakPod({ namespace, name: "group-c-1" });
  scene.goOn(60_000);
  scene.take("group-a-0");
  assert.match(scene.violations.join(), /^Z1 .*group-c-1 in another zone has been down/);
});

test("an orphaned pod that is down counts until it is gone or moved away", () => {
  for (const [what, violations] of [
    [
      "left",
      ["Z1 replica took group-a-0 (rollout): group-c-1 in another zone has been down for longer than views are behind"],
    ],
    ["gone", []],
    ["moved", []],
  ] as const) {
    const scene = new Scene();
    const set = { namespace, name: "group-c" };
    scene.world.kubelet.breakPod({ namespace, name: "group-c-1" });
    if (what === "moved")
      scene.world.store.patch("statefulsets", set, { metadata: { labels: { "rollout-group": "other" } } });
    scene.world.removeStatefulSet(set, "Orphan");
    scene.goOn(1_000);
    if (what === "gone") scene.world.store.delete("pods", { namespace, name: "group-c-1" });
    scene.goOn(60_000);
    scene.take("group-a-0");
    assert.deepEqual(scene.violations, violations, what);
  }
});

test("an eviction that was reserved within a budget is checked against that budget while it exists, and not after it was deleted", () => {
  for (const isGone of [false, true]) {
    const scene = new Scene();
    const { store } = scene.world;
    const budget = { maxUnavailable: 1, selector: { matchLabels: { "rollout-group": group } } };
    store.create("zoneawarepoddisruptionbudgets", namespace, { metadata: { name: "budget" }, spec: budget });
    scene.world.annotate({ namespace, name: "group-a" }, { "rollout-max-unavailable": "2" });
    scene.goOn(60_000);
    scene.reserve("group-a-0", "evaluate-eviction");
    scene.goOn(1_000);
    if (isGone) store.delete("zoneawarepoddisruptionbudgets", { namespace, name: "budget" });
    scene.take("group-a-1");
    scene.goOn(1_000);
    scene.take("group-a-0", "eviction");
    const broken = "E1 replica took group-a-0 (eviction): group-a-1 are down, 1 may be with it";
    assert.deepEqual(scene.violations, isGone ? [] : [broken]);
  }
});

test("a cross-zone delay counts until its StatefulSet is deleted, and again when no view can be older than the new one", () => {
  const broken =
    "E1 replica took group-b-0 (rollout): group-a-0 of partition 0 are down or only just back, 1 may be with it";
  for (const [isMadeAgain, forMs, violations] of [
    [false, 34_000, [broken]],
    [true, 34_000, []],
    [true, 36_000, [broken]],
  ] as const) {
    const scene = new Scene();
    const { store } = scene.world;
    const budget = {
      maxUnavailable: 1,
      selector: { matchLabels: { "rollout-group": group } },
      podNamePartitionRegex: ".*-([0-9]+)",
      crossZoneEvictionDelay: "600s",
    };
    store.create("zoneawarepoddisruptionbudgets", namespace, { metadata: { name: "budget" }, spec: budget });
    scene.goOn(60_000);
    scene.take("group-a-0");
    scene.goOn(10_000);
    if (isMadeAgain) {
      const { spec, metadata } = store.get("statefulsets", { namespace, name: "group-a" });
      scene.world.removeStatefulSet({ namespace, name: "group-a" }, "Orphan");
      scene.goOn(1_000);
      const { name, labels } = metadata;
      store.create("statefulsets", namespace, { metadata: { name, ...(labels && { labels }) }, spec });
    }
    scene.goOn(forMs);
    assert.ok(store.find("pods", { namespace, name: "group-a-0" }), "its pod is back");
    scene.take("group-b-0");
    assert.deepEqual(scene.violations, violations, `${isMadeAgain} ${forMs}`);
  }
});

test("the states of a StatefulSet in the last seconds are known, however often it has changed since", () => {
  const scene = new Scene();
  const key = { namespace, name: "group-a" };
  scene.world.annotate(key, { "rollout-max-unavailable": "2" });
  for (let change = 0; change < 200; change++) {
    scene.goOn(10);
    scene.world.annotate(key, { "rollout-max-unavailable": String(3 + change) });
  }
  const limits = scene.past
    .lately("group-a", 3_000)
    .map((set) => set.metadata.annotations?.["rollout-max-unavailable"]);
  assert.deepEqual([limits.at(-2), limits.at(-1)], ["2", "1"]);
});
