/** A pod is taken only while its own zone is within its budget (Z2), and only if the pod's answer permits it (Q1). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Owned } from "../../../support/owned.ts";
import { AskedPods, critical, rabbit } from "../../shared/health/asked-pods.ts";
import { namespace } from "../../shared/reconcile/harness.ts";
import { top, Volumes } from "../../shared/suspension/volumes.ts";
import { decided, suspending } from "./given.ts";

const low = "data-group-a-1";

/** Reconciles for a while. Resolves to the remaining pods of zone a. */
async function left(on: Volumes, rounds = 8): Promise<readonly string[]> {
  for (let round = 0; round < rounds; round++) {
    await on.suspend();
    await on.goOn(3_000);
  }
  return on.world.store
    .list("pods", { namespace })
    .items.map(({ metadata }) => metadata.name)
    .filter((name) => name.startsWith("group-a"));
}

const broken = async (on: Volumes, ...names: readonly string[]) => {
  for (const name of names) on.world.kubelet.breakPod({ namespace, name });
  await on.goOn(60_000);
};
const all = ["group-a-0", "group-a-1", "group-a-2"];
const guardOf = (on: Volumes) => (on.recorded(top, "suspend-message") ?? "").split(": ", 1)[0];

test("budget: the last ready pod of a zone stays while the pods that are to stay are down", async () => {
  const on = new Volumes();
  await broken(on, "group-a-0", "group-a-1");
  on.ask(top);
  assert.deepEqual(await left(on), all);
  assert.equal(guardOf(on), "budget");
  assert.match(
    on.recorded(top, "suspend-message") ?? "",
    /group-a: 2 of 3 down \(2 not ready\), 1 may be, and 1 more would be/,
  );
  on.world.kubelet.healPod({ namespace, name: "group-a-0" });
  on.world.kubelet.healPod({ namespace, name: "group-a-1" });
  await on.goOn(60_000);
  assert.deepEqual(await left(on), all.slice(0, 2));
});

test("as many pods go as the budget leaves: one of two, while another pod is down", () => {
  const on = suspending(["a"], [1, 2]);
  const set = on.sets.get("a");
  const pod = on.pods.get("db-a-0");
  assert.ok(set !== undefined && pod !== undefined);
  const annotations = { ...set.metadata.annotations, "rollout-max-unavailable": "2" };
  on.sets.set("a", { ...set, metadata: { ...set.metadata, annotations } });
  on.spec("a", { podManagementPolicy: "Parallel" });
  assert.deepEqual(decided(on), ["db-a to 1"]);
  on.pods.set("db-a-0", { ...pod, status: { conditions: [{ type: "Ready", status: "False" }] } });
  assert.deepEqual(decided(on), ["db-a to 2", "suspending"]);
});

test("a pod that is already down needs no budget, and may go", async () => {
  const on = new Volumes();
  await broken(on, "group-a-0", "group-a-2");
  on.ask(top);
  assert.deepEqual(await left(on), all.slice(0, 2));
});

test("ordinal-not-ready: with OrderedReady no pod above a broken pod goes; the message names that, and no claim is made", async () => {
  const on = new Volumes("600s", {}, { podManagementPolicy: "OrderedReady" });
  on.world.annotate({ namespace, name: "group-a" }, { "rollout-max-unavailable": "3" });
  await broken(on, "group-a-0");
  on.ask(top);
  assert.deepEqual(await left(on), all);
  assert.equal(guardOf(on), "ordinal-not-ready");
  assert.match(on.recorded(top, "suspend-message") ?? "", /group-a-0 is not ready, and group-a is OrderedReady/);
  assert.deepEqual(on.ledger.claims, []);
});

test("health-bad: a pod stays while its answer says that it is needed, and goes after a good answer; one pod goes at a time", async () => {
  const on = new Volumes();
  const pods = new AskedPods(on, ["group-a"], rabbit);
  on.restart({ pods: pods.http(on.cluster) });
  pods.others = critical;
  on.ask(top);
  on.ask(low);
  assert.deepEqual(await left(on), all);
  assert.equal(guardOf(on), "health-bad");
  assert.ok(pods.takeAsked().every((name) => name === "group-a-2"));
  pods.replies.clear();
  pods.others = { status: 200, body: '{"status":"ok"}' };
  await on.until(
    () => on.pod("group-a-2") === undefined,
    () => on.suspend(),
  );
  assert.ok(on.pod("group-a-1") !== undefined, "the good answers were given while both pods stood");
  assert.deepEqual([...new Set(pods.takeAsked())], ["group-a-2"]);
});

test("a pod of another owner stays while another pod of its zone is down, and a broken pod that is to go goes first", () => {
  const on = Owned.of(["a"], 3);
  on.protect("a-0");
  on.unready("a-2");
  assert.equal(decided(on)[0], "budget");
  on.protect("a-2");
  assert.ok(
    decided(on).some((described) => described.startsWith("let-go a-2")),
    decided(on).join(),
  );
});

test("the pods of one zone with a request go together, however few may be down", () => {
  const on = suspending(["a"], [1, 2]);
  assert.deepEqual(decided(on), ["db-a to 1"]);
});
