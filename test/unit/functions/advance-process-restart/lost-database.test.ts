/** A database that cannot take what a restart restricts: the process is stopped all the same only where it does not run. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decideStep, phases, type StepView } from "../../../../functions/advance-process-restart/decide-step.ts";
import { claimOf, nowMs, pod, statefulSet } from "../advance-zone-rollout/given.ts";
import { report } from "./given.ts";

const lost = { unknown: "no pod answers", isLost: true } as const;

/** What follows for a process in this state, whose claim was written so long ago. */
function nextOf(state: string, sinceMs: number, restriction: StepView["restriction"] = lost): string {
  const [id, phase] = ["restart-1", phases.restricting];
  const own = { id, phase, epoch: 5, uids: { "a-0": "uid-of-a-0" }, stampMs: nowMs - sinceMs };
  const claim = claimOf("a:0", "process", own);
  const one = pod("a-0", { readySinceMs: undefined, restart: { text: "stop", phase: "stop", id } });
  const where = { statefulSet: statefulSet("a"), pods: new Map([[0, one]]), volumes: new Map(), isAnchored: true };
  const answer = report("a-0", { state, processId: undefined });
  const step = decideStep({ claim, where, answer, nowMs, ...(restriction && { restriction }) });
  if (step.kind === "call") return step.changes.phase ?? "";
  return step.kind === "wait" ? step.guard : step.kind;
}

test("a process that does not run is restarted although no node of its database answers, and 7 s are waited for one", () => {
  for (const state of ["waiting", "startFailed", "failed", "stopped", "killed"]) {
    assert.equal(nextOf(state, 7_000), phases.flushing, state);
    assert.equal(nextOf(state, 6_999), "database-unknown", state);
    assert.equal(nextOf(state, 900_000), phases.flushing, `${state}: it has not failed`);
  }
});

test("a process that runs or ends, or may still run, is not stopped before its database has the marker", () => {
  for (const state of ["started", "stopping", "stopFailed", "killing", "killFailed", "away"])
    assert.equal(nextOf(state, 7_000), "database-unknown", state);
});

test("a node that answers, though it cannot take the marker, is waited for", () => {
  assert.equal(nextOf("failed", 7_000, { unknown: "it answered 503" }), "database-unknown");
  assert.equal(nextOf("failed", 7_000, { unknown: "it answered 503", isLost: false }), "database-unknown");
  assert.equal(nextOf("failed", 6_999, { value: false }), phases.restricting);
});
