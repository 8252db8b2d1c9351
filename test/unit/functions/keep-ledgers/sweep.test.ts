/** What a sweep does to the ledgers themselves (rules R1 and R4). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { keepLedgers } from "../../../../functions/keep-ledgers/function.ts";
import type { Preconditions } from "../../../../functions/shared/kubernetes/cluster.ts";
import { ledgerName } from "../../../../functions/shared/ledger/lease-name.ts";
import {
  groupOfBudget,
  groupOfLoneStatefulSet,
  groupOfOwner,
} from "../../../../functions/shared/workloads/group-key.ts";
import { key, ledgerKey, namespace, Passes, played } from "../../shared/reconcile/passes.ts";
import { addBudget, Replica } from "../evaluate-eviction/group-commit/reviews.ts";

import { leasesOf, sweep, sweepOver } from "./ledgers.ts";

/** A claim of a kind that only a later version knows. */
const later = '{ "id":"x", "kind":"later","zone":"group-b","n":1e400 }';

test("a sweep makes the ledgers that groups lack, ahead of need", async () => {
  const passes = new Passes();
  await sweepOver(passes, [key, { namespace: "other", group: "Odd_Group" }, { namespace, group: "second" }]);
  const made = leasesOf(passes);
  assert.equal(made.length, 3);
  assert.ok(made.includes("db/sluice-group") && made.includes("db/sluice-second"));
  passes.forget();
  await sweepOver(passes, [key, { namespace: "other", group: "Odd_Group" }, { namespace, group: "second" }]);
  assert.deepEqual(passes.words.sort(), ["list leases", "list statefulsets", "list zoneawarepoddisruptionbudgets"]);
});

test("a group of the same name in another namespace has a ledger of its own", async () => {
  const passes = new Passes();
  await sweepOver(passes, [key]);
  await sweepOver(passes, [key, { ...key, namespace: "other" }]);
  assert.deepEqual(leasesOf(passes), ["db/sluice-group", "other/sluice-group"]);
});

test("an empty ledger of a vanished group is removed by uid and resourceVersion", async () => {
  const passes = new Passes();
  await sweepOver(passes, [key]);
  const { uid, resourceVersion } = passes.world.store.get("leases", ledgerKey).metadata;
  assert.equal(await sweepOver(passes, []), undefined);
  assert.deepEqual(leasesOf(passes), []);
  const [deletion] = passes.calls.filter(({ verb }) => verb === "delete");
  assert.deepEqual(deletion?.given[2] as Preconditions, { uid, resourceVersion });
});

test("a ledger of a vanished group stays while a pod that it has reserved stands, and says so; it goes with the pod", async () => {
  const passes = new Passes({ zones: ["a"], replicas: 1 });
  await sweep(passes);
  const podKey = { namespace, name: "group-a-0" };
  const { uid } = passes.world.store.get("pods", podKey).metadata;
  const reservations = JSON.stringify({ "group-a": { 0: [uid, "other", passes.timeline.nowMs()] } });
  passes.writeLedger({ "sluice.dev/reservations": reservations });
  passes.world.removeStatefulSet({ namespace, name: "group-a" }, "Orphan");
  passes.world.settle();
  await sweep(passes);
  assert.deepEqual(leasesOf(passes), ["db/sluice-group"]);
  const [said, ...more] = passes.verdicts;
  assert.deepEqual([said?.function, said?.guard, said?.zone, more], ["keep-ledgers", "ledger-held", "group-a", []]);
  assert.match(
    said?.message ?? "",
    /^group has no StatefulSet any more, and its ledger holds the reservation of group-a-0: /,
  );
  await passes.goOn(1_000);
  await sweep(passes);
  assert.equal(passes.verdicts[1]?.sinceMs, said?.sinceMs, "it has held since then");
  passes.world.store.delete("pods", podKey, { preconditions: { uid } });
  await passes.goOn(60_000);
  await sweep(passes);
  assert.deepEqual(leasesOf(passes), []);
  const [{ function: by, action, object, result } = assert.fail("nothing is told")] = passes.acts;
  assert.deepEqual([by, action, object, result], ["keep-ledgers", "collect", "sluice-group", "done"]);
});

