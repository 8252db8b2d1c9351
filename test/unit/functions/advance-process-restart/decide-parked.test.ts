/** The decisions about a parked process, by its claim, its pod and its process manager alone. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { isAtRest, isOpenRestart, isParkedBy } from "../../../../functions/advance-process-restart/claims.ts";
import {
  freeAgainMs,
  isFreeAgain,
  isToPark,
  isUnparked,
  sumToStart,
} from "../../../../functions/advance-process-restart/decide-parked.ts";
import { decideStep, phases } from "../../../../functions/advance-process-restart/decide-step.ts";
import type { ClaimContent } from "../../../../functions/shared/ledger/claim.ts";
import type { Pod } from "../../../../functions/shared/workloads/pods.ts";
import { claimOf, nowMs, pod, statefulSet } from "../advance-zone-rollout/given.ts";
import { report } from "./given.ts";

const id = "restart-1";
const stop = { stop: "true" };
const uids = { "a-0": "uid-of-a-0" };

function parked(changes: Partial<ClaimContent> = {}) {
  const own = { id, mode: "parked", phase: "parked", epoch: 5, uids, processes: { "a-0": "7 1" } } as const;
  return claimOf("a:0", "process", { ...own, sum: "1:old", ...changes });
}

/** The step of `a-0` under this claim: its pod shows `stop`, and its process is down. */
function step(
  changes: Partial<ClaimContent>,
  podChanges: Partial<Pod> = {},
  answer: Parameters<typeof report>[1] = {},
) {
  const one = pod("a-0", { restart: { text: "stop", phase: "stop", id }, ...podChanges });
  const where = { statefulSet: statefulSet("a"), pods: new Map([[0, one]]), volumes: new Map(), isAnchored: true };
  const status = report("a-0", { restartId: id, state: "stopped", processId: undefined, ...answer });
  return decideStep({ claim: parked(changes), where, answer: status, nowMs });
}

const changesOf = (found: ReturnType<typeof step>) => ("changes" in found ? found.changes : found.kind);

