/**
 * What is done next about a node that is to be fenced, or is: one step, or a wait with its reason. Each step is one conditional
 * write, and the node is observed again after it. So a process may end after any of them. Pure.
 */

import type { AgentMode, ArmedFence, FenceEvidence, FencePhase, NotedAgent } from "../shared/annotations/fencing.ts";
import { decideLeftover } from "./decide-leftover.ts";
import { decideArmed, decideClaimed } from "./decide-stopping.ts";
import { longestNodeName } from "./lease-names.ts";
import { decideEvacuating, decideFenced, decideRecovering, decideStopped } from "./decide-stopped.ts";

/** A Node as a GET has it. */
export interface NodeSeen {
  readonly uid: string;
  readonly resourceVersion: string;
  /** The reason why it is to be fenced; undefined where it has no mark. */
  readonly mark: string | undefined;
  /** The Node excludes itself, or says so in a way that does not parse. */
  readonly isNever: boolean;
  /** The fence that a person or a tool has confirmed. */
  readonly confirmed: string | undefined;
  readonly bootId: string;
  readonly systemUuid: string;
  readonly isReady: boolean;
  readonly isInMaintenance: boolean;
  readonly hasFenceTaint: boolean;
  /** Which client has put the taint `out-of-service` on it; undefined where it has none. */
  readonly outOfService: "ours" | "others" | undefined;
  /** The key of a taint by which another tool fences it; undefined where there is none. */
  readonly foreignFence: string | undefined;
  /** What it says of its fence, for people. */
  readonly shown: ShownFence;
}

export interface ShownFence {
  readonly fenceId: string | undefined;
  readonly phase: string | undefined;
  readonly hold: string | undefined;
}

/** The record of one fence. */
export interface RecordSeen {
  readonly uid: string;
  readonly resourceVersion: string;
  readonly fenceId: string;
  readonly phase: FencePhase;
  /** Since when it is in that phase, in milliseconds since the epoch, by the API server's clock. */
  readonly sinceMs: number;
  /** The boot and the machine that are to be stopped. */
  readonly bootId: string;
  readonly systemUuid: string;
  readonly hold: string | undefined;
  readonly agent: NotedAgent | undefined;
  readonly evidence: FenceEvidence | undefined;
}

/** The Lease of the agent on the node. */
export interface AgentSeen {
  readonly uid: string;
  readonly resourceVersion: string;
  /** Undefined where it says none that is known. */
  readonly mode: AgentMode | undefined;
  readonly why: string | undefined;
  readonly bootId: string | undefined;
  readonly armed: ArmedFence | undefined;
}

export interface FenceSnapshot {
  /** The API server's clock, in milliseconds since the epoch. */
  readonly nowMs: number;
  readonly name: string;
  /** Undefined where it is gone. */
  readonly node: NodeSeen | undefined;
  /** `unreadable`: there is one that this version cannot read. */
  readonly record: RecordSeen | "unreadable" | undefined;
  readonly agent: AgentSeen | undefined;
  /** Pods that are bound to the node and have to go, and VolumeAttachments of it. Empty where they need not be known. */
  readonly bound: readonly string[];
  /** The id of a fence that begins now. */
  readonly newFenceId: string;
}

export type FenceStep =
  | { readonly kind: "claim"; readonly node: NodeSeen }
  | { readonly kind: "taint"; readonly node: NodeSeen; readonly record: RecordSeen }
  | { readonly kind: "note-agent"; readonly record: RecordSeen; readonly agent: AgentSeen }
  | { readonly kind: "arm"; readonly record: RecordSeen; readonly agent: AgentSeen }
  | {
      readonly kind: "enter";
      readonly record: RecordSeen;
      readonly phase: FencePhase;
      readonly evidence?: FenceEvidence;
    }
  | { readonly kind: "note-hold"; readonly record: RecordSeen; readonly hold: string | undefined }
  | { readonly kind: "show"; readonly node: NodeSeen; readonly shown: ShownFence }
  | { readonly kind: "set-out-of-service"; readonly node: NodeSeen; readonly fenceId: string }
  | { readonly kind: "remove-out-of-service"; readonly node: NodeSeen }
  | { readonly kind: "clean-node"; readonly node: NodeSeen; readonly keepsMark: boolean }
  | { readonly kind: "disarm"; readonly agent: AgentSeen }
  | { readonly kind: "end"; readonly record: RecordSeen };

