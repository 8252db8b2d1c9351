/**
 * What a process needs without Knative: watches in place of API-server sources, and a timer in place of cron. It also accepts
 * CloudEvents, so that a single process serves either way.
 */

import type { AdmissionDefinition } from "../functions/shared/admission/definition.ts";
import { openHandler } from "../functions/shared/admission/shadow.ts";
import { BoundedMap } from "../functions/shared/base/bounded-map.ts";
import { messageOf } from "../functions/shared/base/error-message.ts";
import type { GroupCache } from "../functions/shared/cache/cache.ts";
import { createListReader } from "../functions/shared/cache/listing.ts";
import { createOnDemandCache, type OnDemandCache } from "../functions/shared/cache/on-demand.ts";
import { createWatchCache, type WatchCache, type WatchingOptions } from "../functions/shared/cache/watching.ts";
import type { Context } from "../functions/shared/contract/context.ts";
import type { FunctionDefinition, StatusContext, StatusDefinition } from "../functions/shared/contract/definition.ts";
import { createLedgerCopies, createMemory } from "../functions/shared/contract/memory.ts";
import type { Status } from "../functions/shared/contract/status.ts";
import type { PodHttp } from "../functions/shared/http/pod-http.ts";
import { type Cluster, isRightMissing, type Resource, resources } from "../functions/shared/kubernetes/cluster.ts";
import { protocol } from "../functions/shared/ledger/protocol.ts";
import { createOperatorWatch } from "../functions/shared/standby/other-operator.ts";
import { groupKeyOf } from "../functions/shared/workloads/group-key.ts";
import { type GroupKey, groupPathOf } from "../functions/shared/workloads/statefulsets.ts";
import type { OpenAdmission } from "./server/admission.ts";
import type { Settings } from "./settings/settings.ts";
import { createGroupReader } from "./telemetry/ledger-metrics-groups.ts";
import type { Reporting } from "./telemetry/logs-and-metrics.ts";
import { createRepeats } from "./telemetry/repeats.ts";
import { createVolumeReader } from "./telemetry/volume-metrics.ts";
import { createEnqueuer, type Enqueuer, unviewed } from "./workqueue/enqueue.ts";
import { KnownGroups, mostKnown } from "./workqueue/known-groups.ts";
import { limitLookUps } from "./workqueue/limited-look-ups.ts";
import { followChanges } from "./workqueue/object-watches.ts";
import { leastBackoffMs } from "./workqueue/worker.ts";

export interface StandaloneOptions {
  readonly cluster: Cluster;
  /** HTTP to pods; absent where none of the functions calls any. */
  readonly pods?: PodHttp;
  readonly definitions: readonly FunctionDefinition[];
  readonly admissions: readonly AdmissionDefinition[];
  /** The function that shows the status, and what it shows of the process; absent: none is shown. */
  readonly status?: StatusSource | undefined;
  readonly reporting: Reporting;
  /** Undefined: all of them. */
  readonly namespaces: readonly string[] | undefined;
  readonly settings: Pick<
    Settings,
    "mode" | "views" | "watchIdleMs" | "sweepIntervalMs" | "gatherMs" | "concurrency" | "queueKeys"
  > &
    Partial<Pick<Settings, "otherOperator">>;
  /** False: nothing is swept but for a tick. Absent: at once, and then regularly. */
  readonly sweeps?: boolean;
  /** From 0 to 1, for the jitter of sweeps. */
  readonly random?: () => number;
}

export interface StatusSource extends Pick<StatusContext, "guards" | "answeredBy" | "certificate" | "suspendsVolumes"> {
  readonly definition: StatusDefinition;
}

export interface Standalone {
  readonly enqueuer: Enqueuer;
  /** Reads the status; undefined where the options name no function for it, or no views are kept. */
  readonly readStatus: (() => Promise<Status | undefined>) | undefined;
  /** The functions that decide reviews, open for them. */
  readonly admissions: readonly OpenAdmission[];
  /** Why no decision can be made yet; undefined once the first lists have come. */
  notReady(): string | undefined;
  /**
   * Ends the timer, what is queued, and the watches; false when the queued work took until `deadlineMs` of the monotonic clock.
   * Reviews that wait their turn are answered at once. Others are decided until `answered` resolves, and the watches end after
   * that. Without `answered` no review comes any more.
   */
  stop(deadlineMs: number, answered?: Promise<unknown>): Promise<boolean>;
}

/** A watch that is refused starts again sooner than this. */
const refusedForMs = 60_000;
const notListed = "the first lists of pods and StatefulSets have not come yet";

/** An API server's message may contain a number that always differs, so that the memory for messages needs a limit. */
const rememberedTroubles = 1_000;

