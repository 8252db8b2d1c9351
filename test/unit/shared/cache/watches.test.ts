/** What watches of a process wake, which namespaces and types they are of, and what is learnt beside them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { GroupView, ViewNeed } from "../../../../functions/shared/cache/cache.ts";
import { createWatchCache, type WatchingOptions } from "../../../../functions/shared/cache/watching.ts";
import { type Cluster, ClusterError, type Resource } from "../../../../functions/shared/kubernetes/cluster.ts";
import { addBudget } from "../../functions/evaluate-eviction/group-commit/reviews.ts";
import { key, namespace, Passes, played } from "../reconcile/passes.ts";

async function watching(options: Partial<WatchingOptions> = {}, passes = new Passes({ replicas: 1 })) {
  const woken = new Set<string>();
  const troubles = new Set<Resource>();
  const cache = createWatchCache({
    cluster: passes.cluster,
    namespaces: undefined,
    onChange: (changed) => void woken.add(`${changed.namespace}/${changed.group}`),
    onTrouble: (resource) => void troubles.add(resource),
    ...options,
  });
  await played(passes.timeline, cache.ready);
  await passes.goOn(10);
  passes.forget();
  /** The groups that are woken by what is done. */
  const watches = async (act: () => unknown) => {
    await passes.goOn(10);
    woken.clear();
    act();
    await passes.goOn(3);
    return [...woken].sort();
  };
  const read = (need: Partial<ViewNeed> = {}): Promise<GroupView> =>
    played(
      passes.timeline,
      cache.read(key, { settledThrough: 1, permitSinceMs: undefined, consistent: false, ...need }),
    );
  const stop = () => played(passes.timeline, cache.stop());
  return { passes, cache, troubles, watches, read, stop };
}

const at = (name: string, where = namespace) => ({ namespace: where, name });
const touch = (passes: Passes, resource: "pods" | "statefulsets", name: string) =>
  passes.world.store.patch(resource, at(name), { metadata: { labels: { touched: "yes" } } });

test("a pod wakes the group of its StatefulSet, a StatefulSet its own; what is of no group wakes none", async () => {
  const { passes, watches, stop } = await watching();
  const { store } = passes.world;
  const single = store.get("statefulsets", at("group-a"));
  const spec = { ...single.spec, selector: { matchLabels: { name: "single" } } };
  const template = { ...spec.template, metadata: { labels: { name: "single" } } };
  const lone = { metadata: { name: "single" }, spec: { ...spec, template } };
  assert.deepEqual(await watches(() => touch(passes, "pods", "group-b-0")), ["db/group"]);
  assert.deepEqual(await watches(() => passes.world.scale(at("group-a"), 2)), ["db/group"]);
  assert.deepEqual(await watches(() => store.create("statefulsets", namespace, lone)), []);
  passes.world.settle();
  assert.deepEqual(await watches(() => touch(passes, "pods", "single-0")), []);
  const orphan = { labels: { "statefulset.kubernetes.io/pod-name": "other-0" }, name: "other-0" };
  assert.deepEqual(
    await watches(() => store.create("pods", namespace, { metadata: orphan, spec: single.spec.template.spec })),
    [],
  );
  await stop();
});

