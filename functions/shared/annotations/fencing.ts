/**
 * What a Node, the record of its fence and the Lease of its agent say while a node is fenced. The record and the agent's Lease
 * stand in the fencing namespace. No value here holds a time that a decision about evidence compares.
 */

import { parseFields } from "../base/fields.ts";
import { parseTime } from "../clock/durations.ts";
import { annotationOn, anyText, labelOn, nonEmptyText, oneOf } from "./entry.ts";
import { fenceStrategy, nodeBackup } from "./fencing-deletion.ts";
import { agentPeersProposed, formatPeers, type Peer, parsePeers, peerEntries } from "./fencing-peers.ts";
import { fenceSlots } from "./fencing-slots.ts";

/** How far a fence has got, in this order. A Node whose strategy is `node-deletion` is deleted instead of evacuated. */
export const fencePhases = [
  "claimed",
  "armed",
  "stopped",
  "evacuating",
  "deleting",
  "deleted",
  "fenced",
  "recovering",
] as const;
export type FencePhase = (typeof fencePhases)[number];

/** What shows that the fenced boot is over. */
export const fenceEvidences = ["boot-id", "confirmed", "out-of-service", "time"] as const;
export type FenceEvidence = (typeof fenceEvidences)[number];

/** `armed`: isolation resets the node. `explicit-only`: only a fence does. `disarmed`: an orderly stop has ended the agent. */
export const agentModes = ["armed", "explicit-only", "disarmed"] as const;
export type AgentMode = (typeof agentModes)[number];

/** The version of the agent's Lease that was noted before arming, and what it says for evidence by time. */
export interface NotedAgent {
  readonly uid: string;
  readonly resourceVersion: string;
  readonly mode: AgentMode;
  readonly bootId: string | undefined;
  /** Times of its permit and its watchdog, in milliseconds; undefined where the Lease does not say them. */
  readonly permitMs: number | undefined;
  readonly watchdogMs: number | undefined;
  /** Empty where the agent has none. */
  readonly peers: readonly Peer[];
}

/** A fence as it stands in the Lease of an agent, and the boot that it is for. */
export interface ArmedFence {
  readonly fenceId: string;
  readonly bootId: string;
}

function parseNotedAgent(text: string): NotedAgent | undefined {
  const { uid, resourceVersion, mode, bootId, permitMs, watchdogMs, peers = "" } = parseFields(text) ?? {};
  const knownMode = agentModes.find((one) => one === mode);
  const list = typeof peers === "string" ? parsePeers(peers) : undefined;
  const isWhole = typeof uid === "string" && typeof resourceVersion === "string" && knownMode !== undefined;
  if (!isWhole || list === undefined || !isOptional("string", bootId)) return undefined;
  if (!isOptional("number", permitMs) || !isOptional("number", watchdogMs)) return undefined;
  const known = { bootId, permitMs, watchdogMs } as Pick<NotedAgent, "bootId" | "permitMs" | "watchdogMs">;
  return { uid, resourceVersion, mode: knownMode, ...known, peers: list };
}

const isOptional = (type: "string" | "number", value: unknown): boolean => value === undefined || typeof value === type;

export const formatNotedAgent = ({ peers, ...agent }: NotedAgent): string =>
  JSON.stringify({ ...agent, peers: formatPeers(peers) });

function parseArmed(text: string): ArmedFence | undefined {
  const [, fenceId, bootId] = /^([\w-]{1,64}) ([\w-]{1,64})$/.exec(text) ?? [];
  return fenceId === undefined || bootId === undefined ? undefined : { fenceId, bootId };
}

export const formatArmed = ({ fenceId, bootId }: ArmedFence): string => `${fenceId} ${bootId}`;

/** The longest time that an agent's Lease may name, in seconds: a day. */
const mostSeconds = 86_400;

