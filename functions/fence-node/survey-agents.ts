/**
 * Surveys the agents of all nodes once a minute: to propose peers to them, for metrics, and for Events about their modes. Each
 * process has what it saw in memory alone.
 */

import * as keys from "../shared/annotations/fencing.ts";
import { nodeOfAgent } from "../shared/annotations/fencing-leases.ts";
import {
  agentAddresses,
  agentKey,
  agentPeers,
  agentPeersProposed,
  type Peer,
} from "../shared/annotations/fencing-peers.ts";
import { read } from "../shared/annotations/table.ts";
import type { Context } from "../shared/contract/context.ts";
import type { Cluster, LeaseObject, Metadata } from "../shared/kubernetes/cluster.ts";
import { lastedMs } from "../shared/kubernetes/lasted.ts";
import { observedAgents, recordNotices } from "./agent-events.ts";
import { decideNotices, type NoticedAgent } from "./decide-notices.ts";
import { decideProposals, type SurveyedAgent, staysForMs } from "./decide-proposal.ts";
import { fingerprintOf } from "./fingerprint.ts";
import { type AgentState, measureAgents } from "./measures.ts";

/** The time between two surveys of one process, in milliseconds. */
const surveyEveryMs = 60_000;
/** A process that begins has seen no agent renew: its second survey follows with the next tick, after this at least. */
const surveyAgainMs = 8_000;

const zoneLabel = "topology.kubernetes.io/zone";
const controlPlaneLabel = "node-role.kubernetes.io/control-plane";

/** One agent as this process has seen it renew. */
interface SeenAgent {
  readonly renewals: number | undefined;
  readonly key: string | undefined;
  readonly isSeenRenewing: boolean;
  /** When it renewed, as far as this process saw it; before that, when this process saw it first. */
  readonly sinceMs: number;
}

interface Survey {
  readonly atMs: number;
  readonly isFirst: boolean;
  readonly seen: ReadonlyMap<string, SeenAgent>;
  readonly proposals: ReadonlyMap<string, readonly Peer[]>;
  readonly noticed: ReadonlyMap<string, NoticedAgent>;
}

/** Of each process. What is forgotten costs a survey. */
const surveys = new WeakMap<Cluster, Survey>();

/** The peers that the last survey of this process found right for the agent of a node; undefined where it has them. */
export function proposalFor({ cluster }: Pick<Context, "cluster">, node: string): readonly Peer[] | undefined {
  return surveys.get(cluster)?.proposals.get(node);
}

/**
 * Surveys the agents where that is due, and answers the nodes to whose agents other peers are to be proposed. Throws
 * ClusterError.
 */
export async function surveyAgents(
  context: Pick<Context, "cluster" | "reporter" | "mode">,
  namespace: string,
  nodes: readonly { readonly metadata: Metadata }[],
): Promise<readonly string[]> {
  const { cluster } = context;
  const before = surveys.get(cluster);
  const nowMs = lastedMs(cluster);
  const dueMs = before === undefined ? nowMs : before.atMs + (before.isFirst ? surveyAgainMs : surveyEveryMs);
  if (nowMs < dueMs) return [];
  const { items } = await cluster.list("leases", { namespace });
  const labels = new Map(nodes.map(({ metadata }) => [metadata.name, metadata.labels ?? {}]));
  const seen = new Map<string, SeenAgent>();
  const agents = items.flatMap((lease): SurveyedAgent[] => {
    const name = nodeOfAgent(lease.metadata.name);
    const labelsOfNode = name === undefined ? undefined : labels.get(name);
    if (name === undefined || labelsOfNode === undefined) return [];
    const agent = seenAgent(lease, before?.seen.get(name), nowMs);
    seen.set(name, agent);
    return [surveyed(name, labelsOfNode, lease, agent, nowMs)];
  });
  const isFirst = before === undefined;
  const proposals = isFirst ? new Map<string, readonly Peer[]>() : decideProposals(agents);
  // The first two surveys are too close together, and a fresh agent gets its peers between them.
  const earlier = before?.isFirst === false ? before.noticed : undefined;
  const { noticed, notices } = decideNotices(observedAgents(items, nodes), earlier);
  surveys.set(cluster, { atMs: nowMs, isFirst, seen, proposals, noticed });
  if (isFirst) return [];
  const states = nodes.map(({ metadata }) => stateOf(noticed.get(metadata.name), seen.get(metadata.name), nowMs));
  context.reporter.agents(measureAgents(states, items, cluster.serverTimeMs()));
  // What was not sent is news again in the next survey.
  for (const { agent, sentBefore } of await recordNotices(context, notices))
    noticed.set(agent.node, { ...agent, sent: sentBefore });
  return [...proposals.keys()];
}

/** A process that begins has seen no agent renew, and counts none. */
function stateOf(noticed: NoticedAgent | undefined, seen: SeenAgent | undefined, nowMs: number): AgentState {
  if (noticed === undefined || seen === undefined) return "none";
  if (!seen.isSeenRenewing || nowMs - seen.sinceMs > staysForMs) return "silent";
  return noticed.mode ?? "unknown";
}

/** An agent whose Lease has another count, or another key, has renewed it. */
function seenAgent({ metadata }: LeaseObject, before: SeenAgent | undefined, nowMs: number): SeenAgent {
  const renewals = read(keys.agentRenewals, metadata);
  const key = read(agentKey, metadata);
  if (before === undefined) return { renewals, key, isSeenRenewing: false, sinceMs: nowMs };
  if (before.renewals === renewals && before.key === key) return before;
  return { renewals, key, isSeenRenewing: true, sinceMs: nowMs };
}

function surveyed(
  name: string,
  labels: Readonly<Record<string, string>>,
  { metadata }: LeaseObject,
  { key, isSeenRenewing, sinceMs }: SeenAgent,
  nowMs: number,
): SurveyedAgent {
  const isAsked = key !== undefined && read(agentAddresses, metadata) !== undefined;
  return {
    name,
    zone: labels[zoneLabel] ?? "",
    isControlPlane: labels[controlPlaneLabel] !== undefined,
    fingerprint: isAsked ? fingerprintOf(key) : undefined,
    isSeenRenewing,
    silentMs: nowMs - sinceMs,
    peers: read(agentPeersProposed, metadata) ?? read(agentPeers, metadata) ?? [],
  };
}
