/** When a PodDisruptionBudget would refuse an eviction after Sluice: as kube-apiserver 1.36 does, in its order (rule R15). */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  asOfNow,
  neverAllows,
  parseDisruptionBudget,
  refusalOf,
  refusalOfAll,
  refusingBudget,
} from "../../../../functions/shared/groups/pod-disruption-budget.ts";
import type { LabelSelector, PodDisruptionBudgetObject } from "../../../../functions/shared/kubernetes/cluster.ts";
import type { Pod } from "../../../../functions/shared/workloads/pods.ts";
import { namespace, pod, statefulSet } from "../../functions/advance-zone-rollout/given.ts";

interface Changes {
  readonly name?: string;
  readonly namespace?: string;
  readonly generation?: number;
  readonly spec?: PodDisruptionBudgetObject["spec"];
  readonly status?: PodDisruptionBudgetObject["status"] | null;
}

function budget({ name = "pdb", namespace: where = namespace, generation = 2, spec, status }: Changes = {}) {
  return parseDisruptionBudget({
    metadata: { name, namespace: where, uid: `uid-of-${name}`, resourceVersion: "3", generation },
    spec: { selector: {}, ...spec },
    ...(status === null ? {} : { status: { observedGeneration: 2, disruptionsAllowed: 0, ...status } }),
  });
}

const refusal = (changes: Changes = {}, of: Partial<Pod> = {}) => refusalOf(pod("a-0", of), [budget(changes)]);
const selected = (selector: LabelSelector | undefined, labels: Readonly<Record<string, string>>) =>
  refusal({ spec: selector === undefined ? { selector: undefined as never } : { selector } }, { labels }) !== undefined;

test("a budget that allows no disruption refuses, and the message names it", () => {
  assert.equal(refusal(), "PodDisruptionBudget pdb allows no disruption now");
  assert.equal(refusal({ status: { disruptionsAllowed: -1 } }), "PodDisruptionBudget pdb allows no disruption now");
});

test("a budget that allows a disruption does not refuse, nor does one of another namespace", () => {
  assert.equal(refusal({ status: { disruptionsAllowed: 1 } }), undefined);
  assert.equal(refusal({ namespace: "elsewhere" }), undefined);
  assert.equal(refusalOf(pod("a-0"), []), undefined);
});

test("a budget whose controller has not seen its last change refuses, whatever it allowed before", () => {
  const behind = /^the controller has not seen the last change of PodDisruptionBudget pdb/;
  assert.match(refusal({ generation: 3, status: { disruptionsAllowed: 5 } }) ?? "", behind);
  assert.match(refusal({ status: null }) ?? "", behind);
});

test("pods that have ended, are pending or are terminating go, whatever a budget says", () => {
  for (const state of [{ finished: true }, { pending: true }, { terminating: true }]) {
    assert.equal(refusal({}, { ...state, readySinceMs: undefined }), undefined);
  }
});

test("two budgets for one pod refuse, whatever they allow, unless the pod is exempt", () => {
  const two = ["one", "two"].map((name) => budget({ name, status: { disruptionsAllowed: 9 } }));
  assert.match(refusalOf(pod("a-0"), two) ?? "", /^the PodDisruptionBudgets one and two both select it/);
  assert.match(refusalOf(pod("a-0", { readySinceMs: undefined }), two) ?? "", /^the PodDisruptionBudgets one and two/);
  assert.equal(refusalOf(pod("a-0", { pending: true }), two), undefined);
});

test("an unready pod goes while enough pods are healthy, or always, as the budget says", () => {
  const unready = { readySinceMs: undefined };
  const healthy = { currentHealthy: 2, desiredHealthy: 2 };
  assert.equal(refusal({ status: healthy }, unready), undefined);
  assert.notEqual(refusal({ status: healthy }), undefined, "a ready pod does not go");
  assert.notEqual(refusal({ status: { currentHealthy: 1, desiredHealthy: 2 } }, unready), undefined);
  assert.notEqual(refusal({ status: { currentHealthy: 0, desiredHealthy: 0 } }, unready), undefined);
  const always = { spec: { unhealthyPodEvictionPolicy: "AlwaysAllow" } };
  assert.equal(refusal({ ...always, status: { currentHealthy: 1, desiredHealthy: 2 } }, unready), undefined);
  assert.notEqual(refusal({ ...always, status: healthy }), undefined);
  assert.equal(refusal({ generation: 3, status: healthy }, unready), undefined, "before the controller is asked");
});

