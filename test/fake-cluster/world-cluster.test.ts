import assert from "node:assert/strict";
import { test } from "node:test";
import { type Cluster, hasCode } from "../../functions/shared/kubernetes/cluster.ts";
import { Admission, type UserInfo, type WebhookCaller } from "./admission.ts";
import { VirtualTimeline, virtualEpochMs } from "./timeline.ts";
import { createWorld, type World } from "./world.ts";
import { createWorldCluster, type WorldClusterOptions } from "./world-cluster.ts";

const namespace = "test";
const a = { namespace, name: "a" };

function make(options?: WorldClusterOptions): { world: World; timeline: VirtualTimeline; cluster: Cluster } {
  const timeline = new VirtualTimeline();
  const world = createWorld({ timeline });
  return { world, timeline, cluster: createWorldCluster(world, options) };
}

/** Runs the world until the promise has settled. */
async function played<T>(timeline: VirtualTimeline, promise: Promise<T>): Promise<T> {
  let settled = false;
  const done = (): void => {
    settled = true;
  };
  promise.then(done, done);
  assert.ok(await timeline.run(() => settled), "nothing happens any more");
  return promise;
}

test("a call reaches the store after one latency and is answered after another", async () => {
  const { timeline, world, cluster } = make({ latencyMs: (leg) => (leg === "request" ? 30 : 12) });
  const created = cluster.create("leases", namespace, { metadata: { name: "a" } });
  timeline.runUntil(virtualEpochMs + 29);
  assert.equal(world.store.find("leases", a), undefined);
  timeline.runUntil(virtualEpochMs + 30);
  assert.ok(world.store.find("leases", a));
  const lease = await played(timeline, created);
  assert.equal(timeline.nowMs(), virtualEpochMs + 42);
  assert.equal(lease, world.store.get("leases", a));
});

test("every verb does what the store does, and rejects with the store's errors", async () => {
  const { timeline, cluster } = make();
  const play = <T>(promise: Promise<T>): Promise<T> => played(timeline, promise);
  const { uid, resourceVersion } = (await play(cluster.create("leases", namespace, { metadata: { name: "a" } })))
    .metadata;
  const patch = { metadata: { uid, resourceVersion, annotations: { x: "1" } } };
  assert.deepEqual((await play(cluster.patch("leases", a, patch))).metadata.annotations, { x: "1" });
  await assert.rejects(play(cluster.patch("leases", a, patch)), (error) => hasCode(error, 409));
  assert.equal((await play(cluster.list("leases", { namespace }))).items.length, 1);
  await assert.rejects(play(cluster.delete("leases", a, { uid: "other" })), (error) => hasCode(error, 409));
  await play(cluster.delete("leases", a, { uid }));
  await assert.rejects(play(cluster.get("leases", a)), (error) => hasCode(error, 404));
});

test("webhooks that answer in this process, on its timeline, see patches of objects and scales, again after a conflict", async () => {
  const timeline = new VirtualTimeline();
  const world = createWorld({ timeline });
  const asked: string[] = [];
  const ask: WebhookCaller["ask"] = async ({ name }, _isMutating, { uid, subResource, userInfo, oldObject }) => {
    const { metadata } = oldObject as { metadata: { annotations?: object } };
    asked.push(`${name} ${subResource} ${(userInfo as UserInfo).username} ${Object.keys(metadata.annotations ?? {})}`);
    await new Promise<void>((resolve) => timeline.after(10, resolve));
    return { uid, allowed: asked.length < 4 };
  };
  const admission = new Admission(world, { ask, close: async () => {} });
  const user = { username: "hpa", groups: [] };
  const cluster = createWorldCluster(world, { admission, user });
  const rule = { apiGroups: ["*"], apiVersions: ["*"], operations: ["UPDATE"], resources: ["*/*"] };
  const webhooks = [{ name: "hook", clientConfig: { url: "https://nowhere/" }, rules: [rule] }];
  world.store.create("validatingwebhookconfigurations", "", { metadata: { name: "hooks" }, webhooks });
  world.store.create("statefulsets", namespace, { metadata: { name: "a" }, spec: { replicas: 0 } });

  const annotate = (key: string) => ({ metadata: { annotations: { [key]: "1" } } });
  timeline.after(5, () => world.store.patch("statefulsets", a, annotate("theirs")));
  const { metadata } = await played(timeline, cluster.patch("statefulsets", a, annotate("ours")));
  assert.deepEqual(metadata.annotations, { theirs: "1", ours: "1" });
  assert.equal(timeline.nowMs(), virtualEpochMs + 22);
  const scale = (replicas: number) => {
    return played(timeline, cluster.patch("statefulsets", a, { spec: { replicas } }, { subresource: "scale" }));
  };
  assert.equal((await scale(1)).spec?.replicas, 1);
  await assert.rejects(scale(2), (error) => hasCode(error, 400));
  assert.equal(world.store.get("statefulsets", a).spec.replicas, 1);
  const [first, second, ...scales] = asked;
  assert.deepEqual([first, second], ["hook undefined hpa ", "hook undefined hpa theirs"]);
  assert.deepEqual(scales, ["hook scale hpa ", "hook scale hpa "]);
});

