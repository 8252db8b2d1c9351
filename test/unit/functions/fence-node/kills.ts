/** Processes of `fence-node` that are killed. */
import assert from "node:assert/strict";
import type { NodeWorld } from "./node-world.ts";

const writing = new Set(["create", "patch", "delete"]);

/** Ends the process after its `count`th write; every later process runs to its end. */
export function killAfter({ harness }: NodeWorld, count: number): () => boolean {
  let writes = 0;
  let isKilled = false;
  harness.interfere = ({ verb, given: [resource] }) => {
    if (isKilled || !writing.has(verb) || resource === "events") return;
    writes++;
    if (writes <= count) return;
    isKilled = true;
    throw new Error("the process was killed");
  };
  return () => isKilled;
}

/** Runs reconciles, by a second process if the first one was killed. */
export async function reconcile(world: NodeWorld): Promise<void> {
  try {
    await world.reconcile();
  } catch (error) {
    assert.match(String(error), /the process was killed/);
    await world.reconcile();
  }
}
