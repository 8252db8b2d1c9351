/** Observes a group as its functions do, and writes nothing: what `kubectl sluice why -o json` prints. */

import { findWait } from "../../functions/shared/admission/refusal-events.ts";
import type { GuardExplanation } from "../../functions/shared/base/guards.ts";
import type { GroupView } from "../../functions/shared/cache/cache.ts";
import { createListReader } from "../../functions/shared/cache/listing.ts";
import type { Context } from "../../functions/shared/contract/context.ts";
import { createMemory } from "../../functions/shared/contract/memory.ts";
import { type ReconcileReport, silentReporter } from "../../functions/shared/contract/reporter.ts";
import { governing, selects } from "../../functions/shared/groups/governing.ts";
import { neverByBudget, neverByDisruptionBudget } from "../../functions/shared/groups/never-possible.ts";
import {
  missingOrdinals,
  readyPods,
  surveyZone,
  type WhyDown,
  type Zone,
} from "../../functions/shared/groups/zones.ts";
import type { Cluster } from "../../functions/shared/kubernetes/cluster.ts";
import { LedgerUnreadable } from "../../functions/shared/ledger/errors.ts";
import { ledgerName } from "../../functions/shared/ledger/lease-name.ts";
import { protocol } from "../../functions/shared/ledger/protocol.ts";
import type { Ledger } from "../../functions/shared/ledger/reservation.ts";
import { recordEveryMs } from "../../functions/shared/reconcile/record.ts";
import { createOperatorWatch } from "../../functions/shared/standby/other-operator.ts";
import { noteLedger } from "../../functions/shared/transaction/ledger-age.ts";
import { loadLedger } from "../../functions/shared/transaction/ledger-copy.ts";
import {
  type GroupObservation,
  observeGroup,
  retryRefusedAfterMs,
} from "../../functions/shared/transaction/observe-group.ts";
import { readGroup } from "../../functions/shared/workloads/group-key.ts";
import { type Pod, podNameOf } from "../../functions/shared/workloads/pods.ts";
import { type GroupKey, isStatefulSet, type ZoneWorkload } from "../../functions/shared/workloads/statefulsets.ts";
import { groupFunctions } from "../table.ts";
import { type ClaimInspection, inspectClaim } from "./claims.ts";
import { explainGuard } from "./guards.ts";
import { abandonedFromMs, outlook, type Situation } from "./reservations.ts";

/** The most missing ordinals that a zone lists, because a user may have asked for 2^31 replicas. */
const maxListedMissing = 1_000;

/** One group at one moment. Fields are added, and neither renamed nor removed. Times are RFC 3339, by the API server's clock. */
export interface GroupInspection {
  readonly namespace: string;
  readonly group: string;
  readonly at: string;
  /** `unreadable` says what is wrong with it, so that nothing is permitted; null when nothing is. */
  readonly ledger: { readonly name: string; readonly exists: boolean; readonly unreadable: string | null };
  readonly zones: readonly ZoneInspection[];
  readonly reservations: readonly ReservationInspection[];
  /** What is reserved besides pods that go. */
  readonly claims: readonly ClaimInspection[];
  readonly functions: readonly FunctionInspection[];
  /** Deletions that the API server refused for good. */
  readonly refusals: readonly { readonly pod: string; readonly sentence: string; readonly triedAgainAt: string }[];
  readonly budgets: readonly BudgetInspection[];
  /** Why an eviction of a pod of this group cannot be decided; null when it can. */
  readonly ungovernable: string | null;
  /** What no eviction of this group will ever be allowed by (rule R25), each with its numbers. */
  readonly neverPossible: readonly string[];
  /** Why Sluice stands by for rollout-operator, unless `OTHER_OPERATOR` is `ignore`; null when it need not. */
  readonly otherOperator: string | null;
  /** Evictions that began to wait for their turn in the last one or two minutes: one for each zone. */
  readonly waiting: readonly { readonly zone: string; readonly sentence: string; readonly at: string }[];
}