test("a ledger stays while pods stand that all of its StatefulSets have left behind: it knows of their zones (R7)", async () => {
  const passes = new Passes({ zones: ["a", "b"], replicas: 1 });
  await sweep(passes);
  passes.writeLedger({ "sluice.dev/members": JSON.stringify(["group-a", "group-b"]) });
  for (const name of ["group-a", "group-b"]) passes.world.removeStatefulSet({ namespace, name }, "Orphan");
  passes.world.settle();
  await sweep(passes);
  assert.deepEqual(leasesOf(passes), ["db/sluice-group"]);
  for (const name of ["group-a-0", "group-b-0"]) passes.world.store.delete("pods", { namespace, name });
  await passes.goOn(60_000);
  await sweep(passes);
  assert.deepEqual(leasesOf(passes), []);
});

test("a ledger of a vanished group that says what only another function, or a later version, understands is left alone", async () => {
  for (const annotation of ["sluice.dev/last-time", "sluice.dev/some-time"]) {
    const passes = new Passes();
    await sweep(passes);
    passes.writeLedger({ [annotation]: "2026-01-01T00:00:00Z" });
    await sweepOver(passes, []);
    assert.deepEqual(leasesOf(passes), ["db/sluice-group"], annotation);
    assert.equal(passes.verdicts.at(-1)?.guard, "ledger-in-use");
    assert.match(passes.verdicts.at(-1)?.message ?? "", new RegExp(annotation));
    passes.writeLedger({ [annotation]: null, "example.com/note": "mine" });
    await sweep(passes);
    assert.deepEqual(leasesOf(passes), []);
  }
});

test("a sweep removes no ledger that holds a claim, of whatever kind, and none of an owner that a volume claim names", async () => {
  const passes = new Passes();
  const ownedBy = (name: string) => groupOfOwner({ kind: "Database", apiGroup: "example.com", name });
  const annotations = { "sluice.dev/owner": "Database.example.com/living" };
  passes.world.store.create("persistentvolumeclaims", namespace, { metadata: { name: "data", annotations } });
  const make = (group: string, claims: string) => {
    const annotations = { "sluice.dev/group": group, "sluice.dev/claims": claims };
    const labels = { "app.kubernetes.io/managed-by": "sluice" };
    passes.world.store.create("leases", namespace, { metadata: { name: ledgerName(group), labels, annotations } });
  };
  const lone = [groupOfLoneStatefulSet("empty"), groupOfLoneStatefulSet("claimed")];
  const owned = [ownedBy("empty"), ownedBy("claimed"), ownedBy("living")];
  for (const group of ["empty", "claimed", groupOfBudget("empty"), groupOfBudget("claimed"), ...lone, ...owned]) {
    make(group, group.endsWith("claimed") ? later : "");
  }
  await passes.goOn(60_000);
  await sweep(passes);
  const left = passes.world.store
    .list("leases")
    .items.map(({ metadata }) => metadata.annotations?.["sluice.dev/group"]);
  const kept = ["claimed", groupOfBudget("claimed"), groupOfLoneStatefulSet("claimed")].concat(owned.slice(1));
  assert.deepEqual(left.filter((group) => group !== key.group).sort(), kept.sort());
});

test("ledger-in-use: a ledger with times of downscales is kept for a week, one with older ones is not; a malformed one is", async () => {
  const passes = new Passes();
  const dayMs = 24 * 3_600_000;
  const make = (group: string, times: string) => {
    const annotations = { "sluice.dev/group": group, "sluice.dev/last-downscales": times };
    const labels = { "app.kubernetes.io/managed-by": "sluice" };
    passes.world.store.create("leases", namespace, { metadata: { name: ledgerName(group), labels, annotations } });
  };
  const nowMs = passes.cluster.serverTimeMs();
  make("old", JSON.stringify({ "old-a": nowMs - 8 * dayMs }));
  make("young", JSON.stringify({ "young-a": nowMs - 8 * dayMs, "young-b": nowMs - 6 * dayMs }));
  make("malformed", "?");
  await sweep(passes);
  const left = passes.world.store
    .list("leases")
    .items.map(({ metadata }) => metadata.annotations?.["sluice.dev/group"]);
  assert.deepEqual(left.filter((group) => group !== key.group).sort(), ["malformed", "young"]);
});

