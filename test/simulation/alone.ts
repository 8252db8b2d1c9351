/** A namespace that has nothing but the group. */
import type { PlannedNeighbours } from "./plan.ts";

export const alone: PlannedNeighbours = {
  group: false,
  spanned: false,
  loose: false,
  labelled: true,
  byApp: false,
};
