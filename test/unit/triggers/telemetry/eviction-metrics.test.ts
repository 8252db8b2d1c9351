/** `sluice_evictions_total`: which answers count, and when its series begin and end. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Registry } from "prom-client";
import { evaluateEviction } from "../../../../functions/evaluate-eviction/function.ts";
import { pinningPath } from "../../../../functions/evaluate-eviction/observe.ts";
import { allow, askAgain } from "../../../../functions/shared/admission/answers.ts";
import type { AdmissionAnswer } from "../../../../functions/shared/admission/definition.ts";
import type { GroupKey } from "../../../../functions/shared/workloads/statefulsets.ts";
import { createEvictionMetrics } from "../../../../triggers/telemetry/eviction-metrics.ts";
import { createTestApp } from "../../../support/app.ts";
import { addBudget, governedGroup, Replica } from "../../functions/evaluate-eviction/group-commit/reviews.ts";
import { namespace } from "../../shared/reconcile/harness.ts";

const [db, other] = [
  { namespace: "a", group: "db" },
  { namespace: "b", group: "db" },
];

/** The series of the registry, as `NAMESPACE GROUP ANSWER: COUNT`. */
async function seriesIn(registry: Registry): Promise<string[]> {
  const metric = (await registry.getMetricsAsJSON()).find(({ name }) => name === "sluice_evictions_total");
  assert.equal(String(metric?.type), "counter");
  return (metric?.values ?? []).map(
    ({ labels, value }) => `${labels.namespace} ${labels.rollout_group} ${labels.answer}: ${value}`,
  );
}

test("each known group has both series from the beginning, by namespace and group, and loses them when it is gone", async () => {
  const registry = new Registry();
  let known: readonly GroupKey[] = [db, other];
  const { countEviction } = createEvictionMetrics([registry], async () => known);
  assert.deepEqual(await seriesIn(registry), [
    "a db allowed: 0",
    "a db refused: 0",
    "b db allowed: 0",
    "b db refused: 0",
  ]);
  countEviction(db, false);
  countEviction(db, false);
  countEviction(other, true);
  const counted = ["a db allowed: 0", "a db refused: 2", "b db allowed: 1", "b db refused: 0"];
  assert.deepEqual(await seriesIn(registry), counted);
  assert.deepEqual(await seriesIn(registry), counted, "a scrape changes no count");
  known = [other];
  assert.deepEqual(await seriesIn(registry), counted.slice(2));
});

test("an answer also counts for a group that no scrape has seen yet, for a thousand groups at most", async () => {
  const registry = new Registry();
  const { countEviction } = createEvictionMetrics([registry], async () => []);
  countEviction(db, false);
  assert.deepEqual(await seriesIn(registry), ["a db allowed: 0", "a db refused: 1"]);
  for (let index = 0; index < 1_500; index++) countEviction({ namespace: "a", group: `db-${index}` }, false);
  const series = await seriesIn(registry);
  assert.equal(series.length, 2_000);
  assert.ok(series.includes("a db-1499 refused: 1"));
});

/** The counts after one review whose function answers so. */
async function countsAfter(answer: AdmissionAnswer, request: object = {}): Promise<string[]> {
  const handler = { review: async () => answer };
  const { app, reporting } = createTestApp({ admissions: [{ definition: evaluateEviction, handler }] });
  const body = {
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    request: { uid: "u-1", operation: "CREATE", namespace: "a", name: "db-0", ...request },
  };
  const headers = { "content-type": "application/json" };
  const response = await app.request(pinningPath, { method: "POST", headers, body: JSON.stringify(body) });
  assert.equal(response.status, 200);
  return seriesIn(reporting.metrics.registry);
}

test("an answer counts for the group that it names; a dry run and an answer without a group do not count", async () => {
  const refused = { ...askAgain("budget", "not now"), group: "db" };
  const allowed = { ...allow("allowed"), group: "db" };
  assert.deepEqual(await countsAfter(refused), ["a db allowed: 0", "a db refused: 1"]);
  assert.deepEqual(await countsAfter(allowed), ["a db allowed: 1", "a db refused: 0"]);
  assert.deepEqual(await countsAfter(refused, { dryRun: true }), []);
  assert.deepEqual(await countsAfter(refused, { object: { deleteOptions: { dryRun: ["All"] } } }), []);
  assert.deepEqual(await countsAfter(askAgain("api-server-away", "not now")), []);
});

test("an eviction's answer names its group, with or without the ledger; without a budget it names no group", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  const groupOf = async (name: string) => {
    const answer = await replica.answer(replica.review(name));
    return [answer.guard, answer.group];
  };
  assert.deepEqual(await groupOf("group-a-0"), ["allowed", "group"]);
  assert.deepEqual(await groupOf("group-b-0"), ["zones-down", "group"]);
  harness.world.store.delete("pods", { namespace, name: "group-a-1" });
  assert.deepEqual(await groupOf("group-a-1"), ["exempt", undefined]);
  assert.deepEqual(await groupOf("elsewhere-0"), ["pod-gone", undefined]);
  addBudget(harness, {}, "second");
  assert.deepEqual(await groupOf("group-b-1"), ["several-budgets", "group"]);
});
