/** The options of one seed, what its actors share, and its result. */
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
  /** Number of pods that were deleted while Ready. */
  readonly taken: number;
  readonly virtualMs: number;
}

export interface SimulationOptions {
  readonly wrappers?: Wrappers;
  /** Changes the plan of every seed so that a fault becomes likely: this is how a scenario is aimed. */
  readonly aim?: (plan: Plan, draw: Draw) => Plan;
  /** Actors that a test adds to every seed. */
  readonly more?: (run: SeedRun) => readonly Actor[];
  /** True: keep the history of all events, line by line. */
  readonly verbose?: boolean;
}

/** A running seed, as every actor gets it. */
export interface SeedRun {
  readonly world: World;
  readonly draw: Draw;
  readonly plan: Plan;
  /** Namespace of the group that the seed is about. */
  readonly namespace: string;
  readonly group: string;
  readonly wrappers: Wrappers;
  readonly pasts: Pasts;
  /** The stop hooks of pods. */
  readonly stopHooks: StopHooks;
  readonly checkers: Checkers;
  /** False once the faults have stopped. */
  readonly isFaulty: () => boolean;
  /** The faults of calls at this time. */
  readonly faults: () => CallFaults;
  /** Called when code of a process goes on. */
  readonly onResume: () => void;
  readonly violate: (invariant: string, message: string) => void;
  readonly log: (who: string, what: string) => void;
  /** True if actors should also log details line by line. */
  readonly isVerbose: boolean;
}
