import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { checkHistory, type SeenPod, type SeenStatefulSet, type Sighting } from "../support/history.ts";

const seconds = 1_000;

function statefulSet(name: string, changes: Partial<SeenStatefulSet> = {}): SeenStatefulSet {
  return {
    kind: "statefulset",
    name,
    start: 0,
    replicas: 3,
    maxUnavailable: 1,
    minReadySeconds: 0,
    updateRevision: "new",
    deleting: false,
    ...changes,
  };
}

function pod(zone: string, ordinal: number, changes: Partial<SeenPod> = {}): SeenPod {
  const name = `${zone}-${ordinal}`;
  const born = { uid: `${name}/1`, ready: true, readySinceMs: 0, terminating: false, evicted: false, revision: "old" };
  return { kind: "pod", name, zone, ordinal, ...born, ...changes };
}

type Step = [type: Sighting["type"], object: Sighting["object"], atMs?: number];

function history(...steps: Step[]): Sighting[] {
  return steps.map(([type, object, atMs], index) => ({
    revision: index + 1,
    atMs: atMs ?? index * seconds,
    type,
    object,
  }));
}

/** A zone of three pods, all up, as its first five sightings. */
function zone(name: string, changes: Partial<SeenStatefulSet> = {}): [Sighting["type"], Sighting["object"]][] {
  return [
    ["ADDED", statefulSet(name, changes)],
    ...[0, 1, 2].map((ordinal): [Sighting["type"], Sighting["object"]] => ["ADDED", pod(name, ordinal)]),
  ];
}

const gone = { terminating: true };
const back = { uid: "2", revision: "new" };

