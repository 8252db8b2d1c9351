/** Groups as the decisions about restarts read them: a test states only what it is about. */
import type { ManagerStatus } from "../../../../functions/advance-process-restart/calls.ts";
import type {
  DatabaseFacts,
  MemberNode,
  RuleGroup,
} from "../../../../functions/advance-process-restart/decide-rules.ts";
import type { RestartSettings } from "../../../../functions/shared/annotations/restart.ts";
import type { Zone } from "../../../../functions/shared/groups/zones.ts";
import { namespace, nowMs, type ZoneOptions, zone } from "../advance-zone-rollout/given.ts";

/** A group of these zones, which names no database. */
export function group(changes: Partial<RuleGroup> = {}): RuleGroup {
  const { zones = [] } = changes;
  const surroundings = { workloads: zones.map(({ workload }) => workload), neighbours: [], budgets: [] };
  const rest = { departed: [], strayClaims: [], surroundings, database: { kind: "none" } } as const;
  return { key: { namespace, group: "group" }, nowMs, zones, ...rest, ...changes };
}

/** A zone whose processes restart, by a drawing as in {@link zone}. */
export function managed(name: string, drawing: string, options: ZoneOptions & Partial<RestartSettings> = {}): Zone {
  const { unchecked = new Set(), database, ...changes } = options;
  const manager = { scheme: "http", port: 9844, secret: "token" } as const;
  const settings = { manager, unchecked, malformed: [] };
  const restart: RestartSettings = { ...settings, ...(database && { database }) };
  return zone(name, drawing, { serviceName: "db", restart, ...changes });
}

export const node = (pod: string, roles = "master,data"): MemberNode => ({
  ...{ name: `node-${pod}`, pod },
  roles: roles.split(",").filter(Boolean),
});

/** A database that is yellow and settled, of these nodes. */
export function facts(nodes: readonly MemberNode[], changes: Partial<DatabaseFacts> = {}): DatabaseFacts {
  const settled = { isBusy: false, relocating: 0, initializing: 0, delayed: 0, inFlight: 0, allocation: "all" };
  return { health: "yellow", ...settled, nodes, copies: [], ...changes };
}

/** What the process manager of a pod reports: its process runs, and the call of epoch 5 has arrived. */
export const report = (pod: string, changes: Partial<ManagerStatus> = {}): ManagerStatus => ({
  ...{ podUid: `uid-of-${pod}`, state: "started", processId: "7 1", attempts: 0, mountedSum: undefined },
  ...{ triedSum: undefined, lastEpoch: 5, restartId: undefined, lastCommand: undefined, ...changes },
});
