/** The next step of one restart, by what its claim, its pod and its process manager show. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import {
  decideStep,
  phases,
  type Step,
  type StepView,
  shownPhase,
  verbOf,
} from "../../../../functions/advance-process-restart/decide-step.ts";
import type { ClaimContent } from "../../../../functions/shared/ledger/claim.ts";
import type { Pod } from "../../../../functions/shared/workloads/pods.ts";
import { claimOf, nowMs, pod, statefulSet } from "../advance-zone-rollout/given.ts";
import { report } from "./given.ts";

interface Given {
  readonly claim?: Partial<ClaimContent>;
  readonly pod?: Partial<Pod>;
  readonly answer?: Parameters<typeof report>[1];
  readonly view?: Partial<StepView>;
}

const id = "restart-1";

/** The step of `a-0` in this phase: its process manager has confirmed the call of epoch 5, and its pod shows the phase. */
function stepIn(phase: string, { claim: changes, pod: podChanges, answer, view }: Given = {}): Step {
  const own = { id, phase, epoch: 5, uids: { "a-0": "uid-of-a-0" }, processes: { "a-0": "7 1" } };
  const claim = claimOf("a:0", "process", { ...own, ...changes });
  const shown = shownPhase(claim);
  const one = pod("a-0", { restart: { text: shown, phase: shown, id }, ...podChanges });
  const where = { statefulSet: statefulSet("a"), pods: new Map([[0, one]]), volumes: new Map(), isAnchored: true };
  return decideStep({ claim, where, answer: report("a-0", { restartId: id, ...answer }), nowMs, ...view });
}

const guardOf = (step: Step): string => ("guard" in step ? step.guard : step.kind);
const messageOf = (step: Step): string => ("message" in step ? step.message : step.kind);
const changesOf = (step: Step) => ("changes" in step ? step.changes : guardOf(step));

const ago = (ms: number) => ({ stampMs: nowMs - ms });
const began = (ms: number) => ({ sinceMs: nowMs - ms, stampMs: nowMs });
const unknown = { unknown: "it answered 503" } as const;
const [yes, no] = [{ value: true }, { value: false }] as const;

suite("who answers", () => {
  test("a phase that only a later version writes is followed as a start", () => {
    assert.deepEqual([verbOf({ phase: "later" }), shownPhase({ phase: "later" })], ["start", "start"]);
    assert.equal(guardOf(stepIn("later")), "restart-starting");
  });

  test("a process manager that gives no answer, or answers for another pod, is waited for with the reason", () => {
    const silence = { silence: "it answered 500" };
    const silent = "the server of a-0 reports nothing: ";
    assert.equal(messageOf(stepIn(phases.stopping, { view: { answer: silence } })), `${silent}it answered 500`);
    const another = `${silent}another pod answers by its name`;
    assert.equal(messageOf(stepIn(phases.stopping, { answer: { podUid: "later", state: "stopped" } })), another);
    assert.equal(messageOf(stepIn(phases.stopping, { view: { answer: undefined } })), another);
    assert.equal(guardOf(stepIn(phases.stopping, { view: { answer: silence } })), "manager-silent");
  });

  test("a start has failed whose process manager is silent for an hour after its call, and before a start it is waited for", () => {
    const silent = (phase: string, claim: Partial<ClaimContent>) =>
      stepIn(phase, { claim, view: { answer: { silence: "it answered 500" } } });
    const message = "a-0 is not back: an hour after its start the server of a-0 reports nothing: it answered 500";
    for (const phase of [phases.starting, phases.withdrawing])
      assert.deepEqual(silent(phase, ago(3_600_000)), { kind: "end", shown: "failed", message });
    assert.equal(guardOf(silent(phases.starting, ago(3_599_999))), "manager-silent");
    assert.equal(guardOf(silent(phases.starting, began(7_200_000))), "manager-silent", "the call may still arrive");
    for (const phase of [phases.restricting, phases.flushing, phases.stopping, phases.killing])
      assert.equal(guardOf(silent(phase, ago(7_200_000))), "manager-silent");
  });

  test("a stop or a kill that has not arrived within hours is sent again, and the restart goes on", () => {
    for (const phase of [phases.stopping, phases.killing]) {
      const claim = { sinceMs: nowMs - 10_800_000, stampMs: nowMs - 60_000 };
      const answer = { lastEpoch: 4, restartId: undefined };
      assert.deepEqual(changesOf(stepIn(phase, { claim, answer })), { epoch: 5 }, phase);
    }
  });

  test("a later pod of the same name is waited for until it is ready, and then the restart is over", () => {
    const later = { uid: "later", readySinceMs: undefined };
    assert.equal(guardOf(stepIn(phases.stopping, { pod: later })), "pod-missing");
    assert.equal(guardOf(stepIn(phases.stopping, { pod: { uid: "later" } })), "end");
  });
});

