/** Watches that stand still, and events that tell of what they do not. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Resource } from "../../../../functions/shared/kubernetes/cluster.ts";
import { Passes } from "../reconcile/passes.ts";
import { at, awake, deafening } from "./on-demand-views.ts";

test("a watch that does not tell of what an event told of stands still: it is let go, and the groups are looked at again", async () => {
  const passes = await new Passes().prepare();
  const { cluster, told } = deafening(passes.cluster);
  const { cache, read, troubles, woken, stop } = await awake({ cluster }, passes);
  const before = (await read()).pod("group-a-0");
  await passes.goOn(1_500);
  told.isDeaf = true;
  passes.world.store.delete("pods", at("group-a-0"), { gracePeriodSeconds: 0 });
  cache.noteEvent("pods", at("group-a-0"));
  cache.noteEvent("pods", at("group-a-0"));
  await passes.goOn(900);
  assert.equal(cache.watches, 3, "it has a second to tell of it");
  await passes.goOn(200);
  assert.deepEqual([cache.watches, troubles.length], [0, 1]);
  assert.match(troubles[0] ?? "", /^pods: it has not told of the newest state of group-a-0, as an event has$/);
  assert.deepEqual(woken, ["db/group statefulsets", "db/group pods"]);
  told.isDeaf = false;
  assert.notEqual((await read()).pod("group-a-0")?.uid, before?.uid);
  await stop();
});

test("a watch that falls silent right after it told something is found out as well, however many events come", async () => {
  const passes = await new Passes().prepare();
  const { cluster, told } = deafening(passes.cluster);
  const { cache, read, troubles, stop } = await awake({ cluster, idleMs: 20_000 }, passes);
  await read();
  await passes.goOn(100);
  told.isDeaf = true;
  passes.world.store.delete("pods", at("group-a-0"), { gracePeriodSeconds: 0 });
  for (let ms = 0; ms < 5_200; ms += 100) {
    cache.noteEvent("pods", at("group-a-0"));
    await passes.goOn(100);
  }
  assert.equal(troubles.length, 1);
  assert.equal(passes.count("get pods"), 1);
  await stop();
});

test("an event of what the watch has told, or tells within a second, changes nothing", async () => {
  const { passes, cache, read, troubles, stop } = await awake();
  await read();
  await passes.goOn(1_500);
  const remove = (name: string) => passes.world.store.delete("pods", at(name), { gracePeriodSeconds: 0 });
  remove("group-a-0");
  await passes.goOn(500);
  cache.noteEvent("pods", at("group-a-0"));
  await passes.goOn(1_500);
  cache.noteEvent("pods", at("group-a-0"));
  remove("group-a-1");
  await passes.goOn(1_500);
  assert.equal(passes.count("get pods"), 0);
  for (let seconds = 0; seconds < 20; seconds += 4) {
    await read();
    await passes.goOn(4_000);
  }
  await read();
  passes.forget();
  cache.noteEvent("pods", at("group-a-0"));
  cache.noteEvent("pods", at("group-a-1"));
  cache.noteEvent("configmaps" as Resource, at("group-a-0"));
  cache.noteEvent("pods", { ...at("group-a-0"), namespace: "elsewhere" });
  await passes.goOn(1_100);
  assert.equal(passes.count("get pods"), 1, "an event that is late costs a GET");
  cache.noteEvent("pods", at("unknown-0"));
  await passes.goOn(1_100);
  assert.deepEqual([passes.count("get pods"), cache.watches, troubles], [1, 3, []]);
  await stop();
});
