/** Which StatefulSets exist by a watch and by LISTs, and how that is proved (R5). */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  emptyMembership,
  isContradicted,
  knownThrough,
  lastEventOfSetsMs,
  learnStatefulSet,
  learnStatefulSets,
  membersThrough,
  statefulSetStore,
} from "../../../../functions/shared/cache/statefulset-store.ts";
import { awaitProgress } from "../../../../functions/shared/cache/watch-progress.ts";
import type { StatefulSetObject } from "../../../../functions/shared/kubernetes/cluster.ts";
import { parseStatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import { namespace, statefulSetObject } from "../../functions/advance-zone-rollout/given.ts";
import { createVirtualClock } from "../kubernetes/virtual-clock.ts";

type Metadata = Partial<StatefulSetObject["metadata"]>;

const at = (name: string, revision: number, metadata: Metadata = {}, spec: object = {}) =>
  statefulSetObject(name, { metadata: { resourceVersion: String(revision), ...metadata }, spec });
const set = (...given: Parameters<typeof at>) => parseStatefulSet(at(...given));

function make() {
  const clock = createVirtualClock();
  const membership = emptyMembership(clock.monotonicMs());
  const changed: string[] = [];
  const store = statefulSetStore(membership, clock, ({ name, group }) => void changed.push(`${name} ${group}`));
  const listed = (revision: number, ...objects: StatefulSetObject[]) => ({
    statefulSets: objects.map(parseStatefulSet),
    revision,
    askedMs: clock.monotonicMs(),
    isConsistent: true,
  });
  const learn = (...given: Parameters<typeof listed>) => learnStatefulSets(membership, namespace, listed(...given));
  const known = () => [...membership.byPath.values()].map(({ name, resourceVersion }) => `${name}@${resourceVersion}`);
  return { clock, membership, changed, store, listed, learn, known };
}

test("a list that is older than the watch removes nothing that the watch has reported, and brings nothing back (S2)", () => {
  const { store, learn, known } = make();
  store.replace([at("a", 3), at("b", 4)], "9");
  store.apply({ type: "ADDED", object: at("c", 12) });
  store.apply({ type: "DELETED", object: at("b", 13) });
  learn(10, at("a", 3), at("b", 4));
  assert.deepEqual(known().sort(), ["a@3", "c@12"]);
});

test("a list that is newer than the watch adds and removes StatefulSets, and the watch does not undo that", () => {
  const { store, learn, known, changed } = make();
  store.replace([at("a", 3), at("b", 4)], "9");
  learn(20, at("a", 15), at("c", 16));
  assert.deepEqual(known().sort(), ["a@15", "c@16"]);
  changed.length = 0;
  store.apply({ type: "MODIFIED", object: at("b", 11) });
  store.apply({ type: "MODIFIED", object: at("a", 12) });
  assert.deepEqual(known().sort(), ["a@15", "c@16"], "the watch has reached 12, the list 20");
  assert.deepEqual(changed, []);
  store.apply({ type: "MODIFIED", object: at("a", 21, {}, { replicas: 9 }) });
  assert.deepEqual(known().sort(), ["a@21", "c@16"]);
});

test("a list of the watch's revision adds what the watch has left out", () => {
  const { store, learn, known } = make();
  store.replace([at("a", 3)], "9");
  learn(9, at("a", 3), at("lost", 8));
  assert.deepEqual(known().sort(), ["a@3", "lost@8"]);
  learn(9, at("a", 3));
  assert.deepEqual(known(), ["a@3"]);
});

test("of two lists that overtake each other, the older one changes nothing of the newer one", () => {
  const { learn, known } = make();
  learn(20, at("a", 15));
  learn(19, at("a", 15), at("b", 4));
  assert.deepEqual(known(), ["a@15"]);
});

test("a list of one namespace changes nothing of another", () => {
  const { store, learn, membership } = make();
  store.replace([at("a", 3), at("z", 4, { namespace: "elsewhere" })], "9");
  learn(20, at("a", 3));
  assert.deepEqual([...membership.byPath.keys()], ["db/a", "elsewhere/z"]);
  assert.equal(knownThrough(membership, namespace), 20);
  assert.equal(knownThrough(membership, "elsewhere"), 9);
  learn(30, at("a", 3), at("b", 25));
  learn(40, at("a", 3));
  assert.deepEqual([...membership.byPath.keys()], ["db/a", "elsewhere/z"]);
});

test("the memory is known up to the watch's revision, or to that of a list that agrees with it", () => {
  const { store, learn, membership } = make();
  store.replace([at("a", 3)], "9");
  assert.equal(knownThrough(membership, namespace), 9);
  store.apply({ type: "BOOKMARK", resourceVersion: "15" });
  assert.equal(knownThrough(membership, namespace), 15);
  store.apply({ type: "MODIFIED", object: at("a", 17) });
  assert.equal(knownThrough(membership, namespace), 17);
  learn(18, at("a", 16));
  assert.equal(knownThrough(membership, namespace), 17, "the list differs from the memory");
  learn(19, at("a", 17));
  assert.equal(knownThrough(membership, namespace), 19);
  store.replace([at("a", 3)], "5");
  assert.equal(knownThrough(membership, namespace), 5, "a list that replaces everything is all that is known");
});

test("members-through is the revision at which the last member joined, whatever its status did since (S1)", () => {
  const { store, membership } = make();
  const through = () => membersThrough(membership, [...membership.byPath.values()]);
  store.replace([at("a", 3), at("b", 4)], "9");
  assert.equal(through(), 4);
  store.apply({ type: "MODIFIED", object: at("a", 10, {}, { replicas: 7 }) });
  assert.equal(through(), 4);
  store.apply({ type: "ADDED", object: at("c", 12) });
  assert.equal(through(), 12);
  store.apply({ type: "MODIFIED", object: at("b", 13, { labels: { "rollout-group": "other" } }) });
  store.apply({ type: "MODIFIED", object: at("b", 14, { labels: { "rollout-group": "group" } }) });
  assert.equal(through(), 14, "b left, and came back");
  store.apply({ type: "MODIFIED", object: at("a", 15, { deletionTimestamp: "2026-01-01T00:00:00Z" }) });
  assert.equal(through(), 15);
  const template = { metadata: { labels: { app: "next" } } };
  store.apply({ type: "MODIFIED", object: at("c", 16, {}, { template }) });
  assert.equal(through(), 16, "a budget may select c now");
  assert.equal(membersThrough(membership, [set("unknown", 40)]), 40);
  assert.equal(membersThrough(membership, []), 0);
});

test("members-through moves with a list, because a member may have left and come back before it", () => {
  const { store, learn, membership } = make();
  const through = () => membersThrough(membership, [...membership.byPath.values()]);
  store.replace([at("a", 3)], "9");
  learn(20, at("a", 15));
  assert.equal(through(), 15);
  store.replace([at("a", 15)], "30");
  assert.equal(through(), 15, "the same state");
  store.replace([at("a", 31)], "40");
  assert.equal(through(), 31);
  learnStatefulSet(membership, set("a", 44));
  assert.equal(through(), 44);
  learnStatefulSet(membership, set("a", 43));
  assert.equal(membership.byPath.get("db/a")?.resourceVersion, "44");
});

test("a recreated StatefulSet is another member", () => {
  const { store, membership } = make();
  store.replace([at("a", 3)], "9");
  store.apply({ type: "DELETED", object: at("a", 10) });
  assert.equal(membership.byPath.size + membership.byUid.size + membership.since.size, 0);
  store.apply({ type: "ADDED", object: at("a", 11, { uid: "next" }) });
  store.apply({ type: "DELETED", object: at("a", 10) });
  assert.deepEqual([...membership.byUid.keys()], ["next"]);
  assert.deepEqual([...membership.since], [["next", 11]]);
  store.apply({ type: "MODIFIED", object: at("a", 12, { uid: "third" }) });
  assert.deepEqual([...membership.byUid.keys()], ["third"]);
  assert.deepEqual([...membership.since], [["third", 12]]);
});

test("an event without a newer state has no effect, and triggers no group", () => {
  const { store, known, changed } = make();
  store.replace([at("a", 10)], "20");
  changed.length = 0;
  store.apply({ type: "MODIFIED", object: at("a", 9, {}, { replicas: 9 }) });
  store.apply({ type: "MODIFIED", object: at("a", 10, {}, { replicas: 9 }) });
  store.apply({ type: "DELETED", object: at("a", 10) });
  assert.deepEqual([known(), changed], [["a@10"], []]);
});

test("an event that is behind the known state counts as silence", async () => {
  const { store, membership, clock } = make();
  store.replace([at("a", 3)], "50");
  await clock.goTo(40_000);
  store.apply({ type: "BOOKMARK", resourceVersion: "49" });
  assert.equal(lastEventOfSetsMs(membership, namespace), 0);
  store.apply({ type: "BOOKMARK", resourceVersion: "50" });
  assert.equal(lastEventOfSetsMs(membership, namespace), 40_000);
});

test("a consistent list that agrees with the memory counts as an event of its namespace at the moment of its request", async () => {
  const { store, learn, listed, membership, clock } = make();
  store.replace([at("a", 3)], "9");
  await clock.goTo(40_000);
  learn(20, at("a", 3));
  assert.equal(lastEventOfSetsMs(membership, namespace), 40_000);
  assert.equal(lastEventOfSetsMs(membership, "elsewhere"), 0);
  await clock.goTo(80_000);
  learnStatefulSets(membership, namespace, { ...listed(21, at("a", 3)), isConsistent: false });
  assert.equal(
    lastEventOfSetsMs(membership, namespace),
    40_000,
    "a list that may be old proves nothing about the present",
  );
  assert.equal(knownThrough(membership, namespace), 21);
});

test("a list that differs from the memory contradicts it: more, fewer, or another state", () => {
  const { store, listed, membership } = make();
  store.replace([at("a", 3), at("b", 4), at("z", 5, { namespace: "elsewhere" })], "9");
  const contradicted = (...objects: StatefulSetObject[]) =>
    isContradicted(membership, namespace, listed(20, ...objects));
  assert.equal(contradicted(at("b", 4), at("a", 3)), false);
  for (const wrong of [[at("a", 3)], [at("a", 3), at("b", 8)], [at("a", 3), at("b", 4), at("c", 8)], []]) {
    assert.equal(contradicted(...wrong), true);
  }
});

test("a caller that waits for the watch checks its condition at each event, and gives up after 250 ms", async () => {
  const { store, membership, clock } = make();
  store.replace([], "9");
  const isThere = () => knownThrough(membership, namespace) >= 12;
  const waiting = awaitProgress(clock, membership, isThere);
  store.apply({ type: "BOOKMARK", resourceVersion: "11" });
  assert.equal(membership.waiting.size, 1);
  store.apply({ type: "ADDED", object: at("c", 12) });
  assert.equal(await waiting, true);
  assert.equal(membership.waiting.size, 0);
  const inVain = awaitProgress(clock, membership, () => false);
  await clock.goTo(249);
  assert.equal(membership.waiting.size, 1);
  await clock.goTo(250);
  assert.equal(await inVain, false);
});

test("before its first list a watch proves nothing, and the very first revision counts as new (R5)", () => {
  const { store, membership, known } = make();
  assert.equal(knownThrough(membership, namespace), 0);
  store.apply({ type: "ADDED", object: at("a", 1) });
  assert.deepEqual([known(), knownThrough(membership, namespace)], [["a@1"], 1]);
});

test("the answer to a write is known at once, even for a StatefulSet that no watch has reported", () => {
  const { membership, known } = make();
  learnStatefulSet(membership, set("a", 12));
  assert.deepEqual([known(), membersThrough(membership, [set("a", 12)])], [["a@12"], 12]);
});

test("a list of the watch that shows a member in its known state does not move members-through (S1)", () => {
  const { store, membership } = make();
  const through = () => membersThrough(membership, [...membership.byPath.values()]);
  store.replace([at("a", 3)], "9");
  store.apply({ type: "MODIFIED", object: at("a", 10, {}, { replicas: 7 }) });
  store.replace([at("a", 10, {}, { replicas: 7 })], "20");
  assert.equal(through(), 3);
});

test("the deletion of an earlier StatefulSet of the same name removes nothing; that of the known one triggers its group", () => {
  const { store, known, changed } = make();
  store.replace([at("a", 3)], "9");
  store.apply({ type: "DELETED", object: at("a", 10, { uid: "former" }) });
  assert.deepEqual(known(), ["a@3"]);
  changed.length = 0;
  store.apply({ type: "DELETED", object: at("a", 11) });
  assert.deepEqual([known(), changed], [[], ["a group"]]);
});

test("a list of the watch ends its silence, and the wait of a caller", async () => {
  const { store, membership, clock } = make();
  store.replace([], "9");
  await clock.goTo(40_000);
  const waiting = awaitProgress(clock, membership, () => knownThrough(membership, namespace) >= 12);
  store.apply({ type: "BOOKMARK", resourceVersion: "11" });
  await clock.goTo(40_010);
  assert.equal(membership.waiting.size, 1, "not reached yet");
  store.replace([], "12");
  await clock.goTo(40_020);
  assert.equal(membership.waiting.size, 0);
  assert.equal(await waiting, true);
  assert.equal(lastEventOfSetsMs(membership, namespace), 40_010);
});
