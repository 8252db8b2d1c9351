/** Reconciles of a RabbitMQ cluster in a fake cluster: when it is rebalanced, by which request, and what is written. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { rebalanceQueues } from "../../../../functions/rebalance-queues/function.ts";
import { played } from "../../shared/reconcile/harness.ts";
import { Brokers, balanced, key, label, namespace, setKey, settleMs, stateKey, usual, wish } from "./brokers.ts";

const at = (ms: number) => new Date(ms).toISOString().replace(/\.\d+Z$/, "Z");

test("Sluice rebalances a cluster with the label after a minute without changes, by one request to the lowest pod, and no more", async () => {
  const brokers = new Brokers();
  const process = brokers.process();
  assert.equal(await process.run(), "settling");
  await brokers.goOn(settleMs - 100);
  assert.equal(await process.run(), "settling");
  assert.equal(brokers.asked.length, 0);
  await brokers.goOn(200);
  assert.equal(await process.run(), "rebalanced");
  const url = `http://group-a-0.group.${namespace}.svc.cluster.local.:15672/api/rebalance/queues`;
  assert.deepEqual(
    brokers.asked.map((one) => [one.method, one.url, one.authorization]),
    [["POST", url, `Basic ${btoa("admin:s3cret")}`]],
  );
  assert.equal(brokers.state?.claimedMs, undefined);
  await process.goOn(600_000);
  assert.equal(await process.run(), "done");
  assert.deepEqual(brokers.pods, ["group-a-0"]);
  assert.deepEqual(
    brokers.events.filter((event) => event.startsWith("QueuesRebalanced group-a: group-a-0 was told")).length,
    1,
  );
});

test("without the label a reconcile sends one GET, with it a GET and a LIST, and a sweep finds only StatefulSets with the label", async () => {
  const brokers = await balanced();
  const process = brokers.process();
  assert.equal(await process.run(), "done");
  assert.deepEqual(process.requests, ["get statefulsets", "list pods"]);
  const found = () => played(brokers.harness.timeline, rebalanceQueues.listKeys(process.context, undefined));
  assert.deepEqual(await found(), [key]);
  brokers.label(null);
  process.calls.length = 0;
  assert.equal(await process.run(), undefined);
  assert.deepEqual(process.requests, ["get statefulsets"]);
  assert.deepEqual(await found(), []);
  brokers.label("false");
  assert.equal(await process.run(), undefined);
  assert.deepEqual(brokers.asked, []);
});

test("a replaced pod and a restarted container are each a reason, and each new one begins the minute again", async () => {
  const brokers = await balanced();
  const process = brokers.process();
  await brokers.replace("group-a-2");
  assert.equal(await process.run(), "settling");
  await brokers.goOn(40_000);
  await brokers.replace("group-a-1");
  assert.equal(await process.run(), "settling");
  await brokers.goOn(40_000);
  assert.equal(await process.run(), "settling");
  assert.deepEqual(brokers.asked, []);
  await brokers.goOn(30_000);
  assert.equal(await process.run(), "rebalanced");
  const { store } = brokers.harness.world;
  const pod = store.get("pods", { namespace, name: "group-a-0" });
  const containerStatuses = (pod.status.containerStatuses ?? []).map((one) => ({ ...one, restartCount: 1 }));
  store.putStatus("pods", pod, { ...pod.status, containerStatuses });
  await process.goOn(70_000);
  assert.deepEqual(brokers.pods, ["group-a-0", "group-a-0"]);
});

test("pods-not-ready: while a node is away Sluice lists and asks no pod, whatever the time", async () => {
  const brokers = await balanced();
  const process = brokers.process();
  brokers.harness.world.kubelet.breakPod({ namespace, name: "group-a-1" }, "Unready");
  await brokers.goOn(300_000);
  process.calls.length = 0;
  assert.equal(await process.run(), "pods-not-ready");
  assert.deepEqual(process.requests, ["get statefulsets"]);
  assert.match(
    brokers.harness.verdicts.at(-1)?.message ?? "",
    /group-a waits until it is whole: 2 of 3 pods are ready/,
  );
  assert.deepEqual(brokers.asked, []);
});

test("rollout-under-way: Sluice rebalances a cluster once after its rollout, and does not wait for a rollout that has not advanced for ten minutes", async () => {
  for (const updateStrategy of ["RollingUpdate", "OnDelete"] as const) {
    const brokers = await balanced(usual, { updateStrategy });
    const process = brokers.process();
    brokers.harness.world.changeTemplate(setKey, "app:2");
    if (updateStrategy === "OnDelete") await brokers.replace("group-a-2");
    const guards = new Set<string | undefined>();
    for (let second = 0; second < 900; second += 5) {
      guards.add(await process.run());
      await brokers.goOn(5_000);
    }
    assert.deepEqual(brokers.pods, ["group-a-0"], updateStrategy);
    const waited = (brokers.asked[0]?.atMs ?? 0) - (brokers.state?.sinceMs ?? 0);
    const isStill = updateStrategy === "OnDelete";
    assert.equal(guards.has("rollout-under-way"), isStill, [...guards].join());
    assert.ok(isStill ? waited >= 600_000 && waited < 610_000 : waited < 70_000, `${updateStrategy} ${waited}`);
  }
});

test("Sluice serves a user's wish once and removes it; a wish in the future waits, and Sluice reports one that is no time", async () => {
  const brokers = await balanced();
  const process = brokers.process();
  await brokers.goOn(100_000);
  const now = () => brokers.harness.timeline.nowMs();
  brokers.annotate({ [wish]: at(now()) });
  assert.equal(await process.run(), "rebalanced");
  assert.equal(brokers.set.metadata.annotations?.[wish], undefined);
  assert.equal(await process.run(), "done");

  brokers.annotate({ [wish]: at(now() + 600_000) });
  await process.goOn(500_000);
  assert.equal(brokers.asked.length, 1);
  await process.goOn(200_000);
  assert.equal(brokers.asked.length, 2);
  assert.equal(brokers.set.metadata.annotations?.[wish], undefined);

  for (const text of ["soon", "", "2026-02-30T00:00:00Z", "true", "99999999999999999999"]) {
    brokers.annotate({ [wish]: text });
    await process.goOn(200_000);
    assert.equal(brokers.set.metadata.annotations?.[wish], text);
  }
  assert.equal(brokers.asked.length, 2);
  assert.ok(brokers.events.some((event) => /^MalformedAnnotation group-a: .*"soon"; write a time/.test(event)));
  // A wish that is written again and again is fulfilled at most once a minute.
  for (let second = 0; second < 300; second += 5) {
    brokers.annotate({ [wish]: at(now()) });
    await process.run();
    await brokers.goOn(5_000);
  }
  assert.ok(brokers.asked.length <= 8, `${brokers.asked.length}`);
});

test("not-rabbitmq, question-malformed, label-malformed: Sluice reports each once in an Event, and asks no pod", async () => {
  const cases: [Readonly<Record<string, string>>, string, RegExp][] = [
    [
      {},
      "not-rabbitmq",
      /nothing says that group-a is a RabbitMQ cluster: write annotation sluice.dev\/health-question/,
    ],
    [
      { "sluice.dev/health-question": "http", "sluice.dev/health-url": "http://:80/" },
      "not-rabbitmq",
      /asked as http, not as RabbitMQ/,
    ],
    [{ "sluice.dev/health-question": "rabbitmq" }, "question-malformed", /health-secret is missing/],
    [{ ...usual, "sluice.dev/health-url": "http://1@evil:80/" }, "question-malformed", /health-url is/],
    [{ ...usual, "sluice.dev/rebalance-secret": "../other" }, "question-malformed", /rebalance-secret is/],
  ];
  for (const [annotations, guard, message] of cases) {
    const brokers = new Brokers(annotations);
    const process = brokers.process();
    await process.goOn(200_000);
    assert.equal(await process.run(), guard);
    const waiting = brokers.events.filter((event) => event.startsWith(`RebalanceWaiting group-a: ${guard}: `));
    assert.equal(waiting.length, 1, JSON.stringify(brokers.events));
    assert.match(waiting[0] ?? "", message);
    assert.deepEqual([brokers.asked, process.count("patch statefulsets"), process.count("get secrets")], [[], 0, 0]);
  }
  const brokers = new Brokers();
  brokers.label("yes");
  assert.equal(await brokers.process().run(), "label-malformed");
  assert.deepEqual(brokers.asked, []);
});

test("Sluice uses another Secret, port and https as the annotations name them", async () => {
  const brokers = new Brokers({
    ...usual,
    "sluice.dev/health-url": "https://:15671/api/health/checks/node-is-quorum-critical",
    "sluice.dev/rebalance-secret": "own",
  });
  const data = { username: btoa("spreader"), password: btoa("p:w") };
  brokers.harness.world.store.create("secrets", namespace, { metadata: { name: "own" }, data } as never);
  await brokers.process().goOn(settleMs + 2_000);
  const [asked] = brokers.asked;
  assert.match(asked?.url ?? "", /^https:\/\/group-a-0\..*:15671\/api\/rebalance\/queues$/);
  assert.equal(asked?.authorization, `Basic ${btoa("spreader:p:w")}`);
});

test("in shadow mode the function says once what it would do, and sends neither writes nor POST requests", async () => {
  const brokers = new Brokers();
  const process = brokers.process({ mode: "shadow" });
  await process.goOn(settleMs + 200_000);
  assert.deepEqual(brokers.asked, []);
  assert.deepEqual([...new Set(process.requests)].sort(), ["get statefulsets", "list pods"]);
  const would = brokers.harness.verdicts.filter(({ wouldTake }) => wouldTake !== undefined);
  assert.deepEqual(
    would.map(({ wouldTake }) => wouldTake),
    [[{ action: "rebalance", object: "group-a-0" }]],
  );
  assert.equal(await process.run(), "done");
});

test("Sluice lets the operator of a RabbitmqCluster go first for five minutes while its mark stands, and never writes to the RabbitmqCluster", async () => {
  const brokers = await balanced();
  const { world, timeline } = brokers.harness;
  const cluster = world.store.create("rabbitmqclusters", namespace, { metadata: { name: "rabbit" }, spec: {} });
  const owner = { apiVersion: "rabbitmq.com/v1beta1", kind: "RabbitmqCluster", name: "rabbit", controller: true };
  const ownerReferences = [{ ...owner, uid: cluster.metadata.uid }];
  world.store.patch("statefulsets", setKey, { metadata: { ownerReferences } });
  const mark = (text: string | null) =>
    world.annotate({ namespace, name: "rabbit" }, { [wish]: text }, "rabbitmqclusters");
  const process = brokers.process();
  // During a rollout the operator sets its mark, and rebalances by itself. Sluice does that again a minute later.
  mark(at(timeline.nowMs()));
  brokers.annotate({ [wish]: at(timeline.nowMs()) });
  await brokers.replace("group-a-2");
  await process.goOn(100_000);
  assert.deepEqual([await process.run(), brokers.pods], ["operator-first", []]);
  mark(null);
  await process.goOn(31_000);
  assert.deepEqual(brokers.pods, ["group-a-0"]);
  assert.notEqual(brokers.set.metadata.annotations?.[wish], undefined, "the operator's copy is its own");
  // A mark that the operator never removes is handled once.
  await brokers.goOn(60_000);
  mark(at(timeline.nowMs()));
  await process.goOn(250_000);
  assert.equal(brokers.asked.length, 1);
  await process.goOn(900_000);
  assert.deepEqual([await process.run(), brokers.asked.length], ["done", 2]);
  mark(at(timeline.nowMs() + 3_600_000_000));
  await brokers.replace("group-a-1");
  await process.goOn(400_000);
  assert.equal(brokers.asked.length, 3);
  assert.equal(process.requests.filter((request) => /^(patch|delete|create) rabbitmqclusters/.test(request)).length, 0);
});

test("Sluice ignores a state of another StatefulSet, a state from the future, and one that it cannot read", async () => {
  const before = await balanced();
  const state = before.set.metadata.annotations?.[stateKey] ?? "";
  const ahead = "2027-01-01T00:00:00.000Z";
  const uid = before.set.metadata.uid;
  const texts = [
    state.replace(uid, "11111111-2222-3333-4444-555555555555"),
    state.replace(/"since":"[^"]+"/, `"since":"${ahead}"`),
    JSON.stringify({ ...JSON.parse(state), balanced: undefined, claimedAt: ahead, balancedAt: ahead }),
    JSON.stringify({ ...JSON.parse(state), balanced: "x", failed: { times: 9, last: ahead, guard: "x", why: "y" } }),
    "",
    "{}",
    "[]",
    '{"uid":1,"members":2,"since":3}',
  ];
  for (const text of texts) {
    const brokers = await balanced();
    const own = text.replaceAll(uid, brokers.set.metadata.uid);
    brokers.annotate({ [stateKey]: own });
    const process = brokers.process();
    await process.goOn(settleMs + 40_000);
    assert.deepEqual(brokers.pods, ["group-a-0"], text);
    assert.equal(await process.run(), "done", text);
  }
});

test("Sluice leaves a StatefulSet alone that has one pod, is gone, or is being deleted", async () => {
  const brokers = new Brokers(usual, { replicas: 1 });
  const process = brokers.process();
  assert.equal(await process.run(), "done");
  assert.match(brokers.harness.verdicts.at(-1)?.message ?? "", /group-a has 1 replicas, and nothing to spread/);
  brokers.harness.world.removeStatefulSet(setKey);
  assert.equal(await process.run(), undefined);
  assert.deepEqual([brokers.asked, process.count("patch statefulsets")], [[], 0]);
  assert.equal(label, "sluice.dev/rebalance-queues");
});