export interface ZoneInspection {
  readonly name: string;
  readonly wanted: number;
  readonly ready: number;
  readonly outdated: number;
  /** How many a rollout may take down by the StatefulSet's own annotation; a budget may allow less. */
  readonly maxUnavailable: number;
  readonly paused: boolean;
  readonly updateStrategy: string;
  /** By ordinal; `reserved` and `claimed` are pods that are ready and may go at any moment. */
  readonly down: readonly { readonly pod: string; readonly ordinal: number; readonly why: WhyDown }[];
  /** How many more are missing than stand in `down`, which lists the first 1,000 of them. */
  readonly missingBesides: number;
  /** Pods beyond the wanted ones that are not gone yet. */
  readonly leaving: readonly string[];
  /** Annotations that do not parse, and what to write instead. */
  readonly warnings: readonly string[];
}

export interface ReservationInspection {
  readonly pod: string;
  readonly uid: string;
  readonly function: string;
  /** When it was made or renewed. */
  readonly at: string;
  readonly standing: Situation["standing"];
  readonly next: string;
  /** From when on it is dropped, or can be released, if its pod still stands. */
  readonly abandonedFrom: string;
}

interface InspectedVerdict extends GuardExplanation {
  readonly guard: string;
  readonly zone: string;
  readonly sentence: string;
}

export interface FunctionInspection {
  readonly function: string;
  /** What it last wrote into the ledger; null when it wrote nothing. */
  readonly recorded: (InspectedVerdict & { readonly since: string; readonly at: string }) | null;
  /** What it decides on the group as it is now; null for a function that only reviews trigger. */
  readonly now:
    | (InspectedVerdict & {
        /** When it reconciles again without an event; null for not before the next event or sweep. */
        readonly recheckSeconds: number | null;
      })
    | null;
  /** True when it would act now, or what it wrote is not what it decides now, and it has had the time to write that. */
  readonly stale: boolean;
}

export interface BudgetInspection {
  readonly name: string;
  readonly maxUnavailable: number | null;
  readonly maxUnavailablePercentage: number | null;
  /** The partition expression; null where each zone has the budget for itself. */
  readonly podNamePartitionRegex: string | null;
  readonly crossZoneEvictionDelaySeconds: number;
  /** What is wrong with it; null when nothing is. */
  readonly invalid: string | null;
}

/** One observation of a group. */
export interface Inspection {
  readonly context: Context;
  readonly key: GroupKey;
  readonly nowMs: number;
  readonly view: GroupView;
  /** Undefined where the ledger cannot be read. */
  readonly observed: GroupObservation | undefined;
  readonly unreadable: string | undefined;
  readonly situations: readonly Situation[];
}

/** A process that decides and writes nothing: rule R16 counts for everything that runs in it. */
export function createShadow(cluster: Cluster, namespace: string): Context {
  return {
    cluster,
    cache: createListReader(cluster, [namespace]),
    protocol,
    reporter: silentReporter,
    mode: "shadow",
    namespaces: [namespace],
    memoryOf: createMemory(),
    otherOperator: createOperatorWatch(cluster, [namespace]),
  };
}

/** Reads a group's ledger, then its StatefulSets, pods and budgets by consistent LISTs. Throws ClusterError. */
export async function readInspection(shadow: Context, key: GroupKey): Promise<Inspection> {
  const { cluster } = shadow;
  let ledger: Ledger | undefined;
  let unreadable: string | undefined;
  try {
    ledger = await loadLedger(shadow, key, shadow.memoryOf(key));
  } catch (error) {
    if (!(error instanceof LedgerUnreadable)) throw error;
    unreadable = error.message;
  }
  const need = { permitSinceMs: undefined, consistent: true };
  const view = await shadow.cache.read(key, { ...need, settledThrough: ledger?.settledThrough });
  // From here on all answers come from this one view, so that they fit together.
  const context = { ...shadow, cache: { ...shadow.cache, read: async () => view } };
  const observed = ledger && (await observeGroup(context, ledger, need));
  const situations = observed === undefined ? [] : situationsOf(context, observed);
  return { context, key, nowMs: cluster.serverTimeMs(), view, observed, unreadable, situations };
}

function situationsOf(context: Context, { reserved, open, nowMs }: GroupObservation): Situation[] {
  return [...reserved].map(([reservation, where]): Situation => {
    const pod = where.pod;
    const statefulSet = where.isMember ? where.workload : undefined;
    const isSettled = context.protocol.isSettled(reservation, where, nowMs);
    const standing = open.includes(reservation) ? "open" : isSettled ? "settled" : "abandoned";
    return { reservation, standing, pod, workload: statefulSet, nowMs };
  });
}

