/** Decisions about a restart of many processes at the edges of their conditions. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { ManagerStatus } from "../../../../functions/advance-process-restart/calls.ts";
import { blockedTogether } from "../../../../functions/advance-process-restart/coordinated/decide-begin.ts";
import {
  type AnsweringMember,
  lacksFiles,
  notBack,
  sumFor,
} from "../../../../functions/advance-process-restart/coordinated/decide-member.ts";
import { decideTogether } from "../../../../functions/advance-process-restart/coordinated/decide-together.ts";
import { togetherPhases as phases } from "../../../../functions/advance-process-restart/coordinated/phases.ts";
import { nowMs } from "../advance-zone-rollout/given.ts";
import { managed } from "./given.ts";
import {
  a,
  ago,
  b,
  claimIn,
  guardOf,
  type MemberGiven,
  memberOf,
  messageOf,
  move,
  no,
  of,
  stepIn,
  yes,
} from "./together-given.ts";

/** The grace period of members, and the time that clients have before it. */
const graceMs = 35_000;
const hourMs = 3_600_000;

suite("which files", () => {
  const then = { state: "stopped", mountedSum: "1:now", triedSum: "1:then" } as const;
  const lacking = { state: "killed", mountedSum: "1:now", triedSum: "1:other", runningSum: "1:other" } as const;

  test("a member lacks no files where the restart names none", () => {
    const member = (sum?: string) =>
      memberOf(a, claimIn(phases.stopping, sum === undefined ? {} : { sum }), {
        status: lacking,
      }) as AnsweringMember;
    assert.equal(lacksFiles(member()), false);
    assert.equal(lacksFiles(member("1:then")), true);
    for (const sum of ["1:now", "1:other"]) assert.equal(lacksFiles(member(sum)), false, sum);
  });

  test("a withdrawn restart keeps the files of a StatefulSet where a pod of another one lacks its own, or one is silent", () => {
    const claim = claimIn(phases.withdrawing, { sum: "1:then" });
    const kept = memberOf(a, claim, { status: then });
    const other = memberOf(b, { ...claim, zone: "b" }, { status: lacking });
    assert.equal(sumFor(claim, [kept, other], phases.withdrawing), "1:then");
    const silent = memberOf(b, claim, { silence: "none" });
    assert.equal(sumFor(claim, [kept, silent], phases.withdrawing), "1:then");
    assert.equal(sumFor(claim, [kept, memberOf(b, claim, { status: lacking })], phases.withdrawing), "1:now");
  });
});

suite("calls that have not arrived", () => {
  const stopping = { state: "stopping", lastEpoch: 4 } as const;
  const running = { state: "started", lastEpoch: 4 } as const;

  test("only a withdrawn restart waits for processes that stop, and only where all that lack the call do", () => {
    assert.equal(guardOf(stepIn(phases.stopping, of(stopping, stopping), ago(6_999))), "restart-calling");
    assert.deepEqual(stepIn(phases.stopping, of(stopping, stopping), ago(graceMs)), move(phases.stopping));
    assert.equal(guardOf(stepIn(phases.withdrawing, of(stopping, running), ago(6_999))), "restart-calling");
    assert.equal(guardOf(stepIn(phases.withdrawing, of(running, running), ago(6_999))), "restart-calling");
    assert.equal(guardOf(stepIn(phases.withdrawing, of(stopping, stopping), ago(6_999))), "restart-stopping");
    assert.deepEqual(stepIn(phases.withdrawing, of(stopping, running), ago(graceMs)), move(phases.withdrawing));
  });

  test("processes that still stop when their grace period is over are killed, and not a moment before", () => {
    const step = (ms: number, knownMs?: number) =>
      stepIn(phases.withdrawing, of(stopping, stopping), { ...ago(ms), ...(knownMs !== undefined && { knownMs }) });
    const kill = { ...move(phases.withdrawing, 6), kill: new Set([a, b]) };
    assert.deepEqual(step(graceMs), kill);
    assert.equal(guardOf(step(graceMs - 1)), "restart-stopping");
    assert.deepEqual(step(graceMs, graceMs), kill);
    assert.equal(guardOf(step(600_000, graceMs - 1)), "restart-stopping", "the API server's clock was set");
    assert.equal(guardOf(step(graceMs - 1, 600_000)), "restart-stopping", "the claim was written anew");
  });

  test("so are those of a restart that goes on", () => {
    const late = { state: "stopping", lastCommand: "stop" } as const;
    const step = (ms: number, knownMs: number) => stepIn(phases.stopping, of(late, late), { ...ago(ms), knownMs });
    assert.deepEqual(step(graceMs, graceMs), move(phases.killing, 6));
    assert.equal(guardOf(step(600_000, graceMs - 1)), "restart-stopping");
    assert.equal(guardOf(step(graceMs - 1, 600_000)), "restart-stopping");
  });
});