test("a field that a status lacks counts as none: nothing seen, nothing allowed, nothing healthy", () => {
  const [metadata, spec] = [{ name: "pdb", namespace, uid: "u", resourceVersion: "3" }, { selector: {} }];
  const refusalBy = (object: object, of: Partial<Pod> = {}) =>
    refusalOf(pod("a-0", of), [parseDisruptionBudget({ metadata, spec, ...object } as PodDisruptionBudgetObject)]);
  assert.match(refusalBy({ metadata: { ...metadata, generation: 1 } }) ?? "", /has not seen the last change/);
  assert.match(refusalBy({}) ?? "", /allows no disruption now$/, "it has no generation that could be missed");
  const unready = { readySinceMs: undefined };
  assert.notEqual(refusalBy({ status: { desiredHealthy: 1 } }, unready), undefined);
  assert.equal(refusalBy({ status: { desiredHealthy: 1, currentHealthy: 1 } }, unready), undefined);
  const unknown = parseDisruptionBudget({ metadata, spec, status: { expectedPods: 1 } });
  assert.equal(neverAllows(unknown, []), undefined, "its status does not say how many it wants");
});

test("no selector selects nothing, an empty one selects every pod, and otherwise all labels must match", () => {
  assert.equal(selected(undefined, { app: "db" }), false);
  assert.equal(selected({}, {}), true);
  assert.equal(selected({ matchLabels: { app: "db" } }, { app: "db", tier: "hot" }), true);
  assert.equal(selected({ matchLabels: { app: "db", tier: "cold" } }, { app: "db", tier: "hot" }), false);
});

test("expressions select as in every label selector, all of them together, and an unknown operator selects nothing", () => {
  const expression = (
    operator: string,
    values: readonly string[] | undefined,
    labels: Readonly<Record<string, string>>,
  ) => selected({ matchExpressions: [{ key: "app", operator, ...(values === undefined ? {} : { values }) }] }, labels);
  assert.equal(expression("In", ["db", "web"], { app: "db" }), true);
  assert.equal(expression("In", ["web"], { app: "db" }), false);
  assert.equal(expression("In", ["db"], {}), false);
  assert.equal(expression("NotIn", ["web"], { app: "db" }), true);
  assert.equal(expression("NotIn", ["db"], { app: "db" }), false);
  assert.equal(expression("NotIn", ["db"], {}), true);
  assert.equal(expression("Exists", undefined, { app: "" }), true);
  assert.equal(expression("Exists", undefined, {}), false);
  assert.equal(expression("DoesNotExist", undefined, {}), true);
  assert.equal(expression("DoesNotExist", undefined, { app: "" }), false);
  assert.equal(expression("Like", ["db"], { app: "db" }), false);
  const both = [
    { key: "app", operator: "Exists" },
    { key: "tier", operator: "In", values: ["hot"] },
  ];
  assert.equal(selected({ matchExpressions: both }, { app: "db", tier: "hot" }), true);
  assert.equal(selected({ matchExpressions: both }, { app: "db", tier: "cold" }), false);
  assert.equal(selected({ matchLabels: { app: "web" }, matchExpressions: both }, { app: "db", tier: "hot" }), false);
});

test("a budget that wants all its pods healthy never allows a disruption, and the message has the numbers (R25)", () => {
  const counts = (desiredHealthy: number, expectedPods: number) => ({ status: { desiredHealthy, expectedPods } });
  const never = (changes: Changes) => neverAllows(budget(changes), []);
  assert.match(never(counts(3, 3)) ?? "", /^PodDisruptionBudget pdb wants 3 of its 3 pods healthy, so it never lets/);
  assert.match(never(counts(1, 1)) ?? "", / wants 1 of its 1 pods /);
  assert.notEqual(never(counts(4, 3)), undefined, "it wants more pods than there are");
  assert.equal(never(counts(2, 3)), undefined);
  assert.equal(never(counts(0, 0)), undefined, "it has no pods, and blocks none");
  assert.equal(never({ ...counts(3, 3), generation: 3 }), undefined, "the numbers are from before its last change");
  assert.equal(never({ status: null }), undefined);
});

test("a required number of healthy pods is compared with the wanted pods, and not with the existing ones (R25)", () => {
  const spec = { selector: { matchLabels: { app: "db" } }, minAvailable: 3 };
  // One pod of four is away: its controller expects only the existing ones.
  const status = { desiredHealthy: 3, expectedPods: 3 };
  const of = (replicas: number, app = "db") => statefulSet("a", { replicas, podLabels: { app } });
  const never = (...sets: ReturnType<typeof of>[]) => neverAllows(budget({ spec, status }), sets);
  assert.equal(never(of(4)), undefined);
  assert.equal(never(of(2), of(2)), undefined);
  assert.match(never(of(3)) ?? "", / wants 3 of its 3 pods /);
  assert.match(never(of(2), of(2, "web")) ?? "", / wants 3 of its 3 pods /);
  assert.match(neverAllows(budget({ spec, status: { expectedPods: 1 } }), [of(1)]) ?? "", / wants 3 of its 1 pods /);
});

