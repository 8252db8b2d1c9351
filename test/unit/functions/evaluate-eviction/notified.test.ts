/** Rule R18 without a budget over the pods: no eviction takes a pod that is being told that it leaves. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { pinningPath, plainPaths } from "../../../../functions/evaluate-eviction/observe.ts";
import type { Denied } from "../../../../functions/shared/admission/definition.ts";
import { Harness, refused } from "../../shared/reconcile/harness.ts";
import { claimOf } from "../advance-zone-rollout/given.ts";
import { addBudget, Replica } from "./group-commit/reviews.ts";

const notified = { "rollout-group": "group", "grafana.com/prepare-downscale": "true" };
const paths = [pinningPath, ...plainPaths];

/** A group whose ledger has a claim of the upper one of two pods of a zone. */
async function claimed(labels: Readonly<Record<string, string>> = notified): Promise<Replica> {
  const harness = new Harness({ labels });
  await harness.run(true);
  harness.writeLedger({ "sluice.dev/claims": claimOf("group-a:1", "scale-down").line });
  return new Replica(harness);
}

test("zone-scaling-down: a pod that Sluice tells to prepare stays even if no budget selects it, and its siblings go", async () => {
  for (const path of paths) {
    const replica = await claimed();
    const answer = (await replica.answer(replica.review("group-a-1", { path }))) as Denied;
    assert.deepEqual([answer.guard, answer.code, answer.cause], ["zone-scaling-down", 429, "DisruptionBudget"]);
    assert.match(answer.message, /^group-a: 1 claimed for a scale-down .+: group-a-1 stays until it ends$/);
    const others = ["group-a-0", "group-b-1"].map((pod) => replica.review(pod, { path }));
    assert.deepEqual(await replica.guards(...others), ["out-of-scope", "out-of-scope"]);
    assert.deepEqual(
      replica.writes.filter((word) => word !== "create events"),
      [],
    );
  }
});

test("a pod that has ended or is terminating goes, claimed or not", async () => {
  const replica = await claimed();
  replica.harness.world.store.delete("pods", { namespace: "db", name: "group-a-1" });
  assert.deepEqual(await replica.guards(replica.review("group-a-1")), ["exempt"]);
});

test("Sluice reads the ledger only for pods that are told before they leave: one request for each review", async () => {
  const replica = await claimed();
  await replica.answer(replica.review("group-a-0"));
  assert.equal(replica.count("get leases"), 1);
  const untold = await claimed({ "rollout-group": "group" });
  assert.deepEqual(await untold.guards(untold.review("group-a-1")), ["out-of-scope"]);
  assert.equal(untold.count("get leases"), 0);
});

test("a StatefulSet with a delay also counts as one whose pods are told", async () => {
  const replica = await claimed({ "rollout-group": "group" });
  const prefix = "grafana.com/rollout-";
  replica.harness.world.annotate(
    { namespace: "db", name: "group-a" },
    { [`${prefix}delayed-downscale`]: "1h", [`${prefix}prepare-delayed-downscale-url`]: "http://pod/prepare" },
  );
  assert.deepEqual(await replica.guards(replica.review("group-a-1")), ["zone-scaling-down"]);
});

test("without a ledger no pod counts as told to prepare; if Sluice cannot read the ledger, the pod stays", async () => {
  const none = new Replica(new Harness({ labels: notified }));
  assert.deepEqual(await none.guards(none.review("group-a-1")), ["out-of-scope"]);
  const broken = await claimed();
  broken.harness.writeLedger({ "sluice.dev/claims": "{" });
  assert.deepEqual(await broken.guards(broken.review("group-a-0")), ["ledger-unreadable"]);
  const away = await claimed();
  away.interfere = ({ resource }) => {
    if (resource === "leases") throw refused(403);
  };
  assert.deepEqual(await away.guards(away.review("group-a-0")), ["right-missing"]);
});

test("if a budget selects the pod, the decision by the budget counts the claim", async () => {
  const replica = await claimed();
  addBudget(replica.harness, { maxUnavailable: 2 });
  await replica.harness.goOn(60_000);
  await replica.guards(replica.review("group-a-1"));
  await replica.harness.goOn(11_000);
  assert.deepEqual(await replica.guards(replica.review("group-a-1")), ["zone-scaling-down"]);
  assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["allowed"]);
});
