import assert from "node:assert/strict";
import { test } from "node:test";
import { evaluateEviction } from "../../../../functions/evaluate-eviction/function.ts";
import type { GroupView } from "../../../../functions/shared/cache/cache.ts";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { parseStatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import { startStandalone } from "../../../../triggers/standalone.ts";
import { createGroupReader } from "../../../../triggers/telemetry/ledger-metrics-groups.ts";
import { scrapeLimits } from "../../../../triggers/telemetry/live-gauges.ts";
import { createReporting } from "../../../../triggers/telemetry/logs-and-metrics.ts";
import { createTestWorld, type TestWorldOptions } from "../server/world.ts";

const group = { namespace: "app", rollout_group: "ingester" };
const zoneA = { ...group, zone: "ingester-a" };
const ledgerKey = { namespace: "app", name: "sluice-ingester" };
const reconciled = "rollout_operator_last_successful_group_reconcile_timestamp_seconds";
const waitingSince = "sluice_waiting_since_timestamp_seconds";
const progress = "sluice_group_last_progress_timestamp_seconds";

interface SceneOptions extends TestWorldOptions {
  /** What happens to the replica's LISTs of ledgers instead of an answer. */
  readonly listLedgers?: (namespace: string | undefined) => Promise<never> | undefined;
}

/** A settled fake cluster with one group, a function that rolls it out, and a scraped replica that answers reviews. */
async function createScene(options: SceneOptions = {}) {
  const testWorld = createTestWorld(options);
  const { world, cluster, goTo } = testWorld;
  const startedMs = world.timeline.nowMs();
  const functions = testWorld.start();
  const list: typeof cluster.list = (resource, query, given) =>
    (resource === "leases" ? options.listLedgers?.(query.namespace) : undefined) ??
    cluster.list(resource, query, given);
  const startReplica = () => {
    const destination = { write: () => {} };
    const reporting = createReporting({ version: "1", serving: "all", level: "error", keys: () => 0, destination });
    const settings = {
      views: "watch",
      watchIdleMs: 20_000,
      sweepIntervalMs: 300_000,
      gatherMs: 20,
      concurrency: 8,
      queueKeys: 100,
    } as const;
    startStandalone({
      cluster: { ...cluster, list },
      definitions: [],
      admissions: [evaluateEviction],
      reporting,
      namespaces: options.namespaces,
      random: () => 1,
      settings: { mode: "act", ...settings },
    });
    return reporting;
  };
  const replica = startReplica();
  await goTo(20);
  let passedSeconds = 20;
  /** Lets time pass, then scrapes. Resolves to the value of each series by name and labels. */
  const scrapeIn = async (seconds: number, from = replica) => {
    passedSeconds += seconds;
    await goTo(passedSeconds);
    const scraping = from.metrics.registry.metrics();
    passedSeconds += scrapeLimits.waitMs / 1000;
    await goTo(passedSeconds);
    return samplesOf(await scraping);
  };
  const stopFunctions = async () => {
    const stopped = functions.stop(cluster.monotonicMs() + 10_000);
    passedSeconds += 10;
    await goTo(passedSeconds);
    assert.equal(await stopped, true);
  };
  const nowSeconds = () => Math.floor(startedMs / 1000) + passedSeconds;
  return { ...testWorld, replica, startReplica, scrapeIn, stopFunctions, nowSeconds };
}

function samplesOf(text: string) {
  const samples = new Map(
    text
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"))
      .map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.slice(line.lastIndexOf(" ") + 1))]),
  );
  const labelled = (name: string, labels: object) =>
    `${name}{${Object.entries(labels)
      .map(([label, value]) => `${label}="${value}"`)
      .join(",")}}`;
  return {
    value: (name: string, labels: object) => samples.get(labelled(name, labels)),
    /** The series whose names begin like this. */
    of: (name: string) => [...samples.keys()].filter((series) => series.startsWith(name)),
  };
}

/** An image whose pods never become ready. */
const broken = "app:broken";

test("a group without work counts as reconciled now, however long its functions have had no replicas", async () => {
  const { scrapeIn, stopFunctions, nowSeconds } = await createScene();
  await stopFunctions();
  const samples = await scrapeIn(3_600);
  const age = nowSeconds() - (samples.value(reconciled, group) ?? 0);
  assert.ok(age <= 5, `${age} s`);
  assert.ok(nowSeconds() - (samples.value(progress, group) ?? 0) <= 5);
  assert.equal(samples.value("sluice_group_outdated_pods", zoneA), 0);
  assert.equal(samples.value("sluice_group_pods_not_ready", zoneA), 0);
  assert.equal(samples.value("sluice_group_ledger_unreadable", group), 0);
  assert.deepEqual(samples.of(waitingSince), []);
});

