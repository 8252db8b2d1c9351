import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { checkHistory, type PodSighting, type Sighting, type StatefulSetSighting } from "./check-history.ts";

type Step = { type: Sighting["type"]; atMs?: number } & (
  | Pick<StatefulSetSighting, "kind" | "name" | "replicas" | "maxUnavailable" | "updateRevision">
  | Omit<PodSighting, "revision" | "atMs" | "type">
);

function set(name: string, changes: Partial<StatefulSetSighting> = {}): Step {
  const given = { type: "ADDED", replicas: 3, maxUnavailable: 1, updateRevision: "new" } as const;
  return { ...given, ...changes, kind: "statefulset", name };
}

function pod(zone: string, ordinal: number, changes: Partial<PodSighting> = {}): Step {
  const name = `${zone}-${ordinal}`;
  const states = { orphaned: false, ready: true, terminating: false, evicted: false, podRevision: "old" };
  return { type: "MODIFIED", kind: "pod", name, zone, ordinal, uid: `${name}/1`, ...states, ...changes };
}

function zone(name: string, updateRevision = "new"): Step[] {
  return [set(name, { updateRevision }), ...[0, 1, 2].map((ordinal) => pod(name, ordinal, { type: "ADDED" }))];
}

/** The findings about them: each pod whose uid begins with a text in `deleted` was deleted by Sluice. */
function violated(steps: readonly Step[], ...deleted: string[]): string[] {
  const sightings = steps.map((step, index) => ({ atMs: index * 1_000, ...step, revision: index + 1 }) as Sighting);
  const { violations } = checkHistory(sightings.reverse(), new Set(deleted));
  return violations.map(({ invariant, message }) => `${invariant} ${message}`);
}

const goes = { terminating: true };
const evicted = { terminating: true, evicted: true };
const gone = { type: "DELETED", terminating: true } as const;
const back = (uid: string, changes: Partial<PodSighting> = {}): Partial<PodSighting> => ({ uid, ...changes });

describe("the check of what Sluice took", () => {
  test("a pod of a second zone breaks Z1 while that of the first is not back, and not afterwards", () => {
    const before = [...zone("a"), ...zone("b"), pod("a", 0, goes), pod("a", 0, gone)];
    const early = [...before, pod("a", 0, back("2", { type: "ADDED", ready: false })), pod("b", 1, evicted)];
    assert.deepEqual(violated(early, "a-0/1"), [
      "Z1 at revision 12 b-1 was taken by an eviction while a-0 was not back",
    ]);
    assert.deepEqual(violated([...before, pod("a", 0, back("2")), pod("b", 1, evicted)], "a-0/1"), []);
  });

  test("pods that users and controllers delete, and pods that were not Ready, do not count as taken", () => {
    const steps = [...zone("a"), ...zone("b"), pod("a", 0, goes), pod("a", 1, { ready: false }), pod("a", 1, evicted)];
    assert.deepEqual(violated([...steps, pod("b", 0, evicted)]), []);
  });

  test("a second pod of a zone whose budget is one breaks Z2", () => {
    const steps = [...zone("a"), pod("a", 0, evicted), pod("a", 1, goes)];
    assert.deepEqual(violated(steps, "a-1/1"), [
      "Z2 at revision 6 a-1 was taken by a rollout beside a-0, where 1 may be down",
    ]);
  });

  test("a pod that broke by itself counts for Z2 once every process must know of it", () => {
    const steps = [...zone("a"), pod("a", 0, { ready: false, atMs: 4_000 })];
    assert.deepEqual(violated([...steps, pod("a", 1, { ...evicted, atMs: 40_000 })]), []);
    assert.equal(violated([...steps, pod("a", 1, { ...evicted, atMs: 50_000 })]).length, 1);
  });

  test("a taken pod is remembered while its StatefulSet is away and its siblings are orphans, and afterwards", () => {
    const orphans = [1, 2].map((ordinal) => pod("a", ordinal, { orphaned: true }));
    const away = [...zone("a"), ...zone("b"), pod("a", 0, goes), ...orphans, set("a", { type: "DELETED" })];
    const found = violated([...away, pod("a", 0, gone), pod("b", 0, goes)], "a-0/1", "b-0/1");
    assert.deepEqual(found, [
      "Z1 at revision 14 b-0 was taken by a rollout while a-0 was not back, whose StatefulSet was away",
    ]);
    const again = [...away, pod("a", 0, gone), set("a"), pod("b", 0, goes)];
    assert.equal(violated(again, "a-0/1", "b-0/1").length, 1);
    assert.deepEqual(
      violated([...away, pod("a", 0, gone), set("a"), pod("a", 0, back("2")), pod("b", 0, goes)], "a-0/1"),
      [],
    );
  });

  test("a zone that left with all its pods is no loss, once the taken pod is gone", () => {
    const left = [...zone("a"), ...zone("b"), pod("a", 0, evicted), set("a", { type: "DELETED" })];
    assert.equal(violated([...left, pod("b", 0, evicted)]).length, 1);
    assert.deepEqual(violated([...left, pod("a", 0, gone), pod("b", 0, evicted)]), []);
  });

  test("a slot that was scaled away is no loss", () => {
    const steps = [...zone("a"), ...zone("b"), pod("a", 2, evicted), pod("a", 2, gone), set("a", { replicas: 2 })];
    assert.deepEqual(violated([...steps, pod("b", 0, evicted)]), []);
  });

  test("a pod that a rollout deletes although it has come for the wanted revision breaks D1 at once", () => {
    const changed = [...zone("a", "old"), set("a", { updateRevision: "new" }), pod("a", 0, goes), pod("a", 0, gone)];
    const came = { type: "ADDED", ready: false, podRevision: "new" } as const;
    const steps = [...changed, pod("a", 0, back("2", came)), pod("a", 0, back("2", { ...came, ...goes }))];
    const [only, ...more] = violated(steps, "a-0/1", "2");
    assert.match(
      only ?? "",
      /^D1 .+ a-0 was deleted by a rollout though it was of the revision wanted for .+ come for it/,
    );
    assert.deepEqual(more, []);
    assert.deepEqual(violated([...steps.slice(0, -1), pod("a", 0, back("2", { ...came, ...evicted }))], "a-0/1"), []);
  });

  test("a pod whose revision is wanted again may go for six seconds, and no longer", () => {
    const again = [
      ...zone("a", "old"),
      set("a", { updateRevision: "new" }),
      set("a", { updateRevision: "old", atMs: 5_000 }),
    ];
    assert.deepEqual(violated([...again, pod("a", 0, { ...goes, atMs: 11_000 })], "a-0/1"), []);
    assert.match(violated([...again, pod("a", 0, { ...goes, atMs: 12_000 })], "a-0/1")[0] ?? "", /^D1 /);
  });
});
