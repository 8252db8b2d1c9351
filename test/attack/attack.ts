/** The interface of an attack, and its result. */
import type { Target } from "./target.ts";

export const sizes = ["short", "long"] as const;
export type Size = (typeof sizes)[number];

export interface Scene {
  readonly target: Target;
  readonly size: Size;
  readonly seed: number;
  readonly signal: AbortSignal;
  /** Called when the attack is at its height: latencies of honest answers are measured from then on. */
  atHeight(): void;
}

export interface Outcome {
  /** What the attack saw, in a few words. */
  readonly seen: string;
  /** What must not happen, and did. */
  readonly failures: readonly string[];
}

export interface Attack {
  readonly name: string;
  /** What the attack does at this size, in a few words. */
  description(size: Size): string;
  /** More settings of the server. */
  readonly settings?: Readonly<Record<string, string>>;
  /** True: events that the server answers with 503 meanwhile are no failure, because its capacity is used up. */
  readonly mayTurnEventsAway?: boolean;
  run(scene: Scene): Promise<Outcome>;
}
