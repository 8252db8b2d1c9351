/** The LISTs of rollout-operator's pods, over a cluster in memory and in virtual time. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { createOperatorWatch } from "../../../../functions/shared/standby/other-operator.ts";
import { VirtualTimeline } from "../../../fake-cluster/timeline.ts";
import { createWorld } from "../../../fake-cluster/world.ts";
import { createWorldCluster } from "../../../fake-cluster/world-cluster.ts";
import { type Call, counting, type Interference, played } from "../reconcile/harness.ts";

const image = "grafana/rollout-operator:v0.40.0";

function stage(namespaces: readonly string[] | undefined) {
  const timeline = new VirtualTimeline();
  const world = createWorld({ timeline });
  const calls: Call[] = [];
  const state: { interfere: Interference; skippedMs: number } = { interfere: () => {}, skippedMs: 0 };
  const inner = counting(createWorldCluster(world), calls, () => state.interfere);
  const cluster = {
    ...inner,
    monotonicMs: () => inner.monotonicMs() + state.skippedMs,
    skippedMs: () => state.skippedMs,
  };
  const watch = createOperatorWatch(cluster, namespaces);
  return {
    calls,
    state,
    watch,
    add: (namespace: string, name: string, ...labels: readonly string[]) =>
      world.store.create("pods", namespace, {
        metadata: {
          name,
          labels: Object.fromEntries((labels[0] ? labels : ["name"]).map((one) => [one, "rollout-operator"])),
        },
        spec: { containers: [{ name: "operator", image }] },
      }),
    remove: (namespace: string, name: string) =>
      world.store.delete("pods", { namespace, name }, { gracePeriodSeconds: 0 }),
    standBy: (namespace: string) => played(timeline, watch.standBy(namespace)),
    /** The API server answers each call so much later, in milliseconds. */
    answerAfter: (ms: number) => {
      state.interfere = () => new Promise((resolve) => timeline.after(ms, resolve));
    },
    goOn: async (ms: number) => {
      let isOver = false;
      timeline.after(ms, () => {
        isOver = true;
      });
      await timeline.run(() => isOver);
    },
    lists: () => calls.filter(({ verb }) => verb === "list").length,
  };
}

const forbidden = () =>
  new ClusterError({
    ...{ code: 403, reason: "Forbidden", verb: "list", resource: "pods" },
    message: `pods is forbidden: User "sluice" cannot list resource "pods" in API group "" in the namespace "mimir"`,
  });
const away = () =>
  new ClusterError({ code: 0, reason: "ConnectionFailed", message: "refused", verb: "list", resource: "pods" });

test("nothing is listed before the first question, callers share a LIST of each label, and it serves for 30 s", async () => {
  const { calls, lists, standBy, watch, goOn } = stage(["mimir"]);
  assert.equal(lists(), 0);
  const [one, two] = await Promise.all([watch.standBy("mimir"), standBy("mimir")]);
  assert.deepEqual([one, two], [undefined, undefined]);
  const asked = calls.map(({ given: [, query] }) => query);
  assert.deepEqual(asked, [
    { namespace: "mimir", labelSelector: "app.kubernetes.io/name=rollout-operator" },
    { namespace: "mimir", labelSelector: "name=rollout-operator" },
  ]);
  await goOn(29_000);
  await standBy("mimir");
  assert.equal(lists(), 2);
  await goOn(1_000);
  await standBy("mimir");
  assert.equal(lists(), 4);
});

for (const label of ["name", "app.kubernetes.io/name"])
  test(`the operator with the label ${label} holds its namespace until its pod has been gone for 30 s`, async () => {
    const { add, remove, standBy, goOn, watch } = stage(["mimir", "loki"]);
    add("mimir", "operator-1", label);
    assert.equal((await standBy("mimir"))?.identity, "operator-1");
    assert.equal(await standBy("loki"), undefined, "the other namespace is free");
    assert.equal((await standBy(""))?.guard, "other-operator", "an object of no namespace waits for all of them");
    assert.deepEqual(watch.pods(), [{ namespace: "mimir", pod: "operator-1" }]);
    remove("mimir", "operator-1");
    await goOn(30_000);
    assert.match((await standBy("mimir"))?.message ?? "", /operator-1 of rollout-operator is gone/);
    assert.deepEqual(watch.pods(), [{ namespace: "mimir", pod: "operator-1" }]);
    await goOn(29_000);
    assert.notEqual(await standBy("mimir"), undefined);
    await goOn(1_000);
    assert.equal(await standBy("mimir"), undefined);
    assert.deepEqual(watch.pods(), []);
    assert.equal(await standBy(""), undefined);
  });

