/**
 * What is done next about a node that is to be fenced, or is: one step, or a wait with its reason. Each step is one conditional
 * write, and the node is observed again after it. So a process may end after any of them. Pure.
 */

import { type FencePhase, fenceNever } from "../shared/annotations/fencing.ts";
import { isReservedName, longestNodeName, slotsName } from "../shared/annotations/fencing-leases.ts";
import { formatPeers } from "../shared/annotations/fencing-peers.ts";
import { decideRelease } from "./decide-brakes.ts";
import { decideDeleted, decideDeleting } from "./decide-deletion.ts";
import { decideWithdrawing } from "./decide-ledgers.ts";
import { decideLeftover } from "./decide-leftover.ts";
import { decideEvacuating, decideFenced, decideRecovering, decideStopped } from "./decide-stopped.ts";
import { decideArmed, decideClaimed } from "./decide-stopping.ts";
import type { FenceSnapshot, FenceVerdict, NodeSeen, RecordSeen, ShownFence } from "./snapshot.ts";

/** True where the pods and the VolumeAttachments of the node have to be known. */
export function needsBound({ record, node }: Pick<FenceSnapshot, "record" | "node">): boolean {
  if (typeof record !== "object") return false;
  const { phase } = record;
  return phase === "evacuating" || (node === undefined && (phase === "armed" || phase === "deleted"));
}

/** @param isReleaseRefused the API server does not let the fence give its slot back: the fence goes on with it */
export function decide(snapshot: FenceSnapshot, isReleaseRefused = false): FenceVerdict {
  const { record, name } = snapshot;
  if (record === "unreadable") {
    const message = `this version of Sluice cannot read the record of the fence of ${name}, and leaves it as it is`;
    return { guard: "record-unreadable", message, step: undefined, requeueAfterMs: blockedRequeueMs };
  }
  if (record === undefined) return decideUnclaimed(snapshot);
  const release = isReleaseRefused ? undefined : decideRelease(snapshot, record);
  const hasEvidence = record.phase !== "claimed" && record.phase !== "armed";
  if (release !== undefined && hasEvidence) return release;
  const verdict = phases[record.phase](snapshot, record);
  if (release !== undefined && verdict.step?.kind === "end") return release;
  return verdict.step === undefined ? withNotes(snapshot, record, verdict) : verdict;
}

/** How soon a fence is reconciled again that waits for a person, in milliseconds: what ends the wait may send no event. */
const blockedRequeueMs = 10_000;

const phases: Readonly<Record<FencePhase, (snapshot: FenceSnapshot, record: RecordSeen) => FenceVerdict>> = {
  claimed: decideClaimed,
  armed: decideArmed,
  stopped: decideStopped,
  evacuating: decideEvacuating,
  deleting: decideDeleting,
  deleted: decideDeleted,
  fenced: decideFenced,
  recovering: decideRecovering,
};

/**
 * The node has no record: it gets one if it has the mark, and otherwise loses what a fence may have left, and its agent gets
 * peers.
 */
function decideUnclaimed(snapshot: FenceSnapshot): FenceVerdict {
  const verdict = decideBeginning(snapshot);
  if (verdict.step !== undefined) return verdict;
  const leftover = decideWithdrawing(snapshot) ?? decideLeftover(snapshot, { fenceId: undefined, keepsMark: true });
  return leftover === undefined ? (decidePeers(snapshot) ?? verdict) : { ...verdict, ...leftover, guard: "cleaning" };
}

/** Never while the node has a record: the fence counts by the peers that the agent had when it was armed. */
function decidePeers({ agent, proposal, name }: FenceSnapshot): FenceVerdict | undefined {
  if (agent === undefined || proposal === undefined) return undefined;
  if (formatPeers(agent.proposed ?? agent.peers) === formatPeers(proposal)) return undefined;
  const message = `${proposal.length} peers are proposed to the agent of ${name}`;
  return { guard: "proposing", message, step: { kind: "propose", agent, peers: proposal }, requeueAfterMs: undefined };
}

function decideBeginning({ node, name }: FenceSnapshot): FenceVerdict {
  if (node?.unclearMark !== undefined && node.mark === undefined) return idle("machine-unclear", node.unclearMark);
  if (node?.mark === undefined) return idle("not-marked", `${name} has no mark`);
  if (node.isNever) return idle("never-fenced", `${name} has the mark, and ${fenceNever.key} excludes it`);
  if (isReservedName(name)) {
    return idle(
      "name-reserved",
      `a Node cannot be fenced as ${name}: the Lease ${slotsName} has the slots of all fences`,
    );
  }
  if (name.length > longestNodeName) {
    const message = `the name of ${name} has more than ${longestNodeName} characters: its agent can have no Lease`;
    return idle("name-too-long", message);
  }
  if (node.bootId === "" || node.systemUuid === "") {
    return idle("boot-unknown", `the Node ${name} names no boot or no machine: nothing runs there yet`);
  }
  const message = `a fence of ${name} begins: ${node.mark}`;
  return { guard: "claiming", message, step: { kind: "claim", node }, requeueAfterMs: undefined };
}

function idle(guard: string, message: string): FenceVerdict {
  return { guard, message, step: undefined, requeueAfterMs: undefined };
}

/** Where nothing else is to be done, the record and then the Node say what is waited for. */
function withNotes(snapshot: FenceSnapshot, record: RecordSeen, verdict: FenceVerdict): FenceVerdict {
  const { node } = snapshot;
  const { hold } = verdict;
  if (hold !== record.hold) return { ...verdict, step: { kind: "note-hold", record, hold } };
  // What its Node shows is taken away before the claims of a fence settle.
  if (record.settlingMs !== undefined) return verdict;
  const shown: ShownFence = { fenceId: record.fenceId, phase: record.phase, hold };
  if (node === undefined || isShown(node, shown)) return verdict;
  return { ...verdict, step: { kind: "show", node, shown } };
}

function isShown({ shown }: NodeSeen, { fenceId, phase, hold }: ShownFence): boolean {
  return shown.fenceId === fenceId && shown.phase === phase && shown.hold === hold;
}
