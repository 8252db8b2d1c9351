/** Which process restarts next, and what each waits for before anything is written. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { StatusAnswer } from "../../../../functions/advance-process-restart/calls.ts";
import { decide } from "../../../../functions/advance-process-restart/decide.ts";
import { isOver } from "../../../../functions/advance-process-restart/decide-pod.ts";
import { blockedByService, type Publication } from "../../../../functions/advance-process-restart/decide-service.ts";
import type { RestartPhase } from "../../../../functions/shared/annotations/restart.ts";
import type { Claim } from "../../../../functions/shared/ledger/claim.ts";
import type { Pod } from "../../../../functions/shared/workloads/pods.ts";
import { claimOf, pod, reservation, statefulSet, zone } from "../advance-zone-rollout/given.ts";
import { group } from "./given.ts";

const manager = { scheme: "http", port: 9844, secret: "token" } as const;

interface Given {
  readonly phase?: RestartPhase;
  readonly changes?: Partial<Pod>;
  readonly claims?: readonly Claim[];
  readonly answer?: Partial<StatusAnswer>;
  readonly service?: string;
  readonly publication?: Publication;
  readonly isReserved?: boolean;
}

const reported = (uid: string) => ({
  ...{ podUid: uid, state: "started", processId: "7 1", attempts: 0, mountedSum: undefined },
  ...{ lastEpoch: 4, restartId: undefined, lastCommand: undefined },
});

test("a reservation is over where another pod that is not ready came in place of its own, and not while none has come", () => {
  const over = (name: Partial<Pod> | undefined) => isOver({ uid: "before" }, name && pod("a-0", name));
  assert.deepEqual([undefined, {}, { readySinceMs: undefined }, { uid: "before", readySinceMs: undefined }].map(over), [
    false,
    false,
    true,
    false,
  ]);
});

/** The verdict about pods of the StatefulSet `a`, all with a phase. */
function verdict(names: readonly string[], given: Given = {}) {
  const { phase = "schedule", changes = {}, claims = [], answer = {}, service = "db", isReserved = false } = given;
  const own = zone("a", "nnn", { claims });
  const workload = { ...statefulSet("a", { replicas: 3 }), serviceName: service, restart: { manager, malformed: [] } };
  const reserved = isReserved ? new Map([[1, reservation("a-1")]]) : new Map();
  const candidates = names.map((name) => {
    const one = pod(name, { ...changes, restart: { text: phase, phase, id: undefined } } as never);
    const { publication = "all" } = given;
    return { zone: { ...own, workload, reserved }, pod: one, publication, answer: { ...reported(one.uid), ...answer } };
  });
  const decided = decide({ ...group(), candidates, claims, underWay: undefined } as never);
  return decided.kind === "take"
    ? { guard: undefined, targets: decided.targets }
    : { guard: decided.guard, targets: [] };
}

const guardOf = (given: Given) => verdict(["a-1"], given).guard;

test("the highest ordinal restarts first, by a claim whose epoch is above all that its process manager has seen", () => {
  const { targets } = verdict(["a-0", "a-2", "a-1"]);
  const [first] = targets as readonly {
    readonly pod: Pod;
    readonly claim: { readonly epoch: number; readonly id: string };
  }[];
  assert.deepEqual([targets.length, first?.pod.name, first?.claim.epoch], [1, "a-2", 5]);
  assert.equal(first?.claim.id, `restart-${first?.pod.uid}-5`);
});

test("before anything is written, a restart waits for each of these with a guard of its own", () => {
  assert.equal(guardOf({}), undefined);
  assert.equal(guardOf({ changes: { terminating: true } }), "pod-terminating");
  assert.equal(guardOf({ service: "" }), "service-missing");
  assert.equal(guardOf({ publication: "missing" }), "service-missing");
  assert.equal(guardOf({ publication: "ready-alone" }), "service-hides-unready");
  assert.equal(guardOf({ isReserved: true }), "budget");
  assert.equal(guardOf({ claims: [claimOf("a:1", "scale-down")] }), "zone-scaling-down");
  assert.equal(guardOf({ answer: { podUid: "another" } }), "manager-silent");
  assert.equal(guardOf({ answer: { silence: "it answered 500" } }), "manager-silent");
  for (const state of ["away", "stopping", "killing"]) assert.equal(guardOf({ answer: { state } }), "manager-busy");
});

