/** What each call does in each state. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type AcceptedCall,
  type CallView,
  decideCall,
  type ProcessCall,
  type ProcessVerb,
} from "../../../../../functions/advance-process-restart/process-manager/decide-call.ts";
import {
  decideAttempts,
  decideState,
  type ManagedState,
  parseReport,
  type RunnerState,
  type StateView,
} from "../../../../../functions/advance-process-restart/process-manager/decide-state.ts";

const sum = `1:${"a".repeat(64)}`;
const call = (verb: ProcessVerb, fields: Partial<ProcessCall> = {}): ProcessCall => {
  return { verb, podUid: "uid", restartId: "restart", epoch: 5, sum, ...fields };
};
const last = (verb: ProcessVerb, fields: Partial<AcceptedCall> = {}): AcceptedCall => {
  return { ...call(verb), epoch: 4, step: "sent", ...fields };
};
const view = (state: ManagedState, fields: Partial<CallView> = {}): CallView => {
  return { podUid: "uid", last: undefined, state, commanded: undefined, hasFiles: true, ...fields };
};

/** `STATUS STEP` of an accepted call, or the status. */
function decided(one: ProcessCall, seen: CallView): string {
  const decision = decideCall(one, seen);
  return decision.kind === "accepted" ? `${decision.status} ${decision.step}` : `${decision.status} ${decision.kind}`;
}

test("a call of each kind is refused, done or passed on by the state of the process", () => {
  const table: readonly (readonly [
    ManagedState,
    ProcessVerb | undefined,
    stop: string,
    start: string,
    kill: string,
  ])[] = [
    ["started", undefined, "202 draining", "200 none", "202 sent"],
    ["started", "start", "202 draining", "200 none", "202 sent"],
    ["waiting", undefined, "202 sent", "202 sent", "202 sent"],
    ["failed", "start", "202 sent", "202 sent", "202 sent"],
    ["startFailed", "start", "202 sent", "202 sent", "202 sent"],
    ["away", "start", "202 sent", "202 sent", "202 sent"],
    ["away", "stop", "202 none", "202 sent", "202 sent"],
    ["stopping", "stop", "202 none", "409 refused", "202 sent"],
    ["stopFailed", "stop", "202 none", "409 refused", "202 sent"],
    ["killing", "kill", "202 none", "409 refused", "202 none"],
    ["killFailed", "kill", "202 none", "409 refused", "202 none"],
    ["stopped", "stop", "200 none", "202 sent", "200 none"],
    ["killed", "kill", "200 none", "202 sent", "200 none"],
    // The runner has not read the start yet, and will.
    ["stopped", "start", "202 sent", "202 sent", "202 sent"],
  ];
  for (const [state, commanded, ...wanted] of table) {
    const found = (["stop", "start", "kill"] as const).map((verb) => decided(call(verb), view(state, { commanded })));
    assert.deepEqual(found, wanted, `${state} after ${commanded}`);
  }
});

test("while clients leave a start withdraws the stop, another stop goes on, and a kill waits for nothing", () => {
  const draining = view("stopping", { last: last("stop", { step: "draining" }), commanded: "start" });
  assert.equal(decided(call("start"), draining), "200 none");
  assert.equal(decided(call("start", { sum: "1:b" }), { ...draining, hasFiles: false }), "200 none");
  assert.equal(decided(call("stop"), draining), "202 draining");
  assert.equal(decided(call("kill"), draining), "202 sent");
});

test("a lower epoch, another pod, and another call of the same epoch are refused, and the same call is answered again", () => {
  const stopped = view("stopped", { last: last("stop", { epoch: 5 }), commanded: "stop" });
  assert.equal(decided(call("stop"), stopped), "200 repeated");
  assert.equal(decided(call("stop"), { ...stopped, state: "stopping" }), "202 repeated");
  assert.equal(decided(call("stop"), { ...stopped, hasFiles: false }), "200 repeated");
  for (const other of [{ epoch: 4 }, { podUid: "other" }, { restartId: "other" }, { sum: undefined }]) {
    assert.equal(decided(call("stop", other), stopped), "409 refused", JSON.stringify(other));
  }
  assert.equal(decided(call("start"), stopped), "409 refused");
  const started = view("started", { last: last("start", { epoch: 5 }), commanded: "start" });
  assert.equal(decided(call("start"), started), "200 repeated");
  assert.equal(decided(call("start"), { ...started, state: "stopped" }), "202 repeated");
});

