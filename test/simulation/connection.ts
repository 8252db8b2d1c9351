/** What a new process has of the world: its own connection, and views that are as stale as they may be, or come from watches. */
import type { Cluster } from "../../functions/shared/kubernetes/cluster.ts";
import type { GroupKey } from "../../functions/shared/objects/statefulsets.ts";
import type { GroupView, Views } from "../../functions/shared/views/view.ts";
import { createWatchingViews } from "../../functions/shared/views/watching.ts";
import type { World } from "../world/world.ts";
import type { Draw } from "./draw.ts";
import type { Plan } from "./plan.ts";
import type { Wrappers } from "./replica.ts";
import {
  type CallFaults,
  type CallObserver,
  type Process,
  type ServerClock,
  SimulatedCluster,
} from "./simulated-cluster.ts";
import { createStaleViews, type RevisionClock } from "./stale-views.ts";

/** How far the memory of an API server, from which it answers LISTs, is behind what has been written. */
const memoryLagMs = 3_000;

export interface ConnectionOptions {
  readonly process: Process;
  readonly world: World;
  readonly draw: Draw;
  readonly plan: Plan;
  readonly wrappers: Wrappers;
  readonly faults: () => CallFaults;
  readonly observer: CallObserver;
  readonly revisions: RevisionClock;
  readonly clock: ServerClock;
  readonly judgesEvictions: boolean;
  /** Code of the process goes on. */
  readonly onResume: () => void;
  readonly onChange: (key: GroupKey) => void;
  /** Hears of each view that is handed out, and of which group it is. */
  readonly onView: (key: GroupKey, view: GroupView) => void;
}

export interface Connection {
  readonly process: Process;
  readonly cluster: Cluster;
  readonly views: Views;
  /** kill -9: nothing of the process goes on. */
  stop(): void;
}

export function connectProcess(options: ConnectionOptions): Connection {
  const { process, world, draw, plan, clock, faults, observer, onResume, onView, revisions } = options;
  const oldestRevision = () => revisions.at(world.timeline.nowMs() - memoryLagMs);
  const simulated = new SimulatedCluster({ world, draw, process, faults, clock, oldestRevision, observer, onResume });
  const cluster = options.wrappers.connection?.(simulated) ?? simulated;
  if (!plan.watching) {
    const staleness = () => plan.staleness;
    const views = createStaleViews({ world, cluster, draw, staleness, onView }, revisions);
    const stop = () => {
      process.alive = false;
    };
    return { process, cluster, views, stop };
  }
  const watching = createWatchingViews({
    cluster,
    namespaces: undefined,
    disruptionBudgets: options.judgesEvictions,
    onChange: options.onChange,
    onTrouble: () => undefined,
  });
  const read: Views["read"] = (key, need) => {
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
  return { process, cluster, views: { ...watching, read }, stop };
}
