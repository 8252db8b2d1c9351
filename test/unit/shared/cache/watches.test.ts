/** What the watches of a process trigger, which namespaces and types they cover, and what else is learnt. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { GroupView, ViewNeed } from "../../../../functions/shared/cache/cache.ts";
import { createWatchCache, type WatchingOptions } from "../../../../functions/shared/cache/watching.ts";
import { type Cluster, ClusterError, type Resource } from "../../../../functions/shared/kubernetes/cluster.ts";
import { wrapCalls } from "../../../../functions/shared/kubernetes/wrap-cluster.ts";
import { addBudget } from "../../functions/evaluate-eviction/group-commit/reviews.ts";
import { Harness, key, namespace, played } from "../reconcile/harness.ts";

async function watching(options: Partial<WatchingOptions> = {}, harness = new Harness({ replicas: 1 })) {
  const triggered = new Set<string>();
  const troubles = new Set<Resource>();
  const cache = createWatchCache({
    cluster: harness.cluster,
    namespaces: undefined,
    onChange: (changed) => void triggered.add(`${changed.namespace}/${changed.group}`),
    onTrouble: (resource) => void troubles.add(resource),
    ...options,
  });
  await played(harness.timeline, cache.ready);
  await harness.goOn(10);
  harness.forget();
  /** The groups that `act` triggers. */
  const watches = async (act: () => unknown) => {
    await harness.goOn(10);
    triggered.clear();
    act();
    await harness.goOn(3);
    return [...triggered].sort();
  };
  const read = (need: Partial<ViewNeed> = {}): Promise<GroupView> =>
    played(
      harness.timeline,
      cache.read(key, { settledThrough: 1, permitSinceMs: undefined, consistent: false, ...need }),
    );
  const stop = () => played(harness.timeline, cache.stop());
  return { harness, cache, troubles, watches, read, stop };
}

const at = (name: string, where = namespace) => ({ namespace: where, name });
const touch = (harness: Harness, resource: "pods" | "statefulsets", name: string) =>
  harness.world.store.patch(resource, at(name), { metadata: { labels: { touched: "yes" } } });

test("a pod triggers its StatefulSet's group, a StatefulSet its own group, and objects without a group trigger none", async () => {
  const { harness, watches, stop } = await watching();
  const { store } = harness.world;
  const single = store.get("statefulsets", at("group-a"));
  const spec = { ...single.spec, selector: { matchLabels: { name: "single" } } };
  const template = { ...spec.template, metadata: { labels: { name: "single" } } };
  const lone = { metadata: { name: "single" }, spec: { ...spec, template } };
  assert.deepEqual(await watches(() => touch(harness, "pods", "group-b-0")), ["db/group"]);
  assert.deepEqual(await watches(() => harness.world.scale(at("group-a"), 2)), ["db/group"]);
  assert.deepEqual(await watches(() => store.create("statefulsets", namespace, lone)), []);
  harness.world.settle();
  assert.deepEqual(await watches(() => touch(harness, "pods", "single-0")), []);
  const orphan = { labels: { "statefulset.kubernetes.io/pod-name": "other-0" }, name: "other-0" };
  assert.deepEqual(
    await watches(() => store.create("pods", namespace, { metadata: orphan, spec: single.spec.template.spec })),
    [],
  );
  await stop();
});

test("a budget triggers the groups of its namespace whose pods it selects, and its listener learns how it changed", async () => {
  const events: string[] = [];
  const { harness, watches, stop } = await watching({
    onBudget: ({ name }, how) => void events.push(`${how} ${name}`),
  });
  harness.world.addGroup({ namespace, group: "other", zones: ["a"], replicas: 1 });
  harness.world.addGroup({ namespace: "elsewhere", group: "group", zones: ["a"], replicas: 1 });
  const { metadata, spec } = harness.world.store.get("statefulsets", at("group-a"));
  const lone = { name: "lone", annotations: metadata.annotations };
  harness.world.store.create("statefulsets", namespace, { metadata: lone, spec: { ...spec, replicas: 0 } });
  harness.world.settle();
  await harness.goOn(100);
  const none = { selector: { matchLabels: { "rollout-group": "none" } }, maxUnavailable: 1 };
  assert.deepEqual(await watches(() => addBudget(harness)), ["db/group"]);
  assert.deepEqual(await watches(() => addBudget(harness, none, "none")), []);
  const invalid = { selector: { matchLabels: { "rollout-group": "other" } }, maxUnavailable: "no" };
  assert.deepEqual(await watches(() => addBudget(harness, invalid, "others")), ["db/other"]);
  const { store } = harness.world;
  assert.deepEqual(await watches(() => store.delete("zoneawarepoddisruptionbudgets", at("none"))), []);
  const labels = { team: "db" };
  const relabel = () => store.patch("zoneawarepoddisruptionbudgets", at("budget"), { metadata: { labels } });
  assert.deepEqual(await watches(relabel), [], "its spec is the same");
  assert.deepEqual(events, ["updated budget", "updated none", "updated others", "deleted none", "ignored budget"]);
  await stop();
});