test("a ledger that says when a suspended volume last went is kept for a week, and for ten minutes after the last look", async () => {
  const passes = new Passes();
  const make = (group: string, said: Readonly<Record<string, string>>) => {
    const annotations = { "sluice.dev/group": group, ...said };
    const labels = { "app.kubernetes.io/managed-by": "sluice" };
    passes.world.store.create("leases", namespace, { metadata: { name: ledgerName(group), labels, annotations } });
  };
  const nowMs = passes.cluster.serverTimeMs();
  const minutesMs = (minutes: number) => nowMs - minutes * 60_000;
  make("removed", { "sluice.dev/last-removal": String(minutesMs(60)) });
  make("removed-long-ago", { "sluice.dev/last-removal": String(minutesMs(8 * 24 * 60)) });
  make("looked", { "sluice.dev/looks": JSON.stringify({ since: minutesMs(60), until: minutesMs(5) }) });
  make("looked-long-ago", { "sluice.dev/looks": JSON.stringify({ since: minutesMs(60), until: minutesMs(11) }) });
  await sweep(passes);
  const left = passes.world.store
    .list("leases")
    .items.map(({ metadata }) => metadata.annotations?.["sluice.dev/group"]);
  assert.deepEqual(left.filter((group) => group !== key.group).sort(), ["looked", "removed"]);
});

test("a StatefulSet of no group that has its pods told before they leave has a ledger ahead of need", async () => {
  const passes = new Passes({ labels: { "grafana.com/prepare-downscale": "true" } });
  await sweep(passes);
  const groups = passes.world.store
    .list("leases")
    .items.map(({ metadata }) => metadata.annotations?.["sluice.dev/group"]);
  assert.deepEqual(groups.sort(), [groupOfLoneStatefulSet("group-a"), groupOfLoneStatefulSet("group-b")]);
});

test("a ledger that another client writes, removes or makes anew meanwhile is left alone", async () => {
  for (const meanwhile of ["write", "remove"]) {
    const passes = new Passes();
    await sweepOver(passes, [key]);
    passes.interfere = ({ verb }) => {
      if (verb !== "delete") return;
      if (meanwhile === "write") passes.writeLedger({ "sluice.dev/reservations": '{"group-a":{"0":["u","f",1]}}' });
      else passes.world.store.delete("leases", ledgerKey);
    };
    await sweepOver(passes, []);
    assert.deepEqual(leasesOf(passes), meanwhile === "write" ? ["db/sluice-group"] : []);
  }
});

test("an unreadable ledger of a vanished group is left for a human", async () => {
  const passes = new Passes();
  await sweepOver(passes, [key]);
  passes.writeLedger({ "sluice.dev/reservations": "{" });
  assert.equal(await sweepOver(passes, []), undefined);
  assert.deepEqual(leasesOf(passes), ["db/sluice-group"]);
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
  await sweepOver(passes, []);
  assert.deepEqual(leasesOf(passes), ["db/a-leader", "db/b-labelled", "db/c-unlabelled", "db/sluice-undefined"]);
});

test("a process that serves some namespaces neither sees nor removes the ledgers of others", async () => {
  const passes = new Passes();
  await sweepOver(passes, [key, { ...key, namespace: "other" }]);
  passes.restart({ namespaces: ["other"] });
  await sweepOver(passes, []);
  assert.deepEqual(leasesOf(passes), ["db/sluice-group"]);
});

test("in shadow mode a sweep neither makes nor removes a ledger (R16)", async () => {
  const passes = new Passes();
  await sweepOver(passes, [key]);
  passes.restart({ mode: "shadow" });
  passes.forget();
  await sweepOver(passes, [{ namespace, group: "second" }]);
  assert.deepEqual(passes.words, []);
  assert.deepEqual(leasesOf(passes), ["db/sluice-group"]);
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

const removeBudget = (passes: Passes) => {
  passes.world.store.delete("zoneawarepoddisruptionbudgets", { namespace, name: "db" });
};
/** The only ledger; `budget:db` is no name for an object. */
const budgetLedger = { namespace, name: "sluice-afccf086814dbbce" };

test("a sweep makes the ledgers of all groups, and of StatefulSets of none that a budget selects (R1, R4)", async () => {
  const passes = ungrouped();
  passes.world.addGroup({ namespace, group: "governed", zones: ["a", "b"], replicas: 1 });
  passes.world.addGroup({ namespace, group: "free", zones: ["a", "b"], replicas: 1, labels: { app: "free" } });
  passes.world.addGroup({ namespace: "elsewhere", group: "governed", zones: ["a"], replicas: 1 });
  addBudget(passes, { selector: { matchLabels: { "rollout-group": "governed" } }, maxUnavailable: "invalid" });
  await sweep(passes);
  const made = [`db/${budgetLedger.name}`, "db/sluice-governed", "elsewhere/sluice-governed"];
  assert.deepEqual(leasesOf(passes), made);
  passes.forget();
  await sweep(passes);
  assert.deepEqual(passes.words.sort(), ["list leases", "list statefulsets", "list zoneawarepoddisruptionbudgets"]);
});

test("ten seconds after a sweep has made or found a ledger, the first review under it waits no longer (R4)", async () => {
  for (const isMade of [false, true]) {
    const passes = new Passes();
    addBudget(passes);
    if (isMade) await played(passes.timeline, passes.context.protocol.createLedger(passes.cluster, key));
    const replica = new Replica(passes);
    await played(passes.timeline, keepLedgers.sweep?.(replica.context, []) ?? Promise.reject(new Error("no sweep")));
    await passes.goOn(9_900);
    assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["ledger-new"]);
    await passes.goOn(100);
    assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["allowed"]);
  }
});

