/** Watches that have stopped, and events about changes that the watches do not report. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Resource } from "../../../../functions/shared/kubernetes/cluster.ts";
import { Harness } from "../reconcile/harness.ts";
import { at, deafening, started } from "./on-demand-views.ts";

test("a watch that does not report what an event reported has stopped: it is closed, and the groups are read again", async () => {
  const harness = await new Harness().prepare();
  const { cluster, delivery: watched } = deafening(harness.cluster);
  const { cache, read, troubles, triggered, stop } = await started({ cluster }, harness);
  const before = (await read()).pod("group-a-0");
  await harness.goOn(1_500);
  watched.isDeaf = true;
  harness.world.store.delete("pods", at("group-a-0"), { gracePeriodSeconds: 0 });
  cache.noteEvent("pods", at("group-a-0"));
  cache.noteEvent("pods", at("group-a-0"));
  await harness.goOn(900);
  assert.equal(cache.watches, 3, "the watch has a second to report it");
  await harness.goOn(200);
  assert.deepEqual([cache.watches, troubles.length], [0, 1]);
  assert.match(troubles[0] ?? "", /^pods: it has not delivered the newest state of group-a-0, as an event has$/);
  assert.deepEqual(triggered, ["db/group statefulsets", "db/group pods"]);
  watched.isDeaf = false;
  assert.notEqual((await read()).pod("group-a-0")?.uid, before?.uid);
  await stop();
});

test("a watch that falls silent right after a report is also detected, however many events come", async () => {
  const harness = await new Harness().prepare();
  const { cluster, delivery: watched } = deafening(harness.cluster);
  const { cache, read, troubles, stop } = await started({ cluster, idleMs: 20_000 }, harness);
  await read();
  await harness.goOn(100);
  watched.isDeaf = true;
  harness.world.store.delete("pods", at("group-a-0"), { gracePeriodSeconds: 0 });
  for (let ms = 0; ms < 5_200; ms += 100) {
    cache.noteEvent("pods", at("group-a-0"));
    await harness.goOn(100);
  }
  assert.equal(troubles.length, 1);
  assert.equal(harness.count("get pods"), 1);
  await stop();
});

test("an event about a change that the watch has reported, or reports within a second, has no effect", async () => {
  const { harness, cache, read, troubles, stop } = await started();
  await read();
  await harness.goOn(1_500);
  const remove = (name: string) => harness.world.store.delete("pods", at(name), { gracePeriodSeconds: 0 });
  remove("group-a-0");
  await harness.goOn(500);
  cache.noteEvent("pods", at("group-a-0"));
  await harness.goOn(1_500);
  cache.noteEvent("pods", at("group-a-0"));
  remove("group-a-1");
  await harness.goOn(1_500);
  assert.equal(harness.count("get pods"), 0);
  for (let seconds = 0; seconds < 20; seconds += 4) {
    await read();
    await harness.goOn(4_000);
  }
  await read();
  harness.forget();
  cache.noteEvent("pods", at("group-a-0"));
  cache.noteEvent("pods", at("group-a-1"));
  cache.noteEvent("configmaps" as Resource, at("group-a-0"));
  cache.noteEvent("pods", { ...at("group-a-0"), namespace: "elsewhere" });
  await harness.goOn(1_100);
  assert.equal(harness.count("get pods"), 1, "a late event costs a GET");
  cache.noteEvent("pods", at("unknown-0"));
  await harness.goOn(1_100);
  assert.deepEqual([harness.count("get pods"), cache.watches, troubles], [1, 3, []]);
  await stop();
});
