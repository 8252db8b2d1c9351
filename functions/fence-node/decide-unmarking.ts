/** The mark of a Machine goes with the fence that it asked for. Pure. */

import { shownMachine } from "./machine-marks.ts";
import type { FenceSnapshot, FenceVerdict } from "./snapshot.ts";
import { onRecord, wait } from "./verdicts.ts";

/** How soon a fence is reconciled again that waits for a right, in milliseconds. */
const refusedRequeueMs = 60_000;

/**
 * Takes the mark off the Machine, before the Node is given back: a mark that stayed would begin another fence of a node that is
 * well. Undefined where no Machine has a mark that counts.
 */
export function decideUnmarking(
  { node, name, isRefused = false }: Pick<FenceSnapshot, "node" | "name" | "isRefused">,
  guard: string,
): FenceVerdict | undefined {
  const machine = node?.machine;
  if (machine === undefined) return undefined;
  if (isRefused) {
    const message = `the fence of ${name} has ended, and the API server does not let Sluice take the mark off ${shownMachine(machine)}: give the right to patch it, or remove the mark`;
    return onRecord(wait("not-permitted", message, refusedRequeueMs));
  }
  const message = `${shownMachine(machine)} loses the mark: the fence of ${name} has ended`;
  return { guard, message, step: { kind: "unmark-machine", machine }, requeueAfterMs: undefined };
}
