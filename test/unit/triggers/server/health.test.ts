import assert from "node:assert/strict";
import { test } from "node:test";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { createHealth } from "../../../../triggers/server/health.ts";
import { createVirtualClock } from "../../shared/kubernetes/virtual-clock.ts";

function createTestHealth() {
  const clock = createVirtualClock();
  const messages: string[] = [];
  return { clock, messages, health: createHealth(clock, (message) => messages.push(message)) };
}

function failure(code: number): ClusterError {
  return new ClusterError({ code, reason: "x", message: "words", verb: "get", resource: "version" });
}

test("before its first answer the API server counts as away", () => {
  const { health } = createTestHealth();
  assert.match(health.away() ?? "", /not answered yet/);
  health.observe({ statusCode: 200 });
  assert.equal(health.away(), undefined);
});

test("the API server counts as away once every call has failed for 10 s, and one answer ends that", async () => {
  const { health, clock } = createTestHealth();
  health.observe({ statusCode: 200 });
  health.observe({ statusCode: "error" });
  await clock.goTo(9_999);
  health.observe({ statusCode: 500 });
  assert.equal(health.away(), undefined);
  await clock.goTo(10_000);
  assert.match(health.away() ?? "", /for 10 s/);
  health.observe({ statusCode: 200 });
  assert.equal(health.away(), undefined);
});

test("one answer among failures, even a refusal, keeps the API server from counting as away", async () => {
  const { health, clock } = createTestHealth();
  health.observe({ statusCode: "error" });
  await clock.goTo(9_000);
  for (const statusCode of [404, 403, 409, 429]) health.observe({ statusCode });
  health.observe({ statusCode: 503 });
  await clock.goTo(18_000);
  assert.equal(health.away(), undefined);
});

test("an API server that rejects Sluice's credentials counts as away", async () => {
  const { health, clock } = createTestHealth();
  health.observe({ statusCode: 200 });
  health.observe({ statusCode: 401 });
  await clock.goTo(10_000);
  assert.notEqual(health.away(), undefined);
});

test("while calls fail, the API server is asked every 2 s, and each outage and its end are reported once", async () => {
  const { health, clock, messages } = createTestHealth();
  const asked: number[] = [];
  const stopping = new AbortController();
  const probing = health.probe(async () => {
    asked.push(clock.monotonicMs());
    if (clock.monotonicMs() < 5_000) throw failure(0);
  }, stopping.signal);
  await clock.goTo(20_000);
  assert.deepEqual(asked, [0, 2_000, 4_000, 6_000]);
  assert.deepEqual(messages, [
    "the API server does not answer: words; trying again every 2 s",
    "the API server answers again",
  ]);
  health.observe({ statusCode: "error" });
  await clock.goTo(30_000);
  assert.equal(asked.length, 5);
  stopping.abort();
  await clock.goTo(30_001);
  await probing;
});

test("the message says that the API server rejects the credentials", async () => {
  const { health, clock, messages } = createTestHealth();
  void health.probe(() => Promise.reject(failure(401)), new AbortController().signal);
  await clock.goTo(1_000);
  assert.match(messages[0] ?? "", /^the API server does not accept our credentials/);
});