test("a list of any age is refused", async () => {
  const { cluster } = make();
  await assert.rejects(cluster.list("pods", { notOlderThan: "0" }), (error) => hasCode(error, 400));
});

test("an aborted call rejects at once, but still reaches the store", async () => {
  const { timeline, world, cluster } = make();
  const controller = new AbortController();
  const call = cluster.create("leases", namespace, { metadata: { name: "a" } }, { signal: controller.signal });
  controller.abort();
  await assert.rejects(call, (error) => hasCode(error, 0) && error.reason === "Aborted");
  timeline.runUntil(virtualEpochMs + 10);
  assert.ok(world.store.find("leases", a));
  const late = cluster.create("leases", namespace, { metadata: { name: "b" } }, { signal: controller.signal });
  await assert.rejects(late, (error) => hasCode(error, 0));
  timeline.runUntil(virtualEpochMs + 20);
  assert.equal(world.store.find("leases", { namespace, name: "b" }), undefined);
});

test("the server's clock has whole seconds, the own one begins at zero, and sleep ends early when aborted", async () => {
  const { timeline, cluster } = make();
  await played(timeline, cluster.sleep(1700));
  assert.deepEqual([cluster.serverTimeMs(), cluster.monotonicMs()], [virtualEpochMs + 1000, 1700]);
  const controller = new AbortController();
  const sleep = cluster.sleep(1e9, controller.signal);
  controller.abort();
  await sleep;
  await cluster.sleep(1e9, controller.signal);
  assert.equal(timeline.nowMs(), virtualEpochMs + 1700);
});

test("the events of a watch come in order, however long each takes", async () => {
  let turn = 0;
  const { timeline, world, cluster } = make({
    latencyMs: (leg) => (leg === "event" ? [50, 1, 20][turn++ % 3] : 1) as number,
  });
  const received: string[] = [];
  const follow = async (): Promise<void> => {
    for await (const event of cluster.watch("leases", { namespace, resourceVersion: "1" })) {
      received.push(event.type === "BOOKMARK" ? event.type : `${event.type} ${event.object.metadata.name}`);
      if (received.length === 4) return;
    }
  };
  timeline.after(10, () => {
    world.store.create("leases", namespace, { metadata: { name: "a" } });
    world.store.patch("leases", a, { metadata: { labels: { x: "1" } } });
    world.store.delete("leases", a);
    world.store.sendBookmarks("leases");
  });
  await played(timeline, follow());
  assert.deepEqual(received, ["ADDED a", "MODIFIED a", "DELETED a", "BOOKMARK"]);
});

test("a watch from a forgotten revision rejects with 410, and an aborted one with code 0", async () => {
  const timeline = new VirtualTimeline();
  const world = createWorld({ timeline, watchHistory: 1 });
  const cluster = createWorldCluster(world);
  for (const name of ["a", "b", "c"]) world.store.create("leases", namespace, { metadata: { name } });
  const old = cluster.watch("leases", { resourceVersion: "1" })[Symbol.asyncIterator]();
  await assert.rejects(played(timeline, old.next()), (error) => hasCode(error, 410));
  assert.equal((await old.next()).done, true);
  const controller = new AbortController();
  const query = { resourceVersion: String(world.store.revision) };
  const watch = cluster.watch("leases", query, { signal: controller.signal })[Symbol.asyncIterator]();
  const next = watch.next();
  timeline.after(5, () => controller.abort());
  await assert.rejects(played(timeline, next), (error) => hasCode(error, 0) && error.reason === "Aborted");
});
