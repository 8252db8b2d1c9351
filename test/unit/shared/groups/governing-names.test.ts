/** Which of several budgets a message names, and that a budget counts only in its own namespace. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { governing, isMember, parseStoredBudget } from "../../../../functions/shared/groups/governing.ts";
import { namespace, pod, statefulSet, zoneBudget } from "../../functions/advance-zone-rollout/given.ts";

const key = { namespace, group: "group" };

test("of several invalid budgets or foreign StatefulSets the message names the first, so that it does not change", () => {
  const bad = ["one", "two"].map((name) => zoneBudget(name, { maxUnavailable: -1 }));
  const around = { workloads: [], neighbours: [], budgets: bad };
  const invalid = governing(pod("a-0"), around, key);
  assert.match(invalid.kind === "ungovernable" ? invalid.message : "", /^the budget one, /);
  const neighbours = ["x", "y"].map((name) => statefulSet(name, { group: "other" }));
  const spans = governing(pod("a-0"), { ...around, neighbours, budgets: [zoneBudget("db", {})] }, key);
  const selected = spans.kind === "ungovernable" ? spans.message : "";
  assert.equal(spans.kind === "ungovernable" && spans.guard, "budget-spans-groups", selected);
  assert.match(selected, / and x of /);
});

test("a budget of the same name in another namespace makes no StatefulSet a member", () => {
  const loose = statefulSet("a", { group: undefined });
  const ofBudget = { namespace, group: "budget:db" };
  const own = zoneBudget("db", {});
  assert.equal(isMember(loose, ofBudget, [own]), true);
  assert.equal(isMember(loose, ofBudget, [{ ...own, namespace: "elsewhere" }]), false);
});

test("a budget without a generation counts as unchanged since its creation", () => {
  const metadata = { name: "db", namespace, uid: "u", resourceVersion: "1" };
  assert.equal(parseStoredBudget({ metadata, spec: { selector: { matchLabels: {} } } }).generation, 0);
});
