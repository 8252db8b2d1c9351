/** What marks on Machines need: rights to the kinds that the user lists, and to no other. */

import { unhealthy } from "../shared/annotations/fencing.ts";
import { pathsOf } from "../shared/annotations/paths.ts";
import type { KindNeed } from "../shared/contract/definition.ts";

/** Machines may be in any namespace: those of Cluster API are where the object of their cluster is. */
export const machineNeeds: readonly KindNeed[] = [
  { list: "machines", verbs: ["get", "list", "patch"], scope: "every-namespace", changes: pathsOf(unhealthy) },
];
