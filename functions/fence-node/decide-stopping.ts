/** A fence until there is evidence that the fenced boot is over: it is claimed, the Node tainted, the agent told. Pure. */

import { type FenceEvidence, fenceConfirmed, fenceTaint } from "../shared/annotations/fencing.ts";
import { decideEvidence, isBack } from "./decide-evidence.ts";
import { decideLeftover } from "./decide-leftover.ts";
import type { AgentSeen, FenceSnapshot, FenceVerdict, NodeSeen, RecordSeen } from "./snapshot.ts";

/** How often an armed fence is reconciled, in milliseconds. */
const armedRequeueMs = 3_000;
/** How soon a fence is reconciled again that waits for a person or for another tool, in milliseconds. */
const heldRequeueMs = 10_000;
/** So long the agent may name another boot than the Node does before the fence is armed all the same, in milliseconds. */
const bootsDifferForMs = 60_000;

/** Nothing has happened to the node: what does not ask for the fence any more takes it back. */
export function decideClaimed(snapshot: FenceSnapshot, record: RecordSeen): FenceVerdict {
  const { node, agent, name } = snapshot;
  if (isArmedFor(agent, record)) return entering(record, "armed", `the fence is armed for the agent of ${name}`);
  if (node?.mark === undefined || node.isNever)
    return takeBack(snapshot, record, `${name} is not to be fenced any more`);
  if (node.systemUuid !== record.systemUuid) return takeBack(snapshot, record, `another machine is called ${name} now`);
  if (isBack(node, record)) return stopping(record, "boot-id", `${name} was started anew before its fence was armed`);
  const held = heldBefore(name, node);
  if (held !== undefined) return held;
  if (!node.hasFenceTaint) return tainting(name, node, record);
  if (agent === undefined) return entering(record, "armed", `${name} has no agent that could reset it`);
  const isUnclear = agent.bootId !== record.bootId && snapshot.nowMs < record.sinceMs + bootsDifferForMs;
  if (isUnclear) {
    const message = `the Node ${name} and its agent name different boots: for ${bootsDifferForMs / 1000} s the fence waits until they agree`;
    return holding("boot-unclear", message, armedRequeueMs);
  }
  return arming(name, agent, record);
}

/** What holds a fence before anything has happened to the node. */
function heldBefore(name: string, { foreignFence, isInMaintenance }: NodeSeen): FenceVerdict | undefined {
  if (foreignFence !== undefined) {
    return holding("foreign-fence", `another tool fences ${name}: it has the taint ${foreignFence}`, heldRequeueMs);
  }
  if (!isInMaintenance) return undefined;
  return holding("maintenance", `the condition MaintenanceInProgress of ${name} is True`, heldRequeueMs);
}

/** The node may have stopped feeding its watchdog, so that nothing but evidence ends this phase. */
export function decideArmed(snapshot: FenceSnapshot, record: RecordSeen): FenceVerdict {
  const { node, agent, name, bound } = snapshot;
  if (node === undefined) {
    if (bound.length === 0) return entering(record, "recovering", `the Node ${name} and all of its pods are gone`);
    const message = `the Node ${name} was deleted, and pods are bound to it: the fence ends when it registers again, or when they are gone`;
    return holding("node-gone", message, heldRequeueMs);
  }
  const evidence = decideEvidence(node, record);
  if (evidence.kind === "stopped") return stopping(record, evidence.by, `${name} has stopped: ${evidence.message}`);
  if (!node.hasFenceTaint) return tainting(name, node, record);
  if (agent !== undefined && !isArmedFor(agent, record)) return arming(name, agent, record);
  if (evidence.kind === "held") return holding(evidence.hold, evidence.message, armedRequeueMs);
  return waitingForEvidence(name, agent);
}

function waitingForEvidence(name: string, agent: AgentSeen | undefined): FenceVerdict {
  const ends = `The fence ends when the Node reports another boot id, or when ${fenceConfirmed.key} has its id`;
  if (agent === undefined)
    return holding("no-agent", `${name} has no agent that could reset it. ${ends}`, armedRequeueMs);
  const why = agent.why === undefined ? "" : ` (${agent.why})`;
  const message = `the agent of ${name} says that it is ${agent.mode ?? "in no mode that is known"}${why}, so that time is no evidence. ${ends}`;
  return holding("not-armed", message, armedRequeueMs);
}

/** True where this fence stands in the Lease of the agent that it was armed for. */
function isArmedFor(agent: AgentSeen | undefined, { fenceId, bootId, agent: noted }: RecordSeen): boolean {
  const { armed } = agent ?? {};
  return armed?.fenceId === fenceId && armed.bootId === bootId && agent?.uid === noted?.uid;
}

/** Arming rests on the version that the record has noted: that is the one that is written, or another look comes first. */
function arming(name: string, agent: AgentSeen, record: RecordSeen): FenceVerdict {
  const { agent: noted } = record;
  const isNoted = noted?.uid === agent.uid && noted.resourceVersion === agent.resourceVersion;
  const message = `the agent of ${name} is told to let the watchdog reset it`;
  if (isNoted) return { guard: "arming", message, step: { kind: "arm", record, agent }, requeueAfterMs: undefined };
  return { guard: "arming", message, step: { kind: "note-agent", record, agent }, requeueAfterMs: undefined };
}

function tainting(name: string, node: NodeSeen, record: RecordSeen): FenceVerdict {
  const message = `${name} gets the taint ${fenceTaint.key}: no new pod may come`;
  return { guard: "tainting", message, step: { kind: "taint", node, record }, requeueAfterMs: undefined };
}

/** The mark stays where there is one: it asks for another fence, or for one that is not wanted now. */
function takeBack(snapshot: FenceSnapshot, record: RecordSeen, why: string): FenceVerdict {
  const { message, step } = decideLeftover(snapshot, { fenceId: record.fenceId, keepsMark: true }) ?? {
    message: "its record goes",
    step: { kind: "end", record },
  };
  return { guard: "taking-back", message: `${why}: ${message}`, step, requeueAfterMs: undefined };
}

function stopping(record: RecordSeen, evidence: FenceEvidence, message: string): FenceVerdict {
  return {
    guard: "stopped",
    message,
    step: { kind: "enter", record, phase: "stopped", evidence },
    requeueAfterMs: undefined,
  };
}

function entering(record: RecordSeen, phase: RecordSeen["phase"], message: string): FenceVerdict {
  return { guard: phase, message, step: { kind: "enter", record, phase }, requeueAfterMs: undefined };
}

function holding(hold: string, message: string, requeueAfterMs: number): FenceVerdict {
  return { guard: hold, message, step: undefined, requeueAfterMs, hold };
}