test("one that comes while Sluice acts is seen at the next LIST, though it has both labels and is one pod", async () => {
  const { add, standBy, goOn, watch } = stage(["mimir"]);
  assert.equal(await standBy("mimir"), undefined);
  add("mimir", "operator-1", "name", "app.kubernetes.io/name");
  await goOn(30_000);
  assert.equal((await standBy("mimir"))?.guard, "other-operator");
  assert.equal(watch.pods().length, 1);
});

test("a process of all namespaces makes one LIST of each label for all, and holds only the namespace of the pod", async () => {
  const { add, calls, standBy, watch } = stage(undefined);
  add("loki", "operator-1");
  assert.equal(await standBy("mimir"), undefined);
  assert.match((await standBy("loki"))?.message ?? "", /pod loki\/operator-1/);
  assert.match((await standBy(""))?.message ?? "", /pod loki\/operator-1/);
  assert.deepEqual(
    calls.map(({ given: [, query] }) => Object.keys(query as object)),
    [["labelSelector"], ["labelSelector"]],
  );
  assert.deepEqual(watch.pods(), [{ namespace: "loki", pod: "operator-1" }]);
});

test("a namespace that is not served costs no LIST", async () => {
  const { standBy, lists } = stage(["mimir"]);
  assert.equal(await standBy("elsewhere"), undefined);
  assert.equal(lists(), 0);
});

test("until a first LIST succeeds all namespaces are held; it is tried again after 5 s, and after 30 s without the right", async () => {
  for (const [error, againMs] of [
    [away, 5_000],
    [forbidden, 30_000],
  ] as const) {
    for (const namespaces of [["mimir"], undefined]) {
      const { state, standBy, goOn, lists } = stage(namespaces);
      state.interfere = () => Promise.reject(error());
      const stands = await standBy("mimir");
      assert.match(stands?.message ?? "", error === away ? /unknown.*refused/ : /lacks the right to list pods/);
      assert.notEqual(await standBy(""), undefined);
      await goOn(againMs - 100);
      await standBy("mimir");
      assert.equal(lists(), 2);
      state.interfere = () => {};
      await goOn(100);
      assert.equal(await standBy("mimir"), undefined);
    }
  }
});

test("a LIST that fails later frees no namespace that is held, and holds no free one before a minute is over", async () => {
  const { state, add, remove, standBy, goOn } = stage(["mimir", "loki"]);
  add("mimir", "operator-1");
  await standBy("mimir");
  assert.equal(await standBy("loki"), undefined);
  remove("mimir", "operator-1");
  state.interfere = () => Promise.reject(away());
  for (let ms = 0; ms < 50_000; ms += 10_000) {
    await goOn(10_000);
    assert.notEqual(await standBy("mimir"), undefined);
    assert.equal(await standBy("loki"), undefined);
  }
  await goOn(11_000);
  assert.match((await standBy("mimir"))?.message ?? "", /unknown/);
  assert.match((await standBy("loki"))?.message ?? "", /unknown/);
});

test("a pod that a LIST by one label shows holds its namespace although the LIST by the other label fails", async () => {
  for (const fails of ["name", "app.kubernetes.io/name"]) {
    const { state, add, remove, standBy, goOn } = stage(["mimir"]);
    const shown = fails === "name" ? "app.kubernetes.io/name" : "name";
    assert.equal(await standBy("mimir"), undefined);
    add("mimir", "operator-1", shown);
    state.interfere = ({ given: [, query] }) => {
      if ((query as { labelSelector: string }).labelSelector === `${fails}=rollout-operator`) throw away();
    };
    await goOn(30_000);
    assert.equal((await standBy("mimir"))?.identity, "operator-1");
    remove("mimir", "operator-1");
    await goOn(5_000);
    assert.match((await standBy("mimir"))?.message ?? "", /runs as pod/, "no LIST has shown that it is gone");
    state.interfere = () => {};
    await goOn(5_000);
    assert.match((await standBy("mimir"))?.message ?? "", /is gone/);
    await goOn(30_000);
    assert.equal(await standBy("mimir"), undefined);
  }
});

test("a LIST is as old as its request: one whose answer takes a minute frees nothing, and is made again", async () => {
  const { state, add, standBy, goOn, lists } = stage(["mimir"]);
  const answered = Promise.withResolvers<void>();
  state.interfere = () => answered.promise;
  const waiting = standBy("mimir");
  await goOn(60_000);
  answered.resolve();
  assert.match((await waiting)?.message ?? "", /the last LIST is 60 s old/);
  state.interfere = () => {};
  add("mimir", "operator-1");
  assert.equal((await standBy("mimir"))?.identity, "operator-1");
  assert.equal(lists(), 4);
});

