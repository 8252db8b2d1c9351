/** What a process reports about suspended volumes while no function has replicas. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Registry } from "prom-client";
import type { Cluster } from "../../../../functions/shared/kubernetes/cluster.ts";
import { createSuspendedMetrics, createVolumeReader } from "../../../../triggers/telemetry/volume-metrics.ts";
import { minutesAgo, nowMs, Suspended } from "../../../support/suspended.ts";

/** A cluster that lists these objects, and counts the requests. */
function scene(on: Suspended) {
  const asked: string[] = [];
  const refusing = new Set<string>();
  let clockMs = 0;
  const list = (async (resource: string) => {
    asked.push(resource);
    if (refusing.has(resource)) throw new Error("forbidden");
    const claims = [...on.claims.values()].filter(({ metadata }) => metadata.finalizers !== undefined);
    return { items: resource === "statefulsets" ? [...on.sets.values()] : claims, resourceVersion: "1" };
  }) as unknown as Cluster["list"];
  const registry = new Registry();
  const cluster = { list, monotonicMs: () => clockMs, sleep: () => new Promise<void>(() => {}) };
  createSuspendedMetrics([registry]).showVolumes(createVolumeReader(cluster, ["db"]));
  const goOn = (ms: number) => {
    clockMs += ms;
  };
  return { asked, refusing, goOn, scrape: async () => (await registry.metrics()).split("\n").filter(isSeries) };
}

const isSeries = (line: string): boolean => line !== "" && !line.startsWith("#");
const zone = (name: string, more = "") => `{namespace="db",zone="${name}"${more}}`;

test("the metrics give the number and the size of suspended volumes in each zone, and the time of the next removal", async () => {
  const on = Suspended.of(["a", "b"], 3);
  on.suspend("a", 2, 10);
  on.suspend("a", 1, 20);
  on.suspend("b", 2, 30, "Suspending");
  const { scrape } = scene(on);
  assert.deepEqual((await scrape()).sort(), [
    `sluice_suspended_bytes${zone("db-a")} ${20 * 2 ** 30}`,
    `sluice_suspended_bytes${zone("db-b")} ${10 * 2 ** 30}`,
    `sluice_suspended_volume_claims${zone("db-a", ',state="Suspended"')} 2`,
    `sluice_suspended_volume_claims${zone("db-b", ',state="Suspending"')} 1`,
    `sluice_volume_removal_timestamp_seconds${zone("db-a")} ${(nowMs + 40 * 60_000) / 1000}`,
  ]);
});

test("no removal time is reported for a volume on hold, in recovery, or without a known duration", async () => {
  const changes: readonly ((on: Suspended) => void)[] = [
    (on) => on.annotate("a", 2, { hold: "true" }),
    (on) => on.policy("a", { hold: "true" }),
    (on) => on.annotate("a", 2, { recover: "true" }),
    (on) => on.policy("a", { "suspend-duration": "soon" }),
    (on) => on.sets.delete("a"),
  ];
  for (const change of changes) {
    const on = Suspended.of(["a"]);
    on.suspend("a", 2, 10);
    change(on);
    const series = await scene(on).scrape();
    assert.equal(series.length, 2, series.join("\n"));
    assert.ok(!series.some((line) => line.startsWith("sluice_volume_removal")));
  }
});

test("a flood of scrapes causes one read in ten seconds, which lists StatefulSets only if a volume is suspended", async () => {
  const on = Suspended.of(["a"]);
  const { scrape, asked, goOn } = scene(on);
  assert.deepEqual(await scrape(), []);
  await Promise.all([scrape(), scrape()]);
  assert.deepEqual(asked, ["persistentvolumeclaims"]);
  on.suspend("a", 2, 10);
  goOn(10_000);
  assert.equal((await scrape()).length, 3);
  assert.deepEqual(asked, ["persistentvolumeclaims", "persistentvolumeclaims", "statefulsets"]);
});

test("if the API server refuses a list, the series keep their last values", async () => {
  const on = Suspended.of(["a"]);
  on.suspend("a", 2, 10);
  on.annotate("a", 2, { "suspended-at": minutesAgo(5) });
  const { scrape, refusing, goOn } = scene(on);
  const before = await scrape();
  refusing.add("persistentvolumeclaims");
  goOn(10_000);
  assert.deepEqual(await scrape(), before);
});