test("the ledger of a stalled rollout gives guard, zone and time, while every function has no replicas", async () => {
  const { scrapeIn, stopFunctions, nowSeconds, changeTemplates, world } = await createScene();
  changeTemplates(broken);
  const began = nowSeconds();
  await scrapeIn(30);
  await stopFunctions();
  world.kubelet.breakPod({ namespace: "app", name: "ingester-c-1" });
  const samples = await scrapeIn(3_600);
  const [series = ""] = samples.of(waitingSince);
  assert.match(
    series,
    /namespace="app",rollout_group="ingester",function="advance-zone-rollout",guard="budget",zone="ingester-a"/,
  );
  const labels = { ...group, function: "advance-zone-rollout", guard: "budget", zone: "ingester-a" };
  const since = samples.value(waitingSince, labels) ?? 0;
  assert.ok(since >= began && since < began + 30, `${since - began} s after it began`);
  assert.equal(samples.value("sluice_group_outdated_pods", zoneA), 2);
  assert.equal(samples.value("sluice_group_pods_not_ready", zoneA), 1);
  assert.equal(samples.value("sluice_group_pods_not_ready", { ...group, zone: "ingester-c" }), 1);
  assert.equal(samples.value("sluice_group_reservations", { ...group, function: "advance-zone-rollout" }), 1);
  assert.ok(nowSeconds() - (samples.value(progress, group) ?? 0) > 3_600);
  assert.ok(nowSeconds() - (samples.value(reconciled, group) ?? 0) > 3_600);
});

test("work that no reconcile has seen is reported by its age, even if no function has ever written anything", async () => {
  const { scrapeIn, stopFunctions, nowSeconds, world } = await createScene();
  await stopFunctions();
  world.addGroup({ namespace: "app", group: "store", zones: ["a"], replicas: 2 });
  await scrapeIn(60);
  world.changeTemplate({ namespace: "app", name: "store-a" }, "app:2");
  const samples = await scrapeIn(700);
  for (const [name, labels] of [
    [reconciled, { ...group, rollout_group: "store" }],
    [progress, { namespace: "app", rollout_group: "store" }],
  ] as const) {
    const age = nowSeconds() - (samples.value(name, labels) ?? 0);
    assert.ok(age > 690 && age < 710, `${name}: ${age} s`);
  }
  assert.equal(
    samples.value("sluice_group_outdated_pods", { namespace: "app", rollout_group: "store", zone: "store-a" }),
    2,
  );
});

test("a waiting rollout counts as reconciled while its function sweeps, and still makes no progress", async () => {
  const { scrapeIn, nowSeconds, changeTemplates } = await createScene({ settings: { views: "list" } });
  changeTemplates(broken);
  await scrapeIn(600);
  for (let time = 0; time < 60; time++) {
    const samples = await scrapeIn(58);
    const age = nowSeconds() - (samples.value(reconciled, group) ?? 0);
    assert.ok(age < 600, `${age} s`);
    if (time === 59) assert.ok(nowSeconds() - (samples.value(progress, group) ?? 0) > 3_600);
  }
});

test("a replica that starts during a stalled rollout takes its age from the ledger", async () => {
  const { scrapeIn, stopFunctions, startReplica, nowSeconds, changeTemplates } = await createScene();
  changeTemplates(broken);
  await scrapeIn(30);
  await stopFunctions();
  await scrapeIn(3_600);
  const samples = await scrapeIn(60, startReplica());
  for (const [name, labels] of [
    [reconciled, group],
    [progress, group],
  ] as const) {
    const age = nowSeconds() - (samples.value(name, labels) ?? 0);
    assert.ok(age > 3_600 && age < 3_800, `${name}: ${age} s`);
  }
});

test("progress is a pod that becomes ready at the wanted revision, and not a pod of the old revision that is ready again", async () => {
  const { scrapeIn, stopFunctions, nowSeconds, world } = await createScene();
  await stopFunctions();
  await scrapeIn(30);
  const changed = nowSeconds();
  world.changeTemplate({ namespace: "app", name: "ingester-a" }, "app:2");
  await scrapeIn(100);
  world.kubelet.breakPod({ namespace: "app", name: "ingester-a-1" });
  world.kubelet.healPod({ namespace: "app", name: "ingester-a-1" });
  const back = (await scrapeIn(100)).value(progress, group) ?? 0;
  assert.ok(Math.abs(back - changed) <= 10, `${back - changed} s after the change`);
  const replaced = nowSeconds();
  world.store.delete("pods", { namespace: "app", name: "ingester-a-0" });
  const samples = await scrapeIn(100);
  const at = (samples.value(progress, group) ?? 0) - replaced;
  assert.ok(at >= 0 && at < 10, `${at} s after the pod was deleted`);
  assert.equal(samples.value("sluice_group_outdated_pods", zoneA), 2);
});