test("a budget wakes the groups of its namespace whose pods it selects, and is told of with how it came", async () => {
  const told: string[] = [];
  const { passes, watches, stop } = await watching({ onBudget: ({ name }, how) => void told.push(`${how} ${name}`) });
  passes.world.addGroup({ namespace, group: "other", zones: ["a"], replicas: 1 });
  passes.world.addGroup({ namespace: "elsewhere", group: "group", zones: ["a"], replicas: 1 });
  const { metadata, spec } = passes.world.store.get("statefulsets", at("group-a"));
  const lone = { name: "lone", annotations: metadata.annotations };
  passes.world.store.create("statefulsets", namespace, { metadata: lone, spec: { ...spec, replicas: 0 } });
  passes.world.settle();
  await passes.goOn(100);
  const none = { selector: { matchLabels: { "rollout-group": "none" } }, maxUnavailable: 1 };
  assert.deepEqual(await watches(() => addBudget(passes)), ["db/group"]);
  assert.deepEqual(await watches(() => addBudget(passes, none, "none")), []);
  const invalid = { selector: { matchLabels: { "rollout-group": "other" } }, maxUnavailable: "no" };
  assert.deepEqual(await watches(() => addBudget(passes, invalid, "others")), ["db/other"]);
  const { store } = passes.world;
  assert.deepEqual(await watches(() => store.delete("zoneawarepoddisruptionbudgets", at("none"))), []);
  const labels = { team: "db" };
  const relabel = () => store.patch("zoneawarepoddisruptionbudgets", at("budget"), { metadata: { labels } });
  assert.deepEqual(await watches(relabel), [], "its spec is the same");
  assert.deepEqual(told, ["updated budget", "updated none", "updated others", "deleted none", "ignored budget"]);
  await stop();
});

test("views of one namespace watch and list it alone, and an answer from another one is of no use to them", async () => {
  const passes = new Passes({ replicas: 1 });
  const { cache, read, stop } = await watching({ namespaces: [namespace] }, passes);
  const other = passes.world.addGroup({ namespace: "elsewhere", group: "other", zones: ["a"], replicas: 1 });
  const names = (view: GroupView) => view.statefulSets.map(({ name }) => name).sort();
  assert.deepEqual(names(await read()), ["group-a", "group-b"]);
  const [stranger] = other.statefulSets;
  assert.ok(stranger);
  cache.learn(passes.world.store.get("statefulsets", stranger));
  const groups = async (where?: string) =>
    (await played(passes.timeline, cache.groups(where))).map((one) => `${one.namespace}/${one.group}`).sort();
  assert.deepEqual(await groups(), ["db/group"]);
  assert.deepEqual(await groups("elsewhere"), ["elsewhere/other"]);
  await stop();
  const everywhere = await watching({}, passes);
  const all = await played(passes.timeline, everywhere.cache.groups());
  assert.equal(all.length, 2);
  const one = await played(passes.timeline, everywhere.cache.groups(namespace));
  assert.deepEqual(one, [key]);
  await everywhere.stop();
});

test("the watches of a namespace ask for that namespace", async () => {
  const passes = new Passes({ replicas: 1 });
  const queries: unknown[] = [];
  const cluster: Cluster = {
    ...passes.cluster,
    watch(resource, query, options) {
      queries.push([resource, (query as { namespace?: string }).namespace]);
      return passes.cluster.watch(resource, query, options);
    },
  };
  const { stop } = await watching({ cluster, namespaces: [namespace] }, passes);
  assert.deepEqual(queries, [
    ["pods", namespace],
    ["statefulsets", namespace],
    ["zoneawarepoddisruptionbudgets", namespace],
  ]);
  await stop();
});

test("what a write was answered is in the next view before the watch tells of it, and is read again to permit", async () => {
  for (const namespaces of [undefined, [namespace]]) {
    const passes = new Passes({ replicas: 1 });
    let isDeaf = false;
    const cluster: Cluster = {
      ...passes.cluster,
      watch: ((resource, query, options) =>
        (async function* () {
          for await (const event of passes.cluster.watch(resource, query, options)) if (!isDeaf) yield event;
        })()) as Cluster["watch"],
    };
    const { cache, read, stop } = await watching({ cluster, namespaces }, passes);
    isDeaf = true;
    const sinceMs = passes.cluster.monotonicMs();
    await read({ permitSinceMs: sinceMs });
    passes.world.annotate(at("group-a"), { "rollout-max-unavailable": "7" });
    const answer = passes.world.store.get("statefulsets", at("group-a"));
    cache.learn(answer);
    const a = (await read()).statefulSets.find(({ name }) => name === "group-a");
    assert.equal(a?.maxUnavailable, 7);
    passes.forget();
    await read({ permitSinceMs: sinceMs });
    assert.deepEqual(passes.words, ["get statefulsets"], "that of group-a alone");
    await stop();
  }
});

