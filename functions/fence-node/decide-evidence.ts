/** Whether the fenced boot is over. Each kind of evidence is enough, and none of them is a sum of time-outs. Pure. */

import { type FenceEvidence, fenceConfirmed } from "../shared/annotations/fencing.ts";
import type { NodeSeen, RecordSeen } from "./snapshot.ts";

export type EvidenceVerdict =
  | { readonly kind: "stopped"; readonly by: FenceEvidence; readonly message: string }
  | { readonly kind: "blocked"; readonly guard: string; readonly message: string }
  | { readonly kind: "none" };

export function decideEvidence(node: NodeSeen, record: RecordSeen): EvidenceVerdict {
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
  if (isSameMachine) return { kind: "none" };
  const message = `another machine has registered under its name: its boot id is no evidence, and ${fenceConfirmed.key} ends the fence`;
  return { kind: "blocked", guard: "another-machine", message };
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