test("a paused zone waits for its user, so its outdated pods are reported, but no age", async () => {
  const { scrapeIn, stopFunctions, nowSeconds, world } = await createScene();
  await stopFunctions();
  const paused = { namespace: "app", name: "ingester-a" };
  world.pause(paused);
  world.changeTemplate(paused, "app:2");
  const samples = await scrapeIn(3_600);
  assert.equal(samples.value("sluice_group_outdated_pods", zoneA), 3);
  assert.ok(nowSeconds() - (samples.value(progress, group) ?? 0) <= 5);
  assert.ok(nowSeconds() - (samples.value(reconciled, group) ?? 0) <= 5);
});

test("a flood of scrapes costs one LIST of ledgers and one of suspended volumes in ten seconds, and none of pods or StatefulSets", async () => {
  const { scrapeIn, stopFunctions, calls, replica } = await createScene();
  await stopFunctions();
  const listed = () => calls.map(({ resource }) => resource).filter((one) => one !== "zoneawarepoddisruptionbudgets");
  for (let time = 1; time <= 5; time++) {
    await scrapeIn(scrapeLimits.everyMs / 1000);
    calls.length = 0;
    const flood = Array.from({ length: 200 }, () => replica.metrics.registry.metrics());
    await scrapeIn(scrapeLimits.everyMs / 1000 - 2 * (scrapeLimits.waitMs / 1000));
    await Promise.all(flood);
    assert.deepEqual(listed(), []);
    const next = Array.from({ length: 200 }, () => replica.metrics.registry.metrics());
    await scrapeIn(scrapeLimits.waitMs / 1000);
    await Promise.all(next);
    assert.deepEqual(listed().sort(), ["leases", "persistentvolumeclaims"]);
  }
});

test("while the API server is away a scrape quickly reports what was last seen, and its age grows", async () => {
  let away = false;
  const { scrapeIn, stopFunctions, nowSeconds } = await createScene({
    beforeCall({ verb, resource }) {
      if (away) throw new ClusterError({ code: 0, reason: "x", message: "connection refused", verb, resource });
    },
  });
  await stopFunctions();
  await scrapeIn(30);
  away = true;
  const samples = await scrapeIn(900);
  assert.equal(samples.value("sluice_group_outdated_pods", zoneA), 0);
  const age = nowSeconds() - (samples.value(reconciled, group) ?? 0);
  assert.ok(age >= 900 && age < 920, `${age} s`);
});

test("a ledger that cannot be read is reported, without any other series", async () => {
  const { scrapeIn, stopFunctions, world } = await createScene();
  await stopFunctions();
  world.annotate(ledgerKey, { "sluice.dev/reservations": "nonsense" }, "leases");
  const samples = await scrapeIn(30);
  assert.equal(samples.value("sluice_group_ledger_unreadable", group), 1);
  assert.deepEqual(samples.of("sluice_group_reservations"), []);
  assert.deepEqual(samples.of(waitingSince), []);
});

test("future times and thousands of names in a ledger hide no alert and cause a limited number of series", async () => {
  const { scrapeIn, stopFunctions, nowSeconds, world, changeTemplates } = await createScene();
  await stopFunctions();
  changeTemplates("app:2");
  const far = Date.UTC(2100, 0);
  const verdict = (length: number) => ({
    guard: "budget",
    zone: "x".repeat(length),
    sentence: "",
    since: far,
    at: far,
  });
  const names = Array.from({ length: 600 }, (_, index) => [`f${index}`, verdict(253)]);
  const verdicts = Object.fromEntries([["first", verdict(5_000)], ...names]);
  world.annotate(ledgerKey, { "sluice.dev/verdicts": JSON.stringify(verdicts) }, "leases");
  const samples = await scrapeIn(30);
  const series = samples.of(waitingSince);
  assert.equal(series.length, 20);
  assert.ok(series.every((one) => one.length < 500));
  assert.ok((samples.value(reconciled, group) ?? 0) <= nowSeconds());
});