test("a consistent read lists budgets, too", async () => {
  const { passes, cache, read, stop } = await watching();
  assert.equal(cache.isLasting, true);
  await read();
  assert.equal(passes.count("list zoneawarepoddisruptionbudgets"), 0);
  await read({ consistent: true });
  assert.equal(passes.count("list zoneawarepoddisruptionbudgets"), 1);
  await stop();
});

test("one pod that stands is enough to know what was made for a StatefulSet; a pod without an owner's uid has no owner", async () => {
  const { passes, cache, stop } = await watching();
  const left = await played(passes.timeline, cache.podsMadeFor(at("group-a")));
  assert.deepEqual([left.map(({ name }) => name), passes.words], [["group-a-0"], []]);
  const [one] = left;
  assert.ok(one);
  assert.equal(await played(passes.timeline, cache.ownerOf({ ...one, ownerUid: undefined })), undefined);
  assert.deepEqual(passes.words, []);
  await stop();
});

test("a type that is not served is trouble, but for that of budgets, which need not be installed", async () => {
  const withheld = async (resource: Resource) => {
    const passes = new Passes({ replicas: 1 });
    const cluster: Cluster = {
      ...passes.cluster,
      async list(...given) {
        if (given[0] !== resource || isServed) return passes.cluster.list(...given);
        throw new ClusterError({ code: 404, reason: "NotFound", message: "no", verb: "list", resource });
      },
    };
    let isServed = false;
    passes.timeline.after(1_000, () => {
      isServed = true;
    });
    const { troubles, stop } = await watching({ cluster, disruptionBudgets: true }, passes);
    await stop();
    return [...troubles];
  };
  for (const resource of ["pods", "statefulsets", "poddisruptionbudgets"] as const) {
    assert.deepEqual(await withheld(resource), [resource]);
  }
  assert.deepEqual(await withheld("zoneawarepoddisruptionbudgets"), []);
});

test("a pod is taken from memory for 30 s after the watch was last heard of, and asked for from then on", async () => {
  const passes = new Passes({ replicas: 1 });
  let heardMs = Number.NaN;
  const cluster: Cluster = {
    ...passes.cluster,
    watch: ((resource, query, options) =>
      (async function* () {
        for await (const event of passes.cluster.watch(resource, query, options)) {
          if (resource === "pods") heardMs = passes.cluster.monotonicMs();
          yield event;
        }
      })()) as Cluster["watch"],
  };
  const { cache, stop } = await watching({ cluster }, passes);
  passes.world.store.sendBookmarks("pods");
  await passes.goOn(100);
  const look = async (ms: number) => {
    await passes.goOn(heardMs + ms - passes.cluster.monotonicMs());
    passes.forget();
    assert.equal((await played(passes.timeline, cache.pod(at("group-a-0"))))?.name, "group-a-0");
    return passes.words;
  };
  assert.deepEqual(await look(30_000), []);
  assert.deepEqual(await look(30_001), ["get pods"]);
  await stop();
});

test("PodDisruptionBudgets are watched where that is asked for, and listed otherwise", async () => {
  for (const disruptionBudgets of [true, false]) {
    const { passes, cache, stop } = await watching({ disruptionBudgets });
    await played(passes.timeline, cache.disruptionBudgets(namespace));
    assert.equal(passes.count("list poddisruptionbudgets"), disruptionBudgets ? 0 : 1);
    await stop();
  }
});

test("when the views have stopped, no watch is left", async () => {
  const passes = new Passes({ replicas: 1 });
  let open = 0;
  const cluster: Cluster = {
    ...passes.cluster,
    watch: ((resource, query, options) =>
      (async function* () {
        open++;
        try {
          yield* passes.cluster.watch(resource, query, options);
        } finally {
          // What was under way is answered first.
          await passes.cluster.sleep(50);
          open--;
        }
      })()) as Cluster["watch"],
  };
  const { stop } = await watching({ cluster }, passes);
  assert.equal(open, 3);
  await stop();
  assert.equal(open, 0);
});
