/** The Leases of one node, in the fencing namespace. The agent imports this file as well. Pure. */

/** The record of its fence. */
export const recordName = (node: string): string => `fence-${node}`;
/** The Lease of its agent. */
export const agentName = (node: string): string => `agent-${node}`;

/** The node of such a Lease; undefined for any other one. */
export const nodeOfAgent = (lease: string): string | undefined => /^agent-(.+)$/.exec(lease)?.[1];

/** The most characters of a Node's name, because `agent-NODE` has to be the name of a Lease. */
export const longestNodeName = 247;
