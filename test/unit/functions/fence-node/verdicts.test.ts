/** What the verdict of a fence says besides its guard: the step, the message, and when the node is reconciled again. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { needsBound } from "../../../../functions/fence-node/decide.ts";
import type { AgentSeen, FenceSnapshot, NodeSeen } from "../../../../functions/fence-node/snapshot.ts";
import {
  agent,
  armed,
  armedAgent,
  away,
  back,
  claimed,
  decided,
  inPhase,
  noted,
  othersTaint,
  shown,
  tainted,
} from "./fence-snapshots.ts";

test("the mark goes with a fence that has ended, and stays with one that is taken back", () => {
  const ended = decided({ record: inPhase("recovering"), node: back }).step;
  assert.deepEqual(ended, { kind: "clean-node", node: back, keepsMark: false });
  const node = { ...tainted, isNever: true };
  assert.deepEqual(decided({ record: claimed, node }).step, { kind: "clean-node", node, keepsMark: true });
});

test("each kind of evidence is named in the record", () => {
  const evidenceOf = (node: NodeSeen) => {
    const { step } = decided({ record: armed, node, agent: armedAgent });
    return step?.kind === "enter" ? step.evidence : undefined;
  };
  assert.equal(evidenceOf(back), "boot-id");
  assert.equal(evidenceOf({ ...tainted, confirmed: "fence-1" }), "confirmed");
  assert.equal(evidenceOf(othersTaint()), "out-of-service");
  assert.equal(evidenceOf({ ...back, systemUuid: "machine-2", confirmed: "fence-1" }), "confirmed");
});

test("no-agent and another-machine hold a fence, and say what ends the wait", () => {
  const alone = decided({ record: armed, node: tainted, agent: undefined });
  assert.deepEqual([alone.guard, alone.hold], ["no-agent", "no-agent"]);
  assert.match(alone.message, /fence-confirmed/);
  const other = decided({ record: armed, node: { ...back, systemUuid: "machine-2" }, agent: armedAgent });
  assert.deepEqual([other.guard, other.hold], ["another-machine", "another-machine"]);
});

test("pods are listed only where a decision reads them", () => {
  assert.equal(needsBound({ record: inPhase("evacuating"), node: tainted }), true);
  assert.equal(needsBound({ record: armed, node: undefined }), true);
  assert.equal(needsBound({ record: armed, node: tainted }), false);
  assert.equal(needsBound({ record: claimed, node: undefined }), false);
  assert.equal(needsBound({ record: undefined, node: undefined }), false);
  assert.equal(needsBound({ record: "unreadable", node: undefined }), false);
});

test("a message names five of the pods that are left, and counts the others", () => {
  const bound = Array.from({ length: 7 }, (_, ordinal) => `pod db/a-${ordinal}`);
  const { message } = decided({ record: inPhase("evacuating"), node: away("evacuating"), bound });
  assert.equal(message, "7 are left on n: pod db/a-0, pod db/a-1, pod db/a-2, pod db/a-3, pod db/a-4 and 2 more");
});

test("a message names all pods that are left if there are five", () => {
  const bound = Array.from({ length: 5 }, (_, ordinal) => `pod db/a-${ordinal}`);
  const { message } = decided({ record: inPhase("evacuating"), node: away("evacuating"), bound });
  assert.match(message, /pod db\/a-3, pod db\/a-4$/);
});

test("the Node says again what differs from the record: the id, the phase or the hold", () => {
  const record = { ...armed, hold: "not-armed" };
  const right = shown("armed", "not-armed");
  assert.equal(decided({ record, node: right, agent: armedAgent }).step, undefined);
  for (const wrong of [{ fenceId: "fence-0" }, { phase: "claimed" }, { hold: "no-agent" }]) {
    const node = { ...right, shown: { ...right.shown, ...wrong } };
    const { step } = decided({ record, node, agent: armedAgent });
    assert.deepEqual(step, { kind: "show", node, shown: right.shown });
  }
});

test("a fence that is armed again notes the agent as it is now, and a watchdog that did nothing stays distrusted", () => {
  const modeAfter = (was: "armed" | "explicit-only", is: "armed" | "explicit-only") => {
    const record = { ...armed, agent: { ...noted, mode: was } };
    const { step } = decided({ record, node: tainted, agent: { ...agent, resourceVersion: "32", mode: is } });
    return step?.kind === "note-agent" ? step.agent.mode : step?.kind;
  };
  assert.equal(modeAfter("armed", "armed"), "armed");
  assert.equal(modeAfter("armed", "explicit-only"), "explicit-only");
  assert.equal(modeAfter("explicit-only", "explicit-only"), "explicit-only");
  assert.equal(modeAfter("explicit-only", "armed"), "explicit-only");
});

test("a fence for which time is no evidence names the reason: a watchdog that did nothing, or what the agent says of itself", () => {
  const why = (was: "armed" | "explicit-only", change: Partial<AgentSeen>) =>
    decided({
      record: { ...armed, agent: { ...noted, mode: was } },
      node: tainted,
      agent: { ...armedAgent, ...change },
    }).message;
  assert.match(why("explicit-only", { mode: "armed" }), /^the watchdog of n did not reset it in time, /);
  assert.match(why("armed", { mode: "armed", why: undefined }), /^the agent of n says that it is armed, so /);
  assert.match(why("explicit-only", {}), /^the agent of n says that it is explicit-only \(no-peers\), so /);
  assert.match(why("armed", {}), /^the agent of n says that it is explicit-only \(no-peers\), so /);
  assert.match(why("armed", { mode: undefined }), /^the agent of n says that it is in no mode that is known /);
});

test("a wait says when the node is reconciled again", () => {
  const after = (changes: Partial<FenceSnapshot>) => decided(changes).requeueAfterMs;
  const seconds = (count: number) => count * 1_000;
  assert.equal(after({ record: "unreadable" }), seconds(10));
  assert.equal(after({ record: claimed, node: { ...tainted, isInMaintenance: true } }), seconds(10));
  assert.equal(after({ record: claimed, node: { ...tainted, foreignFence: "x" } }), seconds(10));
  assert.equal(after({ record: claimed, node: tainted, agent: { ...agent, bootId: "boot-0" } }), seconds(3));
  assert.equal(after({ record: armed, node: undefined, bound: ["pod db/a-0"] }), seconds(10));
  assert.equal(after({ record: armed, node: tainted, agent: armedAgent }), seconds(3));
  assert.equal(after({ record: armed, node: tainted, agent: undefined }), seconds(3));
  assert.equal(after({ record: armed, node: { ...back, systemUuid: "machine-2" }, agent: armedAgent }), seconds(3));
  assert.equal(after({ record: inPhase("evacuating"), node: away("evacuating"), bound: ["pod db/a-0"] }), seconds(3));
  assert.equal(after({ record: inPhase("fenced"), node: away("fenced") }), seconds(10));
  assert.equal(after({ record: inPhase("recovering"), node: { ...back, isReady: false } }), seconds(10));
});
