/** Marks by a process of the function in a cluster in memory: when they come and go, and whose they are. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { refused } from "../../shared/reconcile/harness.ts";
import { HealthWorld, mark, others } from "./health-world.ts";

/** The time of the setting and one tick, because the first list may end a moment after the node has fallen silent. */
const afterSeconds = [60, 70];
const within = (seconds: number | undefined) => assert.ok(afterSeconds.includes(seconds ?? Number.NaN), `${seconds} s`);

test("a node that falls silent is marked after the time of the setting, and loses the mark when it was Ready for as long", async () => {
  const health = new HealthWorld();
  await health.goOn(30_000);
  health.becomes("Unknown");
  within(await health.secondsUntil(true));
  assert.match(health.markOf() ?? "", /^watch-node-health: Ready is Unknown, and was not True for \d+ s$/);
  health.becomes("True");
  within(await health.secondsUntil(false));
  const { acts, events } = health.world.harness;
  const written = acts.map(({ function: by, action, result, object }) => [by, action, result, object]);
  assert.deepEqual(written, [
    ["watch-node-health", "mark", "done", "a-0"],
    ["watch-node-health", "unmark", "done", "a-0"],
  ]);
  const about = events.map((event) => event.split(":")[0]).sort();
  assert.deepEqual(about, ["NodeMarked a-0", "NodeUnmarked a-0"]);
});

test("by default nothing is read and nothing is written", async () => {
  const health = new HealthWorld({});
  health.becomes("Unknown");
  health.world.harness.forget();
  await health.goOn(300_000);
  await health.reconcile({ resource: "nodes", namespace: "", name: "a-0" });
  assert.deepEqual([health.markOf(), health.world.harness.requests], [undefined, []]);
  assert.equal(health.world.harness.guard, "off");
});

test("a mark of another client stays as it is, also an empty one, while the node is silent and after it", async () => {
  for (const text of ["disk failed", ""]) {
    const health = new HealthWorld();
    health.setMark(text);
    health.becomes("Unknown");
    assert.equal(await health.secondsUntil(false), undefined);
    health.becomes("True");
    assert.equal(await health.secondsUntil(false), undefined);
    assert.equal(health.markOf(), text);
    assert.deepEqual(health.world.harness.acts, []);
  }
});

test("a mark that another client writes in the same moment is not overwritten", async () => {
  const health = new HealthWorld();
  health.becomes("Unknown");
  health.world.harness.interfere = ({ verb, resource }) => {
    if (verb !== "patch" || resource !== "nodes") return;
    health.world.harness.interfere = () => {};
    health.setMark("disk failed");
  };
  await health.secondsUntil(true);
  assert.equal(health.markOf(), "disk failed");
  const { acts, guard } = health.world.harness;
  assert.deepEqual([acts.map(({ result }) => result), guard], [["changed"], "marked-by-others"]);
});

test("a mark that another client has put in the place of ours is not taken away with ours", async () => {
  const health = new HealthWorld();
  health.setMark("watch-node-health: Ready is Unknown");
  health.world.harness.interfere = ({ verb, resource }) => {
    if (verb !== "patch" || resource !== "nodes") return;
    health.world.harness.interfere = () => {};
    health.setMark("disk failed");
  };
  await health.goOn(80_000);
  assert.equal(health.markOf(), "disk failed");
});

test("a node that is Ready for a moment within each minute is not marked", async () => {
  const health = new HealthWorld();
  for (let minute = 0; minute < 5; minute++) {
    health.becomes("Unknown");
    await health.goOn(50_000);
    health.becomes("True");
    await health.world.harness.goOn(1_000);
  }
  assert.equal(health.markOf(), undefined);
});

test("a process that begins counts anew, so that it marks no node for what it has not seen", async () => {
  const health = new HealthWorld();
  health.becomes("Unknown");
  await health.goOn(55_000);
  health.restart();
  await health.goOn(50_000);
  assert.equal(health.markOf(), undefined);
  within(await health.secondsUntil(true).then((seconds) => (seconds ?? 0) + 50));
});

test("while the API server is away nothing counts", async () => {
  const health = new HealthWorld();
  health.becomes("Unknown");
  await health.goOn(50_000);
  await health.world.harness.goOn(600_000);
  await health.goOn(50_000);
  assert.equal(health.markOf(), undefined);
});