suite("what the pod shows", () => {
  const shown = (phase: "stop" | "start" | "cancel" | undefined, restartId: string | undefined = id) => ({
    pod: { restart: { text: phase, phase, id: restartId } },
  });

  test("a pod that shows another phase, or the id of another restart, gets those of the claim before any call", () => {
    assert.deepEqual(stepIn(phases.starting, shown("stop")), { kind: "show" });
    assert.deepEqual(stepIn(phases.stopping, shown("stop", "earlier")), { kind: "show" });
  });

  test("a phase that is taken off or cancelled before the start withdraws the restart, above all epochs that were seen", () => {
    for (const phase of [phases.restricting, phases.flushing, phases.stopping, phases.killing])
      for (const given of [shown("cancel"), shown(undefined), { pod: { restart: undefined } } as never as Given])
        assert.deepEqual(changesOf(stepIn(phase, given)), { phase: phases.withdrawing, epoch: 6 });
    const behind = { ...shown("cancel"), answer: { lastEpoch: 9 } };
    assert.deepEqual(changesOf(stepIn(phases.stopping, behind)), { phase: phases.withdrawing, epoch: 10 });
    const first = { ...shown("cancel"), claim: { epoch: undefined } as never, answer: { lastEpoch: 0 } };
    assert.deepEqual(changesOf(stepIn(phases.stopping, first)), { phase: phases.withdrawing, epoch: 1 });
  });

  test("a phase that is taken off after the start stays away, and the restart goes on", () => {
    assert.equal(guardOf(stepIn(phases.starting, shown(undefined))), "restart-starting");
    assert.equal(guardOf(stepIn(phases.starting, shown("cancel"))), "restart-starting");
  });
});

suite("a call that has not arrived", () => {
  const late = { claim: ago(7_000), answer: { lastEpoch: 4 } };

  test("it is sent again when 7 s have passed, and not before", () => {
    const waiting = stepIn(phases.stopping, { ...late, claim: ago(6_999) });
    assert.equal(messageOf(waiting), "the server of a-0 has not confirmed stop yet");
    assert.equal(guardOf(waiting), "restart-calling");
    assert.deepEqual(changesOf(stepIn(phases.stopping, late)), { epoch: 5 });
  });

  test("it gets a higher epoch where the process manager has seen its epoch from another restart, or a later one", () => {
    const other = { claim: ago(7_000), answer: { restartId: "another" } };
    assert.equal(guardOf(stepIn(phases.stopping, { ...other, claim: ago(0) })), "restart-calling");
    assert.deepEqual(changesOf(stepIn(phases.stopping, other)), { epoch: 6 });
    assert.deepEqual(changesOf(stepIn(phases.starting, { ...late, answer: { lastEpoch: 8 } })), { epoch: 9 });
    const without = { ...ago(7_000), epoch: undefined } as never;
    assert.deepEqual(changesOf(stepIn(phases.starting, { claim: without, answer: { lastEpoch: 3 } })), { epoch: 4 });
    assert.deepEqual(changesOf(stepIn(phases.starting, { claim: without, answer: { lastEpoch: 0 } })), { epoch: 1 });
  });

  test("a stop names the files of now under a new epoch, and a start those that the claim names", () => {
    const claim = { ...ago(7_000), sum: "1:earlier" };
    const answer = { lastEpoch: 4, mountedSum: "1:now" };
    assert.deepEqual(changesOf(stepIn(phases.stopping, { claim, answer })), { epoch: 6, sum: "1:now" });
    assert.deepEqual(changesOf(stepIn(phases.starting, { claim, answer })), { epoch: 5, sum: "1:earlier" });
    assert.deepEqual(changesOf(stepIn(phases.stopping, { claim, answer: { lastEpoch: 4 } })), {
      ...{ epoch: 5, sum: "1:earlier" },
    });
  });

  test("a withdrawn restart whose process still stops goes on with the stop, since no start is accepted meanwhile", () => {
    const stopping = { ...late, answer: { lastEpoch: 4, state: "stopping" } };
    assert.deepEqual(changesOf(stepIn(phases.withdrawing, stopping)), { phase: phases.stopping, epoch: 6 });
    assert.deepEqual(changesOf(stepIn(phases.withdrawing, late)), { epoch: 5 });
    assert.deepEqual(changesOf(stepIn(phases.starting, stopping)), { epoch: 5 });
  });
});

