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
