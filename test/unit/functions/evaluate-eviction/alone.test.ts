/** Evictions before any ledger is read: which ledger decides, which group an answer counts for, and how long a name serves. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Alone,
  decideAlone,
  findPod,
  groupOfAnswer,
  ledgerKeyOf,
  whileNamed,
} from "../../../../functions/evaluate-eviction/decide-alone.ts";
import type { Eviction } from "../../../../functions/evaluate-eviction/group-commit/sort-decisions.ts";
import { allow, askAgain } from "../../../../functions/shared/admission/answers.ts";
import { parseQuestion } from "../../../../functions/shared/annotations/parse-health.ts";
import { parseScaling } from "../../../../functions/shared/annotations/parse-scaling.ts";
import type { StoredBudget } from "../../../../functions/shared/groups/governing.ts";
import { claimOf, pod, statefulSet, zone, zoneBudget } from "../advance-zone-rollout/given.ts";

const annotations = { "sluice.dev/health-question": "http", "sluice.dev/health-url": "http://:80/" };
const question = parseQuestion({ name: "a", uid: "u", resourceVersion: "1", annotations }, "nodes");
const labels = { "grafana.com/prepare-downscale": "true" };
const scaling = parseScaling({ name: "a", uid: "u", resourceVersion: "1", labels });
const eviction: Eviction = { name: "a-0", uid: "uid-of-a-0", isPinned: true, pin: [] };
const byName = { ...eviction, isPinned: false };
const ownedBy = { namespace: "db", group: "owner:Deployment.apps/web" };
const lone = { namespace: "db", group: "statefulset:a" };
const one = zoneBudget("one", {});
const two = zoneBudget("two", {});
const owner = statefulSet("a", { group: undefined });

type Changes = Partial<Omit<Alone, "surroundings">> & { readonly budgets?: readonly StoredBudget[] };

/** A pod of a StatefulSet without a `rollout-group`, by default under one budget. */
function given({ budgets = [one], ...changes }: Changes = {}): Alone {
  const surroundings = { workloads: [], neighbours: [], budgets };
  return { eviction, pod: pod("a-0"), owner, claims: [], surroundings, ...changes };
}

function decided(changes?: Changes): string {
  const answer = decideAlone(given(changes));
  return "guard" in answer ? answer.guard : answer.group;
}

test("Sluice reads a ledger about a scale-down only for a prepared StatefulSet that needs none for another reason", () => {
  for (const [changes, budgets, key] of [
    [{ scaling }, [], lone],
    [{ scaling }, [one], undefined],
    [{ scaling, question }, [], undefined],
    [{}, [], undefined],
  ] as const) {
    const alone = given({ owner: statefulSet("a", { group: undefined, ...changes }), budgets });
    assert.deepEqual(ledgerKeyOf(alone.pod, alone), key);
  }
});

test("a pod that has ended goes by its name at once, and a terminating one only where no budget governs it", () => {
  for (const [changes, budgets, outcome] of [
    [{ finished: true }, [one], "exempt"],
    [{ terminating: true }, [one], "budget:one"],
    [{ terminating: true }, [], "exempt"],
  ] as const) {
    assert.equal(decided({ eviction: byName, pod: pod("a-0", changes), budgets }), outcome);
  }
});

test("without a budget the first claim that names a pod blocks it, and with one the budget's ledger decides", () => {
  const claims = [
    claimOf("b:0", "node"),
    claimOf("a:1", "node"),
    claimOf("a:0", "scale-down"),
    claimOf("a:0", "process"),
  ];
  assert.equal(decided({ claims, budgets: [] }), "zone-scaling-down");
  assert.equal(decided({ claims }), "budget:one");
});

test("the group of another owner decides about a pod only if no budget selects it", () => {
  const owned = { owner: undefined, ownedBy, pod: pod("a-0", { ownerKind: "ReplicaSet" }) };
  assert.equal(decided({ ...owned, budgets: [] }), ownedBy.group);
  assert.equal(decided(owned), "no-statefulset");
});

test("an asked pod that no budget selects shares the ledger of the first budget over its siblings, or has its StatefulSet's own", () => {
  const outsider = { pod: pod("a-0", { labels: {} }), owner: statefulSet("a", { group: undefined, question }) };
  assert.equal(decided({ ...outsider, budgets: [one, two] }), "budget:one");
  assert.equal(decided({ ...outsider, budgets: [] }), lone.group);
});

test("metrics count a refusal for the group of the pod's budget, of its StatefulSet or of its owner, and no allowance", () => {
  const refused = askAgain("no-statefulset", "it stays");
  for (const [changes, answer, group] of [
    [{}, refused, "budget:one"],
    [{ budgets: [] }, refused, lone.group],
    [{ owner: undefined }, refused, "budget:one"],
    [{ owner: undefined, budgets: [one, two], ownedBy }, refused, "budget:one"],
    [{ owner: undefined, budgets: [], ownedBy }, refused, ownedBy.group],
    [{ owner: undefined, budgets: [] }, refused, undefined],
    [{}, allow("out-of-scope"), undefined],
  ] as const) {
    assert.equal(groupOfAnswer(given(changes), answer), group);
  }
});

test("an allowance by name serves for a second after the read of its pod, and a refusal for any time", () => {
  const allowed = allow("out-of-scope");
  const refused = askAgain("no-statefulset", "it stays");
  for (const [answer, asked, ageMs, guard] of [
    [allowed, byName, 1_000, "out-of-scope"],
    [allowed, byName, 1_001, "pod-unseen"],
    [allowed, eviction, 1_001, "out-of-scope"],
    [refused, byName, 1_001, "no-statefulset"],
  ] as const) {
    assert.equal(whileNamed(answer, asked, ageMs).guard, guard, `${ageMs}`);
  }
});

test("Sluice finds a pod by its name and its uid together, and under a foreign name only for another owner", () => {
  const foreign = pod("foreign-7", { ownerUid: "uid-of-a" });
  const zones = [zone("a", "oo", { extra: [foreign] }), zone("b", "oo", { extra: [pod("b-2")] })];
  const found = (name: string, uid = `uid-of-${name}`, ...isOwned: readonly boolean[]) =>
    findPod(zones, { ...eviction, name, uid }, ...isOwned)?.pod.name;
  for (const [names, name] of [
    [found("a-1"), "a-1"],
    [found("b-2"), "b-2"],
    [found("a-1", "uid-of-a-0"), undefined],
    [found("foreign-7"), undefined],
    [found("foreign-7", foreign.uid, false), undefined],
    [found("foreign-7", foreign.uid, true), "foreign-7"],
  ] as const) {
    assert.equal(names, name);
  }
});