test("several pods go at once if each budget allows as many as it selects of them, and a refusal has the numbers", () => {
  const [first, second] = [pod("a-0", { labels: { app: "db" } }), pod("a-1", { labels: { app: "web" } })];
  const over = (name: string, app: string | undefined, disruptionsAllowed: number, spec = {}) => {
    const selector = app === undefined ? {} : { matchLabels: { app } };
    return budget({ name, spec: { selector, ...spec }, status: { disruptionsAllowed } });
  };
  const refusalOfBoth = (...budgets: ReturnType<typeof budget>[]) => refusalOfAll([first, second], budgets);
  assert.equal(refusalOfBoth(over("all", undefined, 2)), undefined);
  assert.equal(
    refusalOfBoth(over("all", undefined, 1)),
    "PodDisruptionBudget all allows 1 disruption now, and 2 pods are to go",
  );
  const third = pod("a-2", { labels: { app: "db" } });
  assert.match(
    refusalOfAll([first, second, third, pod("a-3")], [over("all", undefined, 2)]) ?? "",
    / 2 disruptions now, and 4 /,
  );
  assert.equal(refusalOfBoth(over("db", "db", 1), over("web", "web", 1)), undefined, "one pod of each budget");
  const fourth = pod("a-3", { labels: { app: "web" } });
  const tight = [over("db", "db", 1), over("web", "web", 1)];
  assert.match(refusalOfAll([first, second, third, fourth], tight) ?? "", /^PodDisruptionBudget db allows 1 /);
  assert.equal(refusalOfBoth(over("db", "db", 1), over("web", "web", 1)), undefined, "one pod of each budget");
  const two = [over("db", "db", 1), over("too few", "db", 1)].map((one, index) => ({
    ...one,
    namespace: index === 0 ? namespace : "other",
  }));
  assert.match(refusalOfAll([first, third], two) ?? "", /^PodDisruptionBudget db allows 1 /);
  assert.equal(
    refusalOfBoth(over("db", "db", 1), over("web", "web", 0)),
    "a-1: PodDisruptionBudget web allows no disruption now",
  );
  const unready = pod("a-2", { readySinceMs: undefined });
  const always = over("all", undefined, 1, { unhealthyPodEvictionPolicy: "AlwaysAllow" });
  assert.equal(refusalOfAll([pod("a-0"), unready], [always]), undefined, "the unready pod does not count");
});

test("a budget is recounted with the pods that are ready now, and never allows more than its controller did", () => {
  const three = budget({
    spec: { selector: { matchLabels: { app: "db" } }, minAvailable: 2 },
    status: { disruptionsAllowed: 5 },
  });
  const db = (name: string, changes: Partial<Pod> = {}) => pod(name, { labels: { app: "db" }, ...changes });
  const allowed = (...pods: Pod[]) => asOfNow(three, pods).disruptionsAllowed;
  assert.equal(allowed(db("a-0"), db("a-1"), db("a-2")), 1);
  assert.equal(allowed(db("a-0"), db("a-1"), db("a-2"), pod("other-0")), 1, "it does not select the last pod");
  assert.equal(allowed(db("a-0"), db("a-1"), db("a-2", { readySinceMs: undefined })), 0);
  assert.equal(allowed(db("a-0"), db("a-1"), db("a-2", { terminating: true })), 0);
  assert.equal(allowed(db("a-0")), 0, "never fewer than none");
  const one = { ...three, disruptionsAllowed: 1 };
  assert.equal(
    asOfNow(
      one,
      ["a-0", "a-1", "a-2", "a-3"].map((name) => db(name)),
    ).disruptionsAllowed,
    1,
  );
});

test("a budget whose selector is too large refuses no pod of another namespace, and no pod that is exempt", () => {
  const values = Array.from({ length: 101 }, (_, index) => `${index}`);
  const spec = { selector: { matchExpressions: [{ key: "app", operator: "In", values }] } };
  assert.match(refusal({ spec }) ?? "", /may select it: its selector has 101 entries/);
  assert.equal(refusal({ spec, namespace: "elsewhere" }), undefined);
  assert.equal(refusal({ spec }, { terminating: true, readySinceMs: undefined }), undefined);
});

test("among several budgets for a pod the first in order is named", () => {
  const [one, two] = [budget({ name: "one" }), budget({ name: "two" })];
  assert.equal(refusingBudget(pod("a-0"), [one, two])?.name, "one");
  assert.equal(refusingBudget(pod("a-0"), [{ ...one, disruptionsAllowed: 1 }, two])?.name, "two");
});
