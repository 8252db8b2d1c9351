/** What one seed is given, what its actors have in common, and what it comes to. */
import type { World } from "../fake-cluster/world.ts";
import type { Actor } from "./actor.ts";
import type { Checkers } from "./checker.ts";
import type { Draw } from "./draw.ts";
import type { Pasts } from "./pasts.ts";
import type { Plan } from "./plan.ts";
import type { Wrappers } from "./replica.ts";
import type { CallFaults } from "./simulated-cluster.ts";
import type { StopHooks } from "./skip-labels/stop-hooks.ts";

export interface Violation {
  readonly invariant: string;
  readonly message: string;
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
  /** Actors that are about in every seed of a test. */
  readonly more?: (run: SeedRun) => readonly Actor[];
  /** Keep the history of what happened, line by line. */
  readonly verbose?: boolean;
}

/** One seed while it runs: what every actor is given. */
export interface SeedRun {
  readonly world: World;
  readonly draw: Draw;
  readonly plan: Plan;
  /** Where the group is that everything is about. */
  readonly namespace: string;
  readonly group: string;
  readonly wrappers: Wrappers;
  readonly pasts: Pasts;
  /** What runs in pods when they are to end. */
  readonly stopHooks: StopHooks;
  readonly checkers: Checkers;
  /** False once the faults have stopped. */
  readonly isFaulty: () => boolean;
  /** What calls meet now. */
  readonly faults: () => CallFaults;
  /** Code of a process goes on. */
  readonly onResume: () => void;
  readonly violate: (invariant: string, message: string) => void;
  readonly log: (who: string, what: string) => void;
  /** True if an actor that can log something line by line does so. */
  readonly isVerbose: boolean;
}
