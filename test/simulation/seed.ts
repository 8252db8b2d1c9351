/** What one seed is given, and what it comes to. */
import type { Draw } from "./draw.ts";
import type { Plan } from "./plan.ts";
import type { Wrappers } from "./replica.ts";

export interface Violation {
  readonly invariant: string;
  readonly sentence: string;
  readonly atMs: number;
}

export interface SimulationResult {
  readonly seed: number;
  readonly violations: readonly Violation[];
  readonly history: readonly string[];
  /** Pods that were deleted while Ready. */
  readonly taken: number;
  readonly virtualMs: number;
}

export interface SimulationOptions {
  readonly wrappers?: Wrappers;
  /** Bends the plan of every seed towards a fault: how a scenario is aimed. */
  readonly aim?: (plan: Plan, draw: Draw) => Plan;
  /** Keep the history of what happened, line by line. */
  readonly verbose?: boolean;
}
