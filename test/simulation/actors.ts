/** All actors of a seed. A new actor has a file of its own and an entry here. */
import type { Actor } from "./actor.ts";
import { Budgets } from "./budgets.ts";
import { Claims } from "./claims/claims.ts";
import { Clocks } from "./clocks.ts";
import { Elsewhere } from "./elsewhere.ts";
import { Events } from "./events.ts";
import { Evictions } from "./evictions.ts";
import { Functions } from "./functions.ts";
import { Ledgers } from "./ledgers.ts";
import { Livelock } from "./livelock.ts";
import { Nodes, Pods } from "./nodes.ts";
import { OtherOperator } from "./other-operator/other-operator.ts";
import { disturbances as allDisturbances, type Disturbance } from "./plan.ts";
import { Processes } from "./processes.ts";
import { Restarts } from "./restarting/restarts.ts";
import { Scaling } from "./scaling/scaling.ts";
import type { SeedRun } from "./seed.ts";
import { SkipLabels } from "./skip-labels/skip-labels.ts";
import { RevisionClock } from "./stale-views.ts";
import { Suspension } from "./suspension/suspension.ts";
import { Versions } from "./versions/versions.ts";
import { Workloads } from "./workloads.ts";

/**
 * Opens the actors. They start and make their peace in this order, and add their objects to the world in the order of the
 * lines. `more`: actors of one test alone.
 */
export function openActors(run: SeedRun, more: readonly Actor[] = []): readonly Actor[] {
  const workloads = new Workloads(run);
  const budgets = new Budgets(run, workloads);
  const nodes = new Nodes(run, workloads);
  const pods = new Pods(run, workloads, nodes);
  const ledgers = new Ledgers(run, workloads);
  const claims = new Claims(run);
  const elsewhere = new Elsewhere(run);
  const functions = new Functions(run);
  const versions = new Versions(run);
  const scaling = new Scaling(run);
  const skipLabels = new SkipLabels(run);
  const suspension = new Suspension(run);
  const otherOperator = new OtherOperator(run);
  const restarts = new Restarts(run);
  const evictions = new Evictions(run);
  const livelock = new Livelock(run);
  const roles = [functions, claims, versions, scaling, skipLabels, suspension, restarts, evictions, ...more].flatMap(
    ({ roles = [] }: Actor) => roles,
  );
  const revisions = new RevisionClock();
  const processes = new Processes(run, revisions, roles);
  const clocks = new Clocks(run, processes);
  const events = new Events(run, revisions, processes);
  return [
    nodes,
    budgets,
    workloads,
    pods,
    ledgers,
    claims,
    elsewhere,
    functions,
    versions,
    scaling,
    skipLabels,
    suspension,
    otherOperator,
    restarts,
    processes,
    clocks,
    events,
    evictions,
    livelock,
    ...more,
  ];
}

/** The troubles of all actors by name. Throws if two actors cause the same one, or if no actor causes one that plans name. */
export function troublesOf(actors: readonly Actor[]): ReadonlyMap<Disturbance, () => void> {
  const troubles = new Map<Disturbance, () => void>();
  for (const { name, disturbances = {} } of actors) {
    for (const [kind, disturb] of Object.entries(disturbances) as [Disturbance, () => void][]) {
      if (troubles.has(kind)) throw new Error(`${name} brings ${kind}, and so does another actor`);
      troubles.set(kind, disturb);
    }
  }
  const missing = allDisturbances.filter((kind) => !troubles.has(kind));
  if (missing.length > 0) throw new Error(`no actor brings ${missing.join(", ")}`);
  return troubles;
}
