/** A fence until there is evidence that the fenced boot is over: it is claimed, the Node tainted, the agent armed. Pure. */

import { fenceConfirmed, fenceTaint, formatArmed, type NotedAgent } from "../shared/annotations/fencing.ts";
import { formatPeers } from "../shared/annotations/fencing-peers.ts";
import { decideSlot } from "./decide-brakes.ts";
import { decideEvidence, isBack } from "./decide-evidence.ts";
import { decideAnnouncing, decideWithdrawing } from "./decide-ledgers.ts";
import { decideLeftover } from "./decide-leftover.ts";
import { decideUnmarking } from "./decide-unmarking.ts";
import type { AgentSeen, FenceSnapshot, FenceStep, FenceVerdict, NodeSeen, RecordSeen } from "./snapshot.ts";
import { enter, onRecord, wait } from "./verdicts.ts";

/** How often an armed fence is reconciled, in milliseconds. */
const armedRequeueMs = 3_000;
/** How soon a fence is reconciled again that waits for a person or for another tool, in milliseconds. */
const blockedRequeueMs = 10_000;
/** So long the agent may name another boot than the Node does before the fence is armed all the same, in milliseconds. */
const bootsDifferForMs = 60_000;

/** Nothing has happened to the node: what does not ask for the fence any more takes it back. */
export function decideClaimed(snapshot: FenceSnapshot, record: RecordSeen): FenceVerdict {
  const { node, agent, name } = snapshot;
  if (isArmedFor(agent, record)) return enter(record, "armed", `the fence is armed for the agent of ${name}`);
  if (node?.mark === undefined || node.isNever)
    return takeBack(snapshot, record, `${name} is not to be fenced any more`);
  if (node.systemUuid !== record.systemUuid) return takeBack(snapshot, record, `another machine is called ${name} now`);
  if (isBack(node, record))
    return enter(record, "stopped", `${name} was started anew before its fence was armed`, "boot-id");
  const beganAgain = record.evidence !== undefined;
  if (beganAgain && node.isReady)
    return takeBack(snapshot, record, `${name} is Ready before it was fenced again`, { keepsMark: false });
  const blocked = blockedBefore(name, node);
  const before = blocked ?? decideSlot(snapshot, record) ?? decideAnnouncing(snapshot, record);
  if (before !== undefined) return before;
  if (!node.hasFenceTaint) return tainting(name, node, record);
  if (agent === undefined) return enter(record, "armed", `${name} has no agent that could reset it`);
  const isUnclear = agent.bootId !== record.bootId && snapshot.nowMs < record.sinceMs + bootsDifferForMs;
  if (isUnclear) {
    const message = `the Node ${name} and its agent name different boots: for ${bootsDifferForMs / 1000} s the fence waits until they agree`;
    return onRecord(wait("boot-unclear", message, armedRequeueMs));
  }
  return arming(name, agent, record);
}

/** What holds a fence before anything has happened to the node. */
function blockedBefore(name: string, { foreignFence, isInMaintenance }: NodeSeen): FenceVerdict | undefined {
  if (foreignFence !== undefined) {
    return onRecord(
      wait("foreign-fence", `another tool fences ${name}: it has the taint ${foreignFence}`, blockedRequeueMs),
    );
  }
  if (!isInMaintenance) return undefined;
  return onRecord(wait("maintenance", `the condition MaintenanceInProgress of ${name} is True`, blockedRequeueMs));
}

/** The node may have stopped feeding its watchdog, so that nothing but evidence ends this phase. */
export function decideArmed(snapshot: FenceSnapshot, record: RecordSeen): FenceVerdict {
  const { node, agent, name, bound } = snapshot;
  if (node === undefined) {
    if (bound.length === 0) return enter(record, "recovering", `the Node ${name} and all of its pods are gone`);
    const message = `the Node ${name} was deleted, and pods are bound to it: the fence ends when it registers again, or when they are gone`;
    return onRecord(wait("node-gone", message, blockedRequeueMs));
  }
  const evidence = decideEvidence(node, record, snapshot.time);
  if (evidence.kind === "stopped")
    return enter(record, "stopped", `${name} has stopped: ${evidence.message}`, evidence.by);
  if (!node.hasFenceTaint) return tainting(name, node, record);
  if (agent !== undefined && !isArmedFor(agent, record)) return arming(name, distrusted(agent, record), record);
  if (evidence.kind === "watchdog-silent" && agent !== undefined) return distrusting(name, agent, record);
  if (evidence.kind === "blocked")
    return onRecord(
      wait(evidence.guard, `${name}: ${evidence.message}`, Math.min(armedRequeueMs, evidence.forMs ?? armedRequeueMs)),
    );
  if (evidence.kind === "waiting") {
    const message = `the fence of ${name} is armed, and ${evidence.message}`;
    return wait("armed", message, Math.min(armedRequeueMs, evidence.forMs));
  }
  return waitingForEvidence(name, agent, record);
}

/**
 * The record says that time is no evidence. Otherwise this node would count as reset once it is cut off, while its watchdog does
 * nothing.
 */