suite("how it ends", () => {
  test("a withdrawn restart whose processes all run has not failed, however late that is seen", () => {
    const step = stepIn(phases.withdrawing, [], { ...ago(hourMs) });
    assert.deepEqual([guardOf(step), messageOf(step)], ["end", "the restart is withdrawn"]);
  });

  test("a withdrawn restart does not wait until a process joins that it has not stopped, because there was none", () => {
    const joining: MemberGiven = { status: { processId: "7 2" }, membership: no };
    const step = (before: string, other: MemberGiven = joining, hold = {}) =>
      stepIn(phases.withdrawing, [{}, other], { claim: { processes: { [a]: "7 1", [b]: before }, ...hold } });
    assert.equal(messageOf(step("")), "the restart is withdrawn");
    for (const hold of [true, false])
      assert.equal(
        guardOf(step("", joining, { hold })),
        "restart-joining",
        "one that came later may have been stopped",
      );
    assert.equal(guardOf(step("7 1")), "restart-joining", "it was stopped");
    assert.equal(guardOf(step("", { status: { state: "starting", processId: undefined } })), "restart-starting");
    const claim = { processes: { [a]: "", [b]: "" } };
    assert.equal(guardOf(stepIn(phases.starting, [joining, joining], { claim })), "restart-joining", "it goes on");
  });

  test("a process that another pod reports is not back, although it runs and its node is a member", () => {
    const member = (podUid: string) =>
      memberOf(a, claimIn(phases.starting), { status: { podUid, processId: "7 2" }, membership: yes });
    assert.deepEqual(notBack([member(`uid-of-${a}`)]), []);
    assert.equal(notBack([member("uid of an earlier pod")]).length, 1);
  });

  test("a killed process of a withdrawn restart is waited for once it has the start", () => {
    const killed = (lastCommand: string): Partial<ManagerStatus> => ({
      state: "killed",
      lastCommand,
      processId: undefined,
    });
    const step = (lastCommand: string) => stepIn(phases.withdrawing, of(killed(lastCommand), {}));
    assert.equal(guardOf(step("start")), "restart-starting");
    assert.deepEqual(step("kill"), move(phases.withdrawing, 6));
    assert.deepEqual(step(""), move(phases.withdrawing, 6));
  });

  test("without a pod there is nothing to undo, and with one that is back there is", () => {
    const claim = claimIn(phases.starting, { hold: true });
    const common = { claims: [claim], missing: undefined, isAnchored: true, nowMs };
    const none = decideTogether({ ...common, members: [] });
    assert.deepEqual([guardOf(none), messageOf(none)], ["end", "no pod of it is left"]);
    const back = memberOf(a, claim, { status: { processId: "7 2" }, membership: { value: true } });
    assert.deepEqual(decideTogether({ ...common, members: [back] }), { kind: "release" });
  });
});

test("members-elsewhere: a StatefulSet that is being deleted does not ask for the rule", () => {
  const elsewhere = ["node-of-a-machine"];
  const guard = (zones: ReturnType<typeof managed>[]) =>
    blockedTogether({ zones, candidates: [], claims: [], gatheredMs: 60_000, elsewhere })?.guard;
  const unchecked = new Set(["members-elsewhere"] as const);
  const [leaving, without] = [managed("a", "nn", { deleting: true }), managed("b", "nn", { unchecked })];
  assert.equal(guard([leaving, without]), undefined);
  assert.equal(guard([managed("a", "nn"), without]), "members-elsewhere");
});
