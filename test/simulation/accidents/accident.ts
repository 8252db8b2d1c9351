/** An accident that happened in another project, as a few lines: a start, what goes wrong, and what must hold. */
import type { Removal } from "./removals.ts";
import type { Scene, Start } from "./scene.ts";

export interface Accident {
  /** Id in the table of the README beside this file. */
  readonly id: string;
  /** The public thread or test that reported it, and what happened there. */
  readonly source: string;
  /** What Sluice promises instead. */
  readonly promise: string;
  readonly start: Start;
  /** Makes things go wrong, and checks in between what must hold. */
  readonly story: (scene: Scene) => Promise<void>;
  /** Rules: when any one of them is removed, the accident must happen. */
  readonly without: readonly Removal[];
}
