/** What the objects of a fence say: the Node, the record, the Lease of the agent. Pure. */

import { read } from "../shared/annotations/entry.ts";
import * as keys from "../shared/annotations/fencing.ts";
import { nodeBackup } from "../shared/annotations/fencing-deletion.ts";
import { agentName, recordName } from "../shared/annotations/fencing-leases.ts";
import { agentPeers, agentPeersProposed } from "../shared/annotations/fencing-peers.ts";
import { type Annotation, ledgerFormat, type Malformed } from "../shared/annotations/table.ts";
import { parseTime } from "../shared/clock/durations.ts";
import { foreignFenceOf, isInMaintenance, readyConditionOf } from "../shared/fencing/node-state.ts";
import type { LeaseObject, NodeObject } from "../shared/kubernetes/cluster.ts";
import { type MarksSeen, shownMachine } from "./machine-marks.ts";
import type { AgentSeen, NodeSeen, RecordSeen } from "./snapshot.ts";

/** The one format of records that this version writes and reads. */
export const knownFormat = "1";

type Taint = NonNullable<NonNullable<NodeObject["spec"]>["taints"]>[number];
export const isOurOutOfService = ({ key, value = "" }: Taint): boolean =>
  key === keys.outOfServiceTaint.key && value.startsWith(keys.ourOutOfServicePrefix);
export const outOfServiceValue = (fenceId: string): string => `${keys.ourOutOfServicePrefix}${fenceId}`;

const isTaint = (wanted: { readonly key: string; readonly effect: string }) => (one: Taint) =>
  one.key === wanted.key && one.effect === wanted.effect;

/**
 * The Node by itself: see {@link withMarks} for what its Machine asks for.
 *
 * @param malformed gets what of its annotations does not parse
 */
export function parseNode(
  node: NodeObject,
  mark: Annotation<string> = keys.unhealthy,
  malformed: Malformed[] = [],
): NodeSeen {
  const { metadata, spec, status } = node;
  const { annotations = {}, uid, resourceVersion } = metadata;
  const { taints = [] } = spec ?? {};
  const ready = readyConditionOf(node);
  const isOutOfService = taints.some(({ key }) => key === keys.outOfServiceTaint.key);
  const isExcluded = annotations[keys.fenceNever.key] !== undefined;
  read(keys.fenceNever, metadata, malformed);
  return {
    uid,
    resourceVersion,
    mark: read(mark, metadata, malformed),
    isNever: isExcluded,
    confirmed: read(keys.fenceConfirmed, metadata),
    bootId: status?.nodeInfo?.bootID ?? "",
    systemUuid: status?.nodeInfo?.systemUUID ?? "",
    isReady: ready?.status === "True",
    isReporting: ready?.status === "True" || ready?.status === "False",
    isUnknown: ready?.status === "Unknown",
    unknownSinceMs: ready?.status === "Unknown" ? parseTime(ready.lastTransitionTime ?? "") : undefined,
    isInMaintenance: isInMaintenance(node),
    hasFenceTaint: taints.some(isTaint(keys.fenceTaint)),
    isEmptied: taints.some(isTaint(keys.emptyingTaint)),
    outOfService: taints.some(isOurOutOfService) ? "ours" : isOutOfService ? "others" : undefined,
    foreignFence: foreignFenceOf(node),
    shown: {
      fenceId: annotations[keys.fenceId.key],
      phase: annotations[keys.fencePhase.key],
      hold: annotations[keys.fenceHold.key],
    },
  };
}

/** The mark of its Machine counts as its own, which comes first. */
export function withMarks(node: NodeSeen, marks: MarksSeen): NodeSeen {
  const { machine } = marks;
  const ofMachine = machine?.mark === undefined ? undefined : `${machine.mark} (${shownMachine(machine)})`;
  return { ...node, ...marks, mark: node.mark ?? ofMachine };
}

/** The record in a Lease; `unreadable` if another version wrote it, or if something of it is missing. */
export function parseRecord({ metadata }: LeaseObject): RecordSeen | "unreadable" {
  const { uid, resourceVersion } = metadata;
  const fenceId = read(keys.fenceId, metadata);
  const phase = read(keys.fencePhase, metadata);
  const sinceMs = read(keys.recordSince, metadata);
  const bootId = read(keys.recordBootId, metadata);
  const systemUuid = read(keys.recordMachine, metadata);
  const isKnown = read(ledgerFormat, metadata) === knownFormat;
  const isWhole = fenceId !== undefined && phase !== undefined && sinceMs !== undefined;
  const backup = read(nodeBackup, metadata);
  const isLost = backup === undefined && (phase === "deleting" || phase === "deleted");
  if (!isKnown || !isWhole || isLost || bootId === undefined || systemUuid === undefined) return "unreadable";
  return {
    uid,
    resourceVersion,
    fenceId,
    phase,
    sinceMs,
    bootId,
    systemUuid,
    hold: read(keys.fenceHold, metadata),
    agent: read(keys.recordAgent, metadata),
    evidence: read(keys.recordEvidence, metadata),
    settlingMs: settlingOf(phase, sinceMs, read(keys.recordSettling, metadata)),
    ...(backup === undefined ? {} : { backup }),
  };
}

/** What a record says of a fence that begins: which boot of which machine it is to end. */
export function beginningTexts({ bootId, systemUuid }: NodeSeen, fenceId: string, nowMs: number) {
  return {
    [keys.fenceId.key]: fenceId,
    [keys.fencePhase.key]: "claimed",
    [keys.recordSince.key]: new Date(nowMs).toISOString(),
    [keys.recordBootId.key]: bootId,
    [keys.recordMachine.key]: systemUuid,
  };
}

/** Of this phase alone: the record may be of a fence that began anew. */
function settlingOf(phase: keys.FencePhase, sinceMs: number, settlingMs: number | undefined): number | undefined {
  return phase === "recovering" && settlingMs !== undefined && settlingMs >= sinceMs ? settlingMs : undefined;
}

/** The Lease that claims a Node for one fence: the API server accepts one create of that name. */
export function recordBody(name: string, node: NodeSeen, fenceId: string, nowMs: number): object {
  return {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: {
      name: recordName(name),
      labels: { [keys.fenceRecord.key]: "true" },
      annotations: { [ledgerFormat.key]: knownFormat, ...beginningTexts(node, fenceId, nowMs) },
    },
  };
}

/** Any agent may write any text: what does not parse counts as absent. */
export function parseAgent({ metadata }: LeaseObject): AgentSeen {
  const { uid, resourceVersion, name } = metadata;
  const peers = read(agentPeers, metadata) ?? [];
  return {
    uid,
    resourceVersion,
    mode: read(keys.agentMode, metadata),
    why: read(keys.agentWhy, metadata),
    bootId: read(keys.agentBootId, metadata),
    permitMs: read(keys.agentPermitSeconds, metadata),
    watchdogMs: read(keys.agentWatchdogSeconds, metadata),
    peers: peers.some((peer) => agentName(peer.name) === name) ? [] : peers,
    proposed: read(agentPeersProposed, metadata),
    armed: read(keys.fenceArmed, metadata),
  };
}