test("where the budgets' CRD is not installed the groups have ledgers all the same", async () => {
  const passes = new Passes();
  passes.world.store.withdraw("zoneawarepoddisruptionbudgets");
  await sweep(passes);
  assert.deepEqual(leasesOf(passes), ["db/sluice-group"]);
});

test("the ledger of a budget that selects nothing any more goes, by uid and resourceVersion", async () => {
  const passes = ungrouped();
  await sweep(passes);
  const { uid, resourceVersion } = passes.world.store.get("leases", budgetLedger).metadata;
  removeBudget(passes);
  await sweep(passes);
  assert.deepEqual(leasesOf(passes), []);
  const [deletion] = passes.calls.filter(({ verb }) => verb === "delete");
  assert.deepEqual(deletion?.given[2] as Preconditions, { uid, resourceVersion });
});

test("it stays while a pod that it has reserved is neither gone nor back", async () => {
  const passes = ungrouped();
  await sweep(passes);
  const podKey = { namespace, name: "group-a-0" };
  const { uid } = passes.world.store.get("pods", podKey).metadata;
  const reservations = JSON.stringify({ "group-a": { 0: [uid, "evaluate-eviction", passes.timeline.nowMs()] } });
  passes.world.annotate(budgetLedger, { "sluice.dev/reservations": reservations }, "leases");
  removeBudget(passes);
  await sweep(passes);
  assert.equal(leasesOf(passes).length, 1);
  passes.world.store.delete("pods", podKey, { preconditions: { uid } });
  await sweep(passes);
  assert.equal(leasesOf(passes).length, 1);
  passes.world.settle();
  await sweep(passes);
  assert.deepEqual(leasesOf(passes), []);
});

test("it stays while a StatefulSet has pods that the budget selects, though its template makes none any more", async () => {
  const passes = ungrouped();
  for (const { metadata } of passes.world.store.list("pods").items) passes.world.store.delete("pods", metadata, {});
  passes.world.settle();
  await sweep(passes);
  const template = { metadata: { labels: { app: "other" } } };
  for (const name of ["group-a", "group-b"])
    passes.world.store.patch("statefulsets", { namespace, name }, { spec: { template } });
  await sweep(passes);
  assert.deepEqual(leasesOf(passes), [`db/${budgetLedger.name}`]);
});

test("whether it may go is asked of the API server, not of what a watch has told", async () => {
  const passes = ungrouped();
  await sweep(passes);
  passes.world.annotate(budgetLedger, { "sluice.dev/settled-through": "1" }, "leases");
  removeBudget(passes);
  const cache = await passes.watch();
  passes.forget();
  await sweep(passes);
  assert.deepEqual(
    [leasesOf(passes), passes.count("list statefulsets")],
    [[], 2],
    "once for the groups, and once for it",
  );
  await played(passes.timeline, cache.stop());
});

test("an unreadable ledger of a budget is left for a human, and shadow mode writes nothing (R16)", async () => {
  const passes = ungrouped();
  passes.restart({ mode: "shadow" });
  await sweep(passes);
  assert.deepEqual([leasesOf(passes), passes.words], [[], []]);
  passes.restart({ mode: "act" });
  await sweep(passes);
  passes.world.annotate(budgetLedger, { "sluice.dev/reservations": "{" }, "leases");
  removeBudget(passes);
  await sweep(passes);
  assert.equal(leasesOf(passes).length, 1);
});

test("a process that serves some namespaces sweeps the budgets of those", async () => {
  const passes = ungrouped();
  passes.restart({ namespaces: ["elsewhere"] });
  await sweep(passes);
  assert.deepEqual(leasesOf(passes), []);
  passes.restart({ namespaces: ["elsewhere", namespace] });
  await sweep(passes);
  assert.equal(leasesOf(passes).length, 1);
});
