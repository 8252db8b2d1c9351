/**
 * Each step of a review of a size, in order: what it allows without further reads, what it refuses, and what it tells
 * the pods.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Downscales, denied, prefix, preparedGroup } from "./downscales.ts";

test("allowed: a review tells each pod that leaves, the highest first; it claims them before and confirms the claim afterwards", async () => {
  const world = await preparedGroup();
  const process = world.process();
  const states: string[][] = [];
  world.reply = () => {
    states.push(world.claimed);
    return undefined;
  };
  const answer = await process.review("group-a", 2);
  assert.deepEqual([answer.allowed, answer.guard], [true, "allowed"]);
  assert.deepEqual(world.requests, ["POST group-a-4", "POST group-a-3", "POST group-a-2"]);
  assert.equal(world.received[0]?.url, "http://group-a-4.group.db.svc.cluster.local.:80/ingester/prepare-shutdown");
  assert.deepEqual(states[0], ["group-a preparing"], "rule R18: the claim comes before the first call");
  assert.deepEqual(world.claimed, ["group-a confirmed"]);
  const [claim] = world.claims;
  assert.ok(claim?.isKnown);
  assert.deepEqual(claim.members, [{ first: 2, last: 4 }]);
  assert.deepEqual(Object.keys(claim.uids ?? {}).sort(), ["group-a", "group-a-2", "group-a-3", "group-a-4"]);
  assert.deepEqual(process.writes(), ["patch leases", "patch leases"], "no StatefulSet is written");
});

test("allowed: a review of the scale subresource prepares the pods as a review of the StatefulSet does", async () => {
  const world = await preparedGroup();
  assert.equal((await world.process().reviewScale("group-a", 4)).guard, "allowed");
  assert.deepEqual(world.requests, ["POST group-a-4"]);
});

test("dry-run: a review calls no pod and writes nothing", async () => {
  const world = await preparedGroup();
  const process = world.process();
  assert.equal(await process.guard("group-a", 2, { dryRun: true }), "dry-run");
  assert.deepEqual([world.requests, process.calls], [[], []]);
});

test("in shadow mode each review is allowed, with a warning that says what the answer would have been", async () => {
  const world = await preparedGroup();
  const process = world.process(() => ({ mode: "shadow" }));
  const answer = await process.review("group-a", 2);
  assert.deepEqual([answer.allowed, world.requests, process.writes()], [true, [], []]);
  world.annotate("group-a", { [`${prefix}prepare-downscale-http-port`]: "1@other:80" });
  const refused = await process.review("group-a", 2);
  assert.ok(refused.allowed && refused.warnings.join().includes("in shadow mode; otherwise refused with 400"));
});

test("a review is allowed without a call if it is no downscale, or if its StatefulSet has no label", async () => {
  const world = await preparedGroup();
  const process = world.process();
  assert.equal(await process.guard("group-a", 5), "not-a-downscale");
  assert.equal(await process.guard("group-a", 7), "not-a-downscale");
  assert.equal(await process.guard("group-a", 2, { object: "nonsense" }), "unreadable-object");
  const { object } = process.request("group-a", 2);
  assert.equal(await process.guard("group-a", 2, { object: { ...(object as object), spec: {} } }), "replicas-unclear");
  const deployments = { group: "apps", version: "v1", resource: "deployments" };
  const [old, now] = [3, 1].map((replicas) => ({
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "x" },
    spec: { replicas },
  }));
  const unread = await process.review("group-a", 2, { resource: deployments, oldObject: old, object: now });
  assert.ok(unread.allowed && unread.guard === "settings-unread" && unread.warnings.length === 1);
  for (const value of ["false", "True", "1", ""]) {
    world.label("group-a", { [`${prefix}prepare-downscale`]: value });
    assert.equal(await process.guard("group-a", 2), "not-prepared", value);
  }
  assert.deepEqual([world.requests, process.writes()], [[], []]);
});

test("prepare-broken: a review of a scale is also refused if a fault of Sluice keeps it from reading the StatefulSet", async () => {
  const world = await preparedGroup();
  const process = world.process();
  process.interfere = ({ verb, resource }) => {
    if (verb === "get" && resource === "statefulsets") throw new Error("broken");
  };
  const answer = denied(await process.reviewScale("group-a", 2));
  assert.ok(answer.guard === "prepare-broken" && answer.code === 500 && answer.message.includes("broken"));
});

test("the old object's label counts: an update that removes the label and scales down has its pods told all the same", async () => {
  const world = await preparedGroup();
  const process = world.process();
  const { object, oldObject } = process.request("group-a", 4);
  const { metadata } = object as { metadata: object };
  const answer = await process.review("group-a", 4, {
    object: { ...(object as object), metadata: { ...metadata, labels: {} } },
    oldObject,
  });
  assert.deepEqual([answer.guard, world.requests], ["allowed", ["POST group-a-4"]]);
});

test("a review is decided by its own namespace and name, also if its objects have none", async () => {
  for (const lost of [{ namespace: "" }, { namespace: undefined }, { namespace: "", name: "" }]) {
    const world = await preparedGroup();
    const process = world.process();
    const { object, oldObject } = process.request("group-a", 4);
    const without = (one: unknown) => {
      const { metadata, ...rest } = one as { metadata: object };
      return { ...rest, metadata: { ...metadata, ...lost } };
    };
    const answer = await process.review("group-a", 4, { object: without(object), oldObject: without(oldObject) });
    assert.deepEqual([answer.guard, world.requests], ["allowed", ["POST group-a-4"]], JSON.stringify(lost));
  }
});

const ends: readonly (readonly [string, (world: Downscales) => void])[] = [
  ["prepare-port-missing", (world) => world.annotate("group-a", { [`${prefix}prepare-downscale-http-port`]: null })],
  ["prepare-port-missing", (world) => world.annotate("group-a", { [`${prefix}prepare-downscale-http-port`]: "" })],
  ["prepare-path-missing", (world) => world.annotate("group-a", { [`${prefix}prepare-downscale-http-path`]: null })],
  ["prepare-path-missing", (world) => world.annotate("group-a", { [`${prefix}prepare-downscale-http-path`]: "" })],
  [
    "prepare-port-malformed",
    (world) => world.annotate("group-a", { [`${prefix}prepare-downscale-http-port`]: "1@other:80" }),
  ],
  ["prepare-port-malformed", (world) => world.annotate("group-a", { [`${prefix}prepare-downscale-http-port`]: "0" })],
  [
    "prepare-port-malformed",
    (world) => world.annotate("group-a", { [`${prefix}prepare-downscale-http-port`]: "65536" }),
  ],
  ["prepare-path-malformed", (world) => world.annotate("group-a", { [`${prefix}prepare-downscale-http-path`]: "a b" })],
];

for (const [guard, change] of ends) {
  test(`${guard}: a StatefulSet that does not say at which URL its pods are told is not made smaller`, async () => {
    const world = await preparedGroup();
    change(world);
    const answer = denied(await world.process().review("group-a", 2));
    assert.deepEqual([answer.guard, answer.code], [guard, 400]);
    assert.match(answer.message, /^downscale of statefulsets\/group-a in db from 5 to 2 replicas is not allowed: /);
    assert.deepEqual([world.requests, world.claimed], [[], []]);
  });
}

test("service-name-missing: a downscale without a Service is refused, because its pods have no host names", async () => {
  const world = await preparedGroup();
  world.replace("group-a", { serviceName: "" });
  assert.equal(await world.process().guard("group-a", 2), "service-name-missing");
});

test("namespace-not-served: a downscale in a namespace that is not served is refused if its pods would have to be told", async () => {
  const world = await preparedGroup();
  assert.equal(await world.process(() => ({ namespaces: ["other"] })).guard("group-a", 2), "namespace-not-served");
});

test("prepare-broken: an error after the label was read refuses the review", async () => {
  const world = await preparedGroup();
  const process = world.process(() => ({
    cache: { ...world.harness.context.cache, read: () => Promise.reject(new Error("odd")) },
  }));
  const answer = denied(await process.review("group-a", 2));
  assert.deepEqual([answer.guard, answer.code], ["prepare-broken", 500]);
});

test("pod-unprepared: if one pod refuses, each pod that may have been told is told to stay, and the claim is removed", async () => {
  const world = await preparedGroup();
  world.reply = (pod, method) =>
    method === "POST" && pod === "group-a-3" ? { status: 500, body: "not now" } : undefined;
  const answer = denied(await world.process().review("group-a", 2));
  assert.deepEqual([answer.guard, answer.code], ["pod-unprepared", 429]);
  assert.match(answer.message, /pod group-a-3 did not say that it may leave: .*HTTP 500 not now/);
  assert.deepEqual(world.requests.filter((word) => word.startsWith("DELETE")).sort(), [
    "DELETE group-a-2",
    "DELETE group-a-3",
    "DELETE group-a-4",
  ]);
  assert.deepEqual([world.claimed, world.prepared.size], [[], 0]);
});

test("a pod agrees with any 2xx, and refuses with a redirect or a 409", async () => {
  for (const [status, guard] of [
    [200, "allowed"],
    [202, "allowed"],
    [299, "allowed"],
    [302, "pod-unprepared"],
    [409, "pod-unprepared"],
  ] as const) {
    const world = await preparedGroup();
    world.reply = (_pod, method) => (method === "POST" ? { status } : undefined);
    assert.equal(await world.process().guard("group-a", 4), guard, String(status));
  }
});

test("a review gives a silent pod up in time to tell the other pods that they stay, for which it has a deadline of its own", async () => {
  const world = await preparedGroup();
  world.reply = (pod, method) => (method === "POST" && pod === "group-a-2" ? "hang" : undefined);
  const process = world.process();
  const startMs = process.cluster.monotonicMs();
  const answer = denied(await process.review("group-a", 2));
  assert.ok(process.cluster.monotonicMs() - startMs < 9_000);
  assert.match(answer.message, /group-a-2/);
  assert.deepEqual([world.claimed, world.prepared.size], [[], 0]);
});

test("if telling the pods took all the time of a review, taking it back has time of its own and goes on after the answer", async () => {
  const world = await preparedGroup();
  const process = world.process();
  world.reply = (pod, method) => (pod === "group-a-2" && method === "POST" ? "hang" : undefined);
  const startMs = process.cluster.monotonicMs();
  const answer = denied(await process.review("group-a", 2, { deadlineMs: startMs + 2_600 }));
  assert.ok(process.cluster.monotonicMs() - startMs <= 2_600, answer.guard);
  await world.harness.goOn(5_000);
  assert.deepEqual([world.claimed, world.prepared.size], [[], 0]);
});

test("the claim stands while a pod cannot be told that it stays, and another function ends it", async () => {
  const world = await preparedGroup();
  world.reply = (pod, method) =>
    pod === "group-a-4" && method === "DELETE" ? { status: 503 } : pod === "group-a-3" ? { status: 500 } : undefined;
  assert.equal(await world.process().guard("group-a", 3), "pod-unprepared");
  assert.deepEqual(world.claimed, ["group-a preparing"]);
});

test("pod-missing, pod-never-ready: a missing or never ready pod blocks the downscale until an annotation releases its ordinal", async () => {
  const world = await preparedGroup({ podManagementPolicy: "OrderedReady" });
  world.scale("group-a", 40);
  const process = world.process();
  const missing = denied(await process.review("group-a", 5));
  assert.equal(missing.guard, "pod-missing");
  assert.match(missing.message, /no pod stands at [56]-39 of group-a, .*sluice\.dev\/unprepared-pods/);
  assert.deepEqual([world.requests, world.claimed], [[], []]);
  world.annotate("group-a", { "sluice.dev/unprepared-pods": "6-39" });
  await world.harness.goOn(100);
  const pod = denied(await process.review("group-a", 5));
  assert.deepEqual([pod.guard, world.claimed], ["pod-never-ready", []]);
  assert.match(pod.message, /pod group-a-5 was never ready/);
  world.annotate("group-a", { "sluice.dev/unprepared-pods": "5, 6-39" });
  assert.equal(await process.guard("group-a", 5), "allowed");
  assert.deepEqual(world.prepared.size, 0);
});

test("the annotation releases no ordinal if it is malformed, or if the pod was once ready", async () => {
  for (const text of ["4,x", "4", "0-9"]) {
    const world = await preparedGroup();
    world.annotate("group-a", { "sluice.dev/unprepared-pods": text });
    world.reply = (_pod, method) => (method === "POST" ? { status: 500 } : undefined);
    assert.equal(await world.process().guard("group-a", 4), "pod-unprepared", text);
  }
});

test("no-downscale: no pod of a protected StatefulSet is told, because another webhook refuses the change anyway", async () => {
  const world = await preparedGroup();
  world.label("group-a", { [`${prefix}no-downscale`]: "true" });
  const process = world.process();
  for (const answer of [await process.review("group-a", 2), await process.reviewScale("group-a", 4)])
    assert.deepEqual([answer.allowed, answer.guard, denied(answer).code], [false, "no-downscale", 400]);
  assert.deepEqual([world.requests, world.claimed, process.writes()], [[], [], ["create events"]]);
});

test("replicas-dropped: a manifest that stops setting replicas has no pod told (grafana/mimir#16602)", async () => {
  const world = await preparedGroup();
  const process = world.process();
  const { object, oldObject } = process.request("group-a", 1);
  const owns = (fields: object) => ({
    managedFields: [{ manager: "kubectl", operation: "Apply", fieldsType: "FieldsV1", fieldsV1: { "f:spec": fields } }],
  });
  const written = (one: unknown, fields: object) => {
    const { metadata, ...rest } = one as { metadata: object };
    return { ...rest, metadata: { ...metadata, ...owns(fields) } };
  };
  const template = { "f:template": {} };
  const answer = await process.review("group-a", 1, {
    oldObject: written(oldObject, { ...template, "f:replicas": {} }),
    object: written(object, template),
  });
  assert.deepEqual([answer.allowed, answer.guard], [false, "replicas-dropped"]);
  assert.match(denied(answer).message, /Write "replicas: 5" into the manifest; where 1 is meant, use kubectl scale$/);
  assert.deepEqual([world.requests, world.claimed], [[], []]);
  assert.equal(
    (await process.reviewScale("group-a", 1)).guard,
    "allowed",
    "a write to the scale subresource means its 1",
  );
  assert.equal(world.requests.length, 4);
});
