/** Makes the events of a group wait where each of its reconciles costs requests. */

import type { ReconcileResult } from "../contract/definition.ts";
import type { GroupMemory } from "../contract/memory.ts";

/** How long a group rests that needed nothing, in milliseconds: to see that costs a LIST, and a rollout causes many events. */
export const restMs = 30_000;

/** Until when the events of each group wait, by the monotonic clock. What is forgotten does not wait. */
export class Throttle {
  readonly #untilMs = new WeakMap<GroupMemory, number>();

  /** What a reconcile comes to that is too early: the one that it asks for serves all events before it. Undefined: it is due. */
  postpone(memory: GroupMemory, nowMs: number): ReconcileResult | undefined {
    const remainingMs = (this.#untilMs.get(memory) ?? Number.NEGATIVE_INFINITY) - nowMs;
    return remainingMs > 0 ? { requeueAfterMs: remainingMs, absorbsEvents: true, pendingActs: undefined } : undefined;
  }

  restUntil(memory: GroupMemory, untilMs: number): void {
    this.#untilMs.set(memory, untilMs);
  }
}
