/** Sends Events about the modes of agents, on their Nodes. */

import { read } from "../shared/annotations/entry.ts";
import * as keys from "../shared/annotations/fencing.ts";
import { agentName } from "../shared/annotations/fencing-leases.ts";
import type { Context } from "../shared/contract/context.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import { tryCreateEvent } from "../shared/events/recorder.ts";
import type { LeaseObject, Metadata } from "../shared/kubernetes/cluster.ts";
import { type AgentNotice, identityOf, type ObservedAgent } from "./decide-notices.ts";

/** As the runner names the function, which imports this file. */
const by = "fence-node";
/** An agent writes the reason, and any text may stand there. */
const mostReasonCharacters = 100;

/** The agents of nodes that are there. */
export function observedAgents(
  leases: readonly LeaseObject[],
  nodes: readonly { readonly metadata: Metadata }[],
): readonly ObservedAgent[] {
  const byName = new Map(leases.map((lease) => [lease.metadata.name, lease.metadata]));
  return nodes.flatMap(({ metadata: { name: node, uid } }): ObservedAgent[] => {
    const lease = byName.get(agentName(node));
    if (lease === undefined) return [];
    const why = read(keys.agentWhy, lease)?.slice(0, mostReasonCharacters);
    return [{ node, uid, mode: read(keys.agentMode, lease), why, bootId: read(keys.agentBootId, lease) }];
  });
}

/**
 * Sends each once, and resolves to those that were not sent. Another process may have sent one: its Event has the same name. In
 * shadow mode nothing is sent. Never rejects.
 */
export async function recordNotices(
  context: Pick<Context, "cluster" | "reporter" | "mode">,
  notices: readonly AgentNotice[],
): Promise<readonly AgentNotice[]> {
  if (context.mode === "shadow") return [];
  const unsent: AgentNotice[] = [];
  for (const notice of notices) {
    const { agent, isArmed } = notice;
    const key = { resource: "nodes", namespace: "", name: agent.node } as const;
    const about = { ...key, uid: agent.uid };
    const how = isArmed
      ? ({ type: "Normal", reason: eventReasons.agentArmed } as const)
      : ({ type: "Warning", reason: eventReasons.agentNotArmed } as const);
    const event = { about, ...how, message: messageOf(agent, isArmed), identity: identityOf(agent) };
    if (!(await tryCreateEvent(context, by, key, event))) unsent.push(notice);
  }
  return unsent;
}

function messageOf({ node, mode, why }: ObservedAgent, isArmed: boolean): string {
  if (isArmed) return `the agent of ${node} is armed: time is evidence that the node has stopped`;
  const because = why === undefined ? "" : ` (${why})`;
  return `the agent of ${node} is ${mode ?? "in no mode that is known"}${because}: time is no evidence that the node has stopped`;
}
