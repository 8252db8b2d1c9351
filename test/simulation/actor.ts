/**
 * An actor causes events in a seed: users, nodes, processes and clocks are actors. Each has one file, which holds all that the
 * seed has of it, and one line in `actors.ts`.
 */
import type { Checker } from "./checker.ts";
import type { Disturbance } from "./plan.ts";
import type { Role } from "./roles.ts";

export interface Actor {
  /** Unique name of the actor. */
  readonly name: string;
  /** Troubles by their names. Plans say by these names how often each comes. */
  readonly disturbances?: Readonly<Partial<Record<Disturbance, () => void>>>;
  /** The processes that the actor adds. */
  readonly roles?: readonly Role[];
  /** Checkers of what the actor does, or of what others do to it. */
  readonly checkers?: readonly Checker[];
  /** Called when the world is set up and at rest. */
  start?(): void;
  /** Called when the first rollout begins, and the troubles with it. */
  begin?(): void;
  /** Called when the troubles are over: the actor mends what it broke, and drops every wish that cannot be fulfilled. */
  makePeace?(): void;
  /** Called when everything has converged and no rollout is left: no other actor causes now what this one still needs. */
  atRest?(): void;
  stop?(): void;
}
