/** The Leases of the fencing namespace: those of one node, and one of all. The agent imports this file as well. Pure. */

/** The record of its fence. */
export const recordName = (node: string): string => `fence-${node}`;
/** The Lease of its agent. */
export const agentName = (node: string): string => `agent-${node}`;
/** Which fences have a slot: one Lease for all nodes. */
export const slotsName = "fence-slots";

/** True for the one Node whose record would have the name of another Lease. */
export const isReservedName = (node: string): boolean => recordName(node) === slotsName;

/** The node of a record; undefined for any other Lease. */
export const nodeOfRecord = (lease: string): string | undefined =>
  lease === slotsName ? undefined : /^fence-(.+)$/.exec(lease)?.[1];

/** The node of the Lease of an agent; undefined for any other one. */
export const nodeOfAgent = (lease: string): string | undefined => /^agent-(.+)$/.exec(lease)?.[1];

/** The most characters of a Node's name, because `agent-NODE` has to be the name of a Lease. */
export const longestNodeName = 247;
