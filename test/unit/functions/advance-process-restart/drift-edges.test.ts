/** Decisions about files at the edges of their conditions: pods that leave, and mounted Secrets without files. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { isResting } from "../../../../functions/advance-process-restart/decide-parked.ts";
import { decideStep, phases } from "../../../../functions/advance-process-restart/decide-step.ts";
import {
  type DriftZone,
  decideDrift,
  decideFill,
} from "../../../../functions/advance-process-restart/drift/decide-drift.ts";
import { coordinatingOf } from "../../../../functions/advance-process-restart/drift/decide-settings.ts";
import type { Zone } from "../../../../functions/shared/groups/zones.ts";
import type { Pod } from "../../../../functions/shared/workloads/pods.ts";
import type { StatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import { claimOf, nowMs, pod, statefulSet } from "../advance-zone-rollout/given.ts";
import { managed, report } from "./given.ts";

const [old, wanted] = ["1:old", "1:new"];

function zoneOf(changes: Partial<Pod>, workload: Partial<StatefulSet> = {}): Zone<StatefulSet> {
  const zone = managed("a", "nn") as Zone<StatefulSet>;
  const pods = zone.pods.map((one) => ({ ...one, ...changes }));
  return { ...zone, workload: { ...zone.workload, ...workload }, pods };
}

const known = (zone: Zone<StatefulSet>, changes: Partial<DriftZone> = {}): DriftZone => ({
  ...{ zone, sum: wanted, expected: new Map(), mounted: new Map(), running: new Map() },
  ...changes,
});

suite("the first files", () => {
  const fill = { name: "mounted", uid: "1", resourceVersion: "2", data: {}, annotations: {}, ownerReferences: [] };
  const waiting = { readySinceMs: undefined };
  const isEmpty = true;

  test("an empty mounted Secret whose processes have never started is filled", () => {
    const zone = zoneOf(waiting);
    const target = { kind: "copy", statefulSet: zone.workload, sum: wanted, copy: fill };
    assert.deepEqual(decideFill([known(zone, { fill, isEmpty })]), [target]);
    assert.deepEqual(decideFill([known({ ...zone, pods: [] }, { fill, isEmpty })]).length, 1, "before its first pod");
    assert.deepEqual(decideFill([known(zone, { fill })]), [], "it has other files");
    assert.deepEqual(decideFill([known(zone, { isEmpty })]), [], "it has the expected files");
  });

  test("files with which all processes run are mounted again, and not before the last one runs with them", () => {
    const zone = zoneOf({});
    const running = new Map(zone.pods.map(({ uid }) => [uid, wanted]));
    assert.equal(decideFill([known(zone, { fill, running })]).length, 1);
    const [first = ""] = running.keys();
    for (const other of [new Map([[first, wanted]]), new Map([...running, [first, old]])])
      assert.deepEqual(decideFill([known(zone, { fill, running: other })]), []);
    assert.deepEqual(decideFill([known({ ...zone, pods: [] }, { fill, running: new Map() })]), [], "no pod");
    assert.equal(decideFill([known({ ...zone, pods: zone.pods.slice(0, 1) }, { fill, running })]).length, 1, "one pod");
  });

  test("where one process runs, or its pod is ready or in a phase, nothing is filled", () => {
    const zone = zoneOf(waiting);
    const [first, second] = zone.pods as readonly [Pod, Pod];
    const running = new Map([[second.uid, old]]);
    assert.deepEqual(decideFill([known(zone, { fill, isEmpty, running })]), []);
    const restart = { text: "failed", phase: "failed", id: undefined } as const;
    for (const change of [{ readySinceMs: 0 }, { restart }])
      assert.deepEqual(
        decideFill([known({ ...zone, pods: [first, { ...second, ...change }] }, { fill, isEmpty })]),
        [],
      );
  });
});

suite("pods that are asked", () => {
  const coordinated = { text: "schedule-coordinated", phase: "schedule-coordinated", id: undefined } as const;

  test("a pod on its way out that waits for earlier files asks no other pod to join it", () => {
    const zone = zoneOf({});
    const [first, second] = zone.pods as readonly [Pod, Pod];
    const left = { ...first, terminating: true, restart: coordinated };
    const decided = (sum: string) => {
      const pods = [{ ...left, restartReason: `drift coordinated ${sum}` }, second];
      return decideDrift([{ ...zone, pods }], [known({ ...zone, pods })], nowMs).targets.map(({ phase }) => phase);
    };
    assert.deepEqual(decided(old), []);
    assert.deepEqual(decided(wanted), ["schedule-coordinated"], "those of now do");
  });

  test("a pod that a person asks to restart together with others brings no other pod, and one that files ask does", () => {
    const zone = zoneOf({});
    const [first, second] = zone.pods as readonly [Pod, Pod];
    const phasesFor = (reason: string) => {
      const pods = [{ ...first, restart: coordinated, restartReason: `${reason} ${wanted}` }, second];
      const running = new Map([[second.uid, old]]);
      return decideDrift([{ ...zone, pods }], [known({ ...zone, pods }, { running })], nowMs).targets.map(
        ({ phase }) => phase,
      );
    };
    assert.deepEqual(phasesFor("asked"), ["schedule-rolling"]);
    assert.deepEqual(phasesFor("drift coordinated"), ["schedule-coordinated"]);
  });

  test("pods of a StatefulSet without files join the first StatefulSet whose pods wait to restart together", () => {
    const named = (name: string, sum?: string): Zone<StatefulSet> => {
      const one = managed(name, "n") as Zone<StatefulSet>;
      if (sum === undefined) return one;
      const reason = { restart: coordinated, restartReason: `drift coordinated ${sum}` };
      return { ...one, pods: one.pods.map((pod) => ({ ...pod, ...reason })) };
    };
    const [a, b, c] = [named("a", wanted), named("b", "1:later"), named("c")];
    const { targets } = decideDrift([a, b, c], [known(a), known(b, { sum: "1:later" })], nowMs);
    const marks = targets.map(({ pods, reason }) => [pods[0]?.name, reason]);
    assert.deepEqual(marks, [["c-0", `drift coordinated ${wanted}`]]);
  });

  test("rollout-due: a new pod of any StatefulSet that does not become ready lets all restart together before the rollout", () => {
    const stuck = zoneOf({ readySinceMs: undefined, createdMs: nowMs - 180_000 }, { updateRevision: "new" } as never);
    const pods = stuck.pods.map((pod) => ({ ...pod, revision: "new" }));
    const due = managed("b", "on") as Zone<StatefulSet>;
    const running = new Map(due.pods.map(({ uid }) => [uid, old]));
    const changed = known(due, { running, expected: new Map([["cluster.name", "b"]]) });
    const guardOf = (zones: readonly Zone<StatefulSet>[]) => decideDrift(zones, [changed], nowMs).blocked?.guard;
    assert.equal(guardOf([due]), "rollout-due");
    assert.equal(guardOf([{ ...stuck, pods }, due]), undefined);
  });

  test("restart-config-together: of several pods that were taken out the first one is named", () => {
    const zone = zoneOf({ restartReason: `asked ${wanted}` });
    const other = managed("b", "n") as Zone<StatefulSet>;
    const running = new Map(other.pods.map(({ uid }) => [uid, old]));
    const expected = new Map([["cluster.name", "b"]]);
    const all = [known(zone, { expected }), known(other, { running, expected })];
    assert.match(decideDrift([zone, other], all, nowMs).blocked?.message ?? "", /^a-0 was taken out/);
  });

  test("pods that wait alone join the others only where their files let none start alone, and only while they stay", () => {
    const rolling = { text: "schedule-rolling", phase: "schedule-rolling", id: undefined } as const;
    const expected = new Map([["cluster.name", "b"]]);
    const marksOf = (first: Partial<Pod>, changes: Partial<DriftZone> = {}) => {
      const zone = zoneOf({});
      const pods = zone.pods.map((pod, index) => (index === 0 ? { ...pod, restart: rolling, ...first } : pod));
      const own = { ...zone, pods };
      return decideDrift([own], [known(own, { expected, isBlockedAlone: true, ...changes })], nowMs).targets.map(
        (target) => `${target.pods.map(({ name }) => name)} ${target.reason}`,
      );
    };
    const joining = [`a-1 drift coordinated ${wanted}`, `a-0 drift coordinated instead of schedule-rolling ${wanted}`];
    assert.deepEqual(marksOf({}), joining);
    const own = { restartReason: `drift rolling ${wanted}` };
    assert.deepEqual(
      marksOf(own),
      joining.map((mark) => mark.replace("instead of schedule-rolling ", "")),
    );
    assert.deepEqual(marksOf({}, { isBlockedAlone: false }), []);
    assert.deepEqual(marksOf({}, { isBlockedAlone: undefined } as never), []);
    assert.deepEqual(marksOf({ terminating: true }), []);
  });

  test("rollout-due: a StatefulSet whose wanted revision is not known holds pods of no known revision as well", () => {
    const zone = zoneOf({ revision: undefined } as never, { updateRevision: undefined } as never);
    const running = new Map(zone.pods.map(({ uid }) => [uid, old]));
    const changed = { running, expected: new Map([["cluster.name", "b"]]) };
    assert.equal(decideDrift([zone], [known(zone, changed)], nowMs).blocked?.guard, "rollout-due");
  });
});

test("a setting without a value is none", () => {
  assert.deepEqual([...coordinatingOf({ "cluster.name": undefined })], []);
  assert.deepEqual([...coordinatingOf({ "cluster.name": null })], []);
});

test("only a process that is to be parked rests under the claim of a parked one", () => {
  const wish = pod("a-0", { stop: "true" });
  assert.equal(isResting(claimOf("a:0", "process", { mode: "parked", phase: "parked" }), wish), true);
  assert.equal(isResting(claimOf("a:0", "process", { mode: "single", phase: "parked" }), wish), false);
});

test("a process that does not stop is killed when this process has known that for as long as its grace period", () => {
  const guardIn = (agoMs: number, knownMs?: number) => {
    const own = { id: "restart-1", phase: phases.stopping, epoch: 5, uids: { "a-0": "uid-of-a-0" } };
    const claim = claimOf("a:0", "process", { ...own, stampMs: nowMs - agoMs });
    const one = pod("a-0", { restart: { text: "stop", phase: "stop", id: "restart-1" } });
    const set = statefulSet("a", { graceMs: 30_000 });
    const where = { statefulSet: set, pods: new Map([[0, one]]), volumes: new Map(), isAnchored: true };
    const answer = report("a-0", { restartId: "restart-1", state: "stopping", lastCommand: "stop" });
    const step = decideStep({ claim, where, answer, nowMs, ...(knownMs !== undefined && { knownMs }) });
    return step.kind === "wait" ? step.guard : step.kind === "call" && step.changes.phase;
  };
  assert.equal(guardIn(35_000), phases.killing);
  assert.equal(guardIn(35_000, 35_000), phases.killing);
  assert.equal(guardIn(635_000, 34_999), "restart-stopping");
  assert.equal(guardIn(34_999, 635_000), "restart-stopping");
});
