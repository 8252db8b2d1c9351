/** What a sweep does to the ledgers themselves (rule R4). */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Preconditions } from "../../../../functions/shared/kubernetes/cluster.ts";
import type { GroupKey } from "../../../../functions/shared/objects/statefulsets.ts";
import { sweepBudgetLedgers, sweepLedgers } from "../../../../functions/shared/pass/sweep-ledgers.ts";
import { addBudget, Replica } from "../review/reviews.ts";
import { key, ledgerKey, namespace, Passes, played } from "./passes.ts";

async function sweep(passes: Passes, groups: readonly GroupKey[]): Promise<GroupKey[]> {
  const settled: GroupKey[] = [];
  const settle = async (vanished: GroupKey) => void settled.push(vanished);
  await played(passes.timeline, sweepLedgers(passes.context, groups, settle, "test"));
  return settled;
}

const leases = (passes: Passes): string[] =>
  passes.world.store.list("leases").items.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`);

test("a sweep makes the ledgers that groups lack, ahead of need", async () => {
  const passes = new Passes();
  await sweep(passes, [key, { namespace: "other", group: "Odd Group" }, { namespace, group: "second" }]);
  const made = leases(passes);
  assert.equal(made.length, 3);
  assert.ok(made.includes("db/sluice-group") && made.includes("db/sluice-second"));
  passes.forget();
  await sweep(passes, [key, { namespace: "other", group: "Odd Group" }, { namespace, group: "second" }]);
  assert.deepEqual(passes.words, ["list leases"]);
});

test("a group of the same name in another namespace has a ledger of its own", async () => {
  const passes = new Passes();
  await sweep(passes, [key]);
  await sweep(passes, [key, { ...key, namespace: "other" }]);
  assert.deepEqual(leases(passes), ["db/sluice-group", "other/sluice-group"]);
});

test("an empty ledger of a vanished group is removed by uid and resourceVersion", async () => {
  const passes = new Passes();
  await sweep(passes, [key]);
  const { uid, resourceVersion } = passes.world.store.get("leases", ledgerKey).metadata;
  assert.deepEqual(await sweep(passes, []), []);
  assert.deepEqual(leases(passes), []);
  const [deletion] = passes.calls.filter(({ verb }) => verb === "delete");
  assert.deepEqual(deletion?.given[2] as Preconditions, { uid, resourceVersion });
});

test("a ledger of a vanished group that still holds reservations is settled, not removed", async () => {
  const passes = new Passes();
  await sweep(passes, [key]);
  passes.writeLedger({ "sluice.dev/reservations": '{"group-a":{"0":["uid","other",1]}}' });
  assert.deepEqual(await sweep(passes, []), [key]);
  assert.deepEqual(leases(passes), ["db/sluice-group"]);
});

test("a ledger that somebody writes, removes or makes anew meanwhile is left alone", async () => {
  for (const meanwhile of ["write", "remove"]) {
    const passes = new Passes();
    await sweep(passes, [key]);
    passes.interfere = ({ verb }) => {
      if (verb !== "delete") return;
      if (meanwhile === "write") passes.writeLedger({ "sluice.dev/reservations": '{"group-a":{"0":["u","f",1]}}' });
      else passes.world.store.delete("leases", ledgerKey);
    };
    await sweep(passes, []);
    assert.deepEqual(leases(passes), meanwhile === "write" ? ["db/sluice-group"] : []);
  }
});

test("an unreadable ledger of a vanished group is left for a human", async () => {
  const passes = new Passes();
  await sweep(passes, [key]);
  passes.writeLedger({ "sluice.dev/reservations": "{" });
  assert.deepEqual(await sweep(passes, []), []);
  assert.deepEqual(leases(passes), ["db/sluice-group"]);
});

test("Leases of others are no ledgers: without the label, or without a group, they are not touched", async () => {
  const passes = new Passes();
  const { store } = passes.world;
  store.create("leases", namespace, { metadata: { name: "a-leader" } });
  const label = { "app.kubernetes.io/managed-by": "sluice" };
  store.create("leases", namespace, { metadata: { name: "b-labelled", labels: label } });
  const annotations = { "sluice.dev/group": "group" };
  store.create("leases", namespace, { metadata: { name: "c-unlabelled", annotations } });
  store.create("leases", namespace, { metadata: { name: "sluice-undefined", labels: label } });
  await sweep(passes, []);
  assert.deepEqual(leases(passes), ["db/a-leader", "db/b-labelled", "db/c-unlabelled", "db/sluice-undefined"]);
});

test("a process that serves some namespaces neither sees nor removes the ledgers of others", async () => {
  const passes = new Passes();
  await sweep(passes, [key, { ...key, namespace: "other" }]);
  passes.restart({ namespaces: ["other"] });
  await sweep(passes, []);
  assert.deepEqual(leases(passes), ["db/sluice-group"]);
});

test("in shadow mode a sweep neither makes nor removes a ledger (R16)", async () => {
  const passes = new Passes();
  await sweep(passes, [key]);
  passes.restart({ mode: "shadow" });
  passes.forget();
  await sweep(passes, [{ namespace, group: "second" }]);
  assert.deepEqual(passes.words, []);
  assert.deepEqual(leases(passes), ["db/sluice-group"]);
});

/** A group whose StatefulSets have no rollout-group, under a budget of another name. */
function ungrouped(): Passes {
  const passes = new Passes();
  const spec = { template: { metadata: { labels: { app: "db" } } } };
  for (const name of ["group-a", "group-b"]) {
    const change = { metadata: { labels: { "rollout-group": null } }, spec };
    passes.world.store.patch("statefulsets", { namespace, name }, change);
  }
  addBudget(passes, { selector: { matchLabels: { app: "db" } } }, "db");
  return passes;
}

const sweepBudgets = (passes: Passes) => played(passes.timeline, sweepBudgetLedgers(passes.context, "test"));
const removeBudget = (passes: Passes) => {
  passes.world.store.delete("zoneawarepoddisruptionbudgets", { namespace, name: "db" });
};
/** The only ledger; `budget:db` is no name for an object. */
const budgetLedger = { namespace, name: "sluice-afccf086814dbbce" };

test("a sweep of those who judge evictions makes the ledgers of all that a budget selects, and no others (R1, R4)", async () => {
  const passes = ungrouped();
  passes.world.addGroup({ namespace, group: "governed", zones: ["a", "b"], replicas: 1 });
  passes.world.addGroup({ namespace, group: "free", zones: ["a", "b"], replicas: 1 });
  passes.world.addGroup({ namespace: "elsewhere", group: "governed", zones: ["a"], replicas: 1 });
  addBudget(passes, { selector: { matchLabels: { "rollout-group": "governed" } }, maxUnavailable: "invalid" });
  await sweepBudgets(passes);
  assert.deepEqual(leases(passes).sort(), [`db/${budgetLedger.name}`, "db/sluice-governed"]);
  passes.forget();
  await sweepBudgets(passes);
  assert.deepEqual(passes.words.sort(), ["list leases", "list statefulsets", "list zoneawarepoddisruptionbudgets"]);
});

test("ten seconds after a sweep has made or found a ledger, the first review under it waits no longer (R4)", async () => {
  for (const isMade of [false, true]) {
    const passes = new Passes();
    addBudget(passes);
    if (isMade) await played(passes.timeline, passes.context.protocol.createLedger(passes.cluster, key));
    const replica = new Replica(passes);
    await played(passes.timeline, sweepBudgetLedgers(replica.context, "test"));
    await passes.goOn(9_900);
    assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["ledger-new"]);
    await passes.goOn(100);
    assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["allowed"]);
  }
});

test("where the budgets' CRD is not installed there is nothing to sweep", async () => {
  const passes = new Passes();
  passes.world.store.withdraw("zoneawarepoddisruptionbudgets");
  await sweepBudgets(passes);
  assert.deepEqual(leases(passes), []);
});

test("the ledger of a budget that selects nothing any more goes, by uid and resourceVersion", async () => {
  const passes = ungrouped();
  await sweepBudgets(passes);
  const { uid, resourceVersion } = passes.world.store.get("leases", budgetLedger).metadata;
  removeBudget(passes);
  await sweepBudgets(passes);
  assert.deepEqual(leases(passes), []);
  const [deletion] = passes.calls.filter(({ verb }) => verb === "delete");
  assert.deepEqual(deletion?.given[2] as Preconditions, { uid, resourceVersion });
});

test("it stays while a pod that it has reserved is neither gone nor back", async () => {
  const passes = ungrouped();
  await sweepBudgets(passes);
  const podKey = { namespace, name: "group-a-0" };
  const { uid } = passes.world.store.get("pods", podKey).metadata;
  const reservations = JSON.stringify({ "group-a": { 0: [uid, "evaluate-eviction", passes.timeline.nowMs()] } });
  passes.world.annotate(budgetLedger, { "sluice.dev/reservations": reservations }, "leases");
  removeBudget(passes);
  await sweepBudgets(passes);
  assert.equal(leases(passes).length, 1);
  passes.world.store.delete("pods", podKey, { preconditions: { uid } });
  await sweepBudgets(passes);
  assert.equal(leases(passes).length, 1);
  passes.world.settle();
  await sweepBudgets(passes);
  assert.deepEqual(leases(passes), []);
});

test("it stays while a StatefulSet has pods that the budget selects, though its template makes none any more", async () => {
  const passes = ungrouped();
  for (const { metadata } of passes.world.store.list("pods").items) passes.world.store.delete("pods", metadata, {});
  passes.world.settle();
  await sweepBudgets(passes);
  const template = { metadata: { labels: { app: "other" } } };
  for (const name of ["group-a", "group-b"])
    passes.world.store.patch("statefulsets", { namespace, name }, { spec: { template } });
  await sweepBudgets(passes);
  assert.deepEqual(leases(passes), [`db/${budgetLedger.name}`]);
});

test("whether it may go is asked of the API server, not of what a watch has told", async () => {
  const passes = ungrouped();
  await sweepBudgets(passes);
  passes.world.annotate(budgetLedger, { "sluice.dev/settled-through": "1" }, "leases");
  removeBudget(passes);
  const views = await passes.watch();
  passes.forget();
  await sweepBudgets(passes);
  assert.deepEqual(
    [leases(passes), passes.count("list statefulsets")],
    [[], 2],
    "once for the groups, and once for it",
  );
  await played(passes.timeline, views.stop());
});

test("each sweep removes the ledgers of its own kind only", async () => {
  const passes = ungrouped();
  await sweepBudgets(passes);
  removeBudget(passes);
  await sweep(passes, [key]);
  assert.deepEqual(leases(passes).sort(), [`db/${budgetLedger.name}`, "db/sluice-group"]);
  await sweepBudgets(passes);
  assert.deepEqual(leases(passes), ["db/sluice-group"]);
});

test("an unreadable ledger of a budget is left for a human, and shadow mode writes nothing (R16)", async () => {
  const passes = ungrouped();
  passes.restart({ mode: "shadow" });
  await sweepBudgets(passes);
  assert.deepEqual([leases(passes), passes.words], [[], []]);
  passes.restart({ mode: "act" });
  await sweepBudgets(passes);
  passes.world.annotate(budgetLedger, { "sluice.dev/reservations": "{" }, "leases");
  removeBudget(passes);
  await sweepBudgets(passes);
  assert.equal(leases(passes).length, 1);
});

test("a process that serves some namespaces sweeps the budgets of those", async () => {
  const passes = ungrouped();
  passes.restart({ namespaces: ["elsewhere"] });
  await sweepBudgets(passes);
  assert.deepEqual(leases(passes), []);
  passes.restart({ namespaces: ["elsewhere", namespace] });
  await sweepBudgets(passes);
  assert.equal(leases(passes).length, 1);
});