describe("the check", () => {
  test("flags nothing if one pod follows another, in any order of arrival", () => {
    const sightings = history(
      ...zone("a"),
      ...zone("b"),
      ["MODIFIED", pod("a", 0, gone)],
      ["DELETED", pod("a", 0, gone)],
      ["ADDED", pod("a", 0, { ...back, ready: false })],
      ["MODIFIED", pod("a", 0, back)],
      ["MODIFIED", pod("b", 1, gone)],
    );
    const { violations, takings, mostDown } = checkHistory(sightings.reverse());
    assert.deepEqual(violations, []);
    assert.deepEqual(
      takings.map(({ pod: name }) => name),
      ["a-0", "b-1"],
    );
    assert.deepEqual(mostDown, { a: 1, b: 1 });
  });

  test("flags a second pod of a zone whose budget is one", () => {
    const { violations } = checkHistory(
      history(...zone("a"), ["MODIFIED", pod("a", 0, gone)], ["MODIFIED", pod("a", 1, gone)]),
    );
    assert.equal(violations.length, 1);
    assert.match(violations[0] ?? "", /a-1 was deleted as the 2th pod down of its zone, where 1 may be/);
  });

  test("knows the pods that were there before the last change of their StatefulSet", () => {
    const [first, ...pods] = zone("a");
    const steps = [...pods, first ?? assert.fail()];
    const { violations } = checkHistory(history(...steps, ["DELETED", pod("a", 0)], ["DELETED", pod("a", 1)]));
    assert.match(violations[0] ?? "", /a-1 was deleted as the 2th/);
  });

  test("flags a pod that vanishes without having been seen to terminate", () => {
    const { violations } = checkHistory(history(...zone("a"), ["DELETED", pod("a", 0)], ["DELETED", pod("a", 1)]));
    assert.match(violations[0] ?? "", /a-1 was deleted as the 2th/);
  });

  test("flags a second zone until the pod of the first is back, and no longer", () => {
    const before = [...zone("a"), ...zone("b"), ["DELETED", pod("a", 0)] as const].map(([type, object]) => ({
      type,
      object,
    }));
    const steps = before.map(({ type, object }): [Sighting["type"], Sighting["object"]] => [type, object]);
    const early = checkHistory(
      history(...steps, ["ADDED", pod("a", 0, { ...back, ready: false })], ["MODIFIED", pod("b", 0, gone)]),
    );
    assert.match(early.violations[0] ?? "", /b-0 was deleted while a-0 was not back/);
    const late = checkHistory(history(...steps, ["ADDED", pod("a", 0, back)], ["MODIFIED", pod("b", 0, gone)]));
    assert.deepEqual(late.violations, []);
  });

  test("flags the next pod before minReadySeconds are over, and not after", () => {
    const taken: [Sighting["type"], Sighting["object"], number?][] = [
      ...zone("a", { minReadySeconds: 10 }),
      ["DELETED", pod("a", 0), 20 * seconds],
      ["ADDED", pod("a", 0, { ...back, readySinceMs: 30 * seconds }), 30 * seconds],
    ];
    const early = checkHistory(history(...taken, ["MODIFIED", pod("a", 1, gone), 36 * seconds]));
    assert.match(early.violations[0] ?? "", /a-1 was deleted as the 2th/);
    assert.deepEqual(checkHistory(history(...taken, ["MODIFIED", pod("a", 1, gone), 40 * seconds])).violations, []);
  });

  test("flags a pod of the wanted revision", () => {
    const current = pod("a", 0, { revision: "new" });
    const { violations } = checkHistory(
      history(...zone("a"), ["MODIFIED", current], ["DELETED", current, 60 * seconds]),
    );
    assert.match(violations[0] ?? "", /a-0 was deleted though it ran the wanted revision new/);
  });

  test("finds no violation in pods that users scale away, or that were down before they were deleted", () => {
    const { violations, takings } = checkHistory(
      history(
        ...zone("a"),
        ["MODIFIED", pod("a", 0, { ready: false })],
        ["MODIFIED", statefulSet("a", { replicas: 2 })],
        ["MODIFIED", pod("a", 2, gone)],
        ["MODIFIED", pod("a", 0, { ready: false, terminating: true })],
      ),
    );
    assert.deepEqual(violations, []);
    assert.deepEqual(takings, []);
  });

  test("finds no violation in the pods of a StatefulSet that a user deletes", () => {
    const { violations } = checkHistory(
      history(
        ...zone("a"),
        ...zone("b"),
        ["DELETED", pod("a", 0)],
        ["DELETED", statefulSet("a")],
        ["DELETED", pod("a", 1)],
        ["DELETED", pod("b", 0)],
      ),
    );
    assert.deepEqual(violations, []);
  });

  test("blames no eviction for the revision of its pod", () => {
    const current = pod("a", 0, { revision: "new" });
    const steps: Step[] = [...zone("a"), ["MODIFIED", current]];
    const evicted = { ...current, ...gone, evicted: true };
    const { violations, takings } = checkHistory(history(...steps, ["MODIFIED", evicted, 60 * seconds]));
    assert.deepEqual(violations, []);
    assert.deepEqual(
      takings.map((taking) => taking.evicted),
      [true],
    );
  });

  test("flags an eviction beyond the budget, and a rollout beyond the smaller of the two limits", () => {
    const out = { ...gone, evicted: true };
    const before: Step[] = [...zone("a", { maxUnavailable: 2 }), ["MODIFIED", pod("a", 0, out)]];
    const second = (changes: Partial<SeenPod>, maxUnavailable: number) =>
      checkHistory(history(...before, ["MODIFIED", pod("a", 1, changes)]), { maxUnavailable }).violations;
    assert.deepEqual(second(out, 2), []);
    assert.match(second(out, 1)[0] ?? "", /a-1 was deleted as the 2th pod down of its zone, where 1 may be/);
    assert.match(second(gone, 1)[0] ?? "", /a-1 was deleted as the 2th pod down of its zone, where 1 may be/);
    assert.deepEqual(second(gone, 3), []);
    const third = history(...before, ["MODIFIED", pod("a", 1, out)], ["MODIFIED", pod("a", 2, gone)]);
    assert.match(
      checkHistory(third, { maxUnavailable: 3 }).violations[0] ?? "",
      /a-2 was deleted as the 3th.+where 2 may be/,
    );
  });

  test("counts partitions over all zones if the budget does, whatever took the others down", () => {
    const promised = { maxUnavailable: 1, partitionOf: (name: string) => `partition ${name.slice(-1)}` };
    const out = { ...gone, evicted: true };
    const before: Step[] = [...zone("a"), ...zone("b"), ["MODIFIED", pod("a", 0, out)]];
    const others = checkHistory(
      history(...before, ["MODIFIED", pod("a", 1, out)], ["MODIFIED", pod("b", 2, out)]),
      promised,
    );
    assert.deepEqual(others.violations, []);
    assert.deepEqual(others.mostDown, { "partition 0": 1, "partition 1": 1, "partition 2": 1 });
    const same = checkHistory(history(...before, ["MODIFIED", pod("b", 0, out)]), promised);
    assert.match(same.violations[0] ?? "", /b-0 was deleted as the 2th pod down of partition 0, where 1 may be/);
    assert.equal(same.mostDown["partition 0"], 2);
    const broken = checkHistory(
      history(...zone("a"), ...zone("b"), ["MODIFIED", pod("a", 0, { ready: false })], ["MODIFIED", pod("b", 0, out)]),
      promised,
    );
    assert.equal(broken.violations.length, 1, broken.violations.join("; "));
  });
});