test("the operator has been gone for 30 s when a LIST says so, however quick that is and slow the LIST before it", async () => {
  const { add, remove, standBy, goOn, lists, answerAfter } = stage(["mimir"]);
  add("mimir", "operator-1");
  await standBy("mimir");
  remove("mimir", "operator-1");
  await goOn(30_000);
  answerAfter(2_000);
  assert.match((await standBy("mimir"))?.message ?? "", /is gone/);
  answerAfter(0);
  await goOn(28_000);
  const { requeueAfterMs = 0 } = (await standBy("mimir")) ?? {};
  assert.ok(requeueAfterMs > 1_900 && requeueAfterMs <= 2_000, `${requeueAfterMs} ms: 28 s after the last answer`);
  assert.equal(lists(), 6);
  await goOn(2_000);
  assert.equal(await standBy("mimir"), undefined);
  assert.equal(lists(), 8);
});

test("a LIST that is refused in one namespace holds that namespace alone, and names the right", async () => {
  const { state, standBy } = stage(["mimir", "loki"]);
  state.interfere = ({ given: [, query] }) => {
    if ((query as { namespace: string }).namespace === "loki") throw forbidden();
  };
  assert.equal(await standBy("mimir"), undefined);
  const stands = await standBy("loki");
  assert.match(stands?.message ?? "", /runs in loki is unknown.*lacks the right to list pods/);
  assert.equal(stands?.identity, "unlisted");
  assert.equal(await standBy("mimir"), undefined);
});

test("of two pods of the operator the last one counts", async () => {
  const { add, remove, standBy, goOn, watch } = stage(["mimir"]);
  for (const name of ["operator-1", "operator-2"]) add("mimir", name);
  assert.match((await standBy("mimir"))?.message ?? "", /pod mimir\/operator-1 and 1 more/);
  assert.equal(watch.pods().length, 2);
  remove("mimir", "operator-1");
  await goOn(60_000);
  assert.equal((await standBy("mimir"))?.identity, "operator-2");
  remove("mimir", "operator-2");
  await goOn(30_000);
  assert.match((await standBy("mimir"))?.message ?? "", /pod mimir\/operator-2 of rollout-operator is gone/);
  await goOn(30_000);
  assert.equal(await standBy("mimir"), undefined);
});

test("sleep of the machine makes a LIST old, and is no time in which the operator has been gone", async () => {
  const { state, add, remove, standBy, goOn, lists } = stage(["mimir"]);
  add("mimir", "operator-1");
  await standBy("mimir");
  remove("mimir", "operator-1");
  state.skippedMs += 60_000;
  assert.match((await standBy("mimir"))?.message ?? "", /is gone/);
  state.skippedMs += 3_600_000;
  assert.match((await standBy("mimir"))?.message ?? "", /is gone/);
  assert.equal(lists(), 6);
  await goOn(30_000);
  assert.equal(await standBy("mimir"), undefined);
});

test("scrapes alone show a process without any work that the operator has come", async () => {
  const { add, goOn, watch, lists } = stage(["mimir"]);
  assert.deepEqual(watch.pods(), []);
  await goOn(100);
  add("mimir", "operator-1");
  await goOn(30_000);
  assert.deepEqual(watch.pods(), [], "the LIST that this scrape begins is shown by the next one");
  await goOn(100);
  assert.deepEqual(watch.pods(), [{ namespace: "mimir", pod: "operator-1" }]);
  assert.equal(lists(), 4);
});

test("a scrape begins the LIST that is due, so that the pods of an idle process vanish; it shows 100 of them", async () => {
  const { add, remove, standBy, goOn, watch, lists } = stage(["mimir"]);
  for (let pod = 0; pod < 101; pod++) add("mimir", `operator-${pod}`);
  await standBy("mimir");
  assert.equal(watch.pods().length, 100);
  for (let pod = 0; pod < 101; pod++) remove("mimir", `operator-${pod}`);
  for (let scrape = 0; scrape < 2; scrape++) {
    await goOn(30_000);
    watch.pods();
    await goOn(100);
    await standBy("mimir");
  }
  assert.equal(lists(), 6);
  await goOn(30_000);
  watch.pods();
  await standBy("mimir");
  assert.deepEqual(watch.pods(), []);
});