/** Seconds with at most three decimals, such as `2.5`, in milliseconds; undefined for any other text, and beyond a day. */
function parseSeconds(text: string): number | undefined {
  const seconds = /^\d{1,5}(\.\d{1,3})?$/.test(text) ? Number(text) : Number.NaN;
  return seconds <= mostSeconds ? Math.round(seconds * 1000) : undefined;
}

/** Milliseconds as {@link agentWatchdogSeconds} and the like have them. */
export const formatSeconds = (ms: number): string => String(Math.min(Math.round(ms) / 1000, mostSeconds));

function parseCount(text: string): number | undefined {
  const count = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(count) ? count : undefined;
}

const onNode = annotationOn("Node");
const inRecord = annotationOn("Lease");
const inAgentLease = annotationOn("Lease");

/** The key of the taint that keeps new pods off a Node while it is fenced, and of the annotation that excludes it. */
const fenceKey = "sluice.dev/fence";

export const unhealthy = onNode("sluice.dev/unhealthy", nonEmptyText, {
  grammar: "a reason, such as disk failed",
  fallback: "absent or empty: no fence begins",
  meaning: "the mark: the node is to be fenced. It goes when the node is back",
});

export const fenceNever = onNode(fenceKey, oneOf(["never"]), {
  grammar: "never",
  fallback: "absent: the node is fenced when it has the mark; malformed: as never",
  meaning: "no fence begins for this node",
});

export const fenceConfirmed = onNode("sluice.dev/fence-confirmed", anyText, {
  grammar: "the id of the fence, as sluice.dev/fence-id has it",
  fallback: "absent, or another text: nothing is confirmed",
  meaning: "a person's or a tool's word that the machine is off",
});

export const fencePhase = onNode("sluice.dev/fence-phase", oneOf(fencePhases), {
  grammar: "nothing: Sluice writes it",
  fallback: "it is written anew",
  meaning: "how far the fence has got; on a Node it is a copy for people",
});

export const fenceId = onNode("sluice.dev/fence-id", anyText, {
  grammar: "nothing: Sluice writes it",
  fallback: "it is written anew",
  meaning: "the fence under way, which a confirmation names; on a Node it is a copy for people",
});

export const fenceHold = onNode("sluice.dev/fence-hold", anyText, {
  grammar: "nothing: Sluice writes it",
  fallback: "absent: the fence waits for nothing",
  meaning: "why the fence waits; on a Node it is a copy for people",
});

export const fenceRecord = labelOn("Lease")("sluice.dev/fence-record", anyText, {
  grammar: "true",
  fallback: "a Lease without it is no record of a fence",
  meaning: "marks the records of fences",
});

export const recordBootId = inRecord("sluice.dev/fence-boot-id", nonEmptyText, {
  grammar: "the bootID of a Node",
  fallback: "the record is held: a person must look",
  meaning: "the boot that the fence is to end",
});

export const recordMachine = inRecord("sluice.dev/fence-machine", nonEmptyText, {
  grammar: "the systemUUID of a Node",
  fallback: "the record is held: a person must look",
  meaning: "the machine that the fence is to reset: another machine's boot id is no evidence",
});

export const recordSince = inRecord("sluice.dev/fence-since", parseTime, {
  grammar: "a time as in RFC 3339",
  fallback: "the record is held: a person must look",
  meaning: "since when the fence has been in its phase, by the API server's clock; no evidence rests on it",
});

export const recordAgent = inRecord("sluice.dev/fence-agent", parseNotedAgent, {
  grammar: 'JSON: {"uid", "resourceVersion", "mode", "bootId", "permitMs", "watchdogMs", "peers"}',
  fallback: "absent or malformed: it is noted anew before the fence is armed",
  meaning: "the version of the agent's Lease that was noted before arming",
});

export const recordEvidence = inRecord("sluice.dev/fence-evidence", oneOf(fenceEvidences), {
  grammar: fenceEvidences.join(", "),
  fallback: "absent: there is none yet",
  meaning: "what showed that the fenced boot is over",
});

