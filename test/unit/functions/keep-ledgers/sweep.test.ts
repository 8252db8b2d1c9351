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
import { Harness, key, ledgerKey, namespace, played } from "../../shared/reconcile/harness.ts";
import { addBudget, Replica } from "../evaluate-eviction/group-commit/reviews.ts";

import { leasesOf, sweep, sweepOver } from "./ledgers.ts";

/** A claim of a kind that only a later version knows. */
const later = '{ "id":"x", "kind":"later","zone":"group-b","n":1e400 }';

test("a sweep creates the ledgers that groups lack, before they are needed", async () => {
  const harness = new Harness();
  await sweepOver(harness, [key, { namespace: "other", group: "Odd_Group" }, { namespace, group: "second" }]);
  const made = leasesOf(harness);
  assert.equal(made.length, 3);
  assert.ok(made.includes("db/sluice-group") && made.includes("db/sluice-second"));
  harness.forget();
  await sweepOver(harness, [key, { namespace: "other", group: "Odd_Group" }, { namespace, group: "second" }]);
  assert.deepEqual(harness.requests.sort(), ["list leases", "list statefulsets", "list zoneawarepoddisruptionbudgets"]);
});

test("a group of the same name in another namespace has a ledger of its own", async () => {
  const harness = new Harness();
  await sweepOver(harness, [key]);
  await sweepOver(harness, [key, { ...key, namespace: "other" }]);
  assert.deepEqual(leasesOf(harness), ["db/sluice-group", "other/sluice-group"]);
});

test("a sweep removes the empty ledger of a vanished group, by uid and resourceVersion", async () => {
  const harness = new Harness();
  await sweepOver(harness, [key]);
  const { uid, resourceVersion } = harness.world.store.get("leases", ledgerKey).metadata;
  assert.equal(await sweepOver(harness, []), undefined);
  assert.deepEqual(leasesOf(harness), []);
  const [deletion] = harness.calls.filter(({ verb }) => verb === "delete");
  assert.deepEqual(deletion?.given[2] as Preconditions, { uid, resourceVersion });
});

test("the ledger of a vanished group stays while a reserved pod exists, and the wait says so; the ledger goes with the pod", async () => {
  const harness = new Harness({ zones: ["a"], replicas: 1 });
  await sweep(harness);
  const podKey = { namespace, name: "group-a-0" };
  const { uid } = harness.world.store.get("pods", podKey).metadata;
  const reservations = JSON.stringify({ "group-a": { 0: [uid, "other", harness.timeline.nowMs()] } });
  harness.writeLedger({ "sluice.dev/reservations": reservations });
  harness.world.removeStatefulSet({ namespace, name: "group-a" }, "Orphan");
  harness.world.settle();
  await sweep(harness);
  assert.deepEqual(leasesOf(harness), ["db/sluice-group"]);
  const [first, ...more] = harness.verdicts;
  assert.deepEqual([first?.function, first?.guard, first?.zone, more], ["keep-ledgers", "ledger-held", "group-a", []]);
  assert.match(
    first?.message ?? "",
    /^group has no StatefulSet any more, and its ledger holds the reservation of group-a-0: /,
  );
  await harness.goOn(1_000);
  await sweep(harness);
  assert.equal(harness.verdicts[1]?.sinceMs, first?.sinceMs, "it has held since then");
  harness.world.store.delete("pods", podKey, { preconditions: { uid } });
  await harness.goOn(60_000);
  await sweep(harness);
  assert.deepEqual(leasesOf(harness), []);
  const [{ function: by, action, object, result } = assert.fail("nothing is told")] = harness.acts;
  assert.deepEqual([by, action, object, result], ["keep-ledgers", "collect", "sluice-group", "done"]);
});

test("a ledger stays while orphaned pods of all its StatefulSets exist, because it knows their zones (R7)", async () => {
  const harness = new Harness({ zones: ["a", "b"], replicas: 1 });
  await sweep(harness);
  harness.writeLedger({ "sluice.dev/members": JSON.stringify(["group-a", "group-b"]) });
  for (const name of ["group-a", "group-b"]) harness.world.removeStatefulSet({ namespace, name }, "Orphan");
  harness.world.settle();
  await sweep(harness);
  assert.deepEqual(leasesOf(harness), ["db/sluice-group"]);
  for (const name of ["group-a-0", "group-b-0"]) harness.world.store.delete("pods", { namespace, name });
  await harness.goOn(60_000);
  await sweep(harness);
  assert.deepEqual(leasesOf(harness), []);
});

