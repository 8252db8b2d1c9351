/** An accident that happened in another project, as a few lines: a start, what goes wrong, and what must hold. */
import type { Removal } from "./removals.ts";
import type { Scene, Start } from "./scene.ts";

export interface Accident {
  /** As the README beside this file lists it. */
  readonly id: string;
  /** Where it was told, and what happened there. */
  readonly source: string;
  /** What must hold here. */
  readonly promise: string;
  readonly start: Start;
  /** What goes wrong, and in between what must hold. */
  readonly story: (scene: Scene) => Promise<void>;
  /** Each of these, taken out, lets it happen again. */
  readonly without: readonly Removal[];
}
