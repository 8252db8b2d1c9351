/** How many peers of a node decide for all of them. Two groups of these sizes always share a peer. Pure. */

/** So many of N peers must say that they do not reach the API server to excuse the node: q, more than half. */
export const excusingPeers = (peers: number): number => Math.floor(peers / 2) + 1;

/** With so many of N peers in contact with the API server, too few are left to excuse the node: N - q + 1. */
export const provingPeers = (peers: number): number => peers - excusingPeers(peers) + 1;
