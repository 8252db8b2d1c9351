import assert from "node:assert/strict";
import { test } from "node:test";
import type { ReconcileReport } from "../../../../functions/shared/contract/reporter.ts";
import { parseStoredBudget } from "../../../../functions/shared/groups/governing.ts";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { sweep } from "../../../../triggers/workqueue/sweep.ts";
import type { ServedFunction } from "../../../../triggers/workqueue/worker.ts";
import { createTestApp } from "../../../support/app.ts";
import { withPods } from "../../../support/played-pods.ts";

const key = { namespace: "app", group: "ingester" };
const report: ReconcileReport = {
  key,
  function: "advance-zone-rollout",
  guard: "budget",
  zone: "ingester-a",
  message: "1 of 1 may be down",
  sinceMs: 1_767_225_600_000,
  shadow: false,
};

/** The series of a metric, without its help. */
async function seriesOf({ reporting }: ReturnType<typeof createTestApp>, name: string): Promise<string[]> {
  const text = await reporting.metrics.registry.metrics();
  return text.split("\n").filter((line) => line.startsWith(name));
}

test("a verdict is logged when its guard or zone changes, and not when it is reported again", () => {
  const { reporting, lines } = createTestApp();
  reporting.verdict(report);
  reporting.verdict({ ...report, message: "other words" });
  reporting.verdict({ ...report, zone: "ingester-b" });
  reporting.verdict({ ...report, guard: "paused", zone: "ingester-b" });
  reporting.verdict({ ...report, key: { ...key, namespace: "other" } });
  assert.deepEqual(
    lines.map(({ level, namespace, group, guard, zone }) => [level, namespace, group, guard, zone]),
    [
      ["info", "app", "ingester", "budget", "ingester-a"],
      ["info", "app", "ingester", "budget", "ingester-b"],
      ["info", "app", "ingester", "paused", "ingester-b"],
      ["info", "other", "ingester", "budget", "ingester-a"],
    ],
  );
  assert.equal(lines[0]?.msg, "1 of 1 may be down");
  assert.equal(lines[0]?.since, "2026-01-01T00:00:00.000Z");
});

test("the last time of a never-possible verdict is a metric by zone, and is gone an hour later (R25)", async (context) => {
  context.mock.timers.enable({ apis: ["Date"], now: 1_767_225_600_000 });
  const testApp = createTestApp();
  const never = () => seriesOf(testApp, "sluice_never_possible_timestamp_seconds");
  testApp.reporting.verdict(report);
  assert.deepEqual(await never(), []);
  testApp.reporting.verdict({ ...report, guard: "never-possible" });
  context.mock.timers.setTime(1_767_225_600_000 + 3_600_000);
  testApp.reporting.verdict({ ...report, guard: "never-possible", zone: "ingester-b" });
  const series = (zone: string, at: number) =>
    `sluice_never_possible_timestamp_seconds{namespace="app",function="advance-zone-rollout",zone="${zone}"} ${at}`;
  assert.deepEqual(await never(), [series("ingester-a", 1_767_225_600), series("ingester-b", 1_767_229_200)]);
  context.mock.timers.setTime(1_767_225_600_000 + 3_601_000);
  assert.deepEqual(await never(), [series("ingester-b", 1_767_229_200)]);
});

test("a thousand zones at most have the never-possible metric, and the one reported longest ago is dropped first", async () => {
  const testApp = createTestApp();
  const notify = (zone: number) =>
    testApp.reporting.verdict({ ...report, guard: "never-possible", zone: `zone-${zone}` });
  for (let zone = 0; zone < 1_000; zone++) notify(zone);
  notify(0);
  notify(1_000);
  const never = await seriesOf(testApp, "sluice_never_possible_timestamp_seconds");
  const zones = never.map((line) => /zone="zone-(\d+)"/.exec(line)?.[1]);
  assert.equal(zones.length, 1_000);
  assert.ok(zones.includes("0") && zones.includes("1000") && !zones.includes("1"));
});

