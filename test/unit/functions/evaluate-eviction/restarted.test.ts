/** Evictions of pods whose processes are restarted: without a group or a budget, a ledger of their own decides about them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseRestart } from "../../../../functions/shared/annotations/restart.ts";
import { makeClaim } from "../../../../functions/shared/ledger/claim.ts";
import { ledgerName } from "../../../../functions/shared/ledger/lease-name.ts";
import { Harness, namespace } from "../../shared/reconcile/harness.ts";
import { reservation, zone } from "../advance-zone-rollout/given.ts";
import { guards } from "./given-evictions.ts";
import { Replica } from "./group-commit/reviews.ts";

const group = "statefulset:group-a";
const annotations = { "sluice.dev/restart-manager": "http://:9844", "sluice.dev/restart-manager-secret": "token" };

function stage(annotated: Readonly<Record<string, string>>) {
  const harness = new Harness({ replicas: 3, zones: ["a"], labels: { app: "db" } });
  harness.world.annotate({ namespace, name: "group-a" }, annotated);
  return { harness, replica: new Replica(harness, () => ({})) };
}

test("without a group and a budget, evictions wait for the restart of a process, also of another pod", async () => {
  const { harness, replica } = stage(annotations);
  assert.deepEqual(await replica.guards(replica.review("group-a-1")), ["ledger-new"]);
  const { line } = makeClaim({
    ...{ id: "restart-1", kind: "process", zone: "group-a", members: [{ first: 0, last: 0 }], mode: "single" },
    ...{ by: "advance-process-restart", stampMs: harness.timeline.nowMs(), phase: "stopping", terms: "announced" },
    anchor: { resource: "pods", name: "group-a-0", annotation: "sluice.dev/restart-id" },
  });
  const lease = { namespace, name: ledgerName(group) };
  harness.world.store.patch("leases", lease, { metadata: { annotations: { "sluice.dev/claims": line } } });
  await harness.goOn(11_000);
  assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["zone-restarting-process"]);
  assert.deepEqual(await replica.guards(replica.review("group-a-1")), ["one-at-a-time"]);
  harness.world.store.patch("leases", lease, { metadata: { annotations: { "sluice.dev/claims": null } } });
  await harness.goOn(6_000);
  assert.deepEqual(await replica.guards(replica.review("group-a-1")), ["allowed"]);
});

test("without a process manager such a pod is out of scope", async () => {
  const { replica } = stage({});
  const answer = await replica.answer(replica.review("group-a-1"));
  assert.ok(answer.allowed && answer.guard === "out-of-scope");
});

test("without a budget no such pod goes while a reserved pod of a StatefulSet that has left the group is not back", () => {
  const restart = parseRestart({ name: "a", uid: "u", resourceVersion: "1", annotations });
  const zones = [zone("a", "ooo", restart && { restart })];
  assert.deepEqual(guards(zones, ["a-0"], { budgets: [] }), ["allowed"]);
  assert.deepEqual(guards(zones, ["a-0"], { budgets: [], departed: [reservation("z-0")] }), ["zone-departed"]);
});
