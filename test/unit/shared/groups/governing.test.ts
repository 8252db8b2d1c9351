/** Which budget governs a pod, what it allows, and which ledger keeps it. */

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  allowanceOf,
  governing,
  type HasPods,
  isMember,
  parseStoredBudget,
  type StoredBudget,
  type Surroundings,
  selects,
  surroundingsOf,
} from "../../../../functions/shared/groups/governing.ts";
import type { ZoneBudget } from "../../../../functions/shared/groups/zone-budget.ts";
import { groupKeyOf } from "../../../../functions/shared/workloads/group-key.ts";
import { namespace, pod, statefulSet, zoneBudget } from "../../functions/advance-zone-rollout/given.ts";

const key = { namespace, group: "group" };
const surroundings = (changes: Partial<Surroundings> = {}): Surroundings => ({
  workloads: [],
  neighbours: [],
  budgets: [],
  ...changes,
});
const selecting = (matchLabels: unknown) => ({ selector: { matchLabels } });

function budgetOf(spec: object): ZoneBudget {
  const { parsed } = zoneBudget("db", spec as Record<string, unknown>);
  return "budget" in parsed ? parsed.budget : assert.fail(parsed.message);
}

function ungovernable(budgets: readonly StoredBudget[], changes: Partial<Surroundings> = {}) {
  const governed = governing(pod("a-0"), surroundings({ budgets, ...changes }), key);
  return governed.kind === "ungovernable" ? governed : assert.fail(governed.kind);
}

test("a budget governs the pods that have all its labels, and a budget without labels governs every pod", () => {
  const labels = { app: "db", tier: "hot" };
  const governs = (matchLabels: object) => selects(zoneBudget("db", selecting(matchLabels)), labels);
  assert.equal(governs({ app: "db" }), true);
  assert.equal(governs({ app: "db", tier: "hot" }), true);
  assert.equal(governs({ app: "db", tier: "cold" }), false);
  assert.equal(governs({ app: "db", zone: "a" }), false);
  assert.equal(governs({}), true);
});

test("the items of a LIST are budgets although they have no kind", () => {
  const metadata = { name: "db", namespace, uid: "u", resourceVersion: "1", generation: 4 };
  const stored = parseStoredBudget({ metadata, spec: { maxUnavailable: 2, ...selecting({ app: "db" }) } });
  assert.deepEqual(
    { ...stored, parsed: undefined },
    {
      namespace,
      name: "db",
      uid: "u",
      generation: 4,
      parsed: undefined,
      matchLabels: new Map([["app", "db"]]),
    },
  );
  assert.ok("budget" in stored.parsed);
  assert.ok("field" in parseStoredBudget({ kind: "Budget", metadata, spec: selecting({}) }).parsed);
});

test("an invalid budget selects by the readable part of its selector, and by nothing else", () => {
  const labelsOf = (spec: unknown) => {
    const metadata = { name: "db", namespace, uid: "u", resourceVersion: "1" };
    const { parsed, matchLabels } = parseStoredBudget({ metadata, spec });
    assert.ok("field" in parsed);
    return Object.fromEntries(matchLabels);
  };
  assert.deepEqual(labelsOf({ maxUnavailable: -1, ...selecting({ app: "db" }) }), { app: "db" });
  assert.deepEqual(labelsOf(selecting({ app: "db", replicas: 3 })), { app: "db" });
  assert.deepEqual(labelsOf({ selector: { matchLabels: { app: "db" }, matchExpressions: [] } }), { app: "db" });
  const unreadable = ["text", ["app", "db"], 7, null];
  for (const matchLabels of unreadable) assert.deepEqual(labelsOf(selecting(matchLabels)), {});
  for (const spec of [undefined, null, "text", [], {}, { selector: null }, { selector: "app=db" }]) {
    assert.deepEqual(labelsOf(spec), {});
  }
});

test("a pod that no budget selects may go, and a budget that selects it governs it", () => {
  const budgets = [zoneBudget("other", selecting({ app: "other" })), zoneBudget("db", { maxUnavailable: 2 })];
  assert.deepEqual(governing(pod("a-0", { labels: {} }), surroundings({ budgets }), key), { kind: "none" });
  const governed = governing(pod("a-0"), surroundings({ budgets }), key);
  assert.ok(governed.kind === "one");
  assert.equal(governed.name, "db");
  assert.deepEqual(governed.budget.allowance, { pods: 2 });
});

test("several-budgets: the message names all of them", () => {
  const budgets = ["one", "two", "three"].map((name) => zoneBudget(name, {}));
  const { guard, message, field } = ungovernable(budgets);
  assert.equal(guard, "several-budgets");
  assert.equal(field, "spec.selector");
  assert.match(message, /^the budgets one and two and three all select pod a-0/);
  assert.equal(ungovernable(budgets.slice(0, 2)).guard, "several-budgets");
});

test("invalid-budget: the mistake is reported before anything else, because the budget may select any pod", () => {
  const { guard, message, field } = ungovernable([zoneBudget("db", {}), zoneBudget("bad", { maxUnavailable: "1" })]);
  assert.equal(guard, "invalid-budget");
  assert.equal(field, "spec.maxUnavailable");
  assert.match(message, /^the budget bad, which may govern pod a-0, is invalid: spec.maxUnavailable is "1"/);
  assert.equal(ungovernable([zoneBudget("bad", { selector: "app=db" })]).guard, "invalid-budget");
});

