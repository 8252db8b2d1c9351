/** The state of reserved pods that no view shows, the orphans of their StatefulSet, and how new a view must be (R5, R6). */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { GroupView, ViewNeed } from "../../../../functions/shared/cache/cache.ts";
import { createWatchCache } from "../../../../functions/shared/cache/watching.ts";
import type { Context } from "../../../../functions/shared/contract/context.ts";
import {
  type Cluster,
  ClusterError,
  type PodObject,
  type StatefulSetObject,
} from "../../../../functions/shared/kubernetes/cluster.ts";
import type { Ledger, Reservation } from "../../../../functions/shared/ledger/reservation.ts";
import {
  findReserved,
  isMissingMember,
  readAsNew,
  readUnknownSets,
} from "../../../../functions/shared/transaction/claimed-objects.ts";
import { type Pod, parsePod } from "../../../../functions/shared/workloads/pods.ts";
import type { StatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import { createWorldCluster } from "../../../fake-cluster/world-cluster.ts";
import {
  namespace,
  podObject,
  reservation,
  statefulSet,
  statefulSetObject,
} from "../../functions/advance-zone-rollout/given.ts";
import { reserved } from "../../functions/evaluate-eviction/group-commit/reviews.ts";
import { Harness, key, played } from "../reconcile/harness.ts";

test("reservations of a StatefulSet stay while its pods are orphaned, even if a stopped watch shows older pods (S3)", async () => {
  // The pod that replaces a reserved one never becomes ready.
  const harness = await new Harness({ replicas: 3, maxUnavailable: 3 }).prepare("app:broken");
  const inner = createWorldCluster(harness.world);
  let isFrozen = false;
  const watch = (...[resource, query, options]: Parameters<Cluster["watch"]>) =>
    (async function* () {
      for await (const event of inner.watch(resource, query, options)) {
        while (isFrozen && resource === "pods" && !options?.signal?.aborted) await inner.sleep(100);
        yield event;
      }
    })();
  const cluster = { ...harness.cluster, watch: watch as Cluster["watch"] };
  const cache = createWatchCache({ cluster, namespaces: undefined, onChange() {}, onTrouble() {} });
  await played(harness.timeline, cache.ready);
  harness.restart({ cluster, cache });
  await harness.run();
  await harness.goOn(12_000);
  await harness.run();
  const zone = ["group-a-0", "group-a-1", "group-a-2"].map((name) => `${name} by advance-zone-rollout`);
  assert.deepEqual(reserved(harness), zone);
  await harness.goOn(100);
  isFrozen = true;
  await harness.goOn(3_000);
  harness.world.removeStatefulSet({ namespace, name: "group-a" }, "Orphan");
  await harness.goOn(200);
  harness.forget();
  await harness.run();
  assert.deepEqual([harness.guard, harness.acts, reserved(harness)], ["zone-departed", [], zone]);
  await played(harness.timeline, cache.stop());
});

interface Given {
  readonly members?: readonly StatefulSet[];
  /** What the view shows. */
  readonly shown?: readonly PodObject[];
  /** What a GET finds. */
  readonly pods?: readonly PodObject[];
  readonly statefulSets?: readonly StatefulSetObject[];
  /** What is known of the pods that were made for a StatefulSet. */
  readonly left?: readonly PodObject[];
  readonly reservations: readonly Reservation[];
}

function given({ members = [], shown = [], pods = [], statefulSets = [], left = [], reservations }: Given) {
  const asked: string[] = [];
  const objects = new Map<string, unknown>();
  for (const object of pods) objects.set(`pods ${object.metadata.name}`, object);
  for (const object of statefulSets) objects.set(`statefulsets ${object.metadata.name}`, object);
  const cluster = {
    async get(resource: string, at: { readonly namespace: string; readonly name: string }) {
      assert.equal(at.namespace, namespace);
      asked.push(`${resource} ${at.name}`);
      const found = objects.get(`${resource} ${at.name}`);
      if (found === undefined) throw failure(404);
      return found;
    },
  };
  const cache = {
    async podsMadeFor(at: { readonly namespace: string; readonly name: string }): Promise<Pod[]> {
      assert.equal(at.namespace, namespace);
      asked.push(`made for ${at.name}`);
      return left.map(parsePod);
    },
    orphans: async () => [],
  };
  const context = { cluster, cache } as unknown as Context;
  const ledger = { key, reservations, members: [] } as unknown as Ledger;
  const pod = (name: string) => shown.map(parsePod).find((one) => one.name === name);
  const view = { workloads: members, neighbours: [], budgets: [], pod } as unknown as GroupView;
  const find = async () => {
    const foreign = await readUnknownSets(context, ledger, view);
    const places = await findReserved(context, ledger, view, foreign);
    return reservations.map((one) => {
      const where = places.get(one);
      return [where?.pod?.uid, where?.workload?.uid, where?.isMember, where?.orphans];
    });
  };
  return { asked, context, ledger, view, find };
}

function failure(code: number): ClusterError {
  return new ClusterError({ code, reason: "Test", message: "no", verb: "get", resource: "pods" });
}

const next = (name: string, metadata: Partial<PodObject["metadata"]> = {}) =>
  podObject(name, { metadata: { uid: `next ${name}`, ...metadata } });
const orphan = (name: string, metadata: Partial<PodObject["metadata"]> = {}) =>
  next(name, { ownerReferences: [], labels: { "statefulset.kubernetes.io/pod-name": name }, ...metadata });

test("a member's pod that the view shows, or shows to be missing, costs no request", async () => {
  const { find, asked } = given({
    members: [statefulSet("a")],
    shown: [next("a-0")],
    pods: [next("a-1")],
    reservations: [reservation("a-0"), reservation("a-1")],
  });
  assert.deepEqual(await find(), [
    ["next a-0", "uid-of-a", true, 0],
    [undefined, "uid-of-a", true, 0],
  ]);
  assert.deepEqual(asked, []);
});

test("an orphaned pod is read by GET, and its other orphans are listed, although a LIST shows it (R6)", async () => {
  const { find, asked } = given({
    members: [statefulSet("a", { replicas: 0, deleting: true })],
    shown: [orphan("a-0")],
    pods: [orphan("a-0")],
    reservations: [reservation("a-0")],
  });
  assert.deepEqual(await find(), [["next a-0", "uid-of-a", true, 1]]);
  assert.deepEqual(asked, ["pods a-0", "made for a"]);
});

test("an orphan is read by GET although its StatefulSet wants a pod of that ordinal: another one takes its place", async () => {
  const { find, asked } = given({
    members: [statefulSet("a")],
    shown: [orphan("a-0")],
    pods: [podObject("a-0")],
    reservations: [reservation("a-0")],
  });
  assert.deepEqual(await find(), [["uid-of-a-0", "uid-of-a", true, 0]]);
  assert.deepEqual(asked, ["pods a-0"]);
});

test("a reserved pod beyond the wanted ones is read by GET, because its StatefulSet may have orphaned it (R6)", async () => {
  const { find, asked } = given({
    members: [statefulSet("a", { replicas: 1 })],
    shown: [next("a-2")],
    pods: [podObject("a-1")],
    reservations: [reservation("a-1"), reservation("a-2"), reservation("a-3")],
  });
  assert.deepEqual(await find(), [
    ["uid-of-a-1", "uid-of-a", true, 0],
    ["next a-2", "uid-of-a", true, 0],
    [undefined, "uid-of-a", true, 0],
  ]);
  assert.deepEqual(asked, ["pods a-1", "pods a-3"], "its orphans do not matter while it exists");
});

test("StatefulSets that the view lacks are read once each, with their reserved pods", async () => {
  const { find, asked } = given({
    members: [statefulSet("a")],
    shown: [next("b-0")],
    pods: [next("b-0"), next("b-1")],
    statefulSets: [
      statefulSetObject("a"),
      statefulSetObject("b", { metadata: { labels: { "rollout-group": "another" } } }),
    ],
    reservations: [reservation("a-0"), reservation("b-0"), reservation("b-1")],
  });
  assert.deepEqual(await find(), [
    [undefined, "uid-of-a", true, 0],
    ["next b-0", "uid-of-b", false, 0],
    ["next b-1", "uid-of-b", false, 0],
  ]);
  assert.deepEqual(asked, ["statefulsets b", "pods b-0", "pods b-1"]);
});

test("a StatefulSet that was recreated since the view was read is a member of the group, and none of its reservations is settled (S3)", async () => {
  const reservations = [reservation("b-0")];
  const { find } = given({ pods: [next("b-0")], statefulSets: [statefulSetObject("b")], reservations });
  assert.deepEqual(await find(), [["next b-0", "uid-of-b", true, 0]]);
});

test("orphans are counted if their StatefulSet is gone or being deleted and the reserved pod is gone (S3)", async () => {
  const left = [orphan("a-1"), next("a-2")];
  const deleting = { deletionTimestamp: "2026-01-01T00:00:00Z" };
  const leaving = { statefulSets: [statefulSetObject("a", { metadata: deleting })] };
  const isOut = { members: [statefulSet("a", { deleting: true, replicas: 0 })] };
  for (const where of [{}, leaving, isOut]) {
    const one = given({ left, reservations: [reservation("a-0")], ...where });
    assert.deepEqual(
      (await one.find()).map((found) => found.at(-1)),
      [2],
    );
    assert.equal(one.asked.at(-1), "made for a");
    const still = given({ left, pods: [podObject("a-0")], reservations: [reservation("a-0")], ...where });
    assert.deepEqual(
      (await still.find()).map((found) => [found[0], found.at(-1)]),
      [["uid-of-a-0", 0]],
    );
    assert.equal(still.asked.includes("made for a"), false);
  }
});

test("an orphan that a GET has found counts although no list shows it yet, and only once (S3)", async () => {
  const count = async (found: PodObject, ...left: PodObject[]) =>
    (await given({ pods: [found], left, reservations: [reservation("a-0")] }).find())[0]?.at(-1);
  assert.equal(await count(orphan("a-0")), 1);
  assert.equal(await count(orphan("a-0"), orphan("a-1")), 2);
  assert.equal(await count(orphan("a-0"), orphan("a-1"), orphan("a-0")), 2);
  assert.equal(await count(orphan("a-0", { deletionTimestamp: "2026-01-01T00:00:00Z" })), 0);
  assert.equal(await count(next("a-0", { ownerReferences: [] })), 0, "it was made for no StatefulSet");
  const members = [statefulSet("a", { replicas: 0 })];
  const wanted = given({ members, pods: [orphan("a-0")], reservations: [reservation("a-0")] });
  assert.deepEqual(await wanted.find(), [["next a-0", "uid-of-a", true, 0]], "its StatefulSet exists");
});

test("an error of the API server about a reserved pod or its StatefulSet is thrown, and proves nothing", async () => {
  for (const resource of ["pods", "statefulsets"]) {
    const { context, find } = given({ reservations: [reservation("a-0")] });
    const { get } = context.cluster;
    (context.cluster as { get: unknown }).get = (asked: "pods", at: Parameters<typeof get>[1]) =>
      asked === resource ? Promise.reject(failure(503)) : get(asked, at);
    await assert.rejects(find(), { code: 503 });
  }
});

test("a reservation of a member that the view lacks shows that the view is from before it joined (S1)", () => {
  const { ledger, view } = given({ reservations: [reservation("b-0")] });
  const isMissing = (...foreign: (StatefulSet | undefined)[]) =>
    isMissingMember(ledger, view, new Map(foreign.map((one, index) => [`${index}`, one])));
  assert.equal(isMissing(undefined, statefulSet("b", { group: "other" }), statefulSet("c")), true);
  assert.equal(isMissing(undefined, statefulSet("b", { group: "other" })), false);
});

/** The ledger on which a decision rests, with these answers of the API server, in the order of the requests. */
async function asNew(through: Partial<Ledger>, ...answers: (GroupView["consistentAt"] | ClusterError)[]) {
  const needs: ViewNeed[] = [];
  const cache = {
    async read(_key: unknown, need: ViewNeed) {
      needs.push(need);
      const answer = answers[needs.length - 1];
      if (answer instanceof ClusterError) throw answer;
      return { consistentAt: answer, number: needs.length };
    },
  };
  const stored = { key, members: ["a"], isElsewhere: false, ...through } as unknown as Ledger;
  const need = { permitSinceMs: 7, consistent: false };
  const { ledger, view } = await readAsNew({ cache } as unknown as Context, stored, need);
  return { needs, ledger, number: (view as unknown as { number: number }).number, stored };
}

test("a view must be as new as the ledger requires, and one that is new enough is used", async () => {
  const known = { settledThrough: 20, membersThrough: 10 };
  for (const answer of [undefined, { pods: 20, statefulSets: 10 }]) {
    const { needs, ledger, stored, number } = await asNew(known, answer);
    assert.deepEqual(needs, [{ permitSinceMs: 7, consistent: false, ...known }]);
    assert.deepEqual([ledger, number], [stored, 1]);
  }
  const nothing = { settledThrough: undefined, membersThrough: undefined };
  assert.equal((await asNew(nothing, { pods: 0, statefulSets: 0 })).number, 1);
});

test("a ledger with a revision that a consistent LIST has not reached is from elsewhere, and begins anew (R5)", async () => {
  const known = { settledThrough: 20, membersThrough: 10 };
  for (const behind of [
    { pods: 19, statefulSets: 10 },
    { pods: 20, statefulSets: 9 },
  ]) {
    const { needs, ledger, number } = await asNew(known, behind, undefined);
    const nothing = { settledThrough: undefined, membersThrough: undefined };
    assert.deepEqual(needs[1], { permitSinceMs: 7, consistent: true, ...nothing });
    assert.deepEqual(ledger, { key, members: undefined, isElsewhere: true, ...nothing });
    assert.equal(number, 2);
  }
});

test("if the API server has not reached a revision (504), a consistent LIST decides whether it ever will; other errors are thrown", async () => {
  const known = { settledThrough: 20, membersThrough: 10 };
  const { needs, number } = await asNew(known, failure(504), { pods: 30, statefulSets: 30 });
  assert.deepEqual([needs[1], number], [{ permitSinceMs: 7, consistent: true, ...known }, 2]);
  assert.equal((await asNew(known, failure(504), { pods: 19, statefulSets: 30 }, undefined)).ledger.isElsewhere, true);
  await assert.rejects(asNew(known, failure(503), undefined), { code: 503 });
  await assert.rejects(asNew({ settledThrough: undefined }, failure(504), undefined), { code: 504 });
});
