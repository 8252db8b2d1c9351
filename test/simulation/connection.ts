/**
 * What a new process gets of the world: its own connection, and views that come from watches or are as stale as rule R5
 * allows.
 */

import type { GroupCache, GroupView } from "../../functions/shared/cache/cache.ts";
import { createOnDemandCache } from "../../functions/shared/cache/on-demand.ts";
import { createWatchCache } from "../../functions/shared/cache/watching.ts";
import type { GroupKey } from "../../functions/shared/workloads/statefulsets.ts";
import type { Connection } from "./roles.ts";
import type { SeedRun } from "./seed.ts";
import { type CallObserver, type Process, type ProcessClocks, SimulatedCluster } from "./simulated-cluster.ts";
import { createStaleViews, type RevisionClock } from "./stale-views.ts";

/** How far behind the newest write an API server's memory is, from which it answers LISTs. */
const memoryLagMs = 3_000;

export interface ConnectionOptions {
  readonly process: Process;
  readonly observer: CallObserver;
  readonly revisions: RevisionClock;
  readonly clock: ProcessClocks;
  readonly decidesEvictions: boolean;
  /** True if the process watches on demand where the plan says so. */
  readonly comesAndGoes: boolean;
  readonly onChange: (key: GroupKey) => void;
  readonly onVerdict: Connection["onVerdict"];
  /** Receives each view that is handed out, and the key of its group. */
  readonly onView: (key: GroupKey, view: GroupView) => void;
}

export function connectProcess(run: SeedRun, options: ConnectionOptions): Connection {
  const { world, draw, plan, wrappers, faults, onResume } = run;
  const { process, clock, observer, onView, onVerdict, revisions } = options;
  const oldestRevision = () => revisions.at(world.timeline.nowMs() - memoryLagMs);
  const simulated = new SimulatedCluster({ world, draw, process, faults, clock, oldestRevision, observer, onResume });
  const cluster = wrappers.connection?.(simulated) ?? simulated;
  if (!plan.watching) {
    const staleness = () => plan.staleness;
    const cache = createStaleViews({ world, cluster, draw, staleness, onView }, revisions);
    const stop = () => {
      process.alive = false;
    };
    return { process, cluster, cache, onVerdict, stop };
  }
  const { onDemandIdleMs: idleMs } = plan;
  const { onChange, decidesEvictions: disruptionBudgets } = options;
  const shared = { cluster, namespaces: undefined, onChange, onTrouble: () => undefined };
  const onDemand =
    idleMs !== undefined && options.comesAndGoes ? createOnDemandCache({ ...shared, idleMs }) : undefined;
  const watching = onDemand ?? createWatchCache({ ...shared, disruptionBudgets });
  const read: GroupCache["read"] = (key, need) => {
    return watching.read(key, need).then((view) => {
      onView(key, view);
      return view;
    });
  };
  const stop = () => {
    process.alive = false;
    onResume();
    void watching.stop();
  };
  const onEvent = onDemand === undefined ? {} : { onEvent: onDemand.noteEvent };
  return { process, cluster, cache: { ...watching, read }, onVerdict, stop, ...onEvent };
}