/** Starts to watch, and to sweep: at once, and from then on at least as often as the settings say. */
export function startStandalone(options: StandaloneOptions): Standalone {
  const { cluster, definitions, reporting, namespaces, settings, sweeps = true } = options;
  const hasDefinitions = definitions.length > 0;
  const seen = new Map<string, GroupKey>();
  const shown = new BoundedMap<string, GroupKey>(mostKnown);
  const onChange = (key: GroupKey, by: Resource) => {
    seen.set(groupPathOf(key), key);
    if (options.status !== undefined) shown.set(groupPathOf(key), key);
    enqueuer.group(key, by);
  };
  const troubles = reportBrokenWatches(options);
  const { onTrouble } = troubles;
  const { watching, onDemand } = startWatches(options, { onChange, onTrouble });
  reporting.metrics.showWatches(() => (watching ?? onDemand)?.watches ?? 0);
  const known = new KnownGroups((key) => enqueuer.group(key, "statefulsets"));
  const cache = known.learningFrom(watching ?? onDemand ?? createListReader(cluster, namespaces));
  let isListed = watching === undefined;
  void watching?.ready.then(() => {
    isListed = true;
    reporting.log("info", "the first lists of pods and StatefulSets have come");
    reporting.metrics.showGroups(createGroupReader({ cluster, cache: watching, namespaces, seen }), {
      reconciles: hasDefinitions,
    });
    reporting.metrics.showVolumes(createVolumeReader(cluster, namespaces));
  });
  const contextOf = contextsOver(options, cache);
  const lookUps = limitLookUps(cluster);
  const admissions = options.admissions.map((definition) => {
    const context = { ...contextOf(), lookUps };
    return { definition, context, handler: openHandler(definition, context) };
  });
  const enqueuer: Enqueuer = createEnqueuer({
    clock: cluster,
    known,
    isWatching: watching !== undefined,
    onDemand,
    reporting,
    isSwept: sweeps,
    namespaces,
    served: definitions.map((definition) => ({ definition, context: contextOf() })),
    gatherMs: settings.gatherMs,
    concurrency: settings.concurrency,
    capacity: settings.queueKeys,
  });
  const stopping = new AbortController();
  const sources = settings.views === "watch" ? unviewed(definitions) : [];
  const { watched: onChanged } = enqueuer;
  const following = followChanges({ cluster, namespaces, sources, onChange: onChanged, onTrouble }, stopping.signal);
  const isSwept = sweeps && hasDefinitions;
  const sweeping = isSwept ? keepTime(options, enqueuer, stopping.signal) : Promise.resolve();
  return {
    enqueuer,
    readStatus: watching && openStatus(options, watching, { shown, admissions, troubles, isListed: () => isListed }),
    admissions,
    notReady: () => (isListed ? undefined : notListed),
    async stop(deadlineMs, answered) {
      stopping.abort();
      for (const { handler } of admissions) handler.stop?.();
      await sweeping;
      const [drained] = await Promise.all([enqueuer.drain(deadlineMs), answered]);
      await Promise.all([watching?.stop(), onDemand?.stop(), following]);
      return drained;
    },
  };
}

/**
 * The groups of StatefulSets without a `rollout-group` and a budget whose processes are restarted. No event is about such a
 * group, and it may not have a ledger yet.
 */
function* loneRestarts(cache: WatchCache, namespaces: readonly string[] | undefined): Generator<GroupKey> {
  for (const namespace of namespaces ?? [""])
    for (const statefulSet of cache.memoryOf(namespace).membership.byPath.values())
      if (statefulSet.group === undefined && statefulSet.restart !== undefined) yield groupKeyOf(statefulSet);
}

function openStatus(
  { cluster, status, namespaces }: StandaloneOptions,
  cache: WatchCache,
  here: Pick<Standalone, "admissions"> & {
    readonly shown: ReadonlyMap<string, GroupKey>;
    readonly troubles: WatchTroubles;
    readonly isListed: () => boolean;
  },
): Standalone["readStatus"] {
  if (status === undefined) return undefined;
  const { definition, ...source } = status;
  const { shown, admissions, troubles, isListed } = here;
  const viewsTrouble = () => (isListed() ? undefined : troubles.last());
  const { refusedWatches } = troubles;
  const parked = () => admissions.flatMap(({ handler }) => handler.parked?.() ?? []);
  return definition.open({
    cluster,
    cache,
    groups: () => [...shown.values(), ...loneRestarts(cache, namespaces)],
    parked,
    viewsTrouble,
    refusedWatches,
    ...source,
  });
}

/**
 * A context for each function. Each remembers a group separately, because two of them may reconcile one group at once. They
 * share one copy of its ledger.
 */
