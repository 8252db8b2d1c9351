/** Quorum queues of a real cluster, and their state as seen from outside. */
import { eventually } from "../controlplane/api.ts";
import type { Nodes } from "./nodes.ts";

export interface QueueState {
  readonly members: readonly string[];
  readonly online: readonly string[];
  readonly leader: string;
}

const pathOf = (queue: string) => `/api/queues/%2F/${queue}`;

/** Creates a durable quorum queue with a member on each node. Resolves when all members are online. */
export async function makeQuorumQueue(nodes: Nodes, queue: string): Promise<void> {
  await eventually("all nodes are in the cluster", 60_000, async () => {
    const found = await nodes.ask<readonly { readonly running: boolean }[]>(0, "/api/nodes");
    return found.filter(({ running }) => running).length === nodes.size ? true : undefined;
  });
  await nodes.ask(0, pathOf(queue), "PUT", { durable: true, arguments: { "x-queue-type": "quorum" } });
  await eventually(`${queue} has all its members`, 60_000, async () => {
    const state = await queueState(nodes, 0, queue);
    return state?.online.length === nodes.size ? true : undefined;
  });
}

/** The queue's state as a node sees it; undefined if that node does not answer. */
export async function queueState(nodes: Nodes, index: number, queue: string): Promise<QueueState | undefined> {
  // Without statistics the answer is current; with them it is seconds old.
  const asked = nodes.ask<Partial<QueueState>>(index, `${pathOf(queue)}?disable_stats=true&enable_queue_totals=true`);
  const { members = [], online = [], leader = "" } = await asked.catch(() => ({}) as Partial<QueueState>);
  return members.length === 0 ? undefined : { members, online, leader };
}

/** Stops the queue's member on a running node, or starts it again: the state after a crash, before the node is in sync. */
export async function setMember(nodes: Nodes, index: number, queue: string, runs: boolean): Promise<void> {
  const member = `{list_to_atom("%2F_${queue}"), node()}`;
  const expression = `ok = ra:${runs ? "restart" : "stop"}_server(quorum_queues, ${member}).`;
  const { code, text } = await nodes.tool(index, "rabbitmqctl", "eval", expression);
  if (code !== 0) throw new Error(`the member on ${nodes.nameOf(index)}: ${text}`);
}
