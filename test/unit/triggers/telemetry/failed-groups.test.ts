/** What alerts of rollout-operator's users need: groups that are not OnDelete, and groups that no longer exist. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createListReader } from "../../../../functions/shared/cache/listing.ts";
import { createGroupReader } from "../../../../triggers/telemetry/ledger-metrics-groups.ts";
import { createTestWorld } from "../server/world.ts";

type TestWorld = ReturnType<typeof createTestWorld>;

/** The values of a metric's series for this group. */
async function valuesOf(
  { reporting: { metrics } }: TestWorld,
  name: keyof TestWorld["reporting"]["metrics"],
  group = "ingester",
) {
  const metric = metrics[name] as { get(): Promise<{ values: { value: number; labels: Record<string, unknown> }[] }> };
  const { values } = await metric.get();
  return values.filter(({ labels }) => labels.rollout_group === group).map(({ value }) => value);
}

test("a group whose strategy is not OnDelete is logged as an error, and its reconciles count as failed and never as a success", async () => {
  const testWorld = createTestWorld();
  const { world, start, goTo, lines } = testWorld;
  start();
  await goTo(20);
  assert.deepEqual(await valuesOf(testWorld, "reconcilesFailed"), [0]);
  const [before] = await valuesOf(testWorld, "lastSuccess");
  const name = "ingester-b";
  world.store.patch(
    "statefulsets",
    { namespace: "app", name },
    { spec: { updateStrategy: { type: "RollingUpdate" } } },
  );
  await goTo(400);
  const logged = lines.filter(({ guard }) => guard === "strategy-not-on-delete");
  assert.deepEqual(
    logged.map(({ level, group, zone, msg }) => [level, group, zone, String(msg).split(";")[0]]),
    [["error", "ingester", name, "ingester-b has update strategy RollingUpdate"]],
  );
  const [failed = 0] = await valuesOf(testWorld, "reconcilesFailed");
  assert.ok(failed >= 2, `${failed}`);
  assert.deepEqual(await valuesOf(testWorld, "lastSuccess"), [before]);
  world.store.patch("statefulsets", { namespace: "app", name }, { spec: { updateStrategy: { type: "OnDelete" } } });
  await goTo(420);
  assert.ok(((await valuesOf(testWorld, "lastSuccess"))[0] ?? 0) >= (before ?? 0));
  assert.ok(((await valuesOf(testWorld, "reconciles"))[0] ?? 0) > failed);
});

test("budgets that no function can keep stop a rollout, and its reconciles count as failed until one of them is corrected", async () => {
  const testWorld = createTestWorld();
  const { world, start, goTo, lines } = testWorld;
  const resource = "zoneawarepoddisruptionbudgets";
  const spec = { maxUnavailable: 1, selector: { matchLabels: { "rollout-group": "ingester" } } };
  for (const name of ["one", "two"]) world.store.create(resource, "app", { metadata: { name }, spec });
  start();
  await goTo(20);
  assert.deepEqual(await valuesOf(testWorld, "reconcilesFailed"), [0], "nothing is to be rolled out");
  for (const { metadata } of world.store.list("statefulsets").items) world.changeTemplate(metadata, "app:2");
  await goTo(400);
  const logged = lines.filter(({ guard }) => guard === "several-budgets");
  assert.deepEqual([...new Set(logged.map(({ level, group }) => `${level} ${group}`))], ["error ingester"]);
  const [failed = 0] = await valuesOf(testWorld, "reconcilesFailed");
  assert.ok(failed >= 2, `${failed}`);
  world.store.delete(resource, { namespace: "app", name: "two" });
  await goTo(800);
  const [then = 0] = await valuesOf(testWorld, "reconcilesFailed");
  await goTo(1_200);
  assert.deepEqual(await valuesOf(testWorld, "reconcilesFailed"), [then]);
});

test("if no process reconciles, the ledger of such a group reports no success either", async () => {
  const testWorld = createTestWorld();
  const { world, cluster, start, goTo } = testWorld;
  start();
  await goTo(60);
  const key = { namespace: "app", group: "ingester" };
  const readGroups = createGroupReader({
    cluster,
    cache: createListReader(cluster, undefined),
    namespaces: undefined,
    seen: new Map([["app/ingester", key]]),
  });
  const reconciledMs = async (seconds: number) => {
    let ms: number | undefined;
    void readGroups().then(([standing]) => {
      ms = standing?.rollout?.reconciledMs;
    });
    await goTo(seconds);
    return ms ?? Number.NaN;
  };
  const whole = await reconciledMs(65);
  const patch = { spec: { updateStrategy: { type: "RollingUpdate" } } };
  world.store.patch("statefulsets", { namespace: "app", name: "ingester-b" }, patch);
  await goTo(80);
  assert.equal(await reconciledMs(85), whole);
  assert.equal(await reconciledMs(1_000), whole, "its verdict is written again and again, and is no success");
});

for (const views of ["watch", "list"] as const) {
  test(`with VIEWS=${views}, the metrics of a group that is gone vanish within ten seconds`, async () => {
    const testWorld = createTestWorld({ settings: { views } });
    const { world, start, goTo } = testWorld;
    const group = world.addGroup({ namespace: "app", group: "store", zones: ["a", "b"], replicas: 1 });
    world.settle();
    const [first = { namespace: "", name: "" }] = group.statefulSets;
    world.annotate(first, { "rollout-max-unavailable": "none", "grafana.com/rollout-paused": "true" });
    world.changeTemplate(first, "app:2");
    const standalone = start();
    await goTo(30);
    const all = ["reconciles", "reconcilesFailed", "lastSuccess", "waitingSince"] as const;
    for (const name of all) assert.equal((await valuesOf(testWorld, name, "store")).length, 1, name);
    for (const { namespace, name } of group.statefulSets) {
      world.store.delete("statefulsets", { namespace, name });
      if (views === "list") standalone.enqueuer.changed("statefulsets", { namespace, name });
    }
    await goTo(40);
    for (const name of [...all, "reconcileSeconds"] as const) {
      assert.deepEqual(await valuesOf(testWorld, name, "store"), [], name);
    }
    const { values } = await testWorld.reporting.metrics.malformed.get();
    assert.deepEqual(values, []);
    assert.equal((await valuesOf(testWorld, "reconciles")).length, 1, "the series of the other groups stay");
  });
}
