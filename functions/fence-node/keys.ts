/**
 * What the function and the agent on the node write for each other: names of Leases, keys, and the grammar of values. Pure.
 *
 * The agent bundles this file and its own, so that this one imports nothing.
 */

/** Annotations, by the object that has them. */
export const keys = {
  /** On the Node: the mark, whose value is a reason. It asks for a fence. */
  unhealthy: "sluice.dev/unhealthy",
  /** On the Node: `never` excludes it. The taint has the same key. */
  fence: "sluice.dev/fence",
  /** On the Node: `out-of-service` or `node-deletion`. */
  fenceStrategy: "sluice.dev/fence-strategy",
  /** On the Node: a person's word that the machine is off. It counts if it equals the fence id. */
  fenceConfirmed: "sluice.dev/fence-confirmed",
  /** On the record, and copied to the Node for people. */
  fencePhase: "sluice.dev/fence-phase",
  fenceId: "sluice.dev/fence-id",
  fenceHold: "sluice.dev/fence-hold",
  /** On the record alone. */
  fenceBootId: "sluice.dev/fence-boot-id",
  fenceMachine: "sluice.dev/fence-machine",
  fenceNodeUid: "sluice.dev/fence-node-uid",
  fenceTaints: "sluice.dev/fence-taints",
  fenceAgent: "sluice.dev/fence-agent",
  fenceEvidence: "sluice.dev/fence-evidence",
  /** On the agent's Lease, by the agent. */
  agentMode: "sluice.dev/agent-mode",
  agentWhy: "sluice.dev/agent-why",
  agentBootId: "sluice.dev/agent-boot-id",
  agentPermitSeconds: "sluice.dev/agent-permit-seconds",
  agentWatchdogSeconds: "sluice.dev/agent-watchdog-seconds",
  agentRenewals: "sluice.dev/agent-renewals",
  agentContactSeconds: "sluice.dev/agent-contact-seconds",
  agentFreshSeconds: "sluice.dev/agent-fresh-seconds",
  /** On the agent's Lease, by the function: `FENCE-ID BOOT-ID`. */
  fenceArmed: "sluice.dev/fence-armed",
} as const;

/** The taint of a fence on its Node. It stops new pods only. */
export const fenceTaint = { key: keys.fence, effect: "NoSchedule" } as const;
/** What tells Kubernetes that the pods of a Node have ended. */
export const outOfServiceTaint = { key: "node.kubernetes.io/out-of-service", effect: "NoExecute" } as const;

/** `fence: never` on a Node: no fence is made for it. */
export const neverFenced = "never";

/** The Lease of the agent on a node, in the fencing namespace. */
export const agentLeaseOf = (node: string): string => `agent-${node}`;
/** The record of one fence, in the fencing namespace. */
export const recordLeaseOf = (node: string): string => `fence-${node}`;
/** The most characters of a Node's name, so that the Lease names have at most 253. */
export const longestNodeName = 247;

/** `armed`: isolation resets the node. `explicit-only`: only a fence does. `disarmed`: the agent was stopped in an orderly way. */
export const agentModes = ["armed", "explicit-only", "disarmed"] as const;
export type AgentMode = (typeof agentModes)[number];

/** Undefined for a text that is no mode. */
export const parseAgentMode = (text: string | undefined): AgentMode | undefined =>
  agentModes.find((mode) => mode === text);

/** A fence that is armed, and the boot that it is armed for. */
export interface ArmedFence {
  readonly fenceId: string;
  readonly bootId: string;
}

export const formatArmed = ({ fenceId, bootId }: ArmedFence): string => `${fenceId} ${bootId}`;

/** Undefined for a text that is not two identifiers with one space between them. */
export function parseArmed(text: string | undefined): ArmedFence | undefined {
  const [, fenceId, bootId] = /^([\w-]{1,64}) ([\w-]{1,64})$/.exec(text ?? "") ?? [];
  return fenceId === undefined || bootId === undefined ? undefined : { fenceId, bootId };
}

/** The longest time that an agent's Lease may name, in seconds: a day. */
const mostSeconds = 86_400;

/** Seconds with at most three decimals, as digits. */
export const formatSeconds = (ms: number): string => String(Math.round(ms) / 1000);

/** Milliseconds of a text such as `10` or `2.5`; undefined for any other text, and beyond a day. */
export function parseSeconds(text: string | undefined): number | undefined {
  const seconds = /^\d{1,5}(\.\d{1,3})?$/.test(text ?? "") ? Number(text) : Number.NaN;
  return seconds <= mostSeconds ? Math.round(seconds * 1000) : undefined;
}

/** A count of renewals; undefined for a text that is none. */
export function parseCount(text: string | undefined): number | undefined {
  const count = /^\d{1,15}$/.test(text ?? "") ? Number(text) : Number.NaN;
  return Number.isSafeInteger(count) ? count : undefined;
}