function contextsOver(options: StandaloneOptions, cache: GroupCache): () => Context {
  const { cluster, pods, reporting, namespaces, settings } = options;
  const { mode } = settings;
  const outside = { cluster, cache, protocol, ...(pods === undefined ? {} : { pods }) };
  const beside = otherOperatorOf(options);
  const shared = { ...outside, reporter: reporting, mode, namespaces, settings, ...beside };
  const copyOf = createLedgerCopies();
  return () => ({ ...shared, memoryOf: createMemory(copyOf) });
}

/** A shadow writes nothing and is compared with rollout-operator, so that it never stands by. */
function otherOperatorOf({
  cluster,
  reporting,
  namespaces,
  settings,
}: StandaloneOptions): Pick<Context, "otherOperator"> {
  if (settings.mode === "shadow" || settings.otherOperator !== "wait") return {};
  const otherOperator = createOperatorWatch(cluster, namespaces);
  reporting.metrics.showOtherOperator(otherOperator.pods);
  return { otherOperator };
}

/** The cache that always watches, or the one that watches while it is used; undefined if each decision lists what it reads. */
function startWatches(
  { cluster, definitions, admissions, status, namespaces, reporting, settings }: StandaloneOptions,
  listeners: Pick<WatchingOptions, "onChange" | "onTrouble">,
): { readonly watching?: WatchCache; readonly onDemand?: OnDemandCache } {
  const { views, watchIdleMs: idleMs } = settings;
  // A function whose keys are of no namespace, such as Nodes, decides without groups, and may lack the right to watch their pods.
  const decidesOnGroups = definitions.some(({ keyedBy }) => keyedBy === "groups" || resources[keyedBy].isNamespaced);
  const shared = { cluster, namespaces, ...listeners };
  if (views === "awake" && idleMs > 0 && decidesOnGroups)
    return { onDemand: createOnDemandCache({ ...shared, idleMs, leastBackoffMs }) };
  // A function that decides on an object by itself needs no cache, and if there is nothing else, nothing is watched.
  const disruptionBudgets = admissions.some((admission) => admission.readsViews);
  if (views !== "watch" || !(decidesOnGroups || disruptionBudgets || status !== undefined)) return {};
  return { watching: createWatchCache({ ...shared, disruptionBudgets, onBudget: reporting.metrics.budgets.note }) };
}

interface WatchTroubles extends Pick<WatchingOptions, "onTrouble"> {
  /** The last trouble; before any, that the first lists have not come. */
  last(): unknown;
  /** By resource: why the API server refuses to let it be watched or listed, where it has done so of late. */
  refusedWatches(): ReadonlyMap<string, unknown>;
}

function reportBrokenWatches({ cluster, reporting }: StandaloneOptions): WatchTroubles {
  const isWorthALine = createRepeats(rememberedTroubles, () => cluster.monotonicMs());
  let last: unknown = new Error(notListed);
  const refused = new Map<string, { readonly error: unknown; readonly atMs: number }>();
  return {
    last: () => last,
    refusedWatches() {
      const recent = [...refused].filter(([, { atMs }]) => cluster.monotonicMs() - atMs < refusedForMs);
      return new Map(recent.map(([resource, { error }]) => [resource, error]));
    },
    onTrouble(resource, error) {
      last = error;
      if (isRightMissing(error)) refused.set(resource, { error, atMs: cluster.monotonicMs() });
      else refused.delete(resource);
      const message = messageOf(error);
      const level = isWorthALine(`${resource} ${message}`) ? "warn" : "debug";
      const text = `the watch of ${resource} broke and starts again: ${message}`;
      reporting.log(level, text, { resource, reason: "watch-broke", err: error });
    },
  };
}

/** A timer for the sweeps, and one for each function that has a schedule of its own. Resolves when all of them have ended. */
async function keepTime(
  options: StandaloneOptions,
  enqueuer: Pick<Enqueuer, "sweep" | "due">,
  stopped: AbortSignal,
): Promise<void> {
  const { cluster, settings, definitions, random = Math.random } = options;
  const regularly = async (everyMs: number, run: () => void) => {
    while (!stopped.aborted) {
      run();
      // Never later than promised, and not all processes of a cluster at one moment.
      await cluster.sleep(everyMs * (0.8 + 0.2 * random()), stopped);
    }
  };
  const own = definitions.flatMap(({ name, schedule }) =>
    schedule === undefined ? [] : [regularly(schedule.everySeconds * 1_000, () => enqueuer.due(name))],
  );
  await Promise.all([regularly(settings.sweepIntervalMs, () => enqueuer.sweep()), ...own]);
}