test("an invalid budget that can only mean other pods blocks a pod no more than a valid one", () => {
  const bad = zoneBudget("bad", { maxUnavailable: -1, ...selecting({ app: "other" }) });
  assert.equal(governing(pod("a-0"), surroundings({ budgets: [bad] }), key).kind, "none");
});

test("budget-spans-groups: a budget may not select StatefulSets of more than one ledger (R1)", () => {
  const budgets = [zoneBudget("db", selecting({}))];
  const of = (group: string | undefined) => ungovernable(budgets, { neighbours: [statefulSet("x", { group })] });
  assert.equal(of("other").guard, "budget-spans-groups");
  assert.match(of("other").message, /StatefulSets of rollout-group "group" and x of rollout-group "other"/);
  assert.match(of(undefined).message, /StatefulSets of rollout-group "group" and x without a rollout-group/);
  const here = { namespace, group: "budget:db" };
  const neighbours = [statefulSet("x", { group: "other" })];
  const governed = governing(pod("a-0"), surroundings({ budgets, neighbours }), here);
  assert.ok(governed.kind === "ungovernable");
  assert.match(governed.message, /StatefulSets without a rollout-group and x of rollout-group "other"/);
});

test("a neighbour that the budget does not select has no effect on it", () => {
  const neighbours = [statefulSet("x", { group: "other", podLabels: { "rollout-group": "other" } })];
  const governed = governing(pod("a-0"), surroundings({ budgets: [zoneBudget("db", {})], neighbours }), key);
  assert.equal(governed.kind, "one");
});

test("budget-spans-groups: the labels of a StatefulSet's existing pods count, even if its template has others by now", () => {
  const budgets = [zoneBudget("db", {})];
  const other = statefulSet("x", { group: "other", podLabels: { "rollout-group": "other" } });
  const of = (hasPods: HasPods) =>
    governing(pod("a-0"), surroundingsOf([statefulSet("a"), other], key, budgets, hasPods), key);
  assert.equal(of(() => false).kind, "one");
  const governed = of((one, { name }) => one === other && name === "db");
  assert.ok(governed.kind === "ungovernable");
  assert.equal(governed.guard, "budget-spans-groups");
  assert.match(governed.message, / and x of rollout-group "other"/);
});

test("an allowance is a number, or a share of the smaller of wanted and counted replicas, rounded down, but at least one", () => {
  const share = (percent: number, replicas: number, countedReplicas = replicas) =>
    allowanceOf(budgetOf({ maxUnavailablePercentage: percent }), statefulSet("a", { replicas, countedReplicas }));
  assert.equal(allowanceOf(budgetOf({ maxUnavailable: 4 }), statefulSet("a", { replicas: 0 })), 4);
  assert.equal(allowanceOf(budgetOf({}), statefulSet("a")), 1);
  assert.equal(share(50, 5), 2);
  assert.equal(share(1, 5), 1);
  assert.equal(share(100, 5), 5);
  assert.equal(share(50, 10, 4), 2);
  assert.equal(share(50, 4, 10), 2);
});

test("an allowance is 0 if the budget says so, or if there is nothing to take a share of", () => {
  assert.equal(allowanceOf(budgetOf({ maxUnavailable: 0 }), statefulSet("a")), 0);
  assert.equal(allowanceOf(budgetOf({ maxUnavailablePercentage: 0 }), statefulSet("a")), 0);
  const half = budgetOf({ maxUnavailablePercentage: 50 });
  assert.equal(allowanceOf(half, statefulSet("a", { replicas: 0, countedReplicas: 3 })), 0);
  assert.equal(allowanceOf(half, statefulSet("a", { replicas: 3, countedReplicas: 0 })), 0);
});

test("a budget's ledger is that of the group, or the budget's own without a group (R1)", () => {
  assert.deepEqual(groupKeyOf(statefulSet("a"), "db"), { namespace, group: "group" });
  assert.deepEqual(groupKeyOf(statefulSet("a", { group: "" }), "db"), { namespace, group: "" });
  assert.deepEqual(groupKeyOf(statefulSet("a", { group: undefined }), "db"), { namespace, group: "budget:db" });
});

test("members of a group have its label; members of a budget's group have no label and are selected by the budget", () => {
  const budgets = [zoneBudget("db", selecting({ app: "db" }))];
  const loose = statefulSet("a", { group: undefined, podLabels: { app: "db" } });
  const ofBudget = { namespace, group: "budget:db" };
  assert.equal(isMember(statefulSet("a"), key, budgets), true);
  assert.equal(isMember(statefulSet("a", { group: "other" }), key, budgets), false);
  assert.equal(isMember(statefulSet("a", { namespace: "elsewhere" }), key, budgets), false);
  assert.equal(isMember(loose, ofBudget, budgets), true);
  assert.equal(isMember(loose, key, budgets), false);
  assert.equal(isMember({ ...loose, podLabels: {} }, ofBudget, budgets), false);
  assert.equal(isMember({ ...loose, group: "group" }, ofBudget, budgets), false);
  assert.equal(isMember(loose, ofBudget, []), false, "the budget is gone");
});

test("a group's surroundings are its members and the other StatefulSets of its namespace", () => {
  const sets = [
    statefulSet("a"),
    statefulSet("b", { group: "other" }),
    statefulSet("c", { group: undefined }),
    statefulSet("d", { namespace: "elsewhere" }),
    statefulSet("e"),
  ];
  const { workloads, neighbours } = surroundingsOf(sets, key, []);
  assert.deepEqual(
    [workloads, neighbours].map((list) => list.map(({ name }) => name).join(" ")),
    ["a e", "b c"],
  );
});
