import assert from "node:assert/strict";
import { test } from "node:test";
import { Registry } from "prom-client";
import { surveyZone } from "../../../../functions/shared/groups/zones.ts";
import type { Claim } from "../../../../functions/shared/ledger/claim.ts";
import { parseLedger } from "../../../../functions/shared/ledger/contents.ts";
import { createLedgerMetrics } from "../../../../triggers/telemetry/ledger-metrics.ts";
import type { GroupStanding } from "../../../../triggers/telemetry/ledger-metrics-groups.ts";
import {
  claimOf,
  foreignClaim,
  leaseObject,
  namespace,
  nowMs,
  statefulSet,
} from "../../functions/advance-zone-rollout/given.ts";

const key = { namespace, group: "group" };

/** The series of a metric for a ledger with these claims, as `KIND FUNCTION: VALUE`. */
async function seriesOf(name: string, claims: readonly Claim[], zones: GroupStanding["zones"] = []): Promise<string[]> {
  const registry = new Registry();
  const text = claims.map(({ line }) => line).join("\n");
  const lease = leaseObject("sluice-group", { "sluice.dev/group": "group", "sluice.dev/claims": text });
  const standing = { key, zones, ledger: parseLedger(key, lease), isUnreadable: false, rollout: undefined };
  createLedgerMetrics([registry]).showGroups(async () => [standing], { reconciles: false });
  const metric = (await registry.getMetricsAsJSON()).find((one) => one.name === name);
  return (metric?.values ?? []).map(({ labels, value }) => {
    assert.deepEqual([labels.namespace, labels.rollout_group], [namespace, "group"]);
    return `${labels.kind} ${labels.function}: ${value}`;
  });
}

test("claims are counted by kind and by function, including kinds of later versions", async () => {
  const claims = [
    claimOf("a:1", "scale-down"),
    claimOf("b:1", "scale-down"),
    claimOf("a:2", "node", { by: "fence-node" }),
    foreignClaim("b"),
  ];
  assert.deepEqual(await seriesOf("sluice_group_claims", claims), [
    "scale-down another-function: 2",
    "node fence-node: 1",
    "later : 1",
  ]);
});

test("the age of the oldest claim is reported for each kind, but not for a kind that this version cannot read", async () => {
  const claims = [
    claimOf("a:1", "scale-down", { stampMs: nowMs, sinceMs: nowMs - 60_000 }),
    claimOf("b:1", "scale-down", { stampMs: nowMs - 30_000 }),
    foreignClaim("b"),
  ];
  const seconds = (nowMs - 60_000) / 1000;
  const series = await seriesOf("sluice_group_oldest_claim_timestamp_seconds", claims);
  assert.deepEqual(series, [`scale-down another-function: ${seconds}`]);
});

test("the time at which the first claim of a kind is overdue is reported, by the grace period of its own StatefulSet", async () => {
  const claims = [
    claimOf("a:1", "scale-down", { stampMs: nowMs - 60_000 }),
    claimOf("b:1", "scale-down", { stampMs: nowMs }),
    foreignClaim("b"),
  ];
  const dueWith = async (graceMs: number) => {
    const zones = ["a", "b"].map((name) =>
      surveyZone(statefulSet(name, { graceMs: name === "a" ? graceMs : 0 }), [], [], nowMs),
    );
    return seriesOf("sluice_group_claim_due_timestamp_seconds", claims, zones);
  };
  const hour = nowMs / 1000 + 3_600;
  assert.deepEqual(await dueWith(0), [`scale-down another-function: ${hour - 60}`]);
  assert.deepEqual(await dueWith(30_000), [`scale-down another-function: ${hour - 30}`]);
  assert.deepEqual(await dueWith(600_000), [`scale-down another-function: ${hour}`]);
});

test("a parked process has a time far away, because an alert takes a claim without one for one that has stood too long", async () => {
  const parked = claimOf("a:1", "process", { mode: "parked", phase: "parked", stampMs: nowMs - 7_200_000 });
  const [series = ""] = await seriesOf("sluice_group_claim_due_timestamp_seconds", [parked]);
  const [, due] = /^process another-function: (\d+)$/.exec(series) ?? [];
  assert.ok(Number(due) > nowMs / 1000 + 50 * 365 * 86_400, series);
  const starting = claimOf("a:1", "process", {
    id: "x",
    mode: "parked",
    phase: "starting",
    stampMs: nowMs - 7_200_000,
  });
  const both = await seriesOf("sluice_group_claim_due_timestamp_seconds", [parked, starting]);
  assert.deepEqual(both, [`process another-function: ${nowMs / 1000 - 3_600}`]);
});

test("one ledger causes at most twenty series with labels of limited length, whatever a client writes into it", async () => {
  const many = Array.from({ length: 30 }, (_, index) => claimOf(`a:${index}`, "scale-down", { by: `f${index}` }));
  assert.equal((await seriesOf("sluice_group_claims", many)).length, 20);
});