function distrusting(name: string, agent: AgentSeen, record: RecordSeen): FenceVerdict {
  const message = `the watchdog of ${name} has not reset it: time is no evidence for it any more`;
  const step = { kind: "note-agent", record, agent: { ...agent, mode: "explicit-only" } } as const;
  return { guard: "still-alive", message, step, requeueAfterMs: undefined };
}

/** An armed fence is armed again without a word that it has lost. */
function distrusted(agent: AgentSeen, { agent: noted }: RecordSeen): AgentSeen {
  return noted?.mode === "explicit-only" ? { ...agent, mode: noted.mode } : agent;
}

function waitingForEvidence(name: string, agent: AgentSeen | undefined, { agent: noted }: RecordSeen): FenceVerdict {
  const ends = `The fence ends when the Node reports another boot id, or when ${fenceConfirmed.key} has its id`;
  if (agent === undefined)
    return onRecord(wait("no-agent", `${name} has no agent that could reset it. ${ends}`, armedRequeueMs));
  if (agent.mode === "armed" && noted?.mode === "explicit-only") {
    const message = `the watchdog of ${name} did not reset it in time, so that time is no evidence. ${ends}`;
    return onRecord(wait("not-armed", message, armedRequeueMs));
  }
  const why = agent.why === undefined ? "" : ` (${agent.why})`;
  const message = `the agent of ${name} says that it is ${agent.mode ?? "in no mode that is known"}${why}, so that time is no evidence. ${ends}`;
  return onRecord(wait("not-armed", message, armedRequeueMs));
}

/** True where this fence stands in the Lease of the agent that it was armed for. */
export function isArmedFor(agent: AgentSeen | undefined, { fenceId, bootId, agent: noted }: RecordSeen): boolean {
  const { armed } = agent ?? {};
  return armed?.fenceId === fenceId && armed.bootId === bootId && agent?.uid === noted?.uid;
}

/**
 * Arming rests on the version that the record has noted: another version is noted first. A fence that is not armed yet may be
 * armed for a newer version as well, if that says what is noted ({@link mayStillArm}).
 */
function arming(name: string, agent: AgentSeen, record: RecordSeen): FenceVerdict {
  const { agent: noted, phase } = record;
  const isNoted =
    noted?.uid === agent.uid &&
    (noted.resourceVersion === agent.resourceVersion ||
      (phase === "claimed" && evidenceOf(noted) === evidenceOf(agent)));
  const message = `the agent of ${name} is to let the watchdog reset it`;
  if (!isNoted)
    return { guard: "arming", message, step: { kind: "note-agent", record, agent }, requeueAfterMs: undefined };
  const { resourceVersion } = noted;
  const step = { kind: "arm", record, agent: { ...agent, resourceVersion } } as const;
  return { guard: "arming", message, step, requeueAfterMs: undefined };
}

/**
 * True where an agent's Lease has changed since the decision to arm, and nothing else that arming rests on. A fence that is armed
 * already is never armed again like that: a process may count its time by the version that the record has noted.
 */
export function mayStillArm(
  { record, agent }: Pick<Extract<FenceStep, { readonly kind: "arm" }>, "record" | "agent">,
  now: { readonly record: RecordSeen; readonly agent: AgentSeen; readonly node: NodeSeen },
): boolean {
  if (record.phase !== "claimed" || !now.node.hasFenceTaint) return false;
  const isSameRecord = now.record.uid === record.uid && now.record.resourceVersion === record.resourceVersion;
  const isSameLease = now.agent.uid === agent.uid && armedText(now.agent) === armedText(agent);
  return isSameRecord && isSameLease && evidenceOf(now.agent) === evidenceOf(agent);
}

/** What evidence by time rests on. */
const evidenceOf = ({ mode, bootId, permitMs, watchdogMs, peers }: AgentSeen | NotedAgent): string =>
  JSON.stringify([mode, bootId, permitMs, watchdogMs, formatPeers(peers)]);

const armedText = ({ armed }: AgentSeen): string | undefined => armed && formatArmed(armed);

/** Also for a taint that another client has removed. */
export function tainting(name: string, node: NodeSeen, record: RecordSeen): FenceVerdict {
  const message = `${name} gets the taint ${fenceTaint.key}: no new pod may come`;
  return { guard: "tainting", message, step: { kind: "taint", node, record }, requeueAfterMs: undefined };
}

/** The mark stays where it asks for another fence, or for one that is not wanted now, and not where its fence has ended. */
function takeBack(
  snapshot: FenceSnapshot,
  record: RecordSeen,
  why: string,
  { keepsMark } = { keepsMark: true },
): FenceVerdict {
  const unmarking = keepsMark ? undefined : decideUnmarking(snapshot, "taking-back");
  if (unmarking !== undefined) return unmarking;
  const leftover = () => decideLeftover(snapshot, { fenceId: record.fenceId, keepsMark });
  const { message, step } = decideWithdrawing(snapshot) ??
    leftover() ?? {
      message: "its record goes",
      step: { kind: "end", record },
    };
  return { guard: "taking-back", message: `${why}: ${message}`, step, requeueAfterMs: undefined };
}