test("every reconcile is counted, and each group that is not done has one waiting series, with its guard", async () => {
  const testApp = createTestApp();
  const waiting = () => seriesOf(testApp, "sluice_waiting_since_timestamp_seconds");
  testApp.reporting.verdict(report);
  testApp.reporting.verdict({ ...report, guard: "paused", sinceMs: 1_767_225_660_000 });
  testApp.reporting.verdict({ ...report, guard: "paused", sinceMs: 1_767_225_660_000 });
  assert.deepEqual(await waiting(), [
    'sluice_waiting_since_timestamp_seconds{namespace="app",rollout_group="ingester",function="advance-zone-rollout",guard="paused",zone="ingester-a"} 1767225660',
  ]);
  testApp.reporting.verdict({ ...report, guard: "done", zone: "" });
  assert.deepEqual(await waiting(), []);
  assert.deepEqual(await seriesOf(testApp, "sluice_verdicts_total"), [
    'sluice_verdicts_total{function="advance-zone-rollout",guard="budget"} 1',
    'sluice_verdicts_total{function="advance-zone-rollout",guard="paused"} 2',
    'sluice_verdicts_total{function="advance-zone-rollout",guard="done"} 1',
  ]);
});

test("an impossible time in a ledger that a user has edited does not break the reconcile", () => {
  const { reporting, lines } = createTestApp();
  reporting.verdict({ ...report, sinceMs: Number.MAX_SAFE_INTEGER });
  reporting.verdict({ ...report, zone: "b", sinceMs: Number.NaN });
  assert.equal(lines.length, 2);
});

test("failures begin at 0, and the last success changes with successes only; until the first it is the process's start", async () => {
  const bornSeconds = Date.now() / 1000;
  const testApp = createTestApp();
  const failed = () => seriesOf(testApp, "rollout_operator_group_reconciles_failed_total");
  testApp.reporting.reconciled(key, 0.2, new Error("no"));
  const [born = ""] = await seriesOf(testApp, "rollout_operator_last_successful");
  assert.ok(Math.abs(Number(born.split("} ")[1]) - bornSeconds) < 60, born);
  testApp.reporting.reconciled(key, 0.2, new Error("no"));
  assert.deepEqual(await seriesOf(testApp, "rollout_operator_last_successful"), [born]);
  assert.deepEqual(await failed(), [
    'rollout_operator_group_reconciles_failed_total{namespace="app",rollout_group="ingester"} 2',
  ]);
  testApp.reporting.reconciled({ ...key, group: "other" }, 0.2);
  assert.equal(
    (await failed())[1],
    'rollout_operator_group_reconciles_failed_total{namespace="app",rollout_group="other"} 0',
  );
  const [, seconds] = ((await seriesOf(testApp, "rollout_operator_last_successful"))[1] ?? "").split("} ");
  assert.ok(Math.abs(Number(seconds) - Date.now() / 1000) < 60);
});

test("a group that is gone loses its series, and a group of the same name elsewhere keeps its own", async () => {
  const testApp = createTestApp();
  const other = { ...key, namespace: "other" };
  for (const one of [key, other]) {
    testApp.reporting.verdict({ ...report, key: one });
    testApp.reporting.malformed(one, "ingester-a", "rollout-max-unavailable", "write an integer");
    testApp.reporting.reconciled(one, 0.1);
  }
  const reconciles = () => seriesOf(testApp, "rollout_operator_group_reconciles_total");
  assert.equal((await reconciles()).length, 2, "each group has its own series");
  testApp.reporting.keepOnly([other]);
  assert.equal((await seriesOf(testApp, "sluice_waiting_since")).length, 1);
  assert.equal((await seriesOf(testApp, "sluice_malformed_annotations_total")).length, 1);
  assert.deepEqual(await reconciles(), [
    'rollout_operator_group_reconciles_total{namespace="other",rollout_group="ingester"} 1',
  ]);
  testApp.reporting.keepOnly([]);
  const text = await testApp.reporting.metrics.registry.metrics();
  assert.doesNotMatch(text, /ingester/);
});

