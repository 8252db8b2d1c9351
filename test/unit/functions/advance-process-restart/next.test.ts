/** Which restart begins next, and what is done or waited for before it, by the pods of a group. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { Candidate } from "../../../../functions/advance-process-restart/candidate.ts";
import { mayBeginNow, mayPark } from "../../../../functions/advance-process-restart/decide.ts";
import { blockedByOthers } from "../../../../functions/advance-process-restart/decide-files.ts";
import type { Zone } from "../../../../functions/shared/groups/zones.ts";
import type { Claim } from "../../../../functions/shared/ledger/claim.ts";
import { claimOf, nowMs, reservation } from "../advance-zone-rollout/given.ts";
import { facts, group, managed, node } from "./given.ts";
import {
  a,
  away,
  gathered,
  type Marks,
  marked,
  mended,
  next,
  parkable,
  refused,
  same,
  verdictOf,
  zoneOf,
} from "./next-given.ts";

suite("when it reads again", () => {
  test("a restart that is under way is read again in a second, one that waits in five, and files in ten", () => {
    const open = claimOf("a:0", "process");
    assert.equal(verdictOf([], { claims: [open] }).requeueAfterMs, 1_000);
    assert.equal(verdictOf([marked(a, 0, "schedule", away)]).requeueAfterMs, 5_000);
    const failed = [marked(a, 0, "failed", { files: same("1:a") }), marked(a, 1, "failed")];
    assert.equal(verdictOf(failed).requeueAfterMs, 10_000);
  });

  test("a restart whose last step was over with its answer takes the next one at once, and waits a second where it cannot", () => {
    const inPhase = (phase: string) => ({ ...claimOf("a:0", "process"), phase });
    const underWay = { guard: "manager-silent", message: "no answer" };
    for (const phase of ["restricting", "flushing"]) {
      assert.equal(verdictOf([], { claims: [inPhase(phase)] }).requeueAfterMs, 100, phase);
      assert.equal(verdictOf([], { claims: [inPhase(phase)], underWay }).requeueAfterMs, 1_000, phase);
    }
    for (const phase of ["stopping", "starting"])
      assert.equal(verdictOf([], { claims: [inPhase(phase)] }).requeueAfterMs, 1_000, phase);
  });

  test("a claim of a later version of Sluice is read again in a second, whatever its phase is called", () => {
    const later = { ...claimOf("a:0", "process"), isKnown: false, phase: "flushing" } as never as Claim;
    assert.equal(verdictOf([], { claims: [later] }).requeueAfterMs, 1_000);
  });

  test("a restart that waits is read again each second for 30 s after another one has ended", () => {
    const again = (endedAgoMs: number) =>
      verdictOf([marked(a, 0, "schedule", away)], { lastRestartMs: nowMs - endedAgoMs }).requeueAfterMs;
    assert.deepEqual([again(0), again(29_999), again(30_000)], [1_000, 1_000, 5_000]);
  });

  test("without files and without a marker in the database nothing is read again", () => {
    assert.equal(verdictOf([]).requeueAfterMs, undefined);
    assert.equal(verdictOf([marked(a, 0, "failed")]).requeueAfterMs, undefined);
  });

  test("a marker that no restart owns is read again in ten seconds, and is undone once it is confirmed", () => {
    const marker = { id: "restart-1", database: {} as never, statefulSet: a.workload };
    assert.equal(verdictOf([], { leftOver: { ...marker, isConfirmed: false } }).requeueAfterMs, 10_000);
    assert.equal(next([], { leftOver: { ...marker, isConfirmed: true } }), "release");
    assert.equal(next([], { leftOver: { ...marker, isConfirmed: false } }), "");
  });
});

suite("what comes before a restart", () => {
  test("the phase of a StatefulSet is written to its pods without one, except to those on their way out", () => {
    const extra = [marked(managed("a", "nnnn"), 3, "schedule").pod];
    const drawn = managed("a", "ntn.", { extra });
    const workload = { ...drawn.workload, restart: { ...drawn.workload.restart, phaseOfAll: "schedule-rolling" } };
    const zone = { ...drawn, workload } as Zone;
    assert.equal(next([], { zones: [zone] }), "fan-out a-0 a-2");
    const leaving = { ...zone, workload: { ...workload, deleting: true } } as Zone;
    assert.equal(next([], { zones: [leaving] }), "", "the StatefulSet is being deleted");
  });

  test("a wait for restarts that are under way names the first of their StatefulSets", () => {
    const claims = [claimOf("a:0", "process"), claimOf("b:0", "process")];
    const verdict = verdictOf([], { claims });
    assert.deepEqual([verdict.zone, next([], { claims })], ["a", "zone-restarting-process"]);
    const underWay = { guard: "restart-stopping", message: "a-0 stops" };
    assert.equal(next([], { claims, underWay }), "restart-stopping");
  });

  test("phases that only Sluice writes, cancel, and an id without a phase are taken off", () => {
    for (const phase of ["stop", "start", "stop-coordinated", "start-coordinated", "cancel"] as const)
      assert.equal(next([marked(a, 1, phase)]), "clear a-1");
    assert.equal(next([marked(a, 1, undefined, { id: "restart-1" })]), "clear a-1");
    assert.equal(next([marked(a, 1, "failed", { id: "restart-1" })]), "");
  });

  test("what a trigger waits for is the reason only while nothing else begins", () => {
    const triggers = { targets: [], blocked: { guard: "ledger-full", message: "no room" } } as never;
    assert.equal(next([], { triggers }), "ledger-full");
    assert.equal(next([marked(a, 1, "schedule")], { triggers }), "begin a-1");
    assert.equal(next([marked(a, 1, "schedule", away)], { triggers }), "manager-busy");
  });

  test("nothing is taken off a pod that is on its way out, or has neither phase nor id", () => {
    assert.equal(next([marked(a, 1, "cancel", { terminating: true })]), "");
    assert.equal(next([marked(a, 1, undefined)]), "");
    const { pod, ...rest } = marked(a, 1, undefined);
    const { restart: _, ...bare } = pod;
    assert.equal(next([{ ...rest, pod: bare }]), "");
  });
});

suite("what a person wants now", () => {
  test("a pod may begin now only with the phase schedule, and while nothing blocks it", () => {
    assert.equal(mayBeginNow(group({ zones: [a] }), marked(a, 1, "schedule")), true);
    assert.equal(mayBeginNow(group({ zones: [a] }), marked(a, 1, "schedule", away)), false);
    assert.equal(mayBeginNow(group({ zones: [a] }), marked(a, 1, "schedule-rolling")), false);
    assert.equal(mayBeginNow(group({ zones: [a] }), marked(a, 1, undefined)), false);
  });

  test("while nothing can begin, the verdict is about the first pod that waits", () => {
    const silent: Marks = { answer: { silence: "it answered 500" } };
    assert.equal(next([marked(a, 1, "schedule", silent), marked(a, 2, "schedule", away)]), "manager-busy");
    assert.equal(next([marked(a, 1, "schedule", away), marked(a, 2, "schedule-rolling", silent)]), "manager-busy");
    assert.equal(next([marked(a, 1, "schedule"), marked(a, 2, "schedule", away)]), "begin a-1");
  });

  test("the verdict names the pod, and what is done with its process", () => {
    assert.equal(verdictOf([marked(a, 1, "schedule")]).message, "a-1 is restarted in place");
    assert.equal(verdictOf([parkable(1)]).message, "a-1 is parked in place");
  });

  test("of pods that are to be parked the first by its name is, and one with a phase, or that cannot stop, is not", () => {
    assert.equal(next([parkable(0), parkable(2), parkable(1)]), next([parkable(1), parkable(2), parkable(0)]));
    assert.equal(mayPark(parkable(1)), true);
    const { pod, ...rest } = marked(a, 1, "schedule");
    assert.equal(mayPark({ ...rest, pod: { ...pod, stop: "true" } }), false, "its restart comes first");
    assert.equal(next([{ ...rest, pod: { ...pod, stop: "true" } }]), "begin a-1");
    const turn = marked(a, 1, "schedule-rolling", away);
    assert.equal(next([{ ...turn, pod: { ...turn.pod, stop: "true" } }]), "manager-busy", "it has not failed");
    assert.equal(mayPark(marked(a, 1, undefined)), false, "no person wants it");
    assert.equal(mayPark({ ...parkable(1), answer: { silence: "it answered 500" } }), false);
    assert.equal(mayPark({ ...parkable(1), publication: "missing" }), false);
    assert.equal(next([{ ...parkable(1), answer: { silence: "it answered 500" } }]), "manager-silent");
  });

  test("a process manager that was not asked, gives no answer or answers for another pod is waited for", () => {
    const messageOf = (marks: Marks) => verdictOf([marked(a, 1, "schedule", marks)]).message;
    const silent = "the server of a-1 reports nothing: ";
    assert.equal(messageOf({ answer: "unasked" }), `${silent}it was not asked yet`);
    assert.equal(messageOf({ answer: { silence: "it answered 500" } }), `${silent}it answered 500`);
    assert.equal(messageOf({ status: { podUid: "later" } }), `${silent}another pod answers by its name`);
  });

  test("a pod that another function has reserved waits", () => {
    const reserved = [reservation("a-1")];
    assert.equal(next([marked(zoneOf("a", { reserved }), 1, "schedule")]), "budget");
    assert.equal(next([marked(zoneOf("a", { reserved }), 2, "schedule")]), "begin a-2");
  });

  test("a pod that is not ready restarts although the one before it at its name was reserved, and stays so until then", () => {
    const before = [reservation("a-1", { uid: "uid-of-the-one-before" })];
    const zone = zoneOf("a", { reserved: before });
    const unready = (one: Candidate): Candidate => ({ ...one, pod: { ...one.pod, readySinceMs: undefined } });
    assert.equal(next([unready(marked(zone, 1, "schedule"))]), "begin a-1");
    assert.equal(next([marked(zone, 1, "schedule")]), "budget", "it is ready, and the reservation ends by itself");
    const own = zoneOf("a", { reserved: [reservation("a-1")] });
    assert.equal(next([unready(marked(own, 1, "schedule"))]), "budget", "it may go");
  });

  test("a pod that two claims name waits for the first one", () => {
    const claims = [claimOf("a:1", "scale-down"), claimOf("a:0-1", "node")];
    assert.equal(next([marked(zoneOf("a", { claims }), 1, "schedule")]), "zone-scaling-down");
  });

  test("a StatefulSet without a process manager is named with the first mistake in its annotations", () => {
    const messageOf = (malformed: readonly object[]) =>
      verdictOf([marked(zoneOf("a", { restart: { unchecked: new Set(), malformed } } as never), 1, "schedule")])
        .message;
    const beginning = "no pod of a can be restarted in place: ";
    assert.equal(messageOf([{ message: "first" }, { message: "second" }]), `${beginning}first`);
    assert.equal(messageOf([]), `${beginning}it names no port: write sluice.dev/restart-manager`);
  });
});

suite("the files", () => {
  const copy = { name: "mounted", uid: "1", resourceVersion: "2", data: {}, annotations: {}, ownerReferences: [] };

  test("files that differ are copied before the restart of a pod, whether it is wanted now or in its turn", () => {
    for (const phase of ["schedule", "schedule-rolling"] as const) {
      const verdict = verdictOf([marked(a, 1, phase, { files: { kind: "differs", sum: "1:now", copy } })]);
      const target = { kind: "copy", statefulSet: a.workload, sum: "1:now", copy };
      assert.deepEqual(verdict.kind === "take" && verdict.targets, [target]);
      assert.equal(verdict.message, "a-1 gets other files before it is restarted in place");
    }
  });

  test("restart-config-together: files that all nodes must have in common are not copied for one pod, now or in its turn", () => {
    const together = { guard: "restart-config-together", message: "they change cluster.name" };
    const files = { kind: "differs", sum: "1:now", copy, together } as const;
    for (const phase of ["schedule", "schedule-rolling"] as const)
      assert.equal(next([marked(a, 1, phase, { files })]), "restart-config-together", phase);
    const status = { triedSum: "1:broken" };
    assert.equal(next([marked(a, 1, "failed", { files, status })]), "restart-config-together");
    const all = [0, 1].map((ordinal) => marked(a, ordinal, "schedule-coordinated", { files }));
    assert.equal(next(all, gathered), "begin-together a-1 a-0", "these are copied under their claims");
  });

  test("such files are copied for one pod that has no others to join: all others have failed, or there are none", () => {
    const together = { guard: "restart-config-together", message: "they change cluster.name" };
    const files = { kind: "differs", sum: "1:now", copy, together } as const;
    const guardOf = (zones: readonly Zone[]) => blockedByOthers(files, { name: "a-0" }, zones)?.guard;
    const failed = { restart: { text: "failed", phase: "failed", id: undefined } } as const;
    const others = (...ordinals: readonly number[]) => ({
      ...a,
      pods: a.pods.map((pod) => (ordinals.includes(pod.ordinal) ? { ...pod, ...failed } : pod)),
    });
    assert.equal(guardOf([others(1, 2)]), undefined);
    assert.equal(guardOf([others(0, 1)]), together.guard, "a-2 runs");
    assert.equal(guardOf([others(1, 2), managed("b", "n")]), together.guard, "b-0 runs");
    const missing = { ...others(1, 2), workload: { ...a.workload, replicas: 4 } };
    assert.equal(guardOf([missing]), together.guard, "another pod is to come");
    assert.equal(guardOf([managed("a", "n")]), undefined);
    const { together: _, ...free } = files;
    assert.equal(blockedByOthers(free, { name: "a-0" }, [a]), undefined);
    assert.equal(blockedByOthers({ kind: "same", sum: "1:now" }, { name: "a-0" }, [a]), undefined);
  });

  test("files that cannot be copied are waited for, before the rules of a turn", () => {
    const due = managed("a", "non");
    for (const phase of ["schedule", "schedule-rolling"] as const)
      assert.equal(next([marked(due, 1, phase, { files: refused })]), "restart-config-refused");
  });

  test("files that are there already, or come within three minutes, are not copied again", () => {
    const brought = (mountedSum: string, waitedMs?: number) => {
      const waited = waitedMs === undefined ? {} : { waitedMs };
      return next([marked(a, 1, "schedule", { files: same("1:now"), status: { mountedSum }, ...waited })]);
    };
    assert.equal(brought("1:now"), "begin a-1");
    assert.equal(brought("1:earlier"), "config-coming");
    assert.equal(brought("1:earlier", 180_000), "config-not-there");
  });
});

suite("the turn", () => {
  test("pods that are eligible as master come last, as the database reports it", () => {
    const nodes = [node("a-0", "data"), node("a-1", "data"), node("a-2")];
    const green = { kind: "known", facts: facts(nodes, { health: "green" }) } as const;
    const all = [0, 1, 2].map((ordinal) => marked(a, ordinal, "schedule-rolling"));
    assert.equal(next(all, { database: green }), "begin a-1");
    assert.equal(next(all), "begin a-2");
  });

  test("a pod in its turn waits for the rules first, and then for a process manager without an answer", () => {
    const due = managed("a", "non");
    const silence = { silence: "it answered 500" };
    assert.equal(next([marked(due, 1, "schedule-rolling", { answer: "unasked" })]), "rollout-due");
    assert.equal(next([marked(a, 1, "schedule-rolling", { answer: "unasked" })]), "manager-silent");
    assert.equal(next([marked(a, 1, "schedule-rolling", { answer: silence })]), "manager-silent");
    assert.equal(next([marked(due, 1, "schedule-rolling", { publication: "missing" })]), "service-missing");
  });

  test("its claim names the process that runs, and has a higher epoch than all that its process manager has seen", () => {
    const verdict = verdictOf([marked(a, 1, "schedule-rolling")]);
    const [target] = verdict.kind === "take" ? verdict.targets : [];
    const claim = target?.kind === "begin" ? target.claim : undefined;
    assert.deepEqual([claim?.epoch, claim?.processes, claim?.mode], [6, { "a-1": "7 1" }, "rolling"]);
  });

  test("restart-failed names the first pod that has failed", () => {
    const failed = [marked(a, 0, "failed"), marked(a, 1, "failed"), marked(a, 2, "schedule-rolling")];
    assert.match(verdictOf(failed).message, /^the restart of a-1 has failed/);
  });

  test("of pods whose files are mended the highest ordinal starts again first, before the turn of others", () => {
    const both = [marked(a, 0, "failed", mended), marked(a, 1, "failed", mended), marked(a, 2, "schedule-rolling")];
    assert.equal(next(both), "begin a-1");
    assert.equal(next(both.slice(1)), "begin a-1");
  });
});
