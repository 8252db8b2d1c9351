/** Evictions of pods that are asked before they go (rule R22), in a fake cluster. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Denied } from "../../../../functions/shared/admission/definition.ts";
import { AskedPods, critical, healthPath, rabbit } from "../../shared/health/asked-pods.ts";
import { Harness, namespace, refused } from "../../shared/reconcile/harness.ts";
import { addBudget, governedGroup, Replica, reserved } from "./group-commit/reviews.ts";

interface Stage {
  readonly harness: Harness;
  readonly pods: AskedPods;
  readonly replica: Replica;
}

/** A group whose zone a has its pods asked; by default without a budget. */
async function stage(annotations: Readonly<Record<string, string>> = rabbit, budget?: object): Promise<Stage> {
  const harness = new Harness({ replicas: 3, zones: ["a"] });
  if (budget !== undefined) {
    addBudget(harness, budget);
  }
  const pods = new AskedPods(harness, ["group-a"], annotations);
  await harness.run(true);
  await harness.goOn(60_000);
  await harness.run();
  await harness.goOn(6_000);
  return { harness, pods, replica: processOf(harness, pods) };
}

function processOf(harness: Harness, pods: AskedPods): Replica {
  return new Replica(harness, (cluster) => ({ pods: pods.http(cluster) }));
}

const denied = async (replica: Replica, pod: string): Promise<Denied> => {
  const answer = await replica.answer(replica.review(pod));
  assert.ok(!answer.allowed, `${pod} was allowed`);
  return answer;
};

test("a question governs its StatefulSet without a budget: the pod that goes is asked, with the Secret's password", async () => {
  const { harness, pods, replica } = await stage();
  assert.deepEqual(await replica.guards(replica.review("group-a-1")), ["allowed"]);
  assert.deepEqual(pods.asked, [`group-a-1 at 15672: ${healthPath} Basic ${btoa("user:pass")}`]);
  assert.deepEqual(reserved(harness), ["group-a-1 by evaluate-eviction"]);
  assert.deepEqual(harness.health, ["rabbitmq good"]);
});

test("statefulset:NAME: a StatefulSet without a rollout-group has a ledger of its own", async () => {
  const harness = new Harness({ replicas: 3, zones: ["a"], labels: { app: "rabbit" } });
  const pods = new AskedPods(harness);
  const replica = processOf(harness, pods);
  const own = { namespace, group: "statefulset:group-a" };
  assert.equal((await denied(replica, "group-a-0")).guard, "ledger-new");
  await harness.goOn(11_000);
  const guards = await replica.guards(...["group-a-0", "group-a-1", "group-a-2"].map((name) => replica.review(name)));
  assert.equal(guards.filter((guard) => guard === "allowed").length, 1, guards.join());
  const ledger = await replica.answer(replica.context.protocol.readLedger(replica.cluster, own) as never);
  assert.equal((ledger as unknown as { reservations: unknown[] }).reservations.length, 1);
});

test("health-bad: a 429 that names the queues, and nothing is reserved", async () => {
  const { harness, pods, replica } = await stage();
  pods.replies.set("group-a-1", critical);
  const { guard, code, cause, message, zone } = await denied(replica, "group-a-1");
  assert.deepEqual([guard, code, cause, zone], ["health-bad", 429, "DisruptionBudget", "group-a"]);
  assert.match(message, /^group-a-1 stays: .*lose their majority: queue 'orders' in vhost '\/'$/);
  assert.deepEqual(reserved(harness), []);
});

test("one pod at a time: of 32 reviews of three pods one is allowed, and only one pod is asked", async () => {
  const { harness, pods, replica } = await stage();
  const names = Array.from({ length: 32 }, (_, index) => `group-a-${index % 3}`);
  const guards = await replica.guards(...names.map((name) => replica.review(name)));
  const allowed = new Set(names.filter((_, index) => guards[index] === "allowed"));
  assert.equal(allowed.size, 1);
  assert.deepEqual(reserved(harness), [`${[...allowed]} by evaluate-eviction`]);
  assert.equal(new Set(pods.takeAsked()).size, 1);
});

test("health-beside-others: a pod that a budget would let go waits while the ledger holds another reservation, and is not asked", async () => {
  const { pods, replica } = await stage(rabbit, { maxUnavailable: 3 });
  const other = await governedGroup({ maxUnavailable: 3 }, { replicas: 3 });
  const asked = new AskedPods(other);
  const handler = processOf(other, asked);
  const guards = await handler.guards(handler.review("group-a-0"), handler.review("group-a-1"));
  assert.deepEqual(guards.sort(), ["allowed", "health-beside-others"]);
  const again = await denied(handler, "group-a-2");
  assert.match(again.message, /is reserved, and an answer about health permits nothing beside it/);
  assert.deepEqual(new Set(asked.takeAsked()).size, 1);
  // A group of one zone has no budget that can be kept, with or without questions.
  assert.equal((await denied(replica, "group-a-0")).guard, "too-few-zones");
  assert.deepEqual(pods.takeAsked(), []);
});

test("a pod that says no does not prevent the next one of a batch from being asked", async () => {
  const { pods, replica } = await stage();
  pods.replies.set("group-a-0", critical);
  const guards = await replica.guards(replica.review("group-a-0"), replica.review("group-a-1"));
  assert.deepEqual(guards, ["health-bad", "allowed"]);
});

test("one-at-a-time: while an unreserved pod is down, Sluice asks no other pod; the pod that is down may go", async () => {
  const { harness, pods, replica } = await stage();
  harness.world.kubelet.breakPod({ namespace, name: "group-a-2" }, "Unready");
  await harness.goOn(100);
  const { guard, message } = await denied(replica, "group-a-0");
  assert.equal(guard, "one-at-a-time");
  assert.match(message, /group-a-2 is not ready, so group-a-0 stays$/);
  assert.deepEqual(pods.takeAsked(), []);
  assert.deepEqual(await replica.guards(replica.review("group-a-2")), ["allowed"]);
});

