/** What a process is there for: how many there are of it, how it comes to its work, and what its deletions are decided by. */

import type { GroupCache } from "../../functions/shared/cache/cache.ts";
import type { Cluster, ObjectKey, Resource } from "../../functions/shared/kubernetes/cluster.ts";
import type { GroupKey } from "../../functions/shared/workloads/statefulsets.ts";
import type { Terms } from "../support/checkers/limits.ts";
import type { Process } from "./simulated-cluster.ts";

/** What a process has of the world. */
export interface Connection {
  readonly process: Process;
  readonly cluster: Cluster;
  readonly cache: GroupCache;
  /** Is told what each reconcile of a group comes to, and of the zone that its verdict names. */
  readonly onVerdict: (group: GroupKey, zone: string) => void;
  /** An event of a changed object reaches the process; absent: its views need not know. */
  readonly onEvent?: (resource: Resource, object: ObjectKey) => void;
  /** kill -9: nothing of the process goes on. */
  stop(): void;
}

/**
 * `events`: it gets events of what changes. `itself`: it looks for its work when it likes. `reviews`: the API server asks it.
 * Troubles come to each of these in its own way.
 */
export type WatchSource = "events" | "itself" | "reviews";

/**
 * What one healthy process of each function cannot bring to its end, no number of them may. `any`: one is left, whichever it is.
 * `first`: the oldest is left. `new`: all end, and one begins. `none`: all end. `all`: all are left, and no client asks them.
 */
export type InPeace = "any" | "first" | "new" | "none" | "all";

export interface Role {
  /** The names of its processes begin so. */
  readonly name: string;
  readonly watches: WatchSource;
  /** How many begin with the seed. */
  readonly count: number;
  readonly inPeace: InPeace;
  /** What the pods that it deletes are decided by; absent: as a rollout's. */
  readonly terms?: Terms;
  /** It deletes outdated pods alone, and none of a StatefulSet that is paused (invariants Z3, Z4). */
  readonly isRollout?: boolean;
  /** It may be killed as soon as it has written, before another process learns of it. */
  readonly diesAfterWrite?: boolean;
  /** All roles that say so are installed together, and are away together (`uninstall`). */
  readonly isInstalledApart?: boolean;
  /** It is never killed, as nothing comes of it that could be lost. */
  readonly isSpared?: boolean;
  /** It asks for PodDisruptionBudgets, too. */
  readonly decidesEvictions?: boolean;
  /** Begins. Returns what learns of events and of changes that its watches see. */
  open(connection: Connection): ((key: GroupKey) => void) | undefined;
}
