/** The step of a restart of many processes that brings their files, by what their process managers have. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { ManagerStatus } from "../../../../functions/advance-process-restart/calls.ts";
import { sumFor, sumOf } from "../../../../functions/advance-process-restart/coordinated/decide-member.ts";
import { first, type TogetherView } from "../../../../functions/advance-process-restart/coordinated/decide-together.ts";
import { togetherPhases as phases } from "../../../../functions/advance-process-restart/coordinated/phases.ts";
import type { FilesState } from "../../../../functions/advance-process-restart/decide-files.ts";
import type { FilesChange } from "../../../../functions/advance-process-restart/drift/decide-settings.ts";
import { pod as podOf } from "../advance-zone-rollout/given.ts";
import {
  a,
  ago,
  b,
  began,
  claimIn,
  guardOf,
  type MemberGiven,
  memberOf,
  messageOf,
  move,
  stepIn,
} from "./together-given.ts";

suite("the files", () => {
  const same = (sum: string): FilesState => ({ kind: "same", sum });
  const copy = { name: "mounted", uid: "1", resourceVersion: "2", data: {}, annotations: {}, ownerReferences: [] };
  const brought = (mountedSum: string | undefined, files?: FilesState): MemberGiven => ({
    ...{ files, status: { mountedSum } },
  });

  test("files that differ are copied before anything stops, for each member that has others", () => {
    const step = stepIn(phases.preparing, [{ files: { kind: "differs", sum: "1:new", copy } }]);
    assert.deepEqual(step.kind === "copy" && step.members.map((one) => one.pod.name), [a]);
  });

  test("files that cannot be copied are waited for with their own guard", () => {
    const blocked = { guard: "restart-config-refused", message: "write the Role" };
    assert.deepEqual(stepIn(phases.preparing, [{ files: { kind: "blocked", blocked } }]), { kind: "wait", ...blocked });
  });

  test("a pod that is not in the restart, and runs with another setting, withdraws it before anything is copied or stopped", () => {
    const named = (name: string) => new Map([["cluster.name", name]]);
    const change = { expected: named("b"), mounted: named("b") };
    const outside = (pod: string, more: Partial<FilesChange> = {}) => ({
      pod: podOf(pod),
      files: { ...same("1:new"), change: { ...change, ...more } } as FilesState,
    });
    const step = (...outsiders: NonNullable<TogetherView["outsiders"]>) =>
      stepIn(phases.preparing, [{ files: { ...same("1:new"), change } as FilesState }], { outsiders });
    const conflicting = outside("b-0", { mounted: named("a") });
    const withdrawn = { ...move(phases.withdrawing, 6), conflicting: { pod: conflicting.pod, key: "cluster.name" } };
    assert.deepEqual(step(outside("a-2"), conflicting), withdrawn);
    assert.deepEqual(step(outside("b-0", { mounted: named("a"), mode: "coordinated" })), withdrawn);
    const joining = [
      outside("b-0"),
      outside("b-0", { mounted: named("a"), mode: "rolling" }),
      {
        pod: conflicting.pod,
        files: { kind: "blocked", blocked: { guard: "restart-config-missing", message: "" } } as const,
      },
      { pod: conflicting.pod },
    ];
    for (const one of joining) assert.equal(guardOf(step(one)), "config-coming");
    const other = outside("b-0", { mounted: named("a"), expected: named("c") });
    assert.equal(guardOf(step(other)), "restart-config-disagrees");
  });

  test("each member must have the expected files, or where none are expected those of the first member", () => {
    const step = (...given: readonly MemberGiven[]) => stepIn(phases.preparing, given);
    const [now, earlier] = ["1:now", "1:earlier"];
    assert.deepEqual(step(brought(now, same(now)), brought(now, same(now))), move(phases.stopping));
    assert.deepEqual(step(brought(now), brought(now)), move(phases.stopping));
    const coming = step(brought(earlier, same(now)), brought(earlier, same(now)));
    const sums = "expected are those of the sum 1:now, and mounted are those of 1:earlier";
    assert.equal(messageOf(coming), `the kubelet brings files to a-0: ${sums}`);
    assert.equal(guardOf(coming), "config-coming");
    assert.match(messageOf(step(brought(now), brought(undefined))), /to a-1: .* 1:now, and mounted are those of none$/);
    assert.match(messageOf(step(brought(undefined), brought(now))), /to a-1: expected are those of the sum none, /);
  });

  test("nothing is copied while the files of another member are blocked, and a quarter of an hour later the restart ends", () => {
    const blocked = { guard: "restart-config-missing", message: "there is no Secret" };
    const missing: MemberGiven = { files: { kind: "blocked", blocked } };
    const differing: MemberGiven = { files: { kind: "differs", sum: "1:new", copy } };
    const unchanged: MemberGiven = { files: same("1:old"), status: { runningSum: "1:old" } };
    const wait = { kind: "wait", ...blocked };
    assert.deepEqual(stepIn(phases.preparing, [differing, missing], began(899_999)), wait);
    const end = { kind: "end", failed: new Set([a, b]), message: "there is no Secret; nothing was stopped" };
    assert.deepEqual(stepIn(phases.preparing, [differing, missing], began(900_000)), end);
    assert.deepEqual(stepIn(phases.preparing, [missing, unchanged], ago(900_000)), end, "it has had no other step");
  });

  test("restart-config-disagrees: no files are copied while they change what all nodes have in common, and others do not agree", () => {
    const cluster = (name: string) => new Map([["cluster.name", name]]);
    const change = (expected: string, mounted: string) => ({ expected: cluster(expected), mounted: cluster(mounted) });
    const differing = (expected: string, mounted: string): MemberGiven => ({
      files: { kind: "differs", sum: "1:new", copy, change: change(expected, mounted) },
    });
    const unchanged: MemberGiven = { files: { kind: "same", sum: "1:old", change: change("a", "a") } };
    const step = (...given: readonly MemberGiven[]) => stepIn(phases.preparing, given);
    assert.equal(guardOf(step(differing("b", "a"), unchanged)), "restart-config-disagrees");
    assert.match(
      messageOf(step(differing("b", "a"), differing("c", "a"))),
      /have several values of cluster.name, and no/,
    );
    assert.equal(step(differing("b", "a"), differing("b", "a")).kind, "copy");
    const apart: MemberGiven = { files: { kind: "same", sum: "1:old", change: change("c", "c") } };
    assert.equal(step(differing("a", "a"), apart).kind, "copy", "they differed before, and nothing changes that");
  });

  test("a restart whose new files are mounted, or that has stopped a process, keeps waiting for the files of the others", () => {
    const blocked = { guard: "restart-config-refused", message: "it is immutable" };
    const refused: MemberGiven = { files: { kind: "blocked", blocked } };
    const copied: MemberGiven = { files: same("1:new"), status: { runningSum: "1:old" } };
    const stopped: MemberGiven = { files: { kind: "differs", sum: "1:new", copy }, status: { state: "stopped" } };
    for (const other of [copied, stopped])
      assert.deepEqual(stepIn(phases.preparing, [other, refused], began(900_000)), { kind: "wait", ...blocked });
  });

  test("a member that does not answer, or is of another StatefulSet, gives no sum for the others", () => {
    const claim = claimIn(phases.stopping);
    const [silent, answering] = [memberOf(a, claim, { silence: "none" }), memberOf(b, claim, brought("1:now"))];
    assert.equal(sumOf(claim, [silent, answering]), "1:now");
    assert.equal(sumOf({ ...claim, zone: "b" }, [answering]), undefined);
  });

  test("a withdrawn restart starts what it has stopped with the files of before, unless those that run have the new ones", () => {
    const membersIn = (from: string, status: readonly Partial<ManagerStatus>[], changes = {}) => {
      const claim = claimIn(from, { sum: "1:then", ...changes });
      return status.map((one, index) => memberOf(`a-${index}`, claim, { status: one }));
    };
    const sumIn = (from: string, to: string, ...status: readonly Partial<ManagerStatus>[]) => {
      const members = membersIn(from, status);
      return sumFor(first(members.map(({ claim }) => claim)), members, to);
    };
    const kept = { state: "stopped", mountedSum: "1:now", triedSum: "1:then", runningSum: "1:before" } as const;
    const renewed = { ...kept, runningSum: "1:then" } as const;
    const lacking = { state: "killed", mountedSum: "1:now", triedSum: "1:other", runningSum: "1:other" } as const;
    const running = { ...lacking, state: "started" } as const;
    for (const from of [phases.preparing, phases.restricting, phases.stopping, phases.killing]) {
      assert.equal(sumIn(from, phases.withdrawing, kept, running), undefined, from);
      assert.equal(sumIn(from, phases.withdrawing, kept, kept), undefined, from);
      assert.equal(sumIn(from, phases.withdrawing, renewed, running), undefined, from);
      assert.equal(sumIn(from, phases.withdrawing, kept, renewed), "1:then", from);
      assert.equal(sumIn(from, phases.withdrawing, lacking, renewed), "1:now", from);
      const anew = { ...renewed, state: "started" } as const;
      assert.equal(sumIn(from, phases.withdrawing, kept, anew), "1:then", "the one that runs was made anew");
      assert.equal(sumIn(from, phases.withdrawing, kept, anew, running), undefined, "one was never stopped");
      const claim = claimIn(from, { sum: "1:then" });
      const silent = [memberOf(a, claim, { status: renewed }), memberOf(b, claim, { silence: "none" })];
      assert.equal(sumFor(claim, silent, phases.withdrawing), undefined, from);
    }
    assert.equal(sumIn(phases.withdrawing, phases.withdrawing, kept, running), "1:then", "it has begun with these");
    const begun = membersIn(phases.withdrawing, [kept, renewed], { sum: undefined });
    assert.equal(sumFor(first(begun.map(({ claim }) => claim)), begun, phases.withdrawing), undefined);
    assert.equal(sumIn(phases.preparing, phases.stopping, kept, running), "1:now", "all members have these now");
    assert.equal(sumIn(phases.stopping, phases.starting, kept, lacking), "1:then", "it is fixed");
  });
});
