/** Processes of `fence-node` that are killed, or that run beside a second one. */
import assert from "node:assert/strict";
import { fenceNode } from "../../../../functions/fence-node/function.ts";
import { createMemory } from "../../../../functions/shared/contract/memory.ts";
import { type NodeWorld, node } from "./node-world.ts";

const writing = new Set(["create", "patch", "delete"]);

async function kill(): Promise<never> {
  throw new Error("the process was killed");
}

/** What happens after a write: the process ends, and the next one goes on; or a second one runs to its end. */
export const troubles: Readonly<Record<string, (world: NodeWorld) => Promise<void>>> = {
  "the process is killed": kill,
  async "a second process runs"({ harness }) {
    const context = { ...harness.context, memoryOf: createMemory() };
    await fenceNode.reconcile(context, node, { sweep: false });
  },
};

/** Troubles the process after its `count`th write; every later process runs to its end. */
export function troubleAfter(
  world: NodeWorld,
  count: number,
  trouble: (world: NodeWorld) => Promise<void>,
): () => boolean {
  let writes = 0;
  let isOver = false;
  world.harness.interfere = async ({ verb, given: [resource] }) => {
    if (isOver || !writing.has(verb) || resource === "events") return;
    writes++;
    if (writes <= count) return;
    isOver = true;
    await trouble(world);
  };
  return () => isOver;
}

/** Ends the process after its `count`th write; every later process runs to its end. */
export const killAfter = (world: NodeWorld, count: number): (() => boolean) => troubleAfter(world, count, kill);

/** Runs reconciles, by a second process if the first one was killed. */
export async function reconcile(world: NodeWorld): Promise<void> {
  try {
    await world.reconcile();
  } catch (error) {
    assert.match(String(error), /the process was killed/);
    await world.reconcile();
  }
}
