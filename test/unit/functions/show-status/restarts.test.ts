/** Restarts of processes inside their pods, with and without a rollout-group. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { guards as restartGuards } from "../../../../functions/advance-process-restart/guards.ts";
import type { RestartPhase } from "../../../../functions/shared/annotations/restart.ts";
import type { GroupStatus, Status } from "../../../../functions/shared/contract/status.ts";
import type { KnownClaim } from "../../../../functions/shared/ledger/claim.ts";
import type { Pod } from "../../../../functions/shared/workloads/pods.ts";
import { createLoneRestart, loneGroup, writePhase } from "../../../support/status-groups.ts";
import { claimOf, nowMs, pod, zone } from "../advance-zone-rollout/given.ts";
import { ago, guards, ledger, minute, statusOf } from "./given.ts";
import { started } from "./started.ts";

const by = "advance-process-restart";
const all = { ...guards, [by]: restartGuards };
const lone = { namespace: "db", group: "statefulset:a" };
const phased = (name: string, phase: RestartPhase) =>
  pod(name, { revision: "new", restart: { text: phase, phase, id: undefined } });

interface Given {
  readonly extra?: readonly Pod[];
  readonly claims?: readonly KnownClaim[];
  readonly guard?: string;
  readonly isLone?: boolean;
  readonly drawing?: string;
}

function statusWith({ extra = [], claims = [], guard, isLone = true, drawing = "nnnn" }: Given): Status {
  const [namespace, since] = ["db", nowMs - 3 * minute];
  const verdict = { guard: guard ?? "", zone: "a", sentence: "a: it waits", since, at: nowMs };
  const verdicts = guard === undefined ? {} : { [by]: verdict };
  const key = isLone ? lone : { namespace, group: "group" };
  const group = isLone ? undefined : "group";
  const zones = [zone("a", drawing, { group, extra, claims })];
  return statusOf({ key, zones, ledger: ledger({ claims, verdicts }) }, { guards: all });
}

const restartsOf = (given: Given): GroupStatus["restarts"] => statusWith(given).groups[0]?.restarts ?? assert.fail();
const statesOf = (given: Given) => restartsOf(given).map(({ state, pods, guard }) => [state, pods, guard]);
const needsOf = (given: Given) => statusWith(given).needsPerson.map(({ reason, object }) => [reason, object]);

test("a restart at work is shown by its claim, with and without a rollout-group, and needs no person", () => {
  const claims = [claimOf("a:1", "process", { mode: "single", phase: "stopping", stampMs: nowMs - minute })];
  for (const isLone of [true, false]) {
    const given = { isLone, claims, extra: [phased("a-1", "stop")] };
    const [restart, ...others] = restartsOf(given);
    assert.deepEqual(others, []);
    assert.deepEqual(
      [restart?.state, restart?.zone, restart?.pods, restart?.guard, restart?.ends, restart?.since],
      ["at work", "a", "1", "zone-restarting-process", "depends", ago(1)],
    );
    assert.match(
      restart?.sentence ?? "",
      /^a: 1 claimed for the restart of a process \(stopping\) by another-function, since /,
    );
    assert.deepEqual(needsOf(given), []);
    assert.equal(statusWith(given).groups[0]?.state, "done");
  }
});

test("a claim says all about its pods, and has lasted since it began; the ordinals of neighbouring pods are one range", () => {
  const claims = [claimOf("a:1", "process", { phase: "starting", stampMs: nowMs, sinceMs: nowMs - 5 * minute })];
  const [restart, ...others] = restartsOf({ claims, extra: [phased("a-1", "schedule"), phased("a-2", "schedule")] });
  assert.deepEqual([restart?.state, restart?.pods, restart?.since], ["at work", "1", ago(5)]);
  assert.deepEqual(
    others.map(({ pods }) => pods),
    ["2"],
  );
  const extra = ["a-0", "a-2", "a-3"].map((name) => phased(name, "schedule"));
  assert.deepEqual(
    restartsOf({ extra }).map(({ pods }) => pods),
    ["0,2-3"],
  );
});

test("a pod in another phase is not to be parked yet", () => {
  const restart = { text: "cancel", phase: "cancel", id: undefined } as const;
  assert.deepEqual(statesOf({ extra: [pod("a-1", { revision: "new", restart, stop: "true" })] }), []);
});

test("several claims of a zone are one entry, with the pods of all and the time of the first; those of parked processes are another", () => {
  const parked = { mode: "parked", phase: "parked" } as const;
  const claims = [
    claimOf("a:0", "process", { phase: "starting", stampMs: nowMs - minute }),
    claimOf("a:1", "process", { phase: "starting", stampMs: nowMs - 2 * minute }),
    claimOf("a:3", "process", { ...parked, stampMs: nowMs }),
  ];
  assert.deepEqual(statesOf({ claims }), [
    ["at work", "0,1", "zone-restarting-process"],
    ["parked", "3", "zone-restarting-process"],
  ]);
  const [first, second] = restartsOf({ claims });
  assert.equal(first?.since, ago(2));
  assert.match(first?.sentence ?? "", /; and 1 more of a$/);
  assert.match(second?.sentence ?? "", /parked until sluice\.dev\/stop is taken off/);
});

test("a restart that waits has the guard and the message of the function, with and without a rollout-group", () => {
  for (const isLone of [true, false])
    for (const phase of ["schedule", "schedule-rolling", "schedule-coordinated"] as const) {
      const given = { isLone, guard: "manager-silent", extra: [phased("a-0", phase), phased("a-1", phase)] };
      const [restart, ...others] = restartsOf(given);
      assert.deepEqual(others, []);
      assert.deepEqual(
        [restart?.state, restart?.pods, restart?.guard, restart?.sentence, restart?.ends, restart?.since],
        ["waiting", "0-1", "manager-silent", "a: it waits", "person", ago(3)],
      );
      assert.deepEqual(needsOf(given), [["guard", "a"]], "by the guard, and once");
    }
});

test("without a word of the function a restart without a rollout-group never begins, and needs a person; one in a group waits", () => {
  const extra = [phased("a-0", "schedule"), phased("a-2", "schedule-rolling")];
  const [restart] = restartsOf({ extra });
  assert.deepEqual([restart?.state, restart?.pods, restart?.guard, restart?.ends], ["unserved", "0,2", null, null]);
  assert.match(restart?.sentence ?? "", /^a has no rollout-group, and no function begins the restart/);
  assert.deepEqual(needsOf({ extra }), [["restart-unserved", "a"]]);
  const [entry] = statusWith({ extra }).needsPerson;
  assert.equal(entry?.todo, "give the StatefulSet a rollout-group, or take the annotation off its pods");
  const grouped = { extra, isLone: false };
  assert.deepEqual(statesOf(grouped), [["waiting", "0,2", null]]);
  assert.deepEqual(needsOf(grouped), []);
  assert.deepEqual(statesOf({ extra, guard: "done" }), [["waiting", "0,2", null]], "the function has seen the group");
});

test("a process that is to be parked waits as well, and one whose annotation is not true does not", () => {
  assert.deepEqual(statesOf({ extra: [pod("a-0", { revision: "new", stop: "true" })] }), [["unserved", "0", null]]);
  assert.deepEqual(statesOf({ extra: [pod("a-0", { revision: "new", stop: "yes" })] }), []);
});

test("a phase on the StatefulSet is a restart of each of its pods that has none", () => {
  const restart = {
    manager: undefined,
    unchecked: new Set<never>(),
    malformed: [],
    phaseOfAll: "schedule-rolling",
  } as const;
  const zones = [zone("a", "n.n", { group: undefined, restart, extra: [phased("a-1", "failed")] })];
  const [group] = statusOf({ key: lone, zones }, { guards: all }).groups;
  assert.deepEqual(
    group?.restarts.map(({ state, pods }) => [state, pods]),
    [
      ["failed", "1"],
      ["unserved", "0,2"],
    ],
  );
});

test("a restart that has failed needs a person, once: by the guard of the function where it has written that", () => {
  for (const isLone of [true, false]) {
    const extra = [phased("a-0", "failed")];
    const [restart] = restartsOf({ isLone, extra });
    assert.deepEqual([restart?.state, restart?.guard, restart?.ends], ["failed", "restart-failed", "person"]);
    assert.match(restart?.todo ?? "", /^mend the process, and then write schedule-rolling or cancel/);
    assert.match(restart?.sentence ?? "", /^the restart of the process of a: 0 has failed/);
    assert.deepEqual(needsOf({ isLone, extra }), [["restart-failed", "a"]]);
    assert.deepEqual(needsOf({ isLone, extra, guard: "restart-failed" }), [["guard", "a"]]);
  }
});

test("pods without a wish, whose restart is over or is withdrawn, have no entry, and their group is idle", () => {
  const extra = [phased("a-0", "cancel"), phased("a-1", "start")];
  assert.deepEqual(statesOf({ extra }), []);
  assert.equal(statusWith({ extra }).groups[0]?.state, "idle");
});

test("the pods of a thousand ranges are cut", () => {
  const extra = Array.from({ length: 1_000 }, (_, index) => phased(`a-${2 * index}`, "failed"));
  const [restart] = restartsOf({ extra, drawing: ".".repeat(2_000) });
  assert.ok(Buffer.byteLength(restart?.pods ?? "") <= 100 && restart?.pods.endsWith("…"), restart?.pods);
});

test("a process finds a StatefulSet without a rollout-group by its watches, before it has a ledger", async () => {
  const { world, read } = await started({}, { guards: all });
  createLoneRestart(world, "app");
  writePhase(world, "app", "alone-x-1", "schedule");
  const status = await read(10);
  const [group] = status?.groups.filter((one) => one.group === loneGroup) ?? [];
  assert.deepEqual(
    group?.restarts.map(({ state, zone: name, pods }) => [state, name, pods]),
    [["unserved", "alone-x", "1"]],
  );
  assert.deepEqual(
    status?.needsPerson.map(({ reason, object }) => [reason, object]),
    [["restart-unserved", "alone-x"]],
  );
  assert.equal(world.store.list("leases").items.length, 0);
});
