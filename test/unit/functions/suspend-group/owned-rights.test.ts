/**
 * Which pods of other owners than StatefulSets may go by annotations on volume claims: a user of those gains no right
 * over pods.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  asOfNow,
  compileSelector,
  type PodDisruptionBudget,
} from "../../../../functions/shared/groups/pod-disruption-budget.ts";
import { durationOf, type Member } from "../../../../functions/shared/volumes/members.ts";
import { parsePod } from "../../../../functions/shared/workloads/pods.ts";
import { Owned } from "../../../support/owned.ts";
import { minutesAgo } from "../../../support/suspended.ts";
import { decided } from "./given.ts";

test("owner-not-controller: a pod stays if the named owner, by kind, group and name, does not control it and its label disagrees", () => {
  const named = { apiVersion: "apps.foundationdb.org/v1beta2", kind: "FoundationDBCluster", name: "orders" };
  const foreign = {
    "nothing controls it": [],
    "not as its controller": [{ ...named, uid: "u" }],
    "another kind": [{ ...named, kind: "Cache", uid: "u", controller: true }],
    "another group": [{ ...named, apiVersion: "v1", uid: "u", controller: true }],
    "another name": [{ ...named, name: "invoices", uid: "u", controller: true }],
  };
  for (const [what, ownerReferences] of Object.entries(foreign)) {
    const on = Owned.of(["a"], 1);
    on.addPod("a-0", { ownerReferences });
    on.ask("a-0");
    assert.deepEqual(decided(on), ["owner-not-controller"], what);
    on.protect("a-0");
    assert.deepEqual(decided(on), ["owner-not-controller"], what);
    on.addPod("a-0", { ownerReferences, labels: { "sluice.dev/suspendable": "yes" } });
    assert.deepEqual(decided(on), ["owner-not-controller"], what);
    on.addPod("a-0", { ownerReferences, labels: { "sluice.dev/suspendable": "true" } });
    assert.deepEqual(decided(on), ["let-go a-0"], what);
  }
});

const budget = (disruptionsAllowed: number, changes: Partial<PodDisruptionBudget> = {}): PodDisruptionBudget => ({
  namespace: "db",
  name: "orders",
  selector: compileSelector({}),
  behind: false,
  disruptionsAllowed,
  spares: "unready-while-healthy",
  healthy: true,
  minimum: { pods: 1, of: 3, isNumber: true },
  ...changes,
});

test("disruption-budget: a pod stays if its PodDisruptionBudget allows no disruption, and at most as many go as that allows", () => {
  const on = Owned.of(["a"], 3);
  on.protect("a-0", "a-1", "a-2");
  const decidedUnder = (...disruptionBudgets: readonly PodDisruptionBudget[]) => decided(on, { disruptionBudgets });
  assert.deepEqual(decidedUnder(budget(0)), ["disruption-budget"]);
  assert.deepEqual(decidedUnder(budget(1, { behind: true })), ["disruption-budget"]);
  assert.deepEqual(
    decidedUnder(budget(1), budget(1, { name: "second" })),
    ["disruption-budget"],
    "an eviction gets the same answer",
  );
  assert.deepEqual(decidedUnder(budget(1)), ["let-go a-0", "suspending"]);
  assert.deepEqual(decidedUnder(budget(2)), ["let-go a-0 a-1", "suspending"]);
  assert.deepEqual(decidedUnder(budget(0, { selector: undefined })), ["let-go a-0 a-1 a-2"]);
  assert.deepEqual(decidedUnder(budget(0, { namespace: "other" })), ["let-go a-0 a-1 a-2"]);
  on.addPod("a-1", { labels: { app: "kept" } });
  const kept = budget(0, { selector: compileSelector({ matchLabels: { app: "kept" } }) });
  assert.deepEqual(decidedUnder(kept), ["let-go a-0 a-2", "suspending"], "the other pods do not wait for it");
});

test("a PodDisruptionBudget that its controller has not updated yet allows no second deletion", () => {
  const pods = ["a-0", "a-1"].map((name) => {
    const status = {
      phase: "Running",
      conditions: [{ type: "Ready", status: "True", lastTransitionTime: minutesAgo(9) }],
    };
    return parsePod({ metadata: { name, namespace: "db", uid: name, resourceVersion: "1" }, status });
  });
  const late = budget(1, { minimum: { pods: 2, of: 3, isNumber: true } });
  assert.equal(asOfNow(late, pods).disruptionsAllowed, 0);
  assert.equal(asOfNow({ ...late, minimum: { ...late.minimum, pods: 1 } }, pods).disruptionsAllowed, 1);
});

test("the owner's own minimum also counts for its volume claims", () => {
  const on = Owned.of(["a"], 1);
  on.set({}, { "sluice.dev/suspend-duration": "7d" });
  on.log("a-0-data", { "suspend-duration": "0" });
  assert.deepEqual(on.members.map(durationOf), [{ kind: "value", value: 7 * 86_400_000 }]);
  on.set({}, { "sluice.dev/suspend-duration": "a week" });
  assert.deepEqual(
    on.members.map(({ set, pvcs }) => durationOf({ set, pvcs } as Member).kind),
    ["malformed"],
  );
});