test("a sweep leaves the ledger of a vanished group if the ledger has entries that only another function, or a later version, understands", async () => {
  for (const annotation of ["sluice.dev/last-time", "sluice.dev/some-time"]) {
    const harness = new Harness();
    await sweep(harness);
    harness.writeLedger({ [annotation]: "2026-01-01T00:00:00Z" });
    await sweepOver(harness, []);
    assert.deepEqual(leasesOf(harness), ["db/sluice-group"], annotation);
    assert.equal(harness.verdicts.at(-1)?.guard, "ledger-in-use");
    assert.match(harness.verdicts.at(-1)?.message ?? "", new RegExp(annotation));
    harness.writeLedger({ [annotation]: null, "example.com/note": "mine" });
    await sweep(harness);
    assert.deepEqual(leasesOf(harness), []);
  }
});

test("a sweep removes no ledger that holds a claim, of whatever kind, and none of an owner that a volume claim names", async () => {
  const harness = new Harness();
  const ownedBy = (name: string) => groupOfOwner({ kind: "Database", apiGroup: "example.com", name });
  const annotations = { "sluice.dev/owner": "Database.example.com/living" };
  harness.world.store.create("persistentvolumeclaims", namespace, { metadata: { name: "data", annotations } });
  const make = (group: string, claims: string) => {
    const annotations = { "sluice.dev/group": group, "sluice.dev/claims": claims };
    const labels = { "app.kubernetes.io/managed-by": "sluice" };
    harness.world.store.create("leases", namespace, { metadata: { name: ledgerName(group), labels, annotations } });
  };
  const lone = [groupOfLoneStatefulSet("empty"), groupOfLoneStatefulSet("claimed")];
  const owned = [ownedBy("empty"), ownedBy("claimed"), ownedBy("living")];
  for (const group of ["empty", "claimed", groupOfBudget("empty"), groupOfBudget("claimed"), ...lone, ...owned]) {
    make(group, group.endsWith("claimed") ? later : "");
  }
  await harness.goOn(60_000);
  await sweep(harness);
  const left = harness.world.store
    .list("leases")
    .items.map(({ metadata }) => metadata.annotations?.["sluice.dev/group"]);
  const kept = ["claimed", groupOfBudget("claimed"), groupOfLoneStatefulSet("claimed")].concat(owned.slice(1));
  assert.deepEqual(left.filter((group) => group !== key.group).sort(), kept.sort());
});

test("ledger-in-use: Sluice keeps a ledger with recent times of downscales for a week, but not one with older times; a malformed time is", async () => {
  const harness = new Harness();
  const dayMs = 24 * 3_600_000;
  const make = (group: string, times: string) => {
    const annotations = { "sluice.dev/group": group, "sluice.dev/last-downscales": times };
    const labels = { "app.kubernetes.io/managed-by": "sluice" };
    harness.world.store.create("leases", namespace, { metadata: { name: ledgerName(group), labels, annotations } });
  };
  const nowMs = harness.cluster.serverTimeMs();
  make("old", JSON.stringify({ "old-a": nowMs - 8 * dayMs }));
  make("recent", JSON.stringify({ "recent-a": nowMs - 8 * dayMs, "recent-b": nowMs - 6 * dayMs }));
  make("malformed", "?");
  await sweep(harness);
  const left = harness.world.store
    .list("leases")
    .items.map(({ metadata }) => metadata.annotations?.["sluice.dev/group"]);
  assert.deepEqual(left.filter((group) => group !== key.group).sort(), ["malformed", "recent"]);
});

test("Sluice keeps a ledger with the time of the last volume removal for a week, and for ten minutes after the last reconcile", async () => {
  const harness = new Harness();
  const make = (group: string, first: Readonly<Record<string, string>>) => {
    const annotations = { "sluice.dev/group": group, ...first };
    const labels = { "app.kubernetes.io/managed-by": "sluice" };
    harness.world.store.create("leases", namespace, { metadata: { name: ledgerName(group), labels, annotations } });
  };
  const nowMs = harness.cluster.serverTimeMs();
  const minutesMs = (minutes: number) => nowMs - minutes * 60_000;
  make("removed", { "sluice.dev/last-removal": String(minutesMs(60)) });
  make("removed-long-ago", { "sluice.dev/last-removal": String(minutesMs(8 * 24 * 60)) });
  make("looked", { "sluice.dev/looks": JSON.stringify({ since: minutesMs(60), until: minutesMs(5) }) });
  make("looked-long-ago", { "sluice.dev/looks": JSON.stringify({ since: minutesMs(60), until: minutesMs(11) }) });
  await sweep(harness);
  const left = harness.world.store
    .list("leases")
    .items.map(({ metadata }) => metadata.annotations?.["sluice.dev/group"]);
  assert.deepEqual(left.filter((group) => group !== key.group).sort(), ["looked", "removed"]);
});

