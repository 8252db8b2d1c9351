/** Views of a function that watches on demand: when it opens and closes watches, and how it works without useful ones. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type GroupView, membersNeed } from "../../../../functions/shared/cache/cache.ts";
import { createListReader } from "../../../../functions/shared/cache/listing.ts";
import { groupOfLoneStatefulSet, groupOfOwner } from "../../../../functions/shared/workloads/group-key.ts";
import { Harness, key, namespace, played } from "../reconcile/harness.ts";
import { at, idleMs, listing, lists, opening, refusal, started } from "./on-demand-views.ts";

test("the first decision of a namespace opens its watches and uses their lists, and the next decisions cost no request", async () => {
  const { harness, cache, read, asked, stop } = await started();
  assert.equal(cache.isWatched(namespace), false);
  assert.deepEqual(await asked(() => read()), opening);
  assert.ok(cache.isWatched(namespace) && !cache.isWatched("elsewhere"));
  assert.equal(cache.watches, 3);
  assert.deepEqual(await asked(() => Promise.all([read(), read({ settledThrough: 0 })])), []);
  harness.world.store.delete("pods", at("group-a-0"), { gracePeriodSeconds: 0 });
  await harness.goOn(3);
  assert.equal((await read()).pod("group-a-0"), undefined, "the watch has reported it");
  await stop();
});

test("decisions that begin at once share the watches that are opened, and each gets its view", async () => {
  const { read, asked, stop } = await started();
  const cache: GroupView[] = [];
  const many = () => Promise.all([1, 2, 3].map(async () => void cache.push(await read())));
  assert.deepEqual(await asked(many), opening);
  assert.deepEqual(
    cache.map(({ workloads }) => workloads.length),
    [2, 2, 2],
  );
  await stop();
});

test("a first decision takes no longer than without watches: one round trip for the lists", async () => {
  const { harness, read, stop } = await started();
  const tookMs = async (act: () => Promise<unknown>) => {
    const startMs = harness.cluster.monotonicMs();
    await act();
    return harness.cluster.monotonicMs() - startMs;
  };
  const openedMs = await tookMs(() => read());
  await harness.goOn(idleMs + 100);
  await stop();
  harness.use(createListReader(harness.cluster, undefined));
  const need = { settledThrough: 1, permitSinceMs: undefined, consistent: false };
  const listedMs = await tookMs(() => played(harness.timeline, harness.context.cache.read(key, need)));
  assert.ok(openedMs < listedMs, `${openedMs} ms, and ${listedMs} ms by lists`);
});

test("a read of the members alone opens no watch and lists StatefulSets, and budgets only if they define the members", async () => {
  const { harness, cache, read, asked } = await started();
  const members = () => read(membersNeed);
  assert.deepEqual(await asked(members), ["list statefulsets"]);
  const lone = { ...key, group: groupOfLoneStatefulSet("group-a") };
  const membersOfLone = () => played(harness.timeline, cache.read(lone, membersNeed));
  assert.deepEqual(await asked(membersOfLone), ["list statefulsets", "list zoneawarepoddisruptionbudgets"]);
  assert.equal(cache.watches, 0);
  assert.deepEqual((await members()).workloads.map(({ name }) => name).sort(), ["group-a", "group-b"]);
});

test("a fresh read uses the lists that open the watches, and new lists once the watches are open", async () => {
  const { harness, read, asked, stop } = await started();
  const sinceMs = harness.cluster.monotonicMs();
  let view: GroupView | undefined;
  const afresh = async () => {
    view = await read({ consistent: true, permitSinceMs: sinceMs });
  };
  assert.deepEqual(await asked(afresh), opening);
  assert.equal(view?.statefulSetsReadMs, sinceMs, "they may be used to permit");
  const { pods = 0, statefulSets = 0 } = view?.consistentAt ?? {};
  assert.ok(pods > 0 && statefulSets > 0);
  assert.deepEqual(await asked(afresh), listing);
  await stop();
});

test("the revision of the opening lists counts as seen only under a ledger without decisions (R4)", async () => {
  for (const settledThrough of [undefined, 1]) {
    const { harness, read, stop } = await started();
    harness.world.store.create("leases", namespace, { metadata: { name: "noise" } });
    const newest = Number(harness.world.store.list("pods").resourceVersion);
    const { seenThrough } = await read({ settledThrough });
    assert.equal(seenThrough >= newest, settledThrough === undefined);
    await stop();
  }
});

test("a StatefulSet that was listed before one of its newest pods was created is read again before the decision", async () => {
  const { harness, read, asked, stop } = await started();
  harness.changeImage("app:3");
  harness.world.store.delete("pods", at("group-a-0"), { gracePeriodSeconds: 0 });
  await harness.goOn(10_000);
  harness.changeImage("app:4");
  assert.deepEqual(
    (await asked(() => read())).filter((word) => !opening.includes(word)),
    ["get statefulsets"],
  );
  await stop();
});

test("the watches are closed after a while without a read, and stay while reads come", async () => {
  const { harness, cache, read, asked, triggered, stop } = await started();
  await read();
  for (let times = 0; times < 4; times++) {
    await harness.goOn(idleMs - 1_000);
    assert.deepEqual(await asked(() => read()), []);
  }
  await harness.goOn(idleMs - 100);
  assert.equal(cache.watches, 3);
  await harness.goOn(200);
  assert.deepEqual([cache.watches, cache.isWatched(namespace)], [0, false]);
  assert.deepEqual(triggered, [], "the end of the watches triggers no group");
  assert.deepEqual(await asked(() => read()), opening);
  await stop();
});

test("what a watch reports triggers the group, and what the first lists report does not", async () => {
  const { harness, read, triggered, stop } = await started();
  await read();
  assert.equal(triggered.length, 0);
  harness.world.store.delete("pods", at("group-a-0"), { gracePeriodSeconds: 0 });
  await harness.goOn(3);
  assert.ok(triggered.includes("db/group pods"));
  await stop();
});

test("decisions cost what they cost a process that watches: a wait no request, a take a GET of each StatefulSet", async () => {
  const { harness, asked, stop } = await started();
  await harness.run();
  await harness.run();
  assert.deepEqual(await asked(() => harness.run()), []);
  assert.equal(harness.guard, "budget");
  harness.world.settle();
  await harness.goOn(3_100);
  assert.deepEqual(await asked(() => harness.run()), [
    "delete pods",
    "get statefulsets",
    "get statefulsets",
    "patch leases",
  ]);
  await stop();
});

test("if a watch is forbidden or fails, lists replace it, decisions go on, and it is tried after longer and longer waits", async () => {
  for (const [code, message, leastMs] of [
    [403, 'pods is forbidden: User "x" cannot watch resource "pods"', 30_000],
    [429, "too many", 0],
  ] as const) {
    let isRefused = true;
    const harness = await new Harness().prepare();
    const cluster = {
      ...harness.cluster,
      watch: ((resource, query, options) => {
        if (isRefused && resource === "pods")
          return (async function* () {
            yield await Promise.reject(refusal(code, resource, message));
          })();
        return harness.cluster.watch(resource, query, options);
      }) as typeof harness.cluster.watch,
    };
    const { cache, read, troubles, stop } = await started({ cluster }, harness);
    assert.equal((await read()).workloads.length, 2);
    await harness.goOn(10);
    assert.deepEqual([cache.watches, troubles], [0, [`pods: ${message}`]]);
    const startMs = harness.cluster.monotonicMs();
    for (let ms = 0; ms < 25_000; ms += 100) {
      assert.equal((await read()).workloads.length, 2);
      await harness.goOn(100);
    }
    const tries = troubles.length;
    assert.ok(leastMs > 0 ? tries === 1 : tries > 1 && tries <= 9, `${tries} tries`);
    isRefused = false;
    await harness.goOn(Math.max(leastMs, 12_000) - (harness.cluster.monotonicMs() - startMs) + 30_000);
    await read();
    await harness.goOn(10);
    assert.equal(cache.watches, 3);
    await stop();
  }
});

test("if the API server ends watches at once, lists replace them, decisions go on, and few watches are opened", async () => {
  const harness = await new Harness().prepare();
  let begun = 0;
  const cluster = {
    ...harness.cluster,
    watch: (() => {
      begun++;
      return (async function* () {})();
    }) as typeof harness.cluster.watch,
  };
  const { read, stop } = await started({ cluster }, harness);
  for (let ms = 0; ms < 30_000; ms += 100) {
    assert.equal((await read()).workloads.length, 2);
    await harness.goOn(100);
  }
  assert.ok(begun <= 6 * 9, `${begun} watches in 30 s`);
  await stop();
});

test("when watches break, their groups are read again, by lists or by new watches", async () => {
  const breaking = Promise.withResolvers<never>();
  const harness = await new Harness().prepare();
  let isWhole = true;
  const cluster = {
    ...harness.cluster,
    watch: ((resource, query, options) => {
      if (!isWhole || resource !== "statefulsets") return harness.cluster.watch(resource, query, options);
      isWhole = false;
      return (async function* () {
        yield await breaking.promise;
      })();
    }) as typeof harness.cluster.watch,
  };
  const { read, asked, triggered, troubles, stop } = await started({ cluster }, harness);
  await read();
  await harness.goOn(100);
  breaking.reject(refusal(0, "statefulsets", "the connection broke"));
  await harness.goOn(1);
  assert.deepEqual(
    [triggered, troubles],
    [["db/group statefulsets", "db/group pods"], ["statefulsets: the connection broke"]],
  );
  assert.deepEqual(await asked(() => read()), opening, "one break has no consequence");
  await stop();
});

test("a failed list fails the decision, as without a watch", async () => {
  const { harness, cache, read } = await started();
  harness.interfere = ({ verb, resource }) => {
    if (verb === "list" && resource === "pods") throw refusal(503, "pods");
  };
  await assert.rejects(read(), { code: 503 });
  assert.equal(cache.watches, 0);
  harness.interfere = () => {};
  assert.equal((await read()).workloads.length, 2);
});

test("after a pause of the process no decision uses what was known before, and the groups are read again", async () => {
  const harness = await new Harness().prepare();
  let pausedMs = 0;
  const cluster = { ...harness.cluster, monotonicMs: () => harness.cluster.monotonicMs() + pausedMs };
  const { read, asked, triggered, stop } = await started({ cluster }, harness);
  await read();
  pausedMs += 600_000;
  assert.deepEqual(await asked(() => read()), opening, "an event comes before the timer");
  assert.deepEqual(triggered, ["db/group statefulsets", "db/group pods"]);
  pausedMs += 600_000;
  await harness.goOn(idleMs + 100);
  assert.equal(triggered.length, 4, "the timer comes before an event");
  assert.deepEqual(await asked(() => read()), opening);
  await stop();
});

test("a namespace with too many pods is listed by labels, and a watch is not tried again for ten minutes", async () => {
  const { harness, cache, read, asked, stop } = await started();
  harness.interfere = ({ verb, resource, given }) => {
    if (verb !== "list" || resource !== "pods") return;
    const { atMost } = given[1] as { readonly atMost?: number };
    if (atMost !== undefined) throw refusal(413, "pods");
    assert.ok((given[1] as { readonly labelSelector?: string }).labelSelector, "by the labels of the StatefulSet");
  };
  await read();
  assert.deepEqual(lists(await asked(() => read())), listing);
  await harness.goOn(599_000);
  assert.deepEqual(lists(await asked(() => read())), listing);
  harness.interfere = () => {};
  await harness.goOn(2_000);
  assert.deepEqual(await asked(() => read()), opening);
  assert.equal(cache.watches, 3);
  await stop();
});

test("at most 20 namespaces are watched at once; groups of others are listed until one of them is closed", async () => {
  const { harness, cache, read, stop } = await started();
  const groups = Array.from({ length: 21 }, (_, index) => ({ namespace: `ns-${index}`, group: "group" }));
  for (const one of groups) harness.world.addGroup({ ...one, zones: ["a"], replicas: 1 });
  for (const one of groups) assert.equal((await read({}, one)).workloads.length, 1);
  assert.equal(cache.watches, 60);
  assert.equal(cache.isWatched("ns-20"), false);
  await harness.goOn(idleMs + 100);
  await read({}, groups[20]);
  assert.ok(cache.isWatched("ns-20"));
  await stop();
});

test("when the process ends, all watches end at once, including those that are being opened, and no others begin", async () => {
  const { harness, cache, read, asked, stop } = await started();
  const first = cache.read(key, { settledThrough: 1, permitSinceMs: undefined, consistent: false });
  const startMs = harness.cluster.monotonicMs();
  await stop();
  assert.equal(harness.cluster.monotonicMs(), startMs);
  assert.equal((await played(harness.timeline, first)).workloads.length, 2);
  assert.deepEqual(lists(await asked(() => read())), listing);
  assert.equal(cache.watches, 0);
});

test("the group of another owner than a StatefulSet is listed, and opens no watch, whatever else is watched", async () => {
  const { cache, read, asked, stop } = await started();
  const owned = { namespace, group: groupOfOwner({ kind: "Database", apiGroup: "example.com", name: "orders" }) };
  const listed = ["list persistentvolumeclaims", "list pods", "list statefulsets"];
  for (const isWatched of [false, true]) {
    if (isWatched) await read();
    assert.equal(cache.isWatched(namespace), isWatched);
    for (const need of [{}, { consistent: true }, { settledThrough: undefined }, membersNeed])
      assert.deepEqual(await asked(() => read(need, owned)), listed);
    assert.equal(cache.isWatched(namespace), isWatched);
  }
  await stop();
});