export const recordSettling = inRecord("sluice.dev/fence-settling", parseTime, {
  grammar: "a time as in RFC 3339",
  fallback: "absent or malformed: it is noted anew once the Node is given back",
  meaning: "since when the claims of a fence have to settle, by the API server's clock: they go 10 minutes later",
});

export const agentMode = inAgentLease("sluice.dev/agent-mode", oneOf(agentModes), {
  grammar: agentModes.join(", "),
  fallback: "the fence counts on nothing that the agent says",
  meaning: "what resets the node; written by its agent",
});

export const agentWhy = inAgentLease("sluice.dev/agent-why", anyText, {
  grammar: "any text",
  fallback: "the mode needs no reason",
  meaning: "why the mode is not armed; written by the agent",
});

export const agentBootId = inAgentLease("sluice.dev/agent-boot-id", nonEmptyText, {
  grammar: "a boot id of the kernel",
  fallback: "as another boot than the Node's",
  meaning: "the boot that the agent runs in; written by it",
});

export const agentWatchdogSeconds = inAgentLease("sluice.dev/agent-watchdog-seconds", parseSeconds, {
  grammar: "seconds, at most a day",
  fallback: "it has no watchdog",
  meaning: "the time of its watchdog; written by the agent",
});

export const agentPermitSeconds = inAgentLease("sluice.dev/agent-permit-seconds", parseSeconds, {
  grammar: "seconds, at most a day",
  fallback: "time is no evidence for its node",
  meaning: "for how long one success permits the agent to feed its watchdog; written by it",
});

export const agentContactSeconds = inAgentLease("sluice.dev/agent-contact-seconds", parseSeconds, {
  grammar: "seconds, at most a day",
  fallback: "the agent is not in contact with the API server",
  meaning: "for how long the agent has been in contact with the API server, by its own clock; written by it",
});

export const agentFreshSeconds = inAgentLease("sluice.dev/agent-fresh-seconds", parseSeconds, {
  grammar: "seconds, at most a day",
  fallback: "its renewals show no contact",
  meaning: "how old a read of its Lease may be against which later renewals show contact; written by the agent",
});

export const agentRenewals = inAgentLease("sluice.dev/agent-renewals", parseCount, {
  grammar: "a whole number",
  fallback: "none is known",
  meaning: "how often the agent has renewed its Lease; written by it",
});

export const fenceArmed = inAgentLease("sluice.dev/fence-armed", parseArmed, {
  grammar: "FENCE-ID BOOT-ID",
  fallback: "absent or malformed: no fence is armed",
  meaning: "tells the agent of a fence: in that boot it stops feeding its watchdog once the Node has the taint",
});

/** The taint of a fence on its Node. It keeps new pods away. */
export const fenceTaint = { key: fenceKey, effect: "NoSchedule" } as const;
/** Stands beside it on a Node that was fenced too often: Kubernetes moves its pods away. */
export const emptyingTaint = { key: fenceKey, effect: "NoExecute" } as const;
/** Tells Kubernetes that the pods of a Node have ended. Ours has the id of the fence as its value, after a prefix. */
export const outOfServiceTaint = { key: "node.kubernetes.io/out-of-service", effect: "NoExecute" } as const;
export const ourOutOfServicePrefix = "sluice-";

/** What stands in a record, besides its format. */
export const recordEntries = [
  fenceRecord,
  fenceId,
  fencePhase,
  fenceHold,
  recordBootId,
  recordMachine,
  recordSince,
  recordAgent,
  recordEvidence,
  nodeBackup,
  recordSettling,
] as const;

/** What an agent says in its Lease. */
export const agentEntries = [
  agentMode,
  agentWhy,
  agentBootId,
  agentWatchdogSeconds,
  agentPermitSeconds,
  agentContactSeconds,
  agentFreshSeconds,
  agentRenewals,
  ...peerEntries,
] as const;

export const fencingEntries = [
  unhealthy,
  fenceNever,
  fenceStrategy,
  fenceConfirmed,
  ...recordEntries,
  ...agentEntries,
  agentPeersProposed,
  fenceArmed,
  fenceSlots,
] as const;