suite("a parked process", () => {
  test("keeps the database waiting for a minute, and not a millisecond longer", () => {
    const free = (agoMs: number) =>
      isFreeAgain(parked({ hold: true, stampMs: nowMs - agoMs }), pod("a-0", stop), nowMs);
    assert.deepEqual([free(59_999), free(60_000)], [false, true]);
  });

  test("does not block the others of its group at rest, and does before it stops, while it starts, and while the database waits for it", () => {
    assert.deepEqual([isAtRest(parked()), isOpenRestart(parked())], [true, false]);
    for (const changes of [{ phase: "stopping" }, { phase: "starting" }, { hold: true }, { mode: "rolling" } as const])
      assert.deepEqual([isAtRest(parked(changes)), isOpenRestart(parked(changes))], [false, true]);
  });

  test("has its phase by its own claim, and a later pod of its name does not", () => {
    assert.ok(isParkedBy([parked()], pod("a-0")));
    assert.ok(!isParkedBy([parked()], pod("a-0", { uid: "later" })));
    assert.ok(!isParkedBy([parked({ phase: "starting" })], pod("a-0")));
  });

  test("is wanted by the value true alone, on a pod that is in no phase and stays", () => {
    assert.ok(isToPark(pod("a-0", stop)));
    const restart = { text: "schedule", phase: "schedule", id: undefined } as const;
    for (const changes of [{}, { stop: "false" }, { ...stop, restart }, { ...stop, terminating: true }])
      assert.ok(!isToPark(pod("a-0", changes)));
  });

  test("is withdrawn before the runner has the command to stop, and is stopped first once it has it", () => {
    const unparked = (phase: string, lastCommand?: string, changes = {}) =>
      isUnparked({ phase }, pod("a-0", changes), report("a-0", { lastCommand }));
    assert.ok(unparked(phases.restricting, "stop") && unparked(phases.stopping) && unparked(phases.stopping, "start"));
    for (const command of ["stop", "kill"])
      assert.ok(!unparked(phases.stopping, command) && !unparked(phases.killing, command));
    assert.ok(!unparked(phases.stopping, "start", stop) && !unparked(phases.parked, "stop"));
  });

  test("lets allocation go a minute after its stop, also when its pod is gone, and not when it is to start", () => {
    const after = (ms: number) => ({ hold: true, stampMs: nowMs - ms });
    const isFree = (changes: Partial<ClaimContent>, one: Pod | undefined = pod("a-0", stop)) =>
      isFreeAgain(parked(changes), one, nowMs);
    assert.ok(isFree(after(freeAgainMs)) && isFreeAgain(parked(after(freeAgainMs)), undefined, nowMs));
    assert.ok(isFreeAgain(parked({ ...after(freeAgainMs), phase: "stopping" }), undefined, nowMs));
    for (const changes of [{ hold: false }, after(freeAgainMs - 1), { ...after(freeAgainMs), phase: "stopping" }])
      assert.ok(!isFree(changes));
    assert.ok(!isFree(after(freeAgainMs), pod("a-0")));
    assert.ok(!isFree({ ...after(freeAgainMs), mode: "rolling" }));
  });

  test("starts with the files of now, and keeps to those of its claim while a late call may bring them", () => {
    const status = report("a-0", { mountedSum: "new", triedSum: "tried", runningSum: "ran" });
    assert.deepEqual([sumToStart(status), sumToStart(status, "gone")], ["new", "new"]);
    assert.deepEqual([sumToStart(status, "tried"), sumToStart(status, "ran")], ["tried", "ran"]);
    assert.equal(sumToStart(report("a-0"), "gone"), "gone");
  });

  test("is down when its process manager says so: the claim is parked, or starts the process where the annotation is gone", () => {
    const stopped = { phase: phases.stopping };
    assert.deepEqual(step(stopped, stop, { lastCommand: "stop" }), { kind: "park" });
    const busy = step(stopped, stop, { lastCommand: "stop", state: "stopping" });
    assert.equal("guard" in busy && busy.guard, "restart-stopping", "it still stops");
    const single = step({ ...stopped, mode: "single" }, stop, { lastCommand: "stop" });
    assert.deepEqual(changesOf(single), { phase: "starting", epoch: 6 }, "a restart ends first");
    assert.deepEqual(changesOf(step(stopped, {}, { lastCommand: "stop" })), { phase: "starting", epoch: 6 });
  });

  test("starts under a higher epoch, with its hour from then on, when the annotation is gone", () => {
    const start = { phase: "starting", epoch: 6, sinceMs: nowMs };
    const long = { stampMs: nowMs - 7_200_000 };
    assert.deepEqual(changesOf(step(long, {}, { mountedSum: "1:new" })), { ...start, sum: "1:new" });
    assert.deepEqual(changesOf(step(long)), { ...start, sum: "1:old" });
    assert.deepEqual(changesOf(step({ ...long, sum: undefined })), start);
  });

  test("a start that did not arrive is sent again with the files of now, once those of its claim are nowhere", () => {
    const lost = { phase: phases.starting, epoch: 6, stampMs: nowMs - 60_000 };
    const shown = { restart: { text: "start", phase: "start", id } } as const;
    const answer = { mountedSum: "1:new", lastEpoch: 5 };
    assert.deepEqual(changesOf(step(lost, shown, answer)), { epoch: 7, sum: "1:new" });
    assert.deepEqual(changesOf(step(lost, shown, { ...answer, triedSum: "1:old" })), { epoch: 6, sum: "1:old" });
    assert.deepEqual(changesOf(step({ ...lost, mode: "rolling" }, shown, answer)), { epoch: 6, sum: "1:old" });
    const killing = { ...lost, phase: phases.killing };
    assert.deepEqual(
      changesOf(step(killing, stop, answer)),
      { epoch: 6, sum: "1:old" },
      "a kill names those of before",
    );
  });

  test("rests while its server is silent, and shows its phase again where a person has changed it", () => {
    assert.equal(step({}, stop).kind, "wait");
    assert.equal(step({}, stop, { podUid: "another" }).kind, "wait");
    assert.equal(step({}, { ...stop, restart: { text: "schedule", phase: "schedule", id } }).kind, "show");
    assert.equal(step({}, { ...stop, restart: { text: "stop", phase: "stop", id: "other" } }).kind, "show");
  });
});
