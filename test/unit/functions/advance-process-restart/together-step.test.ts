/** The next step of a restart of many processes, by what their claims, pods and process managers show. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { first, type TogetherView } from "../../../../functions/advance-process-restart/coordinated/decide-together.ts";
import { togetherPhases as phases } from "../../../../functions/advance-process-restart/coordinated/phases.ts";
import { nowMs } from "../advance-zone-rollout/given.ts";
import {
  a,
  ago,
  b,
  before,
  began,
  failedIn,
  type Given,
  guardOf,
  type MemberGiven,
  messageOf,
  move,
  no,
  of,
  stepIn,
  unknown,
  yes,
} from "./together-given.ts";

suite("who is a member", () => {
  test("a restart has at least one claim", () => {
    assert.throws(() => first([]), /a restart without a claim/);
  });

  test("the restart is shown on pods with another phase or id, and on anchors, before any call", () => {
    const show = (given: readonly MemberGiven[], isAnchored = true) => {
      const step = stepIn(phases.stopping, given, { isAnchored });
      return step.kind === "show" ? step.pods.map(({ name }) => name) : step.kind;
    };
    assert.deepEqual(show([{}, { shown: "schedule-coordinated" }]), [b]);
    assert.deepEqual(show([{ id: "earlier" }, {}]), [a]);
    assert.deepEqual(show([], false), []);
    assert.equal(show([]), "wait");
  });

  test("a phase that is taken off before the barrier withdraws the restart, and so does cancel on any pod", () => {
    for (const phase of before) {
      assert.deepEqual(stepIn(phase, [{}, { shown: null }]), move(phases.withdrawing, 6));
      assert.deepEqual(stepIn(phase, [{ shown: "cancel" }]), move(phases.withdrawing, 6));
      assert.deepEqual(stepIn(phase, [{ shown: "cancel", silence: "no answer" }]), move(phases.withdrawing, 6));
    }
  });

  test("calls that have not arrived are sent again, a start as long as each may still arrive, and a stop for hours", () => {
    const late = { sinceMs: nowMs - 10_800_000, stampMs: nowMs - 60_000 };
    const lost = (lastEpoch: number) => ({ status: { lastEpoch, restartId: undefined } });
    for (const phase of [phases.stopping, phases.killing])
      assert.deepEqual(stepIn(phase, [lost(4), lost(4)], { claim: late }), move(phase, 5));
    const hours = (ms: number) => ({ sinceMs: nowMs - ms, stampMs: nowMs - 60_000, sum: "1:now" });
    const none = { status: { lastEpoch: 4, restartId: undefined, state: "stopped" } };
    const there = { status: { ...none.status, mountedSum: "1:now" } };
    const start = (ms: number, ...members: readonly MemberGiven[]) =>
      stepIn(phases.starting, members, { claim: hours(ms) });
    assert.deepEqual(start(3_599_999, none, none), move(phases.starting, 5));
    assert.deepEqual(failedIn(start(3_600_000, there, none)), [a, b], "one has no files to start with");
    assert.deepEqual(start(3_600_000, there, there), move(phases.starting, 5));
  });

  test("a pod that does not answer is out of the restart when its phase is taken off, and the others stay", () => {
    const step = stepIn(phases.stopping, [{ shown: null, silence: "no answer" }]);
    assert.deepEqual(step, { ...move(phases.stopping, 6), out: new Set([a]) });
    const another = stepIn(phases.stopping, [{ shown: null, status: { podUid: "earlier" } }]);
    assert.deepEqual(another, { ...move(phases.stopping, 6), out: new Set([a]) });
  });

  test("a phase that is taken off after the barrier stays away, and the restart goes on", () => {
    assert.equal(guardOf(stepIn(phases.starting, [{ shown: null }])), "restart-starting");
  });

  test("a pod that is made anew gets the phase first, and then all claims name it, by a higher epoch", () => {
    const anew = { uid: "later", status: { podUid: "later" } };
    assert.equal(guardOf(stepIn(phases.stopping, [{ ...anew, shown: null }])), "show");
    assert.deepEqual(stepIn(phases.stopping, [anew]), move(phases.stopping, 6));
    assert.equal(guardOf(stepIn(phases.stopping, [{ ...anew, status: { podUid: "earlier" } }])), "manager-silent");
  });

  test("a pod that does not answer is waited for with the reason, and before the barrier with the way out", () => {
    const silent = "the server of a-0 reports nothing: ";
    const rest = "; nothing starts before: take its phase off, and it is out of the restart";
    const quiet = [{ silence: "it answered 500" }];
    assert.equal(messageOf(stepIn(phases.stopping, quiet)), `${silent}it answered 500${rest}`);
    assert.equal(messageOf(stepIn(phases.starting, quiet)), `${silent}it answered 500`);
    const another = [{ status: { podUid: "earlier", state: "stopped" } }];
    assert.equal(messageOf(stepIn(phases.starting, another)), `${silent}another pod answers by its name`);
  });

  test("an hour after the last call those have failed that are silent or not back, and before the barrier they are waited for", () => {
    const quiet = { silence: "it answered 500" };
    for (const phase of [phases.starting, phases.withdrawing]) {
      const failed = stepIn(phase, [quiet, { status: anew }], ago(3_600_000));
      assert.deepEqual([failedIn(failed), messageOf(failed)], [[a], "a-0: not all have come back within an hour"]);
    }
    assert.deepEqual(failedIn(stepIn(phases.starting, [quiet, { status: broken }], ago(3_600_000))), [a, b]);
    assert.equal(guardOf(stepIn(phases.starting, [quiet, { status: anew }], ago(3_599_999))), "manager-silent");
    assert.equal(guardOf(stepIn(phases.starting, [quiet, { status: anew }], began(7_200_000))), "manager-silent");
    for (const phase of before) assert.equal(guardOf(stepIn(phase, [quiet, {}], ago(7_200_000))), "manager-silent");
  });
});

suite("calls that have not arrived", () => {
  const late = ago(7_000);

  test("they are sent again when 7 s have passed, and not before", () => {
    const waiting = stepIn(phases.stopping, of({ lastEpoch: 4 }), ago(6_999));
    assert.equal(messageOf(waiting), "the server of a-0 has not confirmed stop yet");
    assert.equal(guardOf(waiting), "restart-calling");
    assert.deepEqual(stepIn(phases.stopping, of({ lastEpoch: 4 }), late), move(phases.stopping));
  });

  test("they get a higher epoch where any process manager has seen it from another restart, or a later one", () => {
    const other = { restartId: "another" };
    assert.deepEqual(stepIn(phases.stopping, of(other, { lastEpoch: 4 }), late), move(phases.stopping, 6));
    assert.deepEqual(stepIn(phases.starting, of({ lastEpoch: 4 }, { lastEpoch: 8 }), late), move(phases.starting, 9));
  });

  test("claims without an epoch begin with the first one, and go above what was seen", () => {
    const without = { claim: { epoch: undefined } } as never as Given;
    const unseen = of({ lastEpoch: 0 }, { lastEpoch: 0 });
    assert.deepEqual(stepIn(phases.flushing, unseen, without), move(phases.stopping, 1));
    const cancelled = [{ shown: "cancel", status: { lastEpoch: 0 } }, { status: { lastEpoch: 0 } }] as const;
    assert.deepEqual(stepIn(phases.stopping, cancelled, without), move(phases.withdrawing, 1));
  });
});

suite("the restriction of the database", () => {
  test("it comes before the stop where a database is named, and a flush after it is not waited for", () => {
    assert.deepEqual(stepIn(phases.preparing, [], { restriction: no }), move(phases.restricting));
    assert.deepEqual(stepIn(phases.restricting, [], { restriction: yes }), move(phases.flushing));
    assert.deepEqual(stepIn(phases.restricting), move(phases.flushing), "no database is named any more");
    assert.deepEqual(stepIn(phases.flushing), move(phases.stopping));
  });

  test("it is asked for once in 7 s, and a wait names what the database has answered", () => {
    const step = (restriction: TogetherView["restriction"], ms: number) =>
      stepIn(phases.restricting, [], { ...ago(ms), ...(restriction && { restriction }) });
    assert.deepEqual(step(no, 7_000), move(phases.restricting));
    assert.deepEqual(step(unknown, 7_000), move(phases.restricting));
    const waiting = step(no, 6_999);
    assert.equal(messageOf(waiting), "allocation is not restricted: it does not have the marker yet");
    assert.equal(guardOf(waiting), "database-unknown");
    assert.equal(messageOf(step(unknown, 6_999)), "allocation is not restricted: it answered 503");
  });

  test("a database of which no node answers for 7 s is not waited for, and one that refuses is", () => {
    const step = (restriction: TogetherView["restriction"], ms: number) =>
      stepIn(phases.restricting, [], { ...ago(ms), ...(restriction && { restriction }) });
    const lost = { unknown: "connection refused", isLost: true };
    assert.deepEqual(step(lost, 7_000), move(phases.flushing));
    assert.equal(guardOf(step(lost, 6_999)), "database-unknown");
    assert.deepEqual(step({ ...lost, isLost: false }, 7_000), move(phases.restricting));
  });

  test("a restart that the database lets not begin within 15 minutes has failed on all pods", () => {
    const failed = stepIn(phases.restricting, [], { ...began(900_000), restriction: no });
    assert.deepEqual(failedIn(failed), [a, b]);
    assert.match(messageOf(failed), /^allocation is not restricted: .*; nothing was stopped$/);
    const waiting = stepIn(phases.restricting, [], { ...began(899_999), restriction: no });
    assert.equal(guardOf(waiting), "database-unknown");
  });
});

suite("the stop", () => {
  const stopping = { state: "stopping", lastCommand: "stop" };

  test("none starts before all are down, and then all do, by a higher epoch", () => {
    for (const phase of [phases.stopping, phases.killing]) {
      const waiting = stepIn(phase, of({ state: "stopped" }, stopping));
      const message = "1 of 2 processes are not down, and none starts before: a-1 is stopping";
      assert.deepEqual(waiting, { kind: "wait", guard: "restart-stopping", message });
      const down = of({ state: "stopped" }, { state: "killed", lastEpoch: 5 });
      assert.deepEqual(stepIn(phase, down), move(phases.starting, 6));
    }
  });

  test("a stop that takes 5 s longer than the longest grace period of those that run is followed by a kill", () => {
    const members = [
      { status: stopping, graceMs: 10_000 },
      { status: stopping, graceMs: 20_000 },
    ];
    assert.equal(guardOf(stepIn(phases.stopping, members, ago(24_999))), "restart-stopping");
    assert.deepEqual(stepIn(phases.stopping, members, ago(25_000)), move(phases.killing, 6));
  });

  test("no kill follows while one stop still waits for clients, nor after a kill", () => {
    const draining = { state: "stopping", lastCommand: "start" };
    assert.equal(guardOf(stepIn(phases.stopping, of(stopping, draining), ago(60_000))), "restart-stopping");
    assert.equal(guardOf(stepIn(phases.killing, of(stopping, stopping), ago(60_000))), "restart-stopping");
  });
});

const anew = { processId: "8 1" };
const broken = { state: "startFailed", processId: undefined, attempts: 3 };

suite("the start", () => {
  const step = (members: readonly MemberGiven[], given: Given = {}) => stepIn(phases.starting, members, given);

  test("it is over when each member runs another process or is another pod, and all are ready", () => {
    const over = { kind: "end", failed: new Set(), message: "all are back" };
    assert.deepEqual(step(of(anew, anew)), over);
    const later = { uid: "later", status: { podUid: "later", processId: "7 1" } };
    assert.deepEqual(step([later, { status: anew }]), over);
    assert.equal(messageOf(step(of(anew, {}))), "a-1 starts in place: started, attempt 0");
    assert.equal(
      messageOf(step(of({ ...anew, state: "starting", attempts: 2 }))),
      "a-0 starts in place: starting, attempt 2",
    );
    const unready = { status: anew, isUnready: true };
    assert.equal(messageOf(step([unready, unready])), "a-0 starts in place: started, attempt 0");
    assert.equal(messageOf(step([{ status: anew }, unready])), "a-1 starts in place: started, attempt 0");
  });

  test("each node is waited for until the database answers that it is a member", () => {
    const joining = "a-1 runs, and its node is no member of the database yet";
    const member = { status: anew, membership: yes };
    assert.equal(messageOf(step([member, { status: anew, membership: no }])), joining);
    const asked = "whether the node of a-0 is a member is unknown: it answered 503";
    assert.equal(messageOf(step([{ status: anew, membership: unknown }, member])), asked);
    assert.equal(guardOf(step([{ ...member, isUnready: true }, member])), "restart-starting");
    assert.equal(step([member, member]).kind, "end");
  });

  test("the setting is undone as soon as all nodes are members, before their pods are ready, and only once", () => {
    const unready = { status: anew, isUnready: true };
    assert.deepEqual(step([unready, unready], { claim: { hold: true } }), { kind: "release" });
    assert.equal(guardOf(step([unready, unready], { claim: { hold: false } })), "restart-starting");
    assert.equal(guardOf(step(of(anew, {}), { claim: { hold: true } })), "restart-starting");
  });

  test("three failed starts end the restart once no other member still starts, and name all that are not back", () => {
    const failed = step(of(broken, anew));
    assert.deepEqual([failedIn(failed), messageOf(failed)], [[a], "a-0: 3 starts have failed"]);
    assert.deepEqual(failedIn(step([{ status: broken }, { status: anew, membership: no }])), [a, b]);
    assert.equal(messageOf(step(of(broken, broken))), "a-0, a-1: 3 starts have failed");
    assert.equal(guardOf(step(of(broken, { ...broken, attempts: 2 }))), "restart-starting");
    assert.equal(guardOf(step(of(broken, { ...anew, state: "starting" }))), "restart-starting");
    assert.equal(guardOf(step(of({ attempts: 3 }, anew))), "restart-starting", "it runs after three attempts");
    assert.equal(guardOf(step(of({ ...broken, attempts: 2 }, anew))), "restart-starting");
  });

  test("those that are not back an hour after the restart began have failed", () => {
    const failed = step(of(anew, {}), began(3_600_000));
    assert.deepEqual([failedIn(failed), messageOf(failed)], [[b], "a-1: not all have come back within an hour"]);
    assert.deepEqual(failedIn(step(of(anew, {}), ago(3_600_000))), [b]);
    assert.equal(guardOf(step(of(anew, {}), began(3_599_999))), "restart-starting");
  });

  test("a start that a member's server never confirms has failed after an hour where its files are gone", () => {
    const refusing = { state: "stopped", lastEpoch: 4, mountedSum: "1:later" };
    const late = (ms: number) => ({ claim: { sum: "1:new", sinceMs: nowMs - ms, stampMs: nowMs - 7_000 } });
    assert.equal(step(of(anew, refusing), late(3_599_999)).kind, "move");
    const failed = step(of(anew, refusing), late(3_600_000));
    assert.deepEqual(failedIn(failed), [b]);
    assert.match(messageOf(failed), /^a-1: its server has confirmed no start for more than an hour: write/);
  });

  test("a member whose pod is gone is waited for", () => {
    const waiting = step(of(anew, anew), { missing: "a pod of a" });
    assert.equal(messageOf(waiting), "a pod of a is gone, and no other one is ready");
    assert.equal(guardOf(waiting), "pod-missing");
  });
});

suite("a withdrawn restart", () => {
  const step = (members: readonly MemberGiven[], given: Given = {}) => stepIn(phases.withdrawing, members, given);

  test("it ends when each process runs, whether it was stopped or not", () => {
    const over = { kind: "end", failed: new Set(), message: "the restart is withdrawn" };
    assert.deepEqual(step([]), over);
    assert.deepEqual(step([{ membership: no }, { status: anew, membership: yes }]), over);
  });

  test("it waits for the first process that is down, or whose node is no member again", () => {
    const starting = { state: "starting", processId: undefined, attempts: 1 };
    assert.equal(messageOf(step(of(starting, starting))), "a-0 starts in place: starting, attempt 1");
    assert.equal(messageOf(step(of({}, starting))), "a-1 starts in place: starting, attempt 1");
    assert.equal(guardOf(step([{}, { status: anew, membership: no }])), "restart-joining");
  });

  test("it does not wait for the node of a pod that was made anew, but for its process", () => {
    const other = { uid: "another", membership: no };
    assert.equal(guardOf(step([{}, { ...other, status: { ...anew, podUid: "another" } }])), "end");
    const starting = { state: "starting", processId: undefined, podUid: "another" } as const;
    assert.equal(guardOf(step([{}, { ...other, status: starting }])), "restart-joining");
  });

  test("three failed starts end it, and a process that was never stopped has not failed", () => {
    const failed = step(of({}, broken));
    assert.deepEqual([failedIn(failed), messageOf(failed)], [[b], "a-1: 3 starts have failed"]);
    assert.equal(guardOf(step(of({}, { ...broken, attempts: 2 }))), "restart-starting");
  });

  test("an hour after the restart began it ends as well, and names the process that is down", () => {
    const down = of({}, { state: "starting", processId: undefined });
    assert.deepEqual(failedIn(step(down, began(3_600_000))), [b]);
  });
});