test("without an answer a pod stays, or goes with a warning if its StatefulSet says so and no other pod is down", async () => {
  for (const reply of ["hang", "break", { status: 500 }, { status: 401 }, { status: 200, body: "<html>" }] as const) {
    const { pods, replica } = await stage();
    pods.others = reply;
    assert.equal((await denied(replica, "group-a-0")).guard, "health-unknown", JSON.stringify(reply));
    const open = await stage({ ...rabbit, "health-unknown": "go" });
    open.pods.others = reply;
    const answer = await open.replica.answer(open.replica.review("group-a-0"));
    assert.equal(answer.guard, "allowed");
    assert.match((answer.allowed && answer.warnings[0]) || "", /gave no answer, and goes all the same/);
    assert.equal((await denied(open.replica, "group-a-1")).guard, "one-at-a-time");
  }
});

test("a pod that says no stays whatever the policy is, and so does one that redirects", async () => {
  for (const reply of [critical, { status: 503, body: "x" }, { status: 302, headers: { location: "http://other/" } }]) {
    const { pods, replica } = await stage({ ...rabbit, "health-unknown": "go" });
    pods.others = reply;
    assert.equal((await denied(replica, "group-a-0")).guard, "health-bad");
  }
});

test("question-malformed: no pod is asked, no pod goes, and an Event on the StatefulSet says why", async () => {
  const { harness, pods, replica } = await stage({ "health-question": "http", "health-url": "http://1@other:80/" });
  const { guard, message } = await denied(replica, "group-a-0");
  assert.equal(guard, "question-malformed");
  assert.match(message, /health-url is a text that is not shown, .+; write http:\/\/:PORT\/PATH/);
  assert.ok(!message.includes("other"), "no part of a URL that cannot be read is shown");
  assert.deepEqual(pods.asked, []);
  await harness.goOn(100);
  assert.ok(harness.events.some((event) => /^EvictionRefused group-a: question-malformed: /.test(event)));
});

test("a Secret that is missing, unreadable or empty counts as no answer, and the message names it", async () => {
  const { harness, replica, pods } = await stage({ ...rabbit, "health-secret": "missing" });
  assert.match((await denied(replica, "group-a-0")).message, /Secret missing could not be read/);
  harness.world.store.create("secrets", namespace, {
    metadata: { name: "missing" },
    data: { username: btoa("u") },
  } as never);
  await harness.goOn(3_000);
  assert.match((await denied(replica, "group-a-0")).message, /Secret missing has no username and password/);
  replica.interfere = ({ resource }) => {
    if (resource === "secrets")
      throw refused(403, 'secrets "missing" is forbidden: User "u" cannot get resource "secrets"');
  };
  await harness.goOn(3_000);
  assert.match((await denied(replica, "group-a-0")).message, /Secret missing could not be read/);
  assert.deepEqual(pods.asked, []);
});

test("while the StatefulSet is being deleted Sluice asks no pod", async () => {
  const { harness, pods, replica } = await stage();
  pods.others = critical;
  harness.world.store.patch("pods", { namespace, name: "group-a-0" }, { metadata: { finalizers: ["test/hold"] } });
  harness.world.removeStatefulSet({ namespace, name: "group-a" }, "Foreground");
  assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["out-of-scope"]);
  assert.deepEqual(pods.asked, []);
});

test("a pod with the label that ends its stop hook is not asked: all pods of its owner must go, one at a time", async () => {
  const { harness, pods, replica } = await stage();
  pods.others = critical;
  const annotations = { "sluice.dev/skip-labelled-at": "2026-01-01T00:00:00Z" };
  harness.world.annotate({ namespace, name: "group-a-1" }, annotations, "pods");
  await harness.goOn(100);
  const guards = await replica.guards(...["group-a-0", "group-a-1"].map((name) => replica.review(name)));
  assert.deepEqual([guards[1], pods.takeAsked().includes("group-a-1")], ["allowed", false]);
  assert.notEqual(guards[0], "allowed");
});

test("a pod may answer after 4 s; without an answer within 4.5 s the review ends in time", async () => {
  const { harness, pods, replica } = await stage();
  pods.slowMs = 4_000;
  assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["allowed"]);
  const slower = await stage();
  slower.pods.slowMs = 4_600;
  const startMs = slower.harness.timeline.nowMs();
  assert.equal((await denied(slower.replica, "group-a-0")).guard, "health-unknown");
  assert.ok(slower.harness.timeline.nowMs() - startMs < 5_000);
  assert.deepEqual(reserved(harness), ["group-a-0 by evaluate-eviction"]);
});

test("Sluice keeps a pod's no for 2 s, so that repeated drains do not ask the pod as often", async () => {
  const { harness, pods, replica } = await stage();
  pods.others = critical;
  for (let asked = 0; asked < 5; asked++) await denied(replica, "group-a-0");
  assert.equal(pods.takeAsked().length, 1);
  await harness.goOn(2_000);
  pods.others = { status: 200, body: '{"status":"ok"}' };
  assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["allowed"]);
});

test("a repeated eviction asks the pod again, although the pod has a reservation", async () => {
  const { harness, pods, replica } = await stage();
  assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["allowed"]);
  await harness.goOn(5_000);
  pods.others = critical;
  assert.equal((await denied(replica, "group-a-0")).guard, "health-bad");
  assert.equal(pods.takeAsked().length, 2);
});
