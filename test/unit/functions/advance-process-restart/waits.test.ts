/** What a restart that is under way waits for, by what its process manager reports. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decideStep } from "../../../../functions/advance-process-restart/decide-step.ts";
import { claimOf, pod, statefulSet } from "../advance-zone-rollout/given.ts";

const nowMs = 1_000_000;
const { uid } = pod("a-1");
const started = { podUid: uid, state: "started", processId: "7 1", attempts: 0, mountedSum: undefined };

/** The guard of a restart in a phase, after its process manager has reported this. */
function guardOf(phase: "stopping" | "starting", answer: object, names = ["a-1"]): string | undefined {
  const restart = { phase: phase === "stopping" ? "stop" : "start", id: "restart-1", text: phase };
  const pods = new Map(names.map((name) => [1, { ...pod(name), restart }]));
  const processes = new Map();
  const times = { phase, epoch: 5, stampMs: nowMs - 1, sinceMs: nowMs - 1, uids: { "a-1": uid } };
  const claim = { ...claimOf("a:1", "process"), ...times, id: "restart-1", processes: { "a-1": "7 1" } };
  const where = {
    statefulSet: statefulSet("a", { replicas: 3 }),
    pods,
    processes,
    volumes: new Map(),
    isAnchored: true,
  };
  const confirmed = { ...started, lastEpoch: 5, restartId: "restart-1", lastCommand: "stop", ...answer };
  const step = decideStep({ claim, where, answer: confirmed, nowMs } as never);
  return step.kind === "wait" ? step.guard : step.kind;
}

test("a restart that is under way waits for its call, for the stop and for the start, with a guard of its own for each", () => {
  assert.equal(guardOf("stopping", { lastEpoch: 4 }), "restart-calling");
  assert.equal(guardOf("stopping", { state: "stopping" }), "restart-stopping");
  assert.equal(guardOf("starting", { state: "starting", attempts: 1 }), "restart-starting");
  assert.equal(guardOf("stopping", {}, []), "pod-missing");
});
