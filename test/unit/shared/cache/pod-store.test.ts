/** What watches have delivered, and the views made of it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { indexPods } from "../../../../functions/shared/cache/cache.ts";
import {
  confirm,
  emptyMemory,
  lastEventOfPodsMs,
  learnPods,
  podStore,
  reaches,
  viewOfMemory,
} from "../../../../functions/shared/cache/pod-store.ts";
import { statefulSetStore } from "../../../../functions/shared/cache/statefulset-store.ts";
import { surroundingsOf } from "../../../../functions/shared/groups/governing.ts";
import type { Cluster, PodObject } from "../../../../functions/shared/kubernetes/cluster.ts";
import { parsePod } from "../../../../functions/shared/workloads/pods.ts";
import type { StatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import { namespace, podObject, statefulSet, statefulSetObject } from "../../functions/advance-zone-rollout/given.ts";
import { createVirtualClock } from "../kubernetes/virtual-clock.ts";

function make() {
  const clock = createVirtualClock();
  const memory = emptyMemory(clock as unknown as Cluster);
  const changed: string[] = [];
  const pods = podStore(memory, ({ name }) => void changed.push(name));
  const statefulSets = statefulSetStore(
    memory.membership,
    clock as unknown as Cluster,
    ({ name, group }) => void changed.push(`${name} ${group}`),
  );
  return { clock, memory, changed, pods, statefulSets, cluster: clock as unknown as Cluster };
}

const at = (name: string, revision: number, more: Partial<PodObject["metadata"]> = {}): PodObject =>
  podObject(name, { metadata: { resourceVersion: String(revision), ...more } });

const a = statefulSet("a");
const around = (...workloads: StatefulSet[]) => ({ workloads, neighbours: [], budgets: [] });

test("a view shows one moment: a later change does not show, by name or by owner (R8)", () => {
  const { memory, pods } = make();
  pods.replace([at("a-0", 3), at("a-1", 4)], "9");
  const view = viewOfMemory(memory, around(a), undefined);
  pods.apply({ type: "DELETED", object: at("a-0", 10) });
  pods.apply({ type: "MODIFIED", object: at("a-1", 11) });
  pods.apply({ type: "ADDED", object: at("a-2", 12) });
  assert.deepEqual(
    [...view.podsOf(a)].map(({ name, resourceVersion }) => `${name}@${resourceVersion}`),
    ["a-0@3", "a-1@4"],
  );
  assert.deepEqual(
    ["a-0", "a-1", "a-2"].map((name) => view.pod(name)?.resourceVersion),
    [3, 4, undefined],
  );
  assert.equal(view.seenThrough, 4);
});

test("a view has seen through the largest revision of its own pods, deletions included, and of no other owner's (R8)", () => {
  const { memory, pods } = make();
  pods.replace([at("a-0", 3), at("a-1", 4)], "9");
  const foreign = [{ kind: "StatefulSet", name: "z", uid: "uid-of-z", controller: true }];
  pods.apply({ type: "ADDED", object: at("z-0", 20, { ownerReferences: foreign }) });
  assert.equal(viewOfMemory(memory, around(a), undefined).seenThrough, 4);
  pods.apply({ type: "DELETED", object: at("a-1", 30) });
  assert.equal(viewOfMemory(memory, around(a), undefined).seenThrough, 30);
});

test("the memory is complete up to the last received list, event or bookmark", () => {
  const { memory, pods, clock } = make();
  pods.replace([], "9");
  assert.equal(memory.reached, 9);
  pods.apply({ type: "ADDED", object: at("a-0", 12) });
  assert.equal(memory.reached, 12);
  pods.apply({ type: "BOOKMARK", resourceVersion: "40" });
  assert.equal(memory.reached, 40);
  pods.replace([], "30");
  assert.equal(memory.reached, 30);
  assert.equal(memory.lastEventMs, clock.monotonicMs());
});

test("a decision waits at most 250 ms for the memory to reach the revision that the ledger requires", async () => {
  const { memory, cluster, clock, pods } = make();
  pods.replace([], "9");
  assert.equal(await reaches(cluster, memory, [], 9), true);
  const later = reaches(cluster, memory, [], 10);
  await clock.goTo(100);
  pods.apply({ type: "BOOKMARK", resourceVersion: "10" });
  await clock.goTo(101);
  assert.equal(await later, true);
  const never = reaches(cluster, memory, [], 11);
  await clock.goTo(400);
  assert.equal(await never, false);
  assert.equal(memory.waiting.size, 0);
});

const learned = (memory: ReturnType<typeof emptyMemory>, revision: number, ...objects: PodObject[]) =>
  learnPods(memory, [a], indexPods(objects, revision));
const shown = (memory: ReturnType<typeof emptyMemory>) =>
  [...(memory.owners.get("uid-of-a")?.pods.values() ?? [])].map(
    ({ name, resourceVersion }) => `${name}@${resourceVersion}`,
  );

test("the newer state of a consistent LIST is taken over, and what the watch has reported since is kept", () => {
  const { memory, pods } = make();
  pods.replace([at("a-0", 3), at("a-1", 4), at("a-2", 5)], "9");
  pods.apply({ type: "MODIFIED", object: at("a-2", 30) });
  pods.apply({ type: "ADDED", object: at("a-3", 31) });
  learned(memory, 20, at("a-0", 15), at("a-2", 5), at("a-4", 12));
  assert.deepEqual(shown(memory), ["a-0@15", "a-2@30", "a-3@31"], "a-1 is gone, a-4 may be gone since");
  learned(memory, 40, at("a-0", 15), at("a-2", 30), at("a-3", 31), at("a-4", 12));
  assert.deepEqual(shown(memory), ["a-0@15", "a-2@30", "a-3@31", "a-4@12"]);
});

test("a memory that agrees with a LIST is as new as the LIST, until one of the two has more (R5)", async () => {
  const { memory, pods, cluster, clock } = make();
  pods.replace([at("a-0", 3)], "9");
  const reachesNow = async (revision: number) => {
    const answer = reaches(cluster, memory, [a], revision);
    await clock.goTo(clock.monotonicMs() + 300);
    return answer;
  };
  assert.equal(await reachesNow(20), false);
  learned(memory, 20, at("a-0", 3));
  assert.equal(await reachesNow(20), true);
  assert.equal(await reachesNow(21), false);
  assert.equal(await reaches(cluster, memory, [a], 20), true);
  pods.apply({ type: "MODIFIED", object: at("a-0", 25) });
  learned(memory, 24, at("a-0", 3));
  assert.equal(await reachesNow(26), false);
});

test("a late event of the watch does not overwrite what a LIST has shown before it", () => {
  const { memory, pods, changed } = make();
  pods.replace([at("a-0", 3)], "9");
  learned(memory, 40, at("a-0", 35));
  changed.length = 0;
  pods.apply({ type: "MODIFIED", object: at("a-0", 12) });
  pods.apply({ type: "ADDED", object: at("a-1", 13) });
  pods.apply({ type: "DELETED", object: at("a-0", 14) });
  assert.deepEqual(shown(memory), ["a-0@35"]);
  assert.deepEqual(changed, []);
  pods.apply({ type: "ADDED", object: at("a-1", 41) });
  assert.deepEqual(shown(memory), ["a-0@35", "a-1@41"]);
});

test("a list of the watch that arrives after a newer one makes the memory as old as itself (R5, R8)", async () => {
  const { memory, pods, cluster, clock } = make();
  pods.replace([at("a-0", 3)], "9");
  learned(memory, 110, at("a-0", 109));
  pods.replace([at("a-0", 90)], "105");
  const reached = reaches(cluster, memory, [a], 110);
  await clock.goTo(300);
  assert.equal(await reached, false);
  assert.equal(viewOfMemory(memory, around(a), undefined).seenThrough, 90);
});

test("a LIST that arrives after a newer one brings nothing back that the newer one showed to be gone", () => {
  const { memory, pods } = make();
  pods.replace([at("a-0", 3), at("a-1", 4)], "9");
  learned(memory, 110, at("a-0", 109));
  learned(memory, 105, at("a-0", 90), at("a-1", 4));
  assert.deepEqual(shown(memory), ["a-0@109"]);
});

test("a pod that changes its owner without an event in between leaves the former owner", () => {
  const { memory, pods } = make();
  pods.apply({ type: "ADDED", object: at("a-0", 4) });
  const owner = [{ kind: "StatefulSet", name: "a", uid: "uid-of-the-next-a", controller: true }];
  pods.apply({ type: "MODIFIED", object: at("a-0", 6, { ownerReferences: owner }) });
  assert.deepEqual(shown(memory), []);
  assert.deepEqual([...memory.owners.keys()], ["uid-of-the-next-a"]);
});

test("a recreated StatefulSet is known by its new uid only", () => {
  const { memory, statefulSets } = make();
  statefulSets.apply({ type: "ADDED", object: statefulSetObject("a") });
  const again = { uid: "uid-of-the-next-a", resourceVersion: "9" };
  statefulSets.apply({ type: "MODIFIED", object: statefulSetObject("a", { metadata: again }) });
  assert.deepEqual([...memory.membership.byUid.keys()], ["uid-of-the-next-a"]);
});

test("heartbeats and counters trigger no group, and any field that a decision reads does", () => {
  const { pods, statefulSets, changed } = make();
  pods.apply({ type: "ADDED", object: at("a-0", 3) });
  statefulSets.apply({ type: "ADDED", object: statefulSetObject("a") });
  changed.length = 0;
  pods.apply({ type: "MODIFIED", object: at("a-0", 4) });
  statefulSets.apply({ type: "MODIFIED", object: statefulSetObject("a", { metadata: { resourceVersion: "6" } }) });
  pods.apply({ type: "BOOKMARK", resourceVersion: "9" });
  statefulSets.apply({ type: "BOOKMARK", resourceVersion: "9" });
  assert.deepEqual(changed, []);
  pods.apply({ type: "MODIFIED", object: at("a-0", 10, { deletionTimestamp: "2026-01-01T00:00:00Z" }) });
  const scaled = statefulSetObject("a", { metadata: { resourceVersion: "10" }, spec: { replicas: 4 } });
  statefulSets.apply({ type: "MODIFIED", object: scaled });
  pods.apply({ type: "DELETED", object: at("a-0", 11) });
  assert.deepEqual(changed, ["a-0", "a group", "a-0"]);
});

test("a StatefulSet that changes its group triggers both groups", () => {
  const { statefulSets, changed, memory } = make();
  statefulSets.apply({ type: "ADDED", object: statefulSetObject("a") });
  changed.length = 0;
  statefulSets.apply({
    type: "MODIFIED",
    object: statefulSetObject("a", { metadata: { resourceVersion: "6", labels: { "rollout-group": "next" } } }),
  });
  assert.deepEqual(changed, ["a next", "a group"]);
  const membersOf = (group: string) =>
    surroundingsOf(memory.membership.byPath.values(), { namespace, group }, []).workloads.length;
  assert.deepEqual([membersOf("group"), membersOf("next")], [0, 1]);
});

test("a list replaces everything, and triggers the groups of what was known before and of what is known now", () => {
  const { pods, statefulSets, changed, memory } = make();
  pods.replace([at("a-0", 3)], "9");
  statefulSets.replace([statefulSetObject("a")], "9");
  changed.length = 0;
  pods.replace([at("a-1", 11)], "12");
  statefulSets.replace([statefulSetObject("b")], "12");
  assert.deepEqual(changed, ["a-0", "a-1", "a group", "b group"]);
  assert.deepEqual([...memory.pods.keys()], ["db/a-1"]);
  assert.deepEqual([...memory.membership.byPath.keys()], ["db/b"]);
});

test("pods without an owning StatefulSet are not kept, and a pod that loses its owner is forgotten", () => {
  const { pods, memory } = make();
  pods.apply({ type: "ADDED", object: at("web-1", 3, { ownerReferences: [] }) });
  assert.equal(memory.pods.size, 0);
  pods.apply({ type: "ADDED", object: at("a-0", 4) });
  pods.apply({ type: "MODIFIED", object: at("a-0", 5, { ownerReferences: [] }) });
  assert.equal(memory.pods.size, 0);
  assert.equal(memory.owners.size, 0);
  assert.equal(memory.reached, 5);
});

test("a recreated pod belongs to its new owner only", () => {
  const { pods, memory } = make();
  pods.apply({ type: "ADDED", object: at("a-0", 4) });
  const owner = [{ kind: "StatefulSet", name: "a", uid: "uid-of-the-next-a", controller: true }];
  pods.apply({ type: "DELETED", object: at("a-0", 5) });
  pods.apply({ type: "ADDED", object: at("a-0", 6, { ownerReferences: owner }) });
  assert.deepEqual([...memory.owners.keys()], ["uid-of-the-next-a"]);
});

test("after silence, a memory that agrees with a consistent LIST counts as received; otherwise the watch begins again", () => {
  const { memory, pods } = make();
  pods.replace([at("a-0", 3), at("a-1", 4)], "9");
  const listed = (...objects: PodObject[]) => {
    confirm(memory, [a], indexPods(objects), 50_000);
    return memory.relist.signal.aborted;
  };
  assert.equal(listed(at("a-1", 4), at("a-0", 3)), false);
  assert.equal(lastEventOfPodsMs(memory, [a]), 50_000);
  const silent = lastEventOfPodsMs(memory, [a, statefulSet("b")]);
  assert.ok(silent < 50_000, "a LIST of one StatefulSet proves nothing about another");
  for (const wrong of [[at("a-0", 3)], [at("a-0", 3), at("a-1", 5)], [at("a-0", 3), at("a-1", 4), at("a-2", 5)]]) {
    memory.relist = new AbortController();
    assert.equal(listed(...wrong), true);
  }
  assert.equal(parsePod(at("a-0", 3)).resourceVersion, 3);
});