test("a restart that a Service prevents waits with a message that names the Service and what to write", () => {
  const messageOf = (serviceName: string, publication: Publication) =>
    blockedByService({ name: "a", serviceName }, publication)?.message;
  assert.equal(messageOf("db", "all"), undefined);
  assert.equal(
    messageOf("db", "ready-alone"),
    "a pod of a has no name while it is not ready, so that nothing could start again what was stopped in it: " +
      "write publishNotReadyAddresses: true into the spec of Service db",
  );
  assert.equal(
    messageOf("db", "missing"),
    "Service db, the serviceName of a, does not exist, so that its pods cannot be called: " +
      "create it with clusterIP: None and publishNotReadyAddresses: true",
  );
  assert.equal(messageOf("", "missing"), "a has no serviceName, so that its pods cannot be called");
});

test("another restart of the group is waited for, one of a parked process is not", () => {
  const open = claimOf("a:0", "process");
  assert.equal(guardOf({ claims: [open] }), "zone-restarting-process");
  for (const changes of [{ phase: "stopping" }, { phase: "parked", hold: true }, { phase: "starting" }])
    assert.equal(guardOf({ claims: [{ ...open, mode: "parked", ...changes }] }), "zone-restarting-process");
  assert.equal(guardOf({ claims: [{ ...open, mode: "parked", phase: "parked" }] }), undefined);
});

/** The pods of `a` by phase, all of them ready unless the drawing says another: what begins, or the guard. */
function next(drawing: string, phases: readonly (RestartPhase | undefined)[], answer: Partial<StatusAnswer> = {}) {
  const own = zone("a", drawing, { serviceName: "db", restart: { manager, unchecked: new Set() } } as never);
  const candidates = own.pods.flatMap((one, index) => {
    const phase = phases[index];
    const marked = { ...one, restart: phase && { text: phase, phase, id: undefined } };
    return phase === undefined ? [] : [{ zone: own, pod: marked, answer: { ...reported(one.uid), ...answer } }];
  });
  const decided = decide({ ...group({ zones: [own] }), candidates, claims: [], underWay: undefined } as never);
  if (decided.kind === "wait") return decided.guard;
  const [target] = decided.targets as readonly {
    readonly pod: Pod;
    readonly claim: { readonly mode: string; readonly terms: string };
  }[];
  return target && [target.pod.name, target.claim.mode, target.claim.terms].join(" ");
}

test("a restart in its turn is asked for, of the highest ordinal first, and one that a person wants now comes before it", () => {
  const [turn, now] = ["schedule-rolling", "schedule"] as const;
  assert.equal(next("nnn", [turn, turn, turn]), "a-2 rolling asked");
  assert.equal(next("nnn", [turn, now, turn]), "a-1 single announced");
  assert.equal(next("nnn", [undefined, undefined, undefined]), undefined);
});

test("no pod overtakes the one whose turn it is, whichever rule it waits for", () => {
  const [turn] = ["schedule-rolling"] as const;
  assert.equal(next("nno", [turn, turn, turn]), "rollout-due");
  assert.equal(next("nxn", [turn, undefined, turn]), "budget");
  assert.equal(next("nwn", [turn, turn, turn]), "a-1 rolling asked", "the pod that is down is the first");
  assert.equal(next("nnn", [turn, turn, turn], { state: "away" }), "manager-busy");
});

test("a pod that is down goes before another one that is down and waits for its rollout, and a pod that runs does not", () => {
  const [turn] = ["schedule-rolling"] as const;
  assert.equal(next("nwx", [turn, turn, turn]), "a-1 rolling asked");
  assert.equal(next("nnx", [turn, turn, turn]), "rollout-due");
  assert.equal(next("now", [turn, turn, turn]), "a-2 rolling asked");
  assert.equal(next("wno", [undefined, turn, turn]), "budget", "the pod whose turn it is runs");
  assert.equal(next("xnx", [turn, turn, turn]), "rollout-due", "both wait for it");
  assert.equal(next("nwx", [turn, turn, turn], { state: "away" }), "rollout-due", "the reason of the first is shown");
});

test("restart-failed: no process restarts in its turn beside one that has failed, but one that a person wants now does", () => {
  assert.equal(next("nnn", ["failed", undefined, "schedule-rolling"]), "restart-failed");
  assert.equal(next("nnn", ["failed", undefined, "schedule"]), "a-2 single announced");
  assert.equal(next("nnn", ["failed", undefined, undefined]), undefined);
});

test("stop, start and cancel without a restart are taken off, and failed stays", () => {
  for (const phase of ["stop", "start", "cancel"] as const) {
    const [target] = verdict(["a-1"], { phase }).targets;
    assert.equal((target as { readonly kind: string } | undefined)?.kind, "clear", phase);
  }
  assert.deepEqual(verdict(["a-1"], { phase: "failed" }).targets, []);
});
