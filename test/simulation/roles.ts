/** The role of a process: how many there are of it, what triggers it, and by which terms its deletions are checked. */

import type { GroupCache } from "../../functions/shared/cache/cache.ts";
import type { ReconcileReport } from "../../functions/shared/contract/reporter.ts";
import type { Cluster, ObjectKey, Resource } from "../../functions/shared/kubernetes/cluster.ts";
import type { GroupKey } from "../../functions/shared/workloads/statefulsets.ts";
import type { Terms } from "../support/checkers/limits.ts";
import type { Process } from "./simulated-cluster.ts";

/** What a process gets of the world. */
export interface Connection {
  readonly process: Process;
  readonly cluster: Cluster;
  readonly cache: GroupCache;
  /** Called with the group of each reconcile, and with its verdict. */
  readonly onVerdict: (group: GroupKey, verdict: Pick<ReconcileReport, "function" | "guard" | "zone">) => void;
  /** Called when an event of a changed object reaches the process; absent if its views do not need events. */
  readonly onEvent?: (resource: Resource, object: ObjectKey) => void;
  /** Does kill -9: the process stops for good. */
  stop(): void;
}

/**
 * `events`: events of changes trigger it. `itself`: it begins work when it likes. `reviews`: the API server asks it. Each
 * source has troubles of its own.
 */
export type WatchSource = "events" | "itself" | "reviews";

/**
 * What is left of a role at peace. One healthy process of each function must be enough to finish everything. `any`: one is
 * left, drawn. `first`: the oldest is left. `new`: all end, and one begins. `none`: all end. `all`: all are left, and no
 * client asks them.
 */
export type InPeace = "any" | "first" | "new" | "none" | "all";

export interface Role {
  /** Prefix of the names of its processes. */
  readonly name: string;
  readonly watches: WatchSource;
  /** Number of processes at the start of the seed. */
  readonly count: number;
  readonly inPeace: InPeace;
  /** Terms by which its deletions of pods are checked; absent: those of a rollout. */
  readonly terms?: Terms;
  /** True: it must delete only outdated pods, and none of a paused StatefulSet (invariants Z3, Z4). */
  readonly isRollout?: boolean;
  /** True: it may be killed right after a write, before another process learns of the write. */
  readonly diesAfterWrite?: boolean;
  /** True: it is installed together with all other such roles, and is away together with them (`uninstall`). */
  readonly isInstalledApart?: boolean;
  /** True: it is never killed, because it does nothing that could be lost. */
  readonly isSpared?: boolean;
  /** True: it also reads PodDisruptionBudgets. */
  readonly decidesEvictions?: boolean;
  /** Starts the process. Returns the function to call for events and for changes that its watches see. */
  open(connection: Connection): ((key: GroupKey) => void) | undefined;
}