test("time that only the wall clock has shown does not count", async () => {
  const health = new HealthWorld();
  let skippedMs = 0;
  const { cluster } = health.world.harness;
  const slept = { ...cluster, monotonicMs: () => cluster.monotonicMs() + skippedMs, skippedMs: () => skippedMs };
  health.restart({ cluster: slept });
  health.becomes("Unknown");
  await health.goOn(20_000);
  skippedMs = 3_600_000;
  await health.goOn(50_000);
  assert.equal(health.markOf(), undefined);
  await health.goOn(30_000);
  assert.notEqual(health.markOf(), undefined);
});

test("in a storm no node is marked, and those that are left after it wait for the whole time", async () => {
  const health = new HealthWorld();
  for (const name of ["a-0", ...others]) health.becomes("Unknown", name);
  await health.goOn(600_000);
  assert.deepEqual(
    ["a-0", ...others].map((name) => health.markOf(name)),
    new Array(5).fill(undefined),
  );
  assert.equal(health.world.harness.guard, "storm");
  for (const name of others) health.becomes("True", name);
  await health.goOn(50_000);
  assert.equal(health.markOf(), undefined);
  within(await health.secondsUntil(true).then((seconds) => (seconds ?? 0) + 50));
});

test("a node that is cordoned, in maintenance or excluded is not marked, and later only after the whole time", async () => {
  const health = new HealthWorld();
  health.becomes("Unknown");
  health.patch({ spec: { unschedulable: true } });
  assert.equal(await health.secondsUntil(true), undefined);
  health.patch({ spec: { unschedulable: null }, metadata: { annotations: { "sluice.dev/fence": "never" } } });
  assert.equal(await health.secondsUntil(true), undefined);
  health.patch({ metadata: { annotations: { "sluice.dev/fence": null } } });
  within(await health.secondsUntil(true));
});

test("in shadow mode the mark is reported and not written", async () => {
  const health = new HealthWorld();
  health.restart({ mode: "shadow" });
  health.becomes("Unknown");
  assert.equal(await health.secondsUntil(true), undefined);
  const { wouldTake } = health.world.harness.verdicts.at(-1) ?? {};
  assert.deepEqual(
    wouldTake?.map(({ action }) => action),
    ["mark"],
  );
});

test("a write that the API server refuses is reported, and tried again", async () => {
  const health = new HealthWorld();
  const { harness } = health.world;
  health.becomes("Unknown");
  let refusals = 0;
  harness.interfere = ({ verb, resource }) => {
    if (verb !== "patch" || resource !== "nodes" || refusals++ > 0) return;
    throw refused(403, "not yours");
  };
  assert.ok(((await health.secondsUntil(true)) ?? 0) >= 70);
  assert.match(harness.problems.join(), /mark of a-0 is refused: .*403: not yours/);
});

test("each list reports the nodes by guard, and no more than 20 nodes that wait are reconciled", async () => {
  const health = new HealthWorld();
  health.becomes("Unknown");
  health.setMark("disk failed", "b-1");
  await health.tick();
  assert.deepEqual(Object.fromEntries(health.world.harness.nodeHealth ?? []), {
    counting: 1,
    "marked-by-others": 1,
    ready: 3,
  });
  const { store } = health.world.harness.world;
  for (let at = 0; at < 60; at++) {
    store.create("nodes", "", { metadata: { name: `x-${at}` } });
    health.becomes(at < 15 ? "True" : "Unknown", `x-${at}`);
  }
  store.patch("nodes", { namespace: "", name: "b-1" }, { metadata: { annotations: { [mark]: null } } });
  assert.equal((await health.tick()).length, 20);
});

test("another key in FENCE_MARK is the mark, and the usual one is a text like any other", async () => {
  const health = new HealthWorld({ nodeHealthAfterMs: 60_000, fenceMark: "example.com/broken" });
  health.setMark("disk failed");
  health.becomes("Unknown");
  await health.goOn(80_000);
  const { annotations = {} } = health.world.harness.world.store.get("nodes", { namespace: "", name: "a-0" }).metadata;
  assert.match(annotations["example.com/broken"] ?? "", /^watch-node-health: /);
  health.becomes("True");
  await health.goOn(80_000);
  assert.equal(health.world.harness.acts.at(-1)?.action, "unmark");
  assert.equal(health.markOf(), "disk failed");
});