export interface FenceVerdict {
  /** A stable name: a phase, or what the fence waits for. */
  readonly guard: string;
  readonly message: string;
  readonly step: FenceStep | undefined;
  readonly requeueAfterMs: number | undefined;
  /** What holds the fence, for the record and the Node; absent: nothing does. */
  readonly hold?: string;
}

/** True where the pods and the VolumeAttachments of the node have to be known. */
export function needsBound({ record, node }: Pick<FenceSnapshot, "record" | "node">): boolean {
  if (record === undefined || record === "unreadable") return false;
  return record.phase === "evacuating" || (record.phase === "armed" && node === undefined);
}

export function decide(snapshot: FenceSnapshot): FenceVerdict {
  const { record, name } = snapshot;
  if (record === "unreadable") {
    const message = `this version of Sluice cannot read the record of the fence of ${name}, and leaves it as it is`;
    return { guard: "record-unreadable", message, step: undefined, requeueAfterMs: heldRequeueMs };
  }
  if (record === undefined) return decideUnclaimed(snapshot);
  const verdict = phases[record.phase](snapshot, record);
  return verdict.step === undefined ? withNotes(snapshot, record, verdict) : verdict;
}

/** How soon a fence that waits for a person is looked at again, in milliseconds: no event need tell of what ends the wait. */
const heldRequeueMs = 10_000;

const phases: Readonly<Record<FencePhase, (snapshot: FenceSnapshot, record: RecordSeen) => FenceVerdict>> = {
  claimed: decideClaimed,
  armed: decideArmed,
  stopped: decideStopped,
  evacuating: decideEvacuating,
  fenced: decideFenced,
  recovering: decideRecovering,
};

/** The node has no record: it gets one if it has the mark, and otherwise loses what a fence may have left. */
function decideUnclaimed(snapshot: FenceSnapshot): FenceVerdict {
  const { node, name } = snapshot;
  const mayBegin = node?.mark !== undefined && !node.isNever && name.length <= longestNodeName;
  if (mayBegin) {
    const message = `a fence of ${name} begins: ${node.mark}`;
    return { guard: "claiming", message, step: { kind: "claim", node }, requeueAfterMs: undefined };
  }
  const leftover = decideLeftover(snapshot, { fenceId: undefined, keepsMark: true });
  if (leftover !== undefined) return { ...leftover, guard: "cleaning", requeueAfterMs: undefined };
  if (node?.mark === undefined) return idle("not-marked", `${name} has no mark`);
  if (node.isNever) return idle("never-fenced", `${name} has the mark, and sluice.dev/fence excludes it`);
  return idle("name-too-long", `the name of ${name} has more than ${longestNodeName} characters: no agent can have a Lease`);
}

function idle(guard: string, message: string): FenceVerdict {
  return { guard, message, step: undefined, requeueAfterMs: undefined };
}

/** Where nothing else is to be done, the record and then the Node say what is waited for. */
function withNotes(snapshot: FenceSnapshot, record: RecordSeen, verdict: FenceVerdict): FenceVerdict {
  const { node } = snapshot;
  const { hold } = verdict;
  if (hold !== record.hold) return { ...verdict, step: { kind: "note-hold", record, hold } };
  const shown: ShownFence = { fenceId: record.fenceId, phase: record.phase, hold };
  const isShown = node?.shown.fenceId === shown.fenceId && node.shown.phase === shown.phase && node.shown.hold === hold;
  if (node === undefined || isShown) return verdict;
  return { ...verdict, step: { kind: "show", node, shown } };
}
