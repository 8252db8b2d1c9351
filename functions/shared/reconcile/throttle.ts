/** Delays the events of a group whose every reconcile costs requests. */

import type { ReconcileResult } from "../contract/definition.ts";
import type { GroupMemory } from "../contract/memory.ts";

/** How long a group without work rests, in milliseconds: each check costs a LIST, and a rollout causes many events. */
export const restMs = 30_000;

/** The monotonic time until which the events of each group wait. A forgotten group does not wait. */
export class Throttle {
  readonly #untilMs = new WeakMap<GroupMemory, number>();

  /** The result of a reconcile that is too early: the one that it requests serves all events before it. Undefined: it is due. */
  postpone(memory: GroupMemory, nowMs: number): ReconcileResult | undefined {
    const remainingMs = (this.#untilMs.get(memory) ?? Number.NEGATIVE_INFINITY) - nowMs;
    return remainingMs > 0 ? { requeueAfterMs: remainingMs, absorbsEvents: true, pendingActs: undefined } : undefined;
  }

  restUntil(memory: GroupMemory, untilMs: number): void {
    this.#untilMs.set(memory, untilMs);
  }
}
