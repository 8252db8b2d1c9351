/** A group that has nothing beside it in its namespace. */
import type { PlannedNeighbours } from "./plan.ts";

export const alone: PlannedNeighbours = {
  group: false,
  spanned: false,
  loose: false,
  labelled: true,
  byApp: false,
};
