/** A function that watches on demand, behind its servers: which events trigger it, and what they cost. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { advanceZoneRollout } from "../../../../functions/advance-zone-rollout/function.ts";
import { followReplicas } from "../../../../functions/follow-replicas/function.ts";
import { keepLedgers } from "../../../../functions/keep-ledgers/function.ts";
import { createTestWorld } from "../server/world.ts";

async function started(views: "awake" | "list", watchIdleMs = 20_000) {
  const testWorld = createTestWorld({
    definitions: [advanceZoneRollout],
    settings: { views, watchIdleMs, sweepIntervalMs: 3_600_000 },
  });
  const { world } = testWorld;
  const standalone = testWorld.start();
  let isDelivered = true;
  // Reports events as a source does: a name, a moment later.
  for (const resource of ["pods", "statefulsets"] as const) {
    world.store.onChange(resource, ({ final: { metadata } }) => {
      const { namespace = "", name } = metadata;
      if (isDelivered)
        testWorld.world.timeline.after(30, () => standalone.enqueuer.changed(resource, { namespace, name }));
    });
  }
  await testWorld.goTo(60);
  testWorld.calls.length = 0;
  const open = async () => {
    const text = await testWorld.reporting.metrics.registry.getSingleMetricAsString("sluice_watches");
    return Number(/^sluice_watches (\d+)$/m.exec(text)?.[1]);
  };
  const count = (verb: string) => testWorld.calls.filter((call) => call.verb === verb).length;
  const loseEvents = () => {
    isDelivered = false;
  };
  return { ...testWorld, standalone, open, count, loseEvents };
}

test("a rollout by events lists once, however many events come, and a change that is reported again costs no request", async () => {
  const onDemand = await started("awake");
  assert.equal(await onDemand.open(), 0);
  onDemand.changeTemplates("app:2");
  await onDemand.goTo(61);
  assert.equal(await onDemand.open(), 3);
  await onDemand.goTo(80);
  assert.equal(onDemand.isRolled(), true);
  assert.equal(onDemand.count("list"), 3);
  assert.equal(onDemand.count("delete"), 9);
  const before = onDemand.calls.length;
  onDemand.standalone.enqueuer.changed("pods", { namespace: "app", name: "ingester-a-0" });
  await onDemand.goTo(80.5);
  assert.equal(onDemand.calls.length, before);
  await onDemand.goTo(140);
  assert.equal(await onDemand.open(), 0, "nothing happens, and the watches are closed");
  const listing = await started("list");
  listing.changeTemplates("app:2");
  await listing.goTo(100);
  assert.ok(listing.isRolled() && listing.count("list") > 50, `${listing.count("list")} lists`);
});

test("WATCH_IDLE=0 lists, as VIEWS=list does", async () => {
  const { changeTemplates, goTo, isRolled, open, count } = await started("awake", 0);
  changeTemplates("app:2");
  await goTo(61);
  assert.equal(await open(), 0);
  await goTo(100);
  assert.ok(isRolled() && count("list") > 50);
});

test("an event that comes before its watch reports the change is not lost, because the watch also triggers the group", async () => {
  const { changeTemplates, goTo, isRolled, loseEvents } = await started("awake");
  changeTemplates("app:2");
  await goTo(61);
  loseEvents();
  await goTo(120);
  assert.equal(isRolled(), true);
});

test("a flood of events for a group's own StatefulSet causes no more listing reconciles than without watches", async () => {
  const { standalone, goTo, calls } = await started("awake");
  for (let event = 0; event < 10_000; event++) {
    standalone.enqueuer.changed("statefulsets", { namespace: "app", name: "ingester-a" });
    await goTo(60 + event / 1_000);
  }
  const reads = calls.filter(({ verb, resource }) => verb === "list" && resource === "statefulsets").length;
  assert.ok(reads >= 1 && reads <= 100 + 10 * 10, `${reads} listing reconciles in ten seconds`);
});

test("when the process ends, it closes its watches at once, and does not wait until they are idle", async () => {
  const { standalone, changeTemplates, goTo, open, cluster, lines } = await started("awake");
  changeTemplates("app:2");
  await goTo(61);
  assert.equal(await open(), 3);
  assert.equal(await standalone.stop(cluster.monotonicMs() + 5_000), true);
  assert.equal(await open(), 0);
  assert.deepEqual(
    lines.filter(({ reason }) => reason === "watch-broke"),
    [],
  );
});

test("a StatefulSet that was looked up for an event is not looked up again", async () => {
  const testWorld = createTestWorld({
    definitions: [keepLedgers],
    settings: { views: "list", sweepIntervalMs: 3_600_000 },
  });
  const { enqueuer } = testWorld.start();
  await testWorld.goTo(5);
  testWorld.world.addGroup({ namespace: "app", group: "late", zones: ["a"], replicas: 1 });
  await testWorld.goTo(10);
  testWorld.calls.length = 0;
  for (let seconds = 10; seconds < 40; seconds += 6) {
    enqueuer.changed("statefulsets", { namespace: "app", name: "late-a" });
    await testWorld.goTo(seconds + 6);
  }
  const gets = testWorld.calls.filter(({ verb, resource }) => verb === "get" && resource === "statefulsets");
  assert.equal(gets.length, 1);
});

test("right after the start the StatefulSet of an event is not looked up if the first sweep lists it, and otherwise is", async () => {
  // One function reads its groups in its reconciles. The other needs only the list that finds them.
  for (const definition of [followReplicas, keepLedgers]) {
    const testWorld = createTestWorld({ definitions: [definition], settings: { views: "list" } });
    const { enqueuer } = testWorld.start();
    const notify = (name: string) => enqueuer.changed("statefulsets", { namespace: "app", name });
    for (const name of ["ingester-a", "ingester-b", "ingester-c", "unknown"]) assert.equal(notify(name), "queued");
    await testWorld.goTo(1);
    const gets = testWorld.calls.filter(({ verb, resource }) => verb === "get" && resource === "statefulsets");
    assert.deepEqual(
      gets.map(({ name }) => name),
      ["unknown"],
      definition.name,
    );
  }
});