test("without files of its sum nothing is stopped or started, but a kill and a start of what runs need none", () => {
  const none = { hasFiles: false };
  assert.equal(decided(call("stop"), view("started", none)), "412 refused");
  assert.equal(decided(call("start"), view("stopped", { ...none, commanded: "stop" })), "412 refused");
  assert.equal(decided(call("start"), view("started", none)), "200 none");
  assert.equal(decided(call("kill"), view("started", none)), "202 sent");
  assert.equal(decided(call("kill"), view("failed", none)), "202 sent");
  assert.equal(decided(call("stop", { sum: undefined }), view("started", none)), "202 draining");
});

test("a report counts only with the command that the runner has read, and while the runner is there", () => {
  const report = (state: RunnerState, handled: number | string) =>
    parseReport(`${state} ${handled} 1 - 2026-01-01T00:00:00Z 7 boot.7.8`);
  const seen = (fields: Partial<StateView>) =>
    decideState({ report: report("started", 1), isBeating: true, isDraining: false, command: undefined, ...fields });
  assert.equal(seen({}), "started");
  assert.equal(seen({ isBeating: false }), "away");
  assert.equal(seen({ report: undefined }), "waiting");
  assert.equal(seen({ isDraining: true }), "stopping");
  assert.equal(seen({ isDraining: true, report: report("failed", "-") }), "failed");
  assert.equal(seen({ command: { verb: "stop", epoch: 2 } }), "stopping");
  assert.equal(seen({ command: { verb: "kill", epoch: 2 } }), "killing");
  assert.equal(seen({ command: { verb: "start", epoch: 2 }, report: report("stopped", 1) }), "stopped");
  // What was stopped before may run again by the start that came between.
  assert.equal(seen({ command: { verb: "stop", epoch: 3 }, report: report("stopped", 1) }), "stopping");
  assert.equal(seen({ command: { verb: "stop", epoch: 3 }, report: report("stopped", 3) }), "stopped");
});

test("the failed attempts of an earlier start do not count for one that the runner has not read", () => {
  const report = parseReport("failed 1 3 - 2026-01-01T00:00:00Z - boot.7.8");
  const attempts = (command: StateView["command"]) => decideAttempts({ report, command });
  assert.equal(attempts(undefined), 3);
  assert.equal(attempts({ verb: "start", epoch: 1 }), 3);
  assert.equal(attempts({ verb: "start", epoch: 2 }), 0);
  assert.equal(decideAttempts({ report: undefined, command: undefined }), 0);
});

test("a line of the runner is read as a whole, or not at all", () => {
  const line = `started 3 2 ${sum} 2026-01-01T00:00:00Z 7 boot.7.8\n`;
  const since = "2026-01-01T00:00:00Z";
  const whole = { state: "started", handledEpoch: 3, attempts: 2, sum, since, pid: 7, processId: "boot.7.8" };
  assert.deepEqual(parseReport(line), whole);
  const empty = { state: "waiting", handledEpoch: undefined, attempts: 0, sum: undefined, since };
  assert.deepEqual(parseReport(`waiting - 0 - ${since} - -`), { ...empty, pid: undefined, processId: undefined });
  const counts = parseReport(`started 3x - - ${since} x7 boot.7.8`);
  assert.deepEqual([counts?.handledEpoch, counts?.attempts, counts?.pid], [undefined, 0, undefined]);
  for (const text of ["", "started", "started 3 2", "unknown 3 2 - t 7 b", `${line.trim()} more`]) {
    assert.equal(parseReport(text), undefined, text);
  }
});
