/**
 * Who brings something about in a seed: users, nodes, processes, clocks. Each is one file, which says all that the seed has of
 * it, and one line in `actors.ts`.
 */
import type { Checker } from "./checker.ts";
import type { Disturbance } from "./plan.ts";
import type { Role } from "./roles.ts";

export interface Actor {
  /** What the others call it; no two have the same. */
  readonly name: string;
  /** Its troubles, each under the name by which plans say how often it comes. */
  readonly disturbances?: Readonly<Partial<Record<Disturbance, () => void>>>;
  /** The processes that it brings along. */
  readonly roles?: readonly Role[];
  /** Those who decide what it does, or what is done to it. */
  readonly checkers?: readonly Checker[];
  /** The world stands, and is at rest. */
  start?(): void;
  /** The first rollout begins, and with it the troubles. */
  begin?(): void;
  /** The troubles are over: it mends what it has broken, and wants nothing that cannot come true. */
  makePeace?(): void;
  /** All has come to its end, and no rollout is left: no other actor brings about what it wants now. */
  atRest?(): void;
  stop?(): void;
}