test("views of one namespace watch and list only that, and ignore an object of another namespace", async () => {
  const harness = new Harness({ replicas: 1 });
  const { cache, read, stop } = await watching({ namespaces: [namespace] }, harness);
  const other = harness.world.addGroup({ namespace: "elsewhere", group: "other", zones: ["a"], replicas: 1 });
  const names = (view: GroupView) => view.workloads.map(({ name }) => name).sort();
  assert.deepEqual(names(await read()), ["group-a", "group-b"]);
  const [foreign] = other.statefulSets;
  assert.ok(foreign);
  cache.learn(harness.world.store.get("statefulsets", foreign));
  const groups = async (where?: string) =>
    (await played(harness.timeline, cache.groups(where))).map((one) => `${one.namespace}/${one.group}`).sort();
  assert.deepEqual(await groups(), ["db/group"]);
  assert.deepEqual(await groups("elsewhere"), ["elsewhere/other"]);
  await stop();
  const everywhere = await watching({}, harness);
  const all = await played(harness.timeline, everywhere.cache.groups());
  assert.equal(all.length, 2);
  const one = await played(harness.timeline, everywhere.cache.groups(namespace));
  assert.deepEqual(one, [key]);
  await everywhere.stop();
});

test("the watches of a namespace request only that namespace", async () => {
  const harness = new Harness({ replicas: 1 });
  const queries: unknown[] = [];
  const cluster: Cluster = {
    ...harness.cluster,
    watch(resource, query, options) {
      queries.push([resource, (query as { namespace?: string }).namespace]);
      return harness.cluster.watch(resource, query, options);
    },
  };
  const { stop } = await watching({ cluster, namespaces: [namespace] }, harness);
  assert.deepEqual(queries, [
    ["pods", namespace],
    ["statefulsets", namespace],
    ["zoneawarepoddisruptionbudgets", namespace],
  ]);
  await stop();
});

test("the answer to a write is in the next view before the watch reports it, and is read again before a permit", async () => {
  for (const namespaces of [undefined, [namespace]]) {
    const harness = new Harness({ replicas: 1 });
    let isDeaf = false;
    const cluster: Cluster = {
      ...harness.cluster,
      watch: ((resource, query, options) =>
        (async function* () {
          for await (const event of harness.cluster.watch(resource, query, options)) if (!isDeaf) yield event;
        })()) as Cluster["watch"],
    };
    const { cache, read, stop } = await watching({ cluster, namespaces }, harness);
    isDeaf = true;
    const sinceMs = harness.cluster.monotonicMs();
    await read({ permitSinceMs: sinceMs });
    harness.world.annotate(at("group-a"), { "rollout-max-unavailable": "7" });
    const answer = harness.world.store.get("statefulsets", at("group-a"));
    cache.learn(answer);
    const a = (await read()).workloads.find(({ name }) => name === "group-a");
    assert.equal(a?.maxUnavailable, 7);
    harness.forget();
    await read({ permitSinceMs: sinceMs });
    assert.deepEqual(harness.requests, ["get statefulsets"], "the GET of group-a alone");
    await stop();
  }
});

test("a consistent read also lists budgets", async () => {
  const { harness, cache, read, stop } = await watching();
  assert.equal(cache.isLasting, true);
  await read();
  assert.equal(harness.count("list zoneawarepoddisruptionbudgets"), 0);
  await read({ consistent: true });
  assert.equal(harness.count("list zoneawarepoddisruptionbudgets"), 1);
  await stop();
});

test("one existing pod is enough to know which pods were made for a StatefulSet; a pod without an owner's uid has no owner", async () => {
  const { harness, cache, stop } = await watching();
  const left = await played(harness.timeline, cache.podsMadeFor(at("group-a")));
  assert.deepEqual([left.map(({ name }) => name), harness.requests], [["group-a-0"], []]);
  const [one] = left;
  assert.ok(one);
  assert.equal(await played(harness.timeline, cache.ownerOf({ ...one, ownerUid: undefined })), undefined);
  assert.deepEqual(harness.requests, []);
  await stop();
});