test("while a namespace cannot be listed its groups keep their series, and groups that are gone elsewhere lose theirs", async () => {
  const testApp = createTestApp();
  const closed = { namespace: "closed", group: "store" };
  for (const one of [key, closed]) {
    testApp.reporting.verdict({ ...report, key: one });
    testApp.reporting.reconciled(one, 0.1);
  }
  const reason = { code: 503, reason: "ServiceUnavailable", message: "later", verb: "list", resource: "statefulsets" };
  const listKeys = async (_context: unknown, namespace: string | undefined) => {
    if (namespace === "closed") throw new ClusterError(reason);
    return [];
  };
  const { reporting } = testApp;
  const served = { definition: { keyedBy: "groups", listKeys }, context: {} } as unknown as ServedFunction;
  const namespaces = ["closed", "app"];
  await assert.rejects(sweep({ served: [served], reporting, namespaces, enqueue: () => true }), /later/);
  const text = await reporting.metrics.registry.metrics();
  assert.doesNotMatch(text, /rollout_group="ingester"/);
  assert.match(text, /rollout_operator_group_reconciles_total\{namespace="closed",rollout_group="store"\} 1/);
  assert.match(text, /sluice_waiting_since_timestamp_seconds\{namespace="closed"/);
});

test("acts are counted, and logged with object, zone and reason; failed ones are warnings", async () => {
  const testApp = createTestApp();
  const act = { key, function: "f", action: "delete", object: "ingester-a-0", zone: "ingester-a" };
  testApp.reporting.act({ ...act, result: "done", reason: "as decided" });
  testApp.reporting.act({ ...act, result: "refused", reason: "a webhook said no" });
  assert.deepEqual(
    testApp.lines.map(({ level, object, zone, reason }) => [level, object, zone, reason]),
    [
      ["info", "ingester-a-0", "ingester-a", "as decided"],
      ["warn", "ingester-a-0", "ingester-a", "a webhook said no"],
    ],
  );
  assert.equal((await seriesOf(testApp, "sluice_acts_total")).length, 2);
});

test("an error of the API server is logged as a warning without a stack, and any other error as an error with its stack", () => {
  const { reporting, lines } = createTestApp();
  const gone = new ClusterError({ code: 0, reason: "x", message: "gone", verb: "get", resource: "pods" });
  reporting.problem(key, "f", "could not read", gone);
  reporting.problem(key, "f", "could not think", new TypeError("undefined is no function"));
  assert.deepEqual(
    lines.map(({ level }) => level),
    ["warn", "error"],
  );
  assert.deepEqual(lines[0]?.err, { code: 0, reason: "x", verb: "get", resource: "pods" });
  assert.match(JSON.stringify(lines[1]?.err), /TypeError/);
});

test("calls to pods are counted by path, method and status, as rollout-operator counts them, and failed ones as errors", async () => {
  const { reporting } = createTestApp();
  await withPods({ onRequest: (one) => reporting.podRequest(one) }, async ({ address, pods, answer }) => {
    answer(({ response, index }) => (index === 0 ? response.writeHead(409).end() : response.destroy()));
    const request = { method: "POST", path: "/ingester/prepare?unset=1" } as const;
    assert.equal((await pods.send(address, request)).status, 409);
    await assert.rejects(pods.send(address, request));
  });
  const text = await reporting.metrics.registry.metrics();
  for (const status of ["409", "error"]) {
    const labels = `path="/ingester/prepare",method="POST",status_code="${status}"`;
    assert.match(
      text,
      new RegExp(`rollout_operator_pod_http_client_request_duration_seconds_count\\{${labels}\\} 1\n`),
    );
  }
});

test("invalid budgets are a metric of their namespace until they are corrected or deleted, and each delivery is counted", async () => {
  const testApp = createTestApp();
  const { budgets } = testApp.reporting.metrics;
  const budget = (name: string, maxUnavailable: number) =>
    parseStoredBudget({
      metadata: { namespace: "app", name, uid: name, resourceVersion: "1" },
      spec: { maxUnavailable, selector: { matchLabels: { app: name } } },
    });
  const invalid = () => seriesOf(testApp, "sluice_invalid_budgets{");
  const standing = (count: number) => [`sluice_invalid_budgets{namespace="app"} ${count}`];
  assert.deepEqual(await invalid(), []);
  for (const name of ["one", "two", "three"]) budgets.note(budget(name, name === "three" ? 1 : -1), "updated");
  assert.deepEqual(await invalid(), standing(2));
  budgets.note(budget("one", -1), "ignored");
  assert.deepEqual(await invalid(), standing(2));
  budgets.note(budget("one", 1), "updated");
  assert.deepEqual(await invalid(), standing(1));
  budgets.note(budget("two", -1), "deleted");
  assert.deepEqual(await invalid(), []);
  const counted = (result: string, count: number) =>
    `rollout_operator_zpdb_configurations_observed_total{result="${result}"} ${count}`;
  assert.deepEqual(await seriesOf(testApp, "rollout_operator_zpdb_configurations_observed_total{"), [
    counted("invalid", 2),
    counted("updated", 2),
    counted("ignored", 1),
    counted("deleted", 1),
  ]);
});

test("the registry has these metrics and no others", async () => {
  const { reporting } = createTestApp();
  const names = reporting.metrics.registry.getMetricsAsArray().map(({ name }) => name);
  assert.deepEqual(names.toSorted(), [
    "kube_validating_webhook_failure_policy",
    "process_resident_memory_bytes",
    "rollout_operator_group_reconcile_duration_seconds",
    "rollout_operator_group_reconciles_failed_total",
    "rollout_operator_group_reconciles_total",
    "rollout_operator_inflight_requests",
    "rollout_operator_kubernetes_api_client_request_duration_seconds",
    "rollout_operator_last_successful_group_reconcile_timestamp_seconds",
    "rollout_operator_pod_http_client_request_duration_seconds",
    "rollout_operator_request_duration_seconds",
    "rollout_operator_request_message_bytes",
    "rollout_operator_response_message_bytes",
    "rollout_operator_zpdb_configurations_observed_total",
    "rollout_operator_zpdb_eviction_requests_total",
    "rollout_operator_zpdb_inflight_eviction_requests",
    "sluice_acts_total",
    "sluice_build_info",
    "sluice_certificate_not_after_timestamp_seconds",
    "sluice_connections_ended_total",
    "sluice_events_total",
    "sluice_evictions_total",
    "sluice_fence_evidence_seconds",
    "sluice_fence_evidence_total",
    "sluice_fence_last_list_timestamp_seconds",
    "sluice_fence_nodes",
    "sluice_fence_slots",
    "sluice_fence_waiting_since_timestamp_seconds",
    "sluice_fences",
    "sluice_fences_waiting",
    "sluice_group_claim_due_timestamp_seconds",
    "sluice_group_claims",
    "sluice_group_last_progress_timestamp_seconds",
    "sluice_group_ledger_unreadable",
    "sluice_group_oldest_claim_timestamp_seconds",
    "sluice_group_outdated_pods",
    "sluice_group_pods_not_ready",
    "sluice_group_reservations",
    "sluice_health_answers_total",
    "sluice_held_review_seconds",
    "sluice_held_reviews",
    "sluice_invalid_budgets",
    "sluice_ledger_conflicts_total",
    "sluice_malformed_annotations_total",
    "sluice_never_possible_timestamp_seconds",
    "sluice_node_health_nodes",
    "sluice_other_operator",
    "sluice_queue_keys",
    "sluice_review_key_asked",
    "sluice_status_requests_total",
    "sluice_status_seconds",
    "sluice_suspended_bytes",
    "sluice_suspended_volume_claims",
    "sluice_verdicts_total",
    "sluice_volume_removal_timestamp_seconds",
    "sluice_waiting_since_timestamp_seconds",
    "sluice_watches",
  ]);
});

test("evictions that wait for their turn have a metric of their own, and do not count as reviews without an answer", async () => {
  const app = createTestApp();
  const { reporting } = app;
  const by = "evaluate-eviction";
  const inflight = "rollout_operator_zpdb_inflight_eviction_requests";
  reporting.metrics.inflightEvictions.inc(3);
  reporting.parked({ function: by, parked: 1 });
  reporting.parked({ function: by, parked: 2 });
  assert.deepEqual(await seriesOf(app, inflight), [`${inflight} 1`]);
  assert.deepEqual(await seriesOf(app, "sluice_held_reviews"), [`sluice_held_reviews{function="${by}"} 2`]);
  reporting.parked({ function: by, parked: 1, ended: { outcome: "allowed", seconds: 0.2 } });
  assert.deepEqual(await seriesOf(app, inflight), [`${inflight} 2`]);
  const [sum] = await seriesOf(app, "sluice_held_review_seconds_sum");
  assert.equal(sum, `sluice_held_review_seconds_sum{function="${by}",outcome="allowed"} 0.2`);
});