test("a StatefulSet of no group whose pods are told before they leave gets a ledger before it is needed", async () => {
  const harness = new Harness({ labels: { "grafana.com/prepare-downscale": "true" } });
  await sweep(harness);
  const groups = harness.world.store
    .list("leases")
    .items.map(({ metadata }) => metadata.annotations?.["sluice.dev/group"]);
  assert.deepEqual(groups.sort(), [groupOfLoneStatefulSet("group-a"), groupOfLoneStatefulSet("group-b")]);
});

test("Sluice leaves a ledger alone that another client writes, deletes or creates again meanwhile", async () => {
  for (const meanwhile of ["write", "remove"]) {
    const harness = new Harness();
    await sweepOver(harness, [key]);
    harness.interfere = ({ verb }) => {
      if (verb !== "delete") return;
      if (meanwhile === "write") harness.writeLedger({ "sluice.dev/reservations": '{"group-a":{"0":["u","f",1]}}' });
      else harness.world.store.delete("leases", ledgerKey);
    };
    await sweepOver(harness, []);
    assert.deepEqual(leasesOf(harness), meanwhile === "write" ? ["db/sluice-group"] : []);
  }
});

test("Sluice leaves an unreadable ledger of a vanished group to a person", async () => {
  const harness = new Harness();
  await sweepOver(harness, [key]);
  harness.writeLedger({ "sluice.dev/reservations": "{" });
  assert.equal(await sweepOver(harness, []), undefined);
  assert.deepEqual(leasesOf(harness), ["db/sluice-group"]);
});

test("Sluice does not touch other Leases, which have no label of ours or no group", async () => {
  const harness = new Harness();
  const { store } = harness.world;
  store.create("leases", namespace, { metadata: { name: "a-leader" } });
  const label = { "app.kubernetes.io/managed-by": "sluice" };
  store.create("leases", namespace, { metadata: { name: "b-labelled", labels: label } });
  const annotations = { "sluice.dev/group": "group" };
  store.create("leases", namespace, { metadata: { name: "c-unlabelled", annotations } });
  store.create("leases", namespace, { metadata: { name: "sluice-undefined", labels: label } });
  await sweepOver(harness, []);
  assert.deepEqual(leasesOf(harness), ["db/a-leader", "db/b-labelled", "db/c-unlabelled", "db/sluice-undefined"]);
});

test("a process that serves some namespaces neither sees nor removes the ledgers of others", async () => {
  const harness = new Harness();
  await sweepOver(harness, [key, { ...key, namespace: "other" }]);
  harness.restart({ namespaces: ["other"] });
  await sweepOver(harness, []);
  assert.deepEqual(leasesOf(harness), ["db/sluice-group"]);
});

test("in shadow mode a sweep neither creates nor removes a ledger (R16)", async () => {
  const harness = new Harness();
  await sweepOver(harness, [key]);
  harness.restart({ mode: "shadow" });
  harness.forget();
  await sweepOver(harness, [{ namespace, group: "second" }]);
  assert.deepEqual(harness.requests, []);
  assert.deepEqual(leasesOf(harness), ["db/sluice-group"]);
});

/** A group whose StatefulSets have no rollout-group, under a budget of another name. */
function ungrouped(): Harness {
  const harness = new Harness();
  const spec = { template: { metadata: { labels: { app: "db" } } } };
  for (const name of ["group-a", "group-b"]) {
    const change = { metadata: { labels: { "rollout-group": null } }, spec };
    harness.world.store.patch("statefulsets", { namespace, name }, change);
  }
  addBudget(harness, { selector: { matchLabels: { app: "db" } } }, "db");
  return harness;
}

const removeBudget = (harness: Harness) => {
  harness.world.store.delete("zoneawarepoddisruptionbudgets", { namespace, name: "db" });
};
/** The only ledger, because `budget:db` is no valid name of an object. */
const budgetLedger = { namespace, name: "sluice-afccf086814dbbce" };

test("a sweep creates the ledgers of all groups, and of StatefulSets without a group that a budget selects (R1, R4)", async () => {
  const harness = ungrouped();
  harness.world.addGroup({ namespace, group: "governed", zones: ["a", "b"], replicas: 1 });
  harness.world.addGroup({ namespace, group: "free", zones: ["a", "b"], replicas: 1, labels: { app: "free" } });
  harness.world.addGroup({ namespace: "elsewhere", group: "governed", zones: ["a"], replicas: 1 });
  addBudget(harness, { selector: { matchLabels: { "rollout-group": "governed" } }, maxUnavailable: "invalid" });
  await sweep(harness);
  const made = [`db/${budgetLedger.name}`, "db/sluice-governed", "elsewhere/sluice-governed"];
  assert.deepEqual(leasesOf(harness), made);
  harness.forget();
  await sweep(harness);
  assert.deepEqual(harness.requests.sort(), ["list leases", "list statefulsets", "list zoneawarepoddisruptionbudgets"]);
});