suite("a withdrawn restart", () => {
  const step = (given: Given) => guardOf(stepIn(phases.withdrawing, given));
  const another = { processId: "8 1" };

  test("it ends at once where its process was never stopped", () => {
    const ended = stepIn(phases.withdrawing, { view: { membership: no } });
    assert.deepEqual(ended, { kind: "end", shown: undefined, message: "the restart is withdrawn" });
  });

  test("it ends for a new process only when its node is a member again, where a database is named", () => {
    assert.equal(step({ answer: another }), "end");
    assert.equal(step({ answer: another, view: { membership: yes } }), "end");
    assert.equal(step({ answer: another, view: { membership: no } }), "restart-joining");
    assert.equal(step({ answer: another, view: { membership: unknown } }), "database-unknown");
  });

  test("it does not end before the process runs and the last call has arrived", () => {
    assert.equal(step({ answer: { state: "starting", processId: "7 1" } }), "restart-starting");
    assert.equal(step({ answer: { lastEpoch: 4 } }), "restart-calling");
  });
});

suite("the restriction of the database", () => {
  const step = (restriction: StepView["restriction"], claim: Partial<ClaimContent>, view: Partial<StepView> = {}) =>
    stepIn(phases.restricting, { claim, view: { ...(restriction && { restriction }), ...view } });

  test("it is asked for at once, and then once in 7 s", () => {
    assert.deepEqual(changesOf(step(no, ago(0))), { phase: phases.restricting });
    assert.equal(guardOf(step(no, { ...ago(6_999), sinceMs: nowMs - 60_000 })), "database-unknown");
    assert.deepEqual(changesOf(step(no, { ...ago(7_000), sinceMs: nowMs - 60_000 })), { phase: phases.restricting });
    assert.deepEqual(changesOf(step(yes, ago(0))), { phase: phases.flushing });
    assert.equal(
      guardOf(step(unknown, ago(0))),
      "database-unknown",
      "a database that gives no answer is not asked for it",
    );
  });

  test("a flush is not waited for", () => {
    assert.deepEqual(changesOf(stepIn(phases.flushing, { answer: { lastEpoch: 0 } })), { phase: phases.stopping });
  });

  test("a wait for it names what the database has answered", () => {
    const beginning = "allocation is not restricted for a-0: ";
    assert.equal(messageOf(step(unknown, began(1_000))), `${beginning}it answered 503`);
    assert.equal(messageOf(step(no, began(1_000))), `${beginning}it does not have the marker of the restart yet`);
    assert.equal(
      messageOf(step(undefined, began(1_000))),
      `${beginning}no StatefulSet of the group names its database`,
    );
  });

  test("a wait for it keeps the earlier message about the database, and no other one", () => {
    const before = { guard: "database-unknown", message: "PUT /_cluster/settings: it answered 403" };
    assert.equal(messageOf(step(no, began(1_000), { before })), before.message);
    const other = { guard: "restart-calling", message: "a call" };
    assert.match(messageOf(step(no, began(1_000), { before: other })), /^allocation is not restricted for a-0/);
  });

  test("a restart that the database lets not begin within 15 minutes has failed, and nothing was stopped", () => {
    const failed = step(no, began(900_000));
    assert.deepEqual([failed.kind, "shown" in failed && failed.shown], ["end", "failed"]);
    assert.match(messageOf(failed), /^allocation is not restricted for a-0: .*; nothing was stopped$/);
    assert.equal(step(unknown, began(900_000)).kind, "end");
    assert.equal(step(no, ago(900_000)).kind, "end");
    assert.equal(guardOf(step(no, began(899_999))), "database-unknown");
  });
});

