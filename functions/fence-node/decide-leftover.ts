/** What a fence leaves on a Node and in the Lease of its agent, and what of it has to go. Pure. */

import type { FenceSnapshot, FenceVerdict, NodeSeen } from "./snapshot.ts";

/** How a fence ends. */
export interface Ending {
  /** The fence that ends; undefined where its record is gone: any fence that the objects name has ended. */
  readonly fenceId: string | undefined;
  /** The mark asks for another fence, or for one that is not wanted now. */
  readonly keepsMark: boolean;
}

/**
 * What is still to be taken away once a fence has ended, the Node first: the taint, the texts and the mark, then what the agent
 * was told. Undefined where nothing is left.
 */
export function decideLeftover(
  { node, agent, name }: Pick<FenceSnapshot, "node" | "agent" | "name">,
  { fenceId, keepsMark }: Ending,
): Pick<FenceVerdict, "message" | "step"> | undefined {
  if (node !== undefined && (hasTraces(node) || (!keepsMark && node.mark !== undefined))) {
    const step = { kind: "clean-node", node, keepsMark } as const;
    return { message: `${name} loses the taint and the texts of its fence`, step };
  }
  if (agent?.armed === undefined) return undefined;
  if (fenceId !== undefined && agent.armed.fenceId !== fenceId) return undefined;
  return { message: `no fence is armed for the agent of ${name} any more`, step: { kind: "disarm", agent } };
}

function hasTraces({ hasFenceTaint, isEmptied, shown, outOfService }: NodeSeen): boolean {
  const isShown = shown.fenceId !== undefined || shown.phase !== undefined || shown.hold !== undefined;
  return hasFenceTaint || isEmptied || isShown || outOfService === "ours";
}