test("ten seconds after a sweep has created or found a ledger, the first review under it does not have to wait (R4)", async () => {
  for (const isMade of [false, true]) {
    const harness = new Harness();
    addBudget(harness);
    if (isMade) await played(harness.timeline, harness.context.protocol.createLedger(harness.cluster, key));
    const replica = new Replica(harness);
    await played(harness.timeline, keepLedgers.sweep?.(replica.context, []) ?? Promise.reject(new Error("no sweep")));
    await harness.goOn(9_900);
    assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["ledger-new"]);
    await harness.goOn(100);
    assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["allowed"]);
  }
});

test("if the CRD of budgets is not installed, groups still get ledgers", async () => {
  const harness = new Harness();
  harness.world.store.withdraw("zoneawarepoddisruptionbudgets");
  await sweep(harness);
  assert.deepEqual(leasesOf(harness), ["db/sluice-group"]);
});

test("a sweep removes the ledger of a budget that no longer selects anything, by uid and resourceVersion", async () => {
  const harness = ungrouped();
  await sweep(harness);
  const { uid, resourceVersion } = harness.world.store.get("leases", budgetLedger).metadata;
  removeBudget(harness);
  await sweep(harness);
  assert.deepEqual(leasesOf(harness), []);
  const [deletion] = harness.calls.filter(({ verb }) => verb === "delete");
  assert.deepEqual(deletion?.given[2] as Preconditions, { uid, resourceVersion });
});

test("a budget's ledger stays while a reserved pod is neither gone nor back", async () => {
  const harness = ungrouped();
  await sweep(harness);
  const podKey = { namespace, name: "group-a-0" };
  const { uid } = harness.world.store.get("pods", podKey).metadata;
  const reservations = JSON.stringify({ "group-a": { 0: [uid, "evaluate-eviction", harness.timeline.nowMs()] } });
  harness.world.annotate(budgetLedger, { "sluice.dev/reservations": reservations }, "leases");
  removeBudget(harness);
  await sweep(harness);
  assert.equal(leasesOf(harness).length, 1);
  harness.world.store.delete("pods", podKey, { preconditions: { uid } });
  await sweep(harness);
  assert.equal(leasesOf(harness).length, 1);
  harness.world.settle();
  await sweep(harness);
  assert.deepEqual(leasesOf(harness), []);
});

test("a budget's ledger stays while a StatefulSet has pods that the budget selects, even if its template no longer makes such pods", async () => {
  const harness = ungrouped();
  for (const { metadata } of harness.world.store.list("pods").items) harness.world.store.delete("pods", metadata, {});
  harness.world.settle();
  await sweep(harness);
  const template = { metadata: { labels: { app: "other" } } };
  for (const name of ["group-a", "group-b"])
    harness.world.store.patch("statefulsets", { namespace, name }, { spec: { template } });
  await sweep(harness);
  assert.deepEqual(leasesOf(harness), [`db/${budgetLedger.name}`]);
});

test("the API server, and not a watch, decides whether Sluice may remove a ledger", async () => {
  const harness = ungrouped();
  await sweep(harness);
  harness.world.annotate(budgetLedger, { "sluice.dev/settled-through": "1" }, "leases");
  removeBudget(harness);
  const cache = await harness.watch();
  harness.forget();
  await sweep(harness);
  assert.deepEqual(
    [leasesOf(harness), harness.count("list statefulsets")],
    [[], 2],
    "once for the groups, and once for it",
  );
  await played(harness.timeline, cache.stop());
});

test("Sluice leaves an unreadable ledger of a budget to a person, and writes nothing in shadow mode (R16)", async () => {
  const harness = ungrouped();
  harness.restart({ mode: "shadow" });
  await sweep(harness);
  assert.deepEqual([leasesOf(harness), harness.requests], [[], []]);
  harness.restart({ mode: "act" });
  await sweep(harness);
  harness.world.annotate(budgetLedger, { "sluice.dev/reservations": "{" }, "leases");
  removeBudget(harness);
  await sweep(harness);
  assert.equal(leasesOf(harness).length, 1);
});

test("a process that serves some namespaces sweeps only the budgets of these", async () => {
  const harness = ungrouped();
  harness.restart({ namespaces: ["elsewhere"] });
  await sweep(harness);
  assert.deepEqual(leasesOf(harness), []);
  harness.restart({ namespaces: ["elsewhere", namespace] });
  await sweep(harness);
  assert.equal(leasesOf(harness).length, 1);
});
