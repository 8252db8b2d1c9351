/** Whether the fenced boot is over. Each kind of evidence is enough, and none of them is a sum of time-outs. Pure. */

import { type FenceEvidence, fenceConfirmed } from "../shared/annotations/fencing.ts";
import { decideTime, type TimeView } from "./decide-time.ts";
import type { NodeSeen, RecordSeen } from "./snapshot.ts";

/**
 * A Node whose kubelet reports for so long after the time is over has not been reset, in milliseconds. It is longer than
 * Kubernetes takes to notice that a kubelet is silent.
 */
const silentAfterMs = 300_000;

/** `watchdog-silent`: the watchdog did not reset the node, so that time can be evidence no more. */
export type EvidenceVerdict =
  | { readonly kind: "stopped"; readonly by: FenceEvidence; readonly message: string }
  | { readonly kind: "blocked"; readonly guard: string; readonly message: string; readonly forMs?: number }
  | { readonly kind: "watchdog-silent" }
  | { readonly kind: "waiting"; readonly message: string; readonly forMs: number }
  | { readonly kind: "none" };

/** @param time undefined where time is no evidence for the fence */
export function decideEvidence(node: NodeSeen, record: RecordSeen, time: TimeView | undefined): EvidenceVerdict {
  const isSameMachine = node.systemUuid === record.systemUuid;
  if (isBack(node, record)) {
    return { kind: "stopped", by: "boot-id", message: "its Node reports another boot id" };
  }
  if (node.confirmed === record.fenceId) {
    return { kind: "stopped", by: "confirmed", message: `${fenceConfirmed.key} has the id of the fence` };
  }
  if (node.outOfService === "others") {
    return {
      kind: "stopped",
      by: "out-of-service",
      message: "another client has put the taint out-of-service on its Node",
    };
  }
  if (isSameMachine) return time === undefined ? { kind: "none" } : evidenceOf(time);
  const message = `another machine has registered under its name: its boot id is no evidence, and ${fenceConfirmed.key} ends the fence`;
  return { kind: "blocked", guard: "another-machine", message };
}

const confirmInstead = `${fenceConfirmed.key} ends the fence once a person knows that the machine is off`;

function evidenceOf(view: TimeView): EvidenceVerdict {
  const verdict = decideTime(view);
  switch (verdict.kind) {
    case "no-evidence":
      return { kind: "none" };
    case "waiting": {
      const seconds = Math.ceil(verdict.forMs / 1_000);
      return { kind: "waiting", forMs: verdict.forMs, message: `time is evidence in ${seconds} s at the earliest` };
    }
    case "alive": {
      if (verdict.overMs >= silentAfterMs) return { kind: "watchdog-silent" };
      const message = `its fence has been armed for long enough, and the kubelet of its Node reports: it has not stopped. Reset it by hand; ${confirmInstead}`;
      return { kind: "blocked", guard: "still-alive", message };
    }
    case "no-quorum": {
      const { inContact, needed } = verdict;
      const message = `${inContact} of its ${view.peers.length} peers have been in contact with the API server all the while, and ${needed} must be: the others may have excused it. The fence goes on when the partition ends; ${confirmInstead}`;
      return { kind: "blocked", guard: "quorum", message, forMs: betweenObservationsMs(view) };
    }
    case "stopped": {
      const { afterMs, inContact } = verdict;
      const message = `its fence has been armed for ${afterMs / 1_000} s, and ${inContact} of its ${view.peers.length} peers were in contact with the API server all the while`;
      return { kind: "stopped", by: "time", message };
    }
  }
}

/** A wrong Lease may name any time, and must not keep this process busy. In milliseconds. */
const leastBetweenMs = 250;

/** Several observations have to lie in the time in which one counts: two renewals lie between two of them. */
function betweenObservationsMs({ peers }: TimeView): number {
  const freshMs = Math.min(...peers.flatMap((peer) => peer.freshMs ?? []));
  return Math.max(leastBetweenMs, freshMs / 3);
}

/** True where the same machine runs another boot than the one that is fenced: its kubelet has its pods. */
export function isBack(node: NodeSeen | undefined, record: RecordSeen): boolean {
  return node?.systemUuid === record.systemUuid && hasAnotherBoot(node, record);
}

/**
 * True where the Node is of another boot, of the same machine or of one that has its name now. Without evidence that says nothing
 * about the fenced boot. After it the kubelet of the other boot has the pods.
 */
export function hasAnotherBoot(node: NodeSeen | undefined, { bootId }: RecordSeen): boolean {
  return node !== undefined && node.bootId !== "" && node.bootId !== bootId;
}