test("a group that is gone loses its series, whatever its ledger still contains", async () => {
  const { scrapeIn, stopFunctions, world, changeTemplates } = await createScene();
  changeTemplates(broken);
  const names = ["sluice_group", "sluice_waiting", "rollout_operator_last"];
  const before = await scrapeIn(30);
  for (const name of names) assert.notEqual(before.of(name).length, 0, name);
  await stopFunctions();
  for (const name of ["ingester-a", "ingester-b", "ingester-c"]) world.removeStatefulSet({ namespace: "app", name });
  const samples = await scrapeIn(60);
  for (const name of names) assert.deepEqual(samples.of(name), [], name);
});

test("the next reconcile includes a group that the watches report during the reads of others", async () => {
  let nowMs = 0;
  const seen = new Map([["app/ingester", { namespace: "app", group: "ingester" }]]);
  const metadata = { name: "a", namespace: "app", uid: "1", resourceVersion: "1" };
  const view = { workloads: [parseStatefulSet({ metadata, spec: { replicas: 0 } })], podsOf: () => [] };
  const readGroups = createGroupReader({
    cluster: {
      list: async () => ({ items: [], resourceVersion: "1" }),
      monotonicMs: () => nowMs,
      serverTimeMs: () => nowMs,
      sleep: () => new Promise(() => {}),
    },
    cache: {
      async read() {
        if (nowMs === 0) seen.set("app/store", { namespace: "app", group: "store" });
        return view as unknown as GroupView;
      },
    },
    namespaces: undefined,
    seen,
  });
  assert.equal((await readGroups()).length, 1);
  nowMs += scrapeLimits.everyMs;
  assert.equal((await readGroups()).length, 2);
});

test("a namespace whose ledgers may not be listed does not hide another namespace, and the age of its groups grows", async () => {
  const message = 'leases is forbidden: User "sluice" cannot list resource "leases"';
  const forbidden = new ClusterError({ code: 403, reason: "Forbidden", message, verb: "list", resource: "leases" });
  const { scrapeIn, world, stopFunctions, nowSeconds } = await createScene({
    namespaces: ["closed", "app"],
    listLedgers: (namespace) => (namespace === "closed" ? Promise.reject(forbidden) : undefined),
  });
  world.addGroup({ namespace: "closed", group: "store", zones: ["a"], replicas: 1 });
  await stopFunctions();
  await scrapeIn(1);
  const samples = await scrapeIn(900);
  assert.equal(samples.of("sluice_group_pods_not_ready").length, 4);
  const ageOf = (of: Readonly<Record<string, string>>) => nowSeconds() - (samples.value(reconciled, of) ?? 0);
  assert.ok(ageOf(group) <= 5);
  assert.ok(ageOf({ namespace: "closed", rollout_group: "store" }) >= 900);
});

test("a scrape waits for the API server for two seconds and no longer", async () => {
  let isSilent = false;
  const { scrapeIn, stopFunctions } = await createScene({
    listLedgers: () => (isSilent ? new Promise(() => {}) : undefined),
  });
  await stopFunctions();
  await scrapeIn(30);
  isSilent = true;
  assert.equal((await scrapeIn(900)).of("sluice_group_outdated_pods").length, 3);
});

test("a process that reconciles reports guard and last success itself, and the rest from the ledger", async () => {
  const { reporting, goTo, changeTemplates, lines } = await createScene();
  changeTemplates(broken);
  await goTo(60);
  const scraping = reporting.metrics.registry.metrics();
  await goTo(70);
  const samples = samplesOf(await scraping);
  const guards = lines.filter(({ function: by }) => by === "advance-zone-rollout").map(({ guard }) => guard);
  assert.equal(samples.of(waitingSince).length, 1);
  assert.match(samples.of(waitingSince)[0] ?? "", new RegExp(`guard="${guards.findLast(Boolean)}"`));
  assert.equal(samples.of(reconciled).length, 1);
  assert.equal(samples.value("sluice_group_reservations", { ...group, function: "advance-zone-rollout" }), 1);
});

test("an invalid budget shows as long as it stands, also to a replica that starts later", async () => {
  const { scrapeIn, startReplica, world } = await createScene();
  const type = "zoneawarepoddisruptionbudgets";
  const spec = { maxUnavailable: -1, selector: { matchLabels: { app: "db" } } };
  world.store.create(type, "app", { kind: "ZoneAwarePodDisruptionBudget", metadata: { name: "bad" }, spec } as never);
  const invalid = async (from?: ReturnType<typeof startReplica>) =>
    (await scrapeIn(600, from)).value("sluice_invalid_budgets", { namespace: "app" });
  assert.equal(await invalid(), 1);
  assert.equal(await invalid(startReplica()), 1);
  world.store.patch(type, { namespace: "app", name: "bad" }, { spec: { maxUnavailable: 1 } });
  assert.equal(await invalid(), undefined);
});
