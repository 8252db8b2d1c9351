/** What a cache keeps of pods, for how long, and which of it is proof. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { indexPods } from "../../../../functions/shared/cache/cache.ts";
import {
  confirm,
  emptyMemory,
  hasPodsIn,
  isBehindPods,
  lastEventOfPodsMs,
  learnPods,
  orphansIn,
  podStore,
  podsMadeFor,
  reaches,
  viewOfMemory,
} from "../../../../functions/shared/cache/pod-store.ts";
import { readAsListed } from "../../../../functions/shared/cache/read-view.ts";
import { statefulSetStore } from "../../../../functions/shared/cache/statefulset-store.ts";
import type { Cluster, PodObject } from "../../../../functions/shared/kubernetes/cluster.ts";
import type { StatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import {
  namespace,
  nowMs,
  podObject,
  statefulSet,
  statefulSetObject,
  zoneBudget,
} from "../../functions/advance-zone-rollout/given.ts";
import { createVirtualClock } from "../kubernetes/virtual-clock.ts";

const at = (name: string, revision: number, more: Partial<PodObject["metadata"]> = {}): PodObject =>
  podObject(name, { metadata: { resourceVersion: String(revision), ...more } });
const ownedBy = (uid: string) => ({ ownerReferences: [{ kind: "StatefulSet", name: "b", uid, controller: true }] });
const orphan = (name: string) => ({ ownerReferences: [], labels: { "statefulset.kubernetes.io/pod-name": name } });
const terminating = { deletionTimestamp: "2026-01-01T00:00:00Z" };
const [a, b] = [statefulSet("a"), statefulSet("b")];
const around = (...workloads: StatefulSet[]) => ({ workloads, neighbours: [], budgets: [] });

function make() {
  const clock = createVirtualClock();
  const cluster = clock as unknown as Cluster;
  const memory = emptyMemory(cluster);
  const changed: string[] = [];
  const pods = podStore(memory, ({ name, ownerUid }) => void changed.push(`${name} of ${ownerUid}`));
  const view = (...statefulSets: StatefulSet[]) => viewOfMemory(memory, around(...statefulSets), undefined);
  const shown = (set = a) => [...view(set).podsOf(set)].map((pod) => `${pod.name}@${pod.resourceVersion}`);
  const learn = (revision: number, ...objects: PodObject[]) => learnPods(memory, [a], indexPods(objects, revision));
  const reached = async (revision: number, ...statefulSets: StatefulSet[]) => {
    const answer = reaches(cluster, memory, statefulSets, revision);
    await clock.goTo(clock.monotonicMs() + 300);
    return answer;
  };
  return { clock, memory, changed, pods, view, shown, learn, reached };
}

test("pods made for a StatefulSet have its name and namespace, are not terminating, and belong to it or to no owner (S3)", () => {
  const { memory, pods } = make();
  const elsewhere = at("a-3", 6, { namespace: "elsewhere" });
  const failed = { ...at("a-4", 8, orphan("a-4")), status: { phase: "Failed" } };
  const made = [at("a-0", 3), at("a-1", 4, orphan("a-1")), at("a-2", 5, terminating), failed];
  pods.replace([...made, elsewhere, at("ab-0", 7)], "9");
  assert.deepEqual(
    podsMadeFor(memory, namespace, "a").map(({ name }) => name),
    ["a-0", "a-1", "a-4"],
    "a pod that has ended exists until it is deleted",
  );
});

test("the orphans of a namespace are the standing pods there that no StatefulSet owns any more, whatever they are called", () => {
  const { memory, pods } = make();
  const elsewhere = at("a-3", 6, { namespace: `${namespace}-2`, ...orphan("a-3") });
  const leaving = at("a-2", 5, { ...orphan("a-2"), ...terminating });
  pods.replace([at("a-0", 3), at("a-1", 4, orphan("a-1")), leaving, elsewhere, at("b-0", 7, orphan("b-0"))], "9");
  assert.deepEqual(
    orphansIn(memory, namespace).map(({ name }) => name),
    ["a-1", "b-0"],
  );
});

test("a budget selects a StatefulSet by any of its pods, and the answer for one moment stays when the memory changes", () => {
  const { memory, pods } = make();
  const labelled = (app: string) => ({ labels: { app } });
  pods.replace([at("a-0", 3, labelled("x")), at("a-1", 4, labelled("y"))], "9");
  const [x, y, z] = ["x", "y", "z"].map((app) => zoneBudget(app, { selector: { matchLabels: { app } } }));
  assert.ok(x && y && z);
  const hasPods = hasPodsIn(memory);
  const answers = () => [x, y, z].map((budget) => [hasPods(a, budget), hasPods(b, budget)]);
  const expected = [
    [true, false],
    [true, false],
    [false, false],
  ];
  assert.deepEqual(answers(), expected);
  pods.replace([at("b-0", 12, { ...labelled("z"), ...ownedBy("uid-of-b") })], "12");
  assert.deepEqual(answers(), expected);
  assert.deepEqual([hasPodsIn(memory)(a, x), hasPodsIn(memory)(b, z)], [false, true]);
});

test("the memory is as new as a LIST that agreed with it about each requested StatefulSet (R5)", async () => {
  const { memory, pods, reached, learn } = make();
  assert.equal(await reached(1, a), false, "nothing has been received yet");
  pods.replace([at("a-0", 3)], "9");
  learn(20, at("a-0", 3));
  assert.equal(await reached(20, a), true);
  assert.equal(await reached(20, a, b), false, "the pods of b have not been listed");
  learnPods(memory, [b], indexPods([], 30));
  assert.deepEqual([await reached(30, b), await reached(20, a, b), await reached(21, a, b)], [true, true, false]);
});

test("a LIST without pods removes the known ones, and confirms that there are none", async () => {
  const { pods, learn, shown, reached } = make();
  pods.replace([], "9");
  learn(20);
  assert.equal(await reached(20, a), true);
  pods.apply({ type: "ADDED", object: at("a-0", 22) });
  learn(30);
  assert.deepEqual([shown(), await reached(30, a)], [[], true]);
});

test("a LIST that gives a pod to another owner does not confirm the memory of the former owner", async () => {
  const { memory, pods, learn, reached } = make();
  pods.replace([at("a-0", 3)], "9");
  learn(20, at("a-0", 15, { uid: "next", ...ownedBy("uid-of-the-next-a") }));
  assert.equal(memory.owners.get("uid-of-a")?.confirmedAt, 0);
  assert.equal(await reached(20, a), false);
});

test("a LIST of the watch's revision adds a pod that the watch has left out", () => {
  const { pods, learn, shown } = make();
  pods.replace([at("a-0", 3)], "9");
  learn(9, at("a-0", 3), at("a-1", 8));
  assert.deepEqual(shown(), ["a-0@3", "a-1@8"]);
});

test("after silence one contradicted StatefulSet leaves all silent, and the watch begins again with a list (R5)", () => {
  const { memory, pods } = make();
  pods.replace([at("a-0", 3), at("b-0", 4, ownedBy("uid-of-b"))], "9");
  confirm(memory, [a, b], indexPods([at("a-0", 3)]), 50_000);
  assert.equal(memory.relist.signal.aborted, true);
  assert.deepEqual([lastEventOfPodsMs(memory, [a]), lastEventOfPodsMs(memory, [b])], [0, 0]);
  assert.equal(lastEventOfPodsMs(memory, []), 0, "without a StatefulSet the watch alone counts");
});

test("a StatefulSet counts as behind only if a pod of another revision appeared after it was read (Z3)", async () => {
  const { memory, pods, view, clock } = make();
  const isBehind = (readMs: number, changes: Partial<StatefulSet> = {}) =>
    isBehindPods(memory, { ...a, ...changes }, view(a).podsOf(a), readMs);
  await clock.goTo(1_000);
  pods.replace([at("a-0", 3)], "9");
  assert.deepEqual([isBehind(999), isBehind(1_000)], [true, false]);
  assert.equal(isBehind(999, { updateRevision: "old" }), false, "the pod runs the wanted revision");
  await clock.goTo(2_000);
  pods.apply({ type: "MODIFIED", object: at("a-0", 12, terminating) });
  pods.replace([at("a-0", 12, terminating)], "13");
  assert.equal(isBehind(1_000), false, "a changed pod is not a new pod");
  pods.apply({ type: "MODIFIED", object: at("a-0", 14, { uid: "next" }) });
  assert.deepEqual([isBehind(1_999), isBehind(2_000)], [true, false]);
  const foreign = [...view(a).podsOf(a)].map((pod) => ({ ...pod, uid: "unheard of" }));
  assert.equal(isBehindPods(memory, a, foreign, 1e9), true, "an unknown pod may be the newest");
});

test("a view without known pods has seen nothing, and any other has seen through the newest pod of its StatefulSets (R8)", () => {
  const { pods, view } = make();
  assert.equal(view(a).seenThrough, 0);
  pods.replace([at("a-1", 8), at("a-0", 3), at("b-0", 5, ownedBy("uid-of-b"))], "9");
  assert.deepEqual(
    [view(a), view(a, b), view(b, a), view(b), view(a, statefulSet("c"))].map(({ seenThrough }) => seenThrough),
    [8, 8, 8, 5, 8],
  );
  assert.deepEqual([...view(a).podsOf(b)], [], "a StatefulSet outside the view has no pods in it");
});

test("the view of the first lists has seen through them where the ledger names no revision, and through newer pods (R4, R8)", async () => {
  const { clock, memory, pods, learn } = make();
  const sets = statefulSetStore(memory.membership, clock, () => {});
  const group = { namespace, group: "group" };
  const cluster = { ...clock, monotonicMs: () => clock.monotonicMs(), serverTimeMs: () => nowMs } as unknown as Cluster;
  const rolled = { metadata: { resourceVersion: "4" }, status: { updateRevision: "old" } };
  sets.replace([statefulSetObject("a", rolled)], "9");
  pods.replace([at("a-0", 3)], "9");
  const seen = async (settledThrough: number | undefined) =>
    (await readAsListed({ cluster, memory }, [], group, { settledThrough }, clock.monotonicMs())).seenThrough;
  assert.deepEqual([await seen(undefined), await seen(1)], [9, 3]);
  learn(20, at("a-0", 15));
  assert.deepEqual([await seen(undefined), await seen(1)], [15, 15]);
});

test("views share a StatefulSet's pods until one of them changes, so that no decision copies a thousand pods", () => {
  const { pods, view, learn } = make();
  pods.replace([at("a-0", 3)], "9");
  const before = view(a).podsOf(a);
  assert.equal(view(a, b).podsOf(a), before);
  pods.apply({ type: "ADDED", object: at("b-0", 10, ownedBy("uid-of-b")) });
  learn(20, at("a-0", 3));
  assert.equal(view(a).podsOf(a), before, "no new state of its pods was reported");
  pods.apply({ type: "MODIFIED", object: at("a-0", 30, terminating) });
  assert.notEqual(view(a).podsOf(a), before);
});

test("a list of the watch removes each pod that it lacks, also from views, and pods without an owner are not kept", () => {
  const { memory, pods, shown } = make();
  pods.replace([at("a-0", 3), at("a-1", 4)], "9");
  assert.deepEqual(shown(), ["a-0@3", "a-1@4"]);
  pods.replace([at("a-1", 4), at("web-1", 5, { ownerReferences: [] })], "10");
  assert.deepEqual([shown(), [...memory.pods.keys()]], [["a-1@4"], ["db/a-1"]]);
  pods.replace([], "11");
  assert.deepEqual(shown(), []);
});

test("an event that is not newer than the known state has no effect; the very first revision counts", () => {
  const { pods, shown, changed } = make();
  pods.apply({ type: "ADDED", object: at("a-0", 1) });
  assert.deepEqual([shown(), changed], [["a-0@1"], ["a-0 of uid-of-a"]]);
  pods.apply({ type: "MODIFIED", object: at("a-0", 10) });
  changed.length = 0;
  for (const revision of [9, 10]) pods.apply({ type: "MODIFIED", object: at("a-0", revision, terminating) });
  pods.apply({ type: "DELETED", object: at("a-0", 10) });
  pods.apply({ type: "MODIFIED", object: at("a-0", 8, ownedBy("uid-of-an-earlier-a")) });
  pods.apply({ type: "MODIFIED", object: at("a-0", 9, { ownerReferences: [] }) });
  assert.deepEqual([shown(), changed], [["a-0@10"], []]);
});

test("a pod's former owner is triggered when the pod is gone, loses its owner, or gets another one", () => {
  const { pods, changed } = make();
  pods.replace([at("a-0", 3), at("a-1", 4), at("a-2", 5)], "9");
  changed.length = 0;
  pods.apply({ type: "DELETED", object: at("a-0", 10) });
  pods.apply({ type: "MODIFIED", object: at("a-1", 11, { ownerReferences: [] }) });
  pods.apply({ type: "MODIFIED", object: at("a-2", 12, ownedBy("uid-of-b")) });
  assert.deepEqual(changed, ["a-0 of uid-of-a", "a-1 of uid-of-a", "a-2 of uid-of-a"]);
});

test("nothing is kept of pods that are gone, nor of an owner without pods", () => {
  const { memory, pods, learn } = make();
  const { owners, bornMs } = memory;
  const kept = () => [memory.pods, owners, bornMs].map(({ size }) => size);
  const fill = () => {
    pods.replace([at("a-0", 3)], "9");
    learn(20, at("a-0", 3));
    confirm(memory, [a], indexPods([at("a-0", 3)]), 50_000);
    assert.deepEqual(kept(), [1, 1, 1]);
  };
  fill();
  pods.apply({ type: "DELETED", object: at("a-0", 30) });
  assert.deepEqual(kept(), [0, 0, 0]);
  pods.apply({ type: "DELETED", object: at("a-7", 31) });
  assert.deepEqual(kept(), [0, 0, 0], "the pod was never known");
  fill();
  pods.replace([], "40");
  assert.deepEqual(kept(), [0, 0, 0]);
  fill();
  pods.apply({ type: "MODIFIED", object: at("a-0", 50, { uid: "next" }) });
  assert.deepEqual([...bornMs.keys()], ["next"], "the pod was recreated under its name");
});