/** True if that group has neither a StatefulSet nor a ledger. */
export function isUnknown({ view, observed, unreadable }: Inspection): boolean {
  return view.workloads.length === 0 && unreadable === undefined && observed?.ledger.kind === "imagined";
}

/** Everything that the command shows about a group. Throws ClusterError. */
export async function inspect(inspection: Inspection): Promise<GroupInspection> {
  const { key, nowMs, view, observed, unreadable, situations } = inspection;
  const zones = observed?.zones ?? view.workloads.map((one) => surveyZone(one, view.podsOf(one), [], nowMs));
  const pods = zones.flatMap((zone) => [...zone.pods, ...zone.leaving]);
  const refusals = [...(observed?.refusals.values() ?? []), ...(observed?.givenUp.values() ?? [])];
  const exists = unreadable !== undefined || observed?.ledger.kind !== "imagined";
  return {
    namespace: key.namespace,
    group: key.group,
    at: formatTime(nowMs),
    ledger: { name: ledgerName(key.group), exists, unreadable: unreadable ?? null },
    zones: zones.map(inspectZone),
    reservations: situations.map(inspectReservation),
    claims: (observed?.ledger.claims ?? []).map(inspectClaim),
    functions: await inspectFunctions(inspection),
    refusals: refusals.map(({ pod, message, stampMs }) => {
      return { pod, sentence: message, triedAgainAt: formatTime(stampMs + retryRefusedAfterMs) };
    }),
    budgets: inspectBudgets(view, pods),
    ungovernable: findUngovernable(inspection, pods),
    neverPossible: await findNever(inspection, pods),
    otherOperator: (await inspection.context.otherOperator?.standBy(key.namespace))?.message ?? null,
    waiting: await findWaiting(inspection),
  };
}

function formatTime(ms: number): string {
  return new Date(ms).toISOString();
}

function inspectZone(zone: Zone<ZoneWorkload>): ZoneInspection {
  const { workload, outdated, down, leaving } = zone;
  const { name, replicas, maxUnavailable, malformed } = workload;
  // Another owner than a StatefulSet has no settings about the update of its pods.
  const { paused, strategy } = isStatefulSet(workload) ? workload : { paused: false, strategy: "" };
  const missing = [...missingOrdinals(zone).take(maxListedMissing)];
  const ordinals = [...down.keys(), ...missing].sort((one, other) => one - other);
  return {
    name,
    wanted: replicas,
    ready: readyPods(zone).length,
    outdated: outdated.length,
    maxUnavailable,
    paused,
    updateStrategy: strategy,
    down: ordinals.map((ordinal) => ({
      pod: podNameOf({ statefulSet: name, ordinal }),
      ordinal,
      why: down.get(ordinal) ?? "missing",
    })),
    missingBesides: zone.missing - missing.length,
    leaving: leaving.map((pod) => pod.name),
    warnings: malformed.map(({ message }) => message),
  };
}

function inspectReservation(situation: Situation): ReservationInspection {
  const { reservation, standing } = situation;
  return {
    pod: podNameOf(reservation),
    uid: reservation.uid,
    function: reservation.by,
    at: formatTime(reservation.stampMs),
    standing,
    next: outlook(situation),
    abandonedFrom: formatTime(abandonedFromMs(reservation)),
  };
}

