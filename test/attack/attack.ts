/** What an attack is, and what is reported about it. */
import type { Target } from "./target.ts";

export const sizes = ["short", "long"] as const;
export type Size = (typeof sizes)[number];

export interface Scene {
  readonly target: Target;
  readonly size: Size;
  readonly seed: number;
  readonly signal: AbortSignal;
  /** The attack is at its height from now on: how long honest answers take is measured from here. */
  atHeight(): void;
}

export interface Outcome {
  /** What was seen, in a few words. */
  readonly seen: string;
  /** What must not be. */
  readonly failures: readonly string[];
}

export interface Attack {
  readonly name: string;
  /** What it does at this size, in a few words. */
  description(size: Size): string;
  /** More settings of the server. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Events that are turned away with 503 while it lasts are no failure: what is full is full. */
  readonly mayTurnEventsAway?: boolean;
  run(scene: Scene): Promise<Outcome>;
}
