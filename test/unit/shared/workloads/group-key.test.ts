/** Groups of every kind: the text that names each, and who is in it (rule R1). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isMember } from "../../../../functions/shared/groups/governing.ts";
import {
  askedGroupOf,
  budgetOfGroup,
  foundationClusterOf,
  groupKeyOf,
  groupOfBudget,
  groupOfLoneStatefulSet,
  groupOfOwner,
  nextToAnnounce,
  readGroup,
} from "../../../../functions/shared/workloads/group-key.ts";
import { namespace, statefulSet, zoneBudget } from "../../functions/advance-zone-rollout/given.ts";

test("the name of a group of each kind is read back, and no label value is taken for a group of another kind", () => {
  assert.deepEqual(readGroup("ingester"), { kind: "labelled", name: "ingester" });
  assert.deepEqual(readGroup(""), { kind: "labelled", name: "" });
  assert.deepEqual(readGroup(groupOfBudget("b")), { kind: "budget", name: "b" });
  assert.deepEqual(readGroup(groupOfLoneStatefulSet("s")), { kind: "statefulset", name: "s" });
  for (const owner of [
    { kind: "Deployment", apiGroup: "apps", name: "web" },
    { kind: "Rollout", apiGroup: "argoproj.example.io", name: "web.v2" },
    { kind: "ReplicationController", apiGroup: "", name: "web" },
  ]) {
    const { kind, ...rest } = owner;
    assert.deepEqual(readGroup(groupOfOwner(owner)), { kind: "owner", ownerKind: kind, ...rest });
  }
  const labels = ["owner", "budget", "statefulset", "owner.apps", "Deployment.apps"];
  const owned = [
    "deployments/web",
    "owner:",
    "owner:Deployment.apps",
    "owner:.apps/web",
    "owner:/web",
    "owner:Deployment/",
  ];
  for (const name of [...labels, ...owned, "owner:Deployment.apps/web\n"]) {
    assert.deepEqual(readGroup(name), { kind: "labelled", name });
  }
});

test("only the group of a FoundationDBCluster of its own API names such a cluster", () => {
  const of = (changes: Partial<Parameters<typeof groupOfOwner>[0]> = {}) =>
    foundationClusterOf(
      groupOfOwner({ kind: "FoundationDBCluster", apiGroup: "apps.foundationdb.org", name: "db", ...changes }),
    );
  assert.equal(of(), "db");
  for (const other of [{ kind: "FoundationDBBackup" }, { apiGroup: "example.org" }, { apiGroup: "" }])
    assert.equal(of(other), undefined, JSON.stringify(other));
  for (const group of ["db", groupOfBudget("db"), groupOfLoneStatefulSet("db")])
    assert.equal(foundationClusterOf(group), undefined, group);
});

test("pods are asked by the group that their StatefulSet names, and one without a group is alone", () => {
  assert.equal(askedGroupOf({ group: "group", name: "a" }), "group");
  assert.equal(askedGroupOf({ group: undefined, name: "a" }), "statefulset:a");
});

test("the ledger is that of the group's label, or else of the budget, or else of the StatefulSet", () => {
  const labelled = statefulSet("a");
  const loose = statefulSet("a", { group: undefined });
  assert.equal(groupKeyOf(labelled, "budget").group, "group");
  assert.equal(groupKeyOf(labelled).group, "group");
  assert.equal(groupKeyOf(loose, "budget").group, "budget:budget");
  assert.equal(groupKeyOf(loose).group, "statefulset:a");
  assert.equal(budgetOfGroup("budget:budget"), "budget");
  assert.equal(budgetOfGroup("statefulset:a"), undefined);
});

test("a StatefulSet is only in the group whose ledger has its reservations", () => {
  const labels = { podLabels: { app: "db" } };
  const selecting = (app: string) => ({ selector: { matchLabels: { app } }, maxUnavailable: 1 });
  const budgets = [zoneBudget("budget", selecting("db")), zoneBudget("another", selecting("queue"))];
  const labelled = statefulSet("a", labels);
  const governed = statefulSet("a", { ...labels, group: undefined });
  const alone = statefulSet("a", { group: undefined, podLabels: {} });
  const groups = ["group", "budget:budget", "statefulset:a", "statefulset:b", "owner:Deployment.apps/budget"];
  const of = (one: typeof alone) => groups.filter((group) => isMember(one, { namespace, group }, budgets));
  assert.deepEqual(of(labelled), ["group"]);
  assert.deepEqual(of(governed), ["budget:budget"]);
  assert.deepEqual(of(alone), ["statefulset:a"]);
});

test("a fence writes its claims in the order NAMESPACE/GROUP, and acts when every ledger has one (R23)", () => {
  const path = ({ namespace, group }: { namespace: string; group: string }) => `${namespace}/${group}`;
  const keys = ["b/a", "a/z", "a-b/c", "a/B", "a/b"].map((text) => {
    const [namespace = "", group = ""] = text.split("/");
    return { namespace, group };
  });
  for (const given of [keys, keys.toReversed()]) {
    const announced: string[] = [];
    for (;;) {
      const next = nextToAnnounce(given, (key) => announced.includes(path(key)));
      if (next === undefined) break;
      announced.push(path(next));
    }
    assert.deepEqual(announced, ["a-b/c", "a/B", "a/b", "a/z", "b/a"]);
  }
  const [first, second] = [keys[3], keys[4]];
  assert.deepEqual(
    nextToAnnounce(keys, (key) => path(key) !== "a/b"),
    second,
    "a lost claim is written again",
  );
  assert.deepEqual(
    nextToAnnounce(keys, (key) => path(key) === "a-b/c"),
    first,
  );
});
