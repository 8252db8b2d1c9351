/** A simulated fence without one of its rules: the shipped function reads, sends or remembers something false. */
import { agentName, recordName } from "../../functions/shared/annotations/fencing-leases.ts";
import type { GroupMemory } from "../../functions/shared/contract/memory.ts";
import type { ClusterCall } from "../../functions/shared/kubernetes/wrap-cluster.ts";

/**
 * - `A-evidence`: the function believes that a person has confirmed each fence.
 * - `A-quorum`: it believes that each peer has been in contact for an hour, and renews before each read.
 * - `A-two-renewals`: one renewal of a peer looks like two.
 * - `A-known-for-T`: it believes that it has known for long that the fence is armed.
 * - `A-time`: it believes that the permit and the watchdog take one second each.
 * - `A-adopted-list`: it takes the peers that were proposed for those that the agent has adopted.
 * - `A-conditional-arming`: the write that arms is late, and no version of the Lease is its condition.
 * - `A-taint-first`: it believes that the Node has the taint.
 * - `A-record-first`: it makes the record after the taint.
 * - `A-honest-no-api`: peers answer that they do not reach the API server, though they do.
 */
export const removableRules = [
  "A-evidence",
  "A-quorum",
  "A-two-renewals",
  "A-known-for-T",
  "A-time",
  "A-adopted-list",
  "A-conditional-arming",
  "A-taint-first",
  "A-record-first",
  "A-honest-no-api",
] as const;
export type RemovedOfFence = (typeof removableRules)[number];

interface Read {
  readonly metadata: { readonly name: string; readonly annotations?: Readonly<Record<string, string>> };
  readonly spec?: { readonly taints?: readonly object[] };
}

export interface FenceOfRemoval {
  /** Name of the Node. */
  readonly target: string;
  fenceId(): string;
  pause(): Promise<void>;
}

type Around = (call: ClusterCall, send: () => Promise<unknown>) => Promise<unknown>;

/** What takes the place of each call of the function. */
export function withoutRule(rule: RemovedOfFence | undefined, fence: FenceOfRemoval): Around {
  if (rule === "A-conditional-arming") return (call, send) => armLate(call, send, fence);
  if (rule === "A-record-first") return recordLater(fence);
  let reads = 0;
  return async ({ verb, resource }, send) => {
    const answer = await send();
    if (verb !== "get" || rule === undefined) return answer;
    const read = answer as Read;
    return resource === "nodes" ? falseNode(rule, read, fence) : falseLease(rule, read, fence, ++reads);
  };
}

/** The memory of a process for one object. */
export function falseMemory(rule: RemovedOfFence | undefined, memory: GroupMemory): GroupMemory {
  const { knownArmed } = memory;
  if (rule === "A-known-for-T" && knownArmed !== undefined) memory.knownArmed = { ...knownArmed, sinceMs: -1e9 };
  return memory;
}

function annotated(read: Read, texts: Readonly<Record<string, string>>): Read {
  return { ...read, metadata: { ...read.metadata, annotations: { ...read.metadata.annotations, ...texts } } };
}

function falseNode(rule: RemovedOfFence, node: Read, { target, fenceId }: FenceOfRemoval): Read {
  if (node.metadata.name !== target) return node;
  if (rule === "A-evidence") return annotated(node, { "sluice.dev/fence-confirmed": fenceId() });
  if (rule !== "A-taint-first") return node;
  const taint = { key: "sluice.dev/fence", effect: "NoSchedule" };
  return { ...node, spec: { ...node.spec, taints: [...(node.spec?.taints ?? []), taint] } };
}

function falseLease(rule: RemovedOfFence, lease: Read, { target }: FenceOfRemoval, reads: number): Read {
  const isTarget = lease.metadata.name === agentName(target);
  const { annotations = {} } = lease.metadata;
  if (isTarget && rule === "A-time")
    return annotated(lease, { "sluice.dev/agent-permit-seconds": "1", "sluice.dev/agent-watchdog-seconds": "1" });
  const proposed = annotations["sluice.dev/agent-peers-proposed"];
  if (isTarget && rule === "A-adopted-list" && proposed !== undefined)
    return annotated(lease, { "sluice.dev/agent-peers": proposed });
  if (!isTarget && rule === "A-quorum")
    return annotated(lease, { "sluice.dev/agent-contact-seconds": "3600", "sluice.dev/agent-renewals": String(reads) });
  const renewals = annotations["sluice.dev/agent-renewals"];
  if (!isTarget && rule === "A-two-renewals" && renewals !== undefined)
    return annotated(lease, { "sluice.dev/agent-renewals": String(2 * Number(renewals)) });
  return lease;
}

interface Patch {
  readonly metadata: { resourceVersion?: string; readonly annotations?: Readonly<Record<string, string | null>> };
}

async function armLate({ verb, resource, given }: ClusterCall, send: () => Promise<unknown>, fence: FenceOfRemoval) {
  const [, , body, options] = given as [string, object, Patch, { notAfterMs?: number }];
  const isArming = verb === "patch" && resource === "leases" && body.metadata.annotations?.["sluice.dev/fence-armed"];
  if (!isArming) return send();
  delete body.metadata.resourceVersion;
  // The request is on its way, and the API server carries it out late.
  delete options.notAfterMs;
  await fence.pause();
  return send();
}

/** The record exists for its process alone until the Node has been written. */
function recordLater({ target }: FenceOfRemoval): Around {
  let later: { readonly lease: Read; readonly send: () => Promise<unknown> } | undefined;
  const isRecord = (key: unknown) => (key as { readonly name?: string }).name === recordName(target);
  return async ({ verb, resource, given }, send) => {
    const [, key, body] = given as [string, unknown, Read];
    if (verb === "create" && resource === "leases" && isRecord(body.metadata)) {
      const metadata = { ...body.metadata, namespace: String(key), uid: "later", resourceVersion: "1" };
      later = { lease: { ...body, metadata }, send };
      return later.lease;
    }
    if (verb === "get" && isRecord(key) && later !== undefined) return later.lease;
    const answer = await send();
    if (verb === "patch" && resource === "nodes" && later !== undefined) {
      const { send: create } = later;
      later = undefined;
      await create();
    }
    return answer;
  };
}