suite("the stop", () => {
  const stopping = { state: "stopping", lastCommand: "stop" };

  test("a process that is down is started, by a higher epoch", () => {
    for (const phase of [phases.stopping, phases.killing])
      for (const state of ["stopped", "killed"])
        assert.deepEqual(changesOf(stepIn(phase, { answer: { state } })), { phase: phases.starting, epoch: 6 });
  });

  test("a stop that takes 5 s longer than the grace period of the pod is followed by a kill", () => {
    const kill = { phase: phases.killing, epoch: 6 };
    assert.deepEqual(changesOf(stepIn(phases.stopping, { claim: ago(35_000), answer: stopping })), kill);
    const waiting = stepIn(phases.stopping, { claim: ago(34_999), answer: stopping });
    assert.deepEqual([guardOf(waiting), messageOf(waiting)], ["restart-stopping", "a-0 stops in place: stopping"]);
  });

  test("where the StatefulSet is gone no grace period counts", () => {
    const step = (ms: number) => {
      const pods = new Map([[0, pod("a-0", { restart: { text: "stop", phase: "stop", id } })]]);
      const where = { statefulSet: undefined, pods, volumes: new Map(), isAnchored: true };
      return guardOf(stepIn(phases.stopping, { claim: ago(ms), answer: stopping, view: { where } }));
    };
    assert.deepEqual([step(4_999), step(5_000)], ["restart-stopping", "call"]);
  });

  test("a stop that still waits for clients is not followed by a kill, and a kill by none", () => {
    const draining = { state: "stopping", lastCommand: "start" };
    assert.equal(guardOf(stepIn(phases.stopping, { claim: ago(35_000), answer: draining })), "restart-stopping");
    assert.equal(guardOf(stepIn(phases.killing, { claim: ago(35_000), answer: stopping })), "restart-stopping");
  });
});

suite("the start", () => {
  const step = (given: Given) => stepIn(phases.starting, given);

  test("three starts that have failed end the restart, and fewer do not, nor does a process that runs", () => {
    const failed = step({ answer: { state: "startFailed", attempts: 3 } });
    const message = "a-0 is not back: 3 starts have failed";
    assert.deepEqual(failed, { kind: "end", shown: "failed", message });
    const second = step({ answer: { state: "startFailed", attempts: 2 } });
    assert.equal(messageOf(second), "a-0 starts in place: startFailed, attempt 2");
    assert.equal(guardOf(step({ answer: { state: "started", attempts: 3 } })), "restart-starting");
  });

  test("a restart that is not back an hour after it began has failed", () => {
    const message = "a-0 is not back: it has not come back within an hour";
    assert.deepEqual(step({ claim: began(3_600_000) }), { kind: "end", shown: "failed", message });
    assert.equal(step({ claim: ago(3_600_000) }).kind, "end");
    assert.equal(guardOf(step({ claim: began(3_599_999) })), "restart-starting");
  });

  test("a start that is never confirmed has failed after an hour where its files are gone, and else after two", () => {
    const unconfirmed = (ms: number, answer: Parameters<typeof report>[1]) => {
      const claim = { sum: "1:new", sinceMs: nowMs - ms, stampMs: nowMs - 7_000 };
      return step({ claim, answer: { lastEpoch: 4, mountedSum: "1:later", runningSum: "1:old", ...answer } });
    };
    assert.equal(unconfirmed(3_599_999, {}).kind, "call");
    const failed = unconfirmed(3_600_000, {});
    assert.equal(failed.kind === "end" && failed.shown, "failed");
    assert.match(messageOf(failed), /^a-0 is not back: its server has confirmed no start for more than an hour: write/);
    for (const answer of [{ mountedSum: "1:new" }, { triedSum: "1:new" }, { runningSum: "1:new" }]) {
      assert.equal(unconfirmed(7_199_999, answer).kind, "call", "the call may still arrive");
      assert.equal(unconfirmed(7_200_000, answer).kind, "end");
    }
  });

  test("the node is waited for until the database answers that it is a member", () => {
    const joining = "a-0 runs, and its node is no member of the database yet";
    assert.equal(messageOf(step({ view: { membership: no } })), joining);
    const asked = "whether the node of a-0 is a member is unknown: it answered 503";
    assert.equal(messageOf(step({ view: { membership: unknown } })), asked);
    assert.equal(guardOf(step({ view: { membership: yes } })), "restart-starting");
  });

  test("the setting is undone as soon as the node is a member, before its pod is ready, and only once", () => {
    assert.deepEqual(step({ claim: { hold: true }, view: { membership: yes } }), { kind: "release" });
    assert.equal(guardOf(step({ claim: { hold: false }, view: { membership: yes } })), "restart-starting");
    assert.equal(guardOf(step({ claim: { hold: true } })), "restart-starting", "membership is not known");
  });

  test("a process that is another one than before, in a pod that is ready, ends the restart while its setting stands", () => {
    const processes = new Map([[0, { podUid: "uid-of-a-0", processId: "8 1", isMember: true }]]);
    const pods = new Map([[0, pod("a-0")]]);
    const where = { statefulSet: statefulSet("a"), pods, processes, volumes: new Map(), isAnchored: true };
    const ended = step({ claim: { hold: true }, view: { where } });
    assert.deepEqual(ended, { kind: "end", shown: undefined, message: "it is back" });
  });
});