/** The last verdict of each function, and its present decision: a reconcile in shadow mode over the same view. */
async function inspectFunctions({ context, key, nowMs, observed }: Inspection): Promise<FunctionInspection[]> {
  const { cluster } = context;
  const ledger = observed?.ledger;
  if (ledger?.kind === "stored") {
    // The plugin reads the ledger for the first time, and the group's processes may have known it all along (rule R4).
    noteLedger(cluster, ledger.uid, nowMs - ledger.createdMs);
  }
  const inspections = new Map<string, FunctionInspection>();
  for (const [name, { guard, zone, sentence: message, since, at }] of Object.entries(ledger?.verdicts ?? {})) {
    const explained = explainGuard(name, guard, { ...key, zone });
    const recorded = { guard, zone, sentence: message, ...explained, since: formatTime(since), at: formatTime(at) };
    inspections.set(name, { function: name, recorded, now: null, stale: false });
  }
  // Sweeps and events trigger functions for the groups of a label; the others have only reviews.
  if (readGroup(key.group).kind !== "labelled") return [...inspections.values()];
  for (const definition of groupFunctions.filter(({ keyedBy }) => keyedBy === "groups")) {
    const reports: ReconcileReport[] = [];
    const reporter = { ...silentReporter, verdict: (report: ReconcileReport) => void reports.push(report) };
    const written = ledger?.verdicts[definition.name];
    const { requeueAfterMs } = await definition.reconcile({ ...context, reporter }, key, { sweep: false });
    const report = reports.at(-1);
    if (report === undefined) continue;
    const { guard, zone, message } = report;
    const recheckSeconds = requeueAfterMs === undefined ? null : Math.ceil(requeueAfterMs / 1000);
    // A function that would act now would have written a reservation.
    const differs = written?.guard !== guard || written.zone !== zone || guard === "rolling";
    const stale = written !== undefined && differs && nowMs - written.at > recordEveryMs;
    const recorded = inspections.get(definition.name)?.recorded ?? null;
    const explained = explainGuard(definition.name, guard, { ...key, zone });
    const now = { guard, zone, sentence: message, ...explained, recheckSeconds };
    inspections.set(definition.name, { function: definition.name, recorded, now, stale });
  }
  return [...inspections.values()];
}

function inspectBudgets({ budgets, workloads }: GroupView, pods: readonly Pod[]): BudgetInspection[] {
  const labelled = [
    ...pods.map(({ labels }) => labels),
    ...workloads.filter(isStatefulSet).map(({ podLabels }) => podLabels),
  ];
  const governed = budgets.filter((stored) => labelled.some((labels) => selects(stored, labels)));
  return governed.map(({ name, parsed }) => {
    if (!("budget" in parsed)) return { ...blankBudget, name, invalid: parsed.message };
    const { allowance, partitions, crossZoneEvictionDelayMs } = parsed.budget;
    return {
      ...blankBudget,
      name,
      ...("pods" in allowance ? { maxUnavailable: allowance.pods } : { maxUnavailablePercentage: allowance.percent }),
      podNamePartitionRegex: partitions?.expression ?? null,
      crossZoneEvictionDelaySeconds: crossZoneEvictionDelayMs / 1000,
    };
  });
}

const blankBudget: Omit<BudgetInspection, "name"> = {
  maxUnavailable: null,
  maxUnavailablePercentage: null,
  podNamePartitionRegex: null,
  crossZoneEvictionDelaySeconds: 0,
  invalid: null,
};

/** Throws ClusterError. */
async function findWaiting({ context, view }: Inspection): Promise<GroupInspection["waiting"]> {
  const found = await Promise.all(
    view.workloads
      .filter(isStatefulSet)
      .map(async (one) => ({ zone: one.name, wait: await findWait(context.cluster, one) })),
  );
  return found.flatMap(({ zone, wait }) => (wait === undefined ? [] : [{ zone, sentence: wait.message, at: wait.at }]));
}

/** The first pod is enough, because the reason that keeps evictions of a group from being decided is seldom one pod's own. */
function findUngovernable({ view, key }: Inspection, pods: readonly Pod[]): string | null {
  for (const pod of pods) {
    const governed = governing(pod, view, key);
    if (governed.kind === "ungovernable") return governed.message;
  }
  return null;
}

/** Once for each budget. Throws ClusterError. */
async function findNever({ context, view, key }: Inspection, pods: readonly Pod[]): Promise<string[]> {
  const disruptionBudgets = await context.cache.disruptionBudgets(key.namespace);
  const all = [...view.workloads.filter(isStatefulSet), ...view.neighbours];
  const reasons = pods.flatMap((pod) => {
    const governed = governing(pod, view, key);
    if (governed.kind !== "one") return [];
    return neverByBudget(governed.name, governed.budget) ?? neverByDisruptionBudget(pod, disruptionBudgets, all) ?? [];
  });
  return [...new Set(reasons)];
}