test("a type that the API server does not serve is an error, except for the optional type of budgets", async () => {
  const withheld = async (resource: Resource) => {
    const harness = new Harness({ replicas: 1 });
    const cluster: Cluster = {
      ...harness.cluster,
      async list(...given) {
        if (given[0] !== resource || isServed) return harness.cluster.list(...given);
        throw new ClusterError({ code: 404, reason: "NotFound", message: "no", verb: "list", resource });
      },
    };
    let isServed = false;
    harness.timeline.after(1_000, () => {
      isServed = true;
    });
    const { troubles, stop } = await watching({ cluster, disruptionBudgets: true }, harness);
    await stop();
    return [...troubles];
  };
  for (const resource of ["pods", "statefulsets", "poddisruptionbudgets"] as const) {
    assert.deepEqual(await withheld(resource), [resource]);
  }
  assert.deepEqual(await withheld("zoneawarepoddisruptionbudgets"), []);
});

test("a pod is taken from memory for 30 s after the watch's last event, and then read from the API server", async () => {
  const harness = new Harness({ replicas: 1 });
  let lastEventMs = Number.NaN;
  const cluster: Cluster = {
    ...harness.cluster,
    watch: ((resource, query, options) =>
      (async function* () {
        for await (const event of harness.cluster.watch(resource, query, options)) {
          if (resource === "pods") lastEventMs = harness.cluster.monotonicMs();
          yield event;
        }
      })()) as Cluster["watch"],
  };
  const { cache, stop } = await watching({ cluster }, harness);
  harness.world.store.sendBookmarks("pods");
  await harness.goOn(100);
  const readAfter = async (ms: number) => {
    await harness.goOn(lastEventMs + ms - harness.cluster.monotonicMs());
    harness.forget();
    assert.equal((await played(harness.timeline, cache.pod(at("group-a-0"))))?.name, "group-a-0");
    return harness.requests;
  };
  assert.deepEqual(await readAfter(30_000), []);
  assert.deepEqual(await readAfter(30_001), ["get pods"]);
  await stop();
});

test("PodDisruptionBudgets are watched if that is requested, and otherwise listed", async () => {
  for (const disruptionBudgets of [true, false]) {
    const { harness, cache, stop } = await watching({ disruptionBudgets });
    await played(harness.timeline, cache.disruptionBudgets(namespace));
    assert.equal(harness.count("list poddisruptionbudgets"), disruptionBudgets ? 0 : 1);
    await stop();
  }
});

test("no watch is left after the views have stopped", async () => {
  const harness = new Harness({ replicas: 1 });
  let open = 0;
  const cluster: Cluster = {
    ...harness.cluster,
    watch: ((resource, query, options) =>
      (async function* () {
        open++;
        try {
          yield* harness.cluster.watch(resource, query, options);
        } finally {
          // The API server answers the request under way first.
          await harness.cluster.sleep(50);
          open--;
        }
      })()) as Cluster["watch"],
  };
  const { stop } = await watching({ cluster }, harness);
  assert.equal(open, 3);
  await stop();
  assert.equal(open, 0);
});

test("a namespace that may not be read delays no other for longer than 30 s, in which its empty memory counts as recent", async () => {
  const open = (mayBeRead: (namespace: string) => boolean, code = 403) => {
    const harness = new Harness({ replicas: 1 });
    const cluster = wrapCalls(harness.cluster, async ({ verb, resource, given: [, query] }, send) => {
      const { namespace: where = "" } = query as { readonly namespace?: string };
      if (mayBeRead(where)) return send();
      throw new ClusterError({ code, reason: "", message: `not in ${where}`, verb, resource });
    });
    const onTrouble = () => undefined;
    const cache = createWatchCache({ cluster, namespaces: [namespace, "gone"], onChange: onTrouble, onTrouble });
    const seen = { isReady: false };
    void cache.ready.then(() => {
      seen.isReady = true;
    });
    return { harness, cache, seen };
  };
  const { harness, cache, seen } = open((where) => where === namespace);
  await harness.goOn(29_000);
  assert.equal(seen.isReady, false);
  await harness.goOn(15_000);
  assert.equal(seen.isReady, true);
  const need = { settledThrough: 1, permitSinceMs: undefined, consistent: false };
  await played(harness.timeline, cache.read(key, need));
  await assert.rejects(played(harness.timeline, cache.read({ ...key, namespace: "gone" }, need)), /not in gone/);
  await played(harness.timeline, cache.stop());
  const others = {
    "nothing may be read": open(() => false),
    "a list failed": open((where) => where === namespace, 500),
  };
  for (const [what, other] of Object.entries(others)) {
    await other.harness.goOn(300_000);
    assert.equal(other.seen.isReady, false, what);
    await played(other.harness.timeline, other.cache.stop());
  }
});
