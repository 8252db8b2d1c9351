/** Views of a function that is awake: when it watches, when it lets go, and what it makes of watches that are of no use. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type GroupView, membersNeed } from "../../../../functions/shared/cache/cache.ts";
import { createListReader } from "../../../../functions/shared/cache/listing.ts";
import { groupOfLoneStatefulSet, groupOfOwner } from "../../../../functions/shared/workloads/group-key.ts";
import { key, namespace, Passes, played } from "../reconcile/passes.ts";
import { at, awake, idleMs, listing, lists, opening, refusal } from "./on-demand-views.ts";

test("the first decision of a namespace opens its watches, whose lists it is made from; the next ones cost nothing", async () => {
  const { passes, cache, read, asked, stop } = await awake();
  assert.equal(cache.isWatched(namespace), false);
  assert.deepEqual(await asked(() => read()), opening);
  assert.ok(cache.isWatched(namespace) && !cache.isWatched("elsewhere"));
  assert.equal(cache.watches, 3);
  assert.deepEqual(await asked(() => Promise.all([read(), read({ settledThrough: 0 })])), []);
  passes.world.store.delete("pods", at("group-a-0"), { gracePeriodSeconds: 0 });
  await passes.goOn(3);
  assert.equal((await read()).pod("group-a-0"), undefined, "the watch has told of it");
  await stop();
});

test("several decisions that begin at once share what is opened, and each has its view", async () => {
  const { read, asked, stop } = await awake();
  const cache: GroupView[] = [];
  const many = () => Promise.all([1, 2, 3].map(async () => void cache.push(await read())));
  assert.deepEqual(await asked(many), opening);
  assert.deepEqual(
    cache.map(({ statefulSets }) => statefulSets.length),
    [2, 2, 2],
  );
  await stop();
});

test("a first decision waits for no longer than it takes to list: one round trip, as many as without a watch or fewer", async () => {
  const { passes, read, stop } = await awake();
  const tookMs = async (act: () => Promise<unknown>) => {
    const startMs = passes.cluster.monotonicMs();
    await act();
    return passes.cluster.monotonicMs() - startMs;
  };
  const openedMs = await tookMs(() => read());
  await passes.goOn(idleMs + 100);
  await stop();
  passes.use(createListReader(passes.cluster, undefined));
  const need = { settledThrough: 1, permitSinceMs: undefined, consistent: false };
  const listedMs = await tookMs(() => played(passes.timeline, passes.context.cache.read(key, need)));
  assert.ok(openedMs < listedMs, `${openedMs} ms, and ${listedMs} ms by lists`);
});

test("who asks for members alone lists StatefulSets and opens nothing; budgets only where they say who is one", async () => {
  const { passes, cache, read, asked } = await awake();
  const members = () => read(membersNeed);
  assert.deepEqual(await asked(members), ["list statefulsets"]);
  const lone = { ...key, group: groupOfLoneStatefulSet("group-a") };
  const membersOfLone = () => played(passes.timeline, cache.read(lone, membersNeed));
  assert.deepEqual(await asked(membersOfLone), ["list statefulsets", "list zoneawarepoddisruptionbudgets"]);
  assert.equal(cache.watches, 0);
  assert.deepEqual((await members()).statefulSets.map(({ name }) => name).sort(), ["group-a", "group-b"]);
});

test("a look at everything afresh is made from the lists that open the watches, and of new lists once they are open", async () => {
  const { passes, read, asked, stop } = await awake();
  const sinceMs = passes.cluster.monotonicMs();
  let view: GroupView | undefined;
  const afresh = async () => {
    view = await read({ consistent: true, permitSinceMs: sinceMs });
  };
  assert.deepEqual(await asked(afresh), opening);
  assert.equal(view?.statefulSetsReadMs, sinceMs, "they may be permitted by");
  const { pods = 0, statefulSets = 0 } = view?.consistentAt ?? {};
  assert.ok(pods > 0 && statefulSets > 0);
  assert.deepEqual(await asked(afresh), listing);
  await stop();
});

test("of the lists that open the watches the own revision counts under a ledger that was never decided on (R4), and else it does not", async () => {
  for (const settledThrough of [undefined, 1]) {
    const { passes, read, stop } = await awake();
    passes.world.store.create("leases", namespace, { metadata: { name: "noise" } });
    const newest = Number(passes.world.store.list("pods").resourceVersion);
    const { seenThrough } = await read({ settledThrough });
    assert.equal(seenThrough >= newest, settledThrough === undefined);
    await stop();
  }
});

test("a StatefulSet that was listed before one of its newest pods was made is read again before it is decided by", async () => {
  const { passes, read, asked, stop } = await awake();
  passes.changeImage("app:3");
  passes.world.store.delete("pods", at("group-a-0"), { gracePeriodSeconds: 0 });
  await passes.goOn(10_000);
  passes.changeImage("app:4");
  assert.deepEqual(
    (await asked(() => read())).filter((word) => !opening.includes(word)),
    ["get statefulsets"],
  );
  await stop();
});

test("when no read comes for a while, the watches are let go; while reads come, they stay", async () => {
  const { passes, cache, read, asked, woken, stop } = await awake();
  await read();
  for (let times = 0; times < 4; times++) {
    await passes.goOn(idleMs - 1_000);
    assert.deepEqual(await asked(() => read()), []);
  }
  await passes.goOn(idleMs - 100);
  assert.equal(cache.watches, 3);
  await passes.goOn(200);
  assert.deepEqual([cache.watches, cache.isWatched(namespace)], [0, false]);
  assert.deepEqual(woken, [], "the end of the watches wakes no group");
  assert.deepEqual(await asked(() => read()), opening);
  await stop();
});

test("what a watch tells wakes the group, and what the first lists tell wakes no group", async () => {
  const { passes, read, woken, stop } = await awake();
  await read();
  assert.equal(woken.length, 0);
  passes.world.store.delete("pods", at("group-a-0"), { gracePeriodSeconds: 0 });
  await passes.goOn(3);
  assert.ok(woken.includes("db/group pods"));
  await stop();
});

test("decisions are those of a process that watches: a wait costs no request, and a take a GET of each StatefulSet", async () => {
  const { passes, asked, stop } = await awake();
  await passes.run();
  await passes.run();
  assert.deepEqual(await asked(() => passes.run()), []);
  assert.equal(passes.guard, "budget");
  passes.world.settle();
  await passes.goOn(3_100);
  assert.deepEqual(await asked(() => passes.run()), [
    "delete pods",
    "get statefulsets",
    "get statefulsets",
    "patch leases",
  ]);
  await stop();
});

test("a watch that may not be had, or is refused, costs lists and no decision; it is tried again later and later", async () => {
  for (const [code, message, leastMs] of [
    [403, 'pods is forbidden: User "x" cannot watch resource "pods"', 30_000],
    [429, "too many", 0],
  ] as const) {
    let isRefused = true;
    const passes = await new Passes().prepare();
    const cluster = {
      ...passes.cluster,
      watch: ((resource, query, options) => {
        if (isRefused && resource === "pods")
          return (async function* () {
            yield await Promise.reject(refusal(code, resource, message));
          })();
        return passes.cluster.watch(resource, query, options);
      }) as typeof passes.cluster.watch,
    };
    const { cache, read, troubles, stop } = await awake({ cluster }, passes);
    assert.equal((await read()).statefulSets.length, 2);
    await passes.goOn(10);
    assert.deepEqual([cache.watches, troubles], [0, [`pods: ${message}`]]);
    const startMs = passes.cluster.monotonicMs();
    for (let ms = 0; ms < 25_000; ms += 100) {
      assert.equal((await read()).statefulSets.length, 2);
      await passes.goOn(100);
    }
    const tries = troubles.length;
    assert.ok(leastMs > 0 ? tries === 1 : tries > 1 && tries <= 9, `${tries} tries`);
    isRefused = false;
    await passes.goOn(Math.max(leastMs, 12_000) - (passes.cluster.monotonicMs() - startMs) + 30_000);
    await read();
    await passes.goOn(10);
    assert.equal(cache.watches, 3);
    await stop();
  }
});

test("an API server that ends watches as soon as they begin costs lists and no decision, and few watches", async () => {
  const passes = await new Passes().prepare();
  let begun = 0;
  const cluster = {
    ...passes.cluster,
    watch: (() => {
      begun++;
      return (async function* () {})();
    }) as typeof passes.cluster.watch,
  };
  const { read, stop } = await awake({ cluster }, passes);
  for (let ms = 0; ms < 30_000; ms += 100) {
    assert.equal((await read()).statefulSets.length, 2);
    await passes.goOn(100);
  }
  assert.ok(begun <= 6 * 9, `${begun} watches in 30 s`);
  await stop();
});

test("watches that break have their groups looked at again, by lists, or by watches that are opened anew", async () => {
  const breaking = Promise.withResolvers<never>();
  const passes = await new Passes().prepare();
  let isWhole = true;
  const cluster = {
    ...passes.cluster,
    watch: ((resource, query, options) => {
      if (!isWhole || resource !== "statefulsets") return passes.cluster.watch(resource, query, options);
      isWhole = false;
      return (async function* () {
        yield await breaking.promise;
      })();
    }) as typeof passes.cluster.watch,
  };
  const { read, asked, woken, troubles, stop } = await awake({ cluster }, passes);
  await read();
  await passes.goOn(100);
  breaking.reject(refusal(0, "statefulsets", "the connection broke"));
  await passes.goOn(1);
  assert.deepEqual(
    [woken, troubles],
    [["db/group statefulsets", "db/group pods"], ["statefulsets: the connection broke"]],
  );
  assert.deepEqual(await asked(() => read()), opening, "once is no matter");
  await stop();
});

test("lists that fail fail the decision, as they would without a watch", async () => {
  const { passes, cache, read } = await awake();
  passes.interfere = ({ verb, resource }) => {
    if (verb === "list" && resource === "pods") throw refusal(503, "pods");
  };
  await assert.rejects(read(), { code: 503 });
  assert.equal(cache.watches, 0);
  passes.interfere = () => {};
  assert.equal((await read()).statefulSets.length, 2);
});

test("after a pause of the process nothing is decided from what was known before it, and the groups are looked at again", async () => {
  const passes = await new Passes().prepare();
  let pausedMs = 0;
  const cluster = { ...passes.cluster, monotonicMs: () => passes.cluster.monotonicMs() + pausedMs };
  const { read, asked, woken, stop } = await awake({ cluster }, passes);
  await read();
  pausedMs += 600_000;
  assert.deepEqual(await asked(() => read()), opening, "an event comes before the timer");
  assert.deepEqual(woken, ["db/group statefulsets", "db/group pods"]);
  pausedMs += 600_000;
  await passes.goOn(idleMs + 100);
  assert.equal(woken.length, 4, "the timer comes first");
  assert.deepEqual(await asked(() => read()), opening);
  await stop();
});

test("a namespace of too many pods is listed by labels, and not tried again for ten minutes", async () => {
  const { passes, cache, read, asked, stop } = await awake();
  passes.interfere = ({ verb, resource, given }) => {
    if (verb !== "list" || resource !== "pods") return;
    const { atMost } = given[1] as { readonly atMost?: number };
    if (atMost !== undefined) throw refusal(413, "pods");
    assert.ok((given[1] as { readonly labelSelector?: string }).labelSelector, "by the labels of the StatefulSet");
  };
  await read();
  assert.deepEqual(lists(await asked(() => read())), listing);
  await passes.goOn(599_000);
  assert.deepEqual(lists(await asked(() => read())), listing);
  passes.interfere = () => {};
  await passes.goOn(2_000);
  assert.deepEqual(await asked(() => read()), opening);
  assert.equal(cache.watches, 3);
  await stop();
});

test("at most 20 namespaces are watched at once; groups of others are listed until one is let go", async () => {
  const { passes, cache, read, stop } = await awake();
  const groups = Array.from({ length: 21 }, (_, index) => ({ namespace: `ns-${index}`, group: "group" }));
  for (const one of groups) passes.world.addGroup({ ...one, zones: ["a"], replicas: 1 });
  for (const one of groups) assert.equal((await read({}, one)).statefulSets.length, 1);
  assert.equal(cache.watches, 60);
  assert.equal(cache.isWatched("ns-20"), false);
  await passes.goOn(idleMs + 100);
  await read({}, groups[20]);
  assert.ok(cache.isWatched("ns-20"));
  await stop();
});

test("when the process ends, watches end at once, also those that are being opened, and no others begin", async () => {
  const { passes, cache, read, asked, stop } = await awake();
  const first = cache.read(key, { settledThrough: 1, permitSinceMs: undefined, consistent: false });
  const startMs = passes.cluster.monotonicMs();
  await stop();
  assert.equal(passes.cluster.monotonicMs(), startMs);
  assert.equal((await played(passes.timeline, first)).statefulSets.length, 2);
  assert.deepEqual(lists(await asked(() => read())), listing);
  assert.equal(cache.watches, 0);
});

test("the group of an owner that is no StatefulSet is listed, and opens no watch, whatever else is watched", async () => {
  const { cache, read, asked, stop } = await awake();
  const owned = { namespace, group: groupOfOwner({ kind: "Database", apiGroup: "example.com", name: "orders" }) };
  const listed = ["list persistentvolumeclaims", "list pods", "list statefulsets"];
  for (const isAwake of [false, true]) {
    if (isAwake) await read();
    assert.equal(cache.isWatched(namespace), isAwake);
    for (const need of [{}, { consistent: true }, { settledThrough: undefined }, membersNeed])
      assert.deepEqual(await asked(() => read(need, owned)), listed);
    assert.equal(cache.isWatched(namespace), isAwake);
  }
  await stop();
});
