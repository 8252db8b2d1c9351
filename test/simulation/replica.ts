/** One process of a function: shipped code over a failing connection, triggered by events that may be lost. */

import type { AdmissionAnswer, AdmissionRequest } from "../../functions/shared/admission/definition.ts";
import type { GroupCache } from "../../functions/shared/cache/cache.ts";
import type { Context } from "../../functions/shared/contract/context.ts";
import type { FunctionDefinition } from "../../functions/shared/contract/definition.ts";
import type { Key } from "../../functions/shared/contract/keys.ts";
import { createMemory } from "../../functions/shared/contract/memory.ts";
import { silentReporter } from "../../functions/shared/contract/reporter.ts";
import type { OtherOperator } from "../../functions/shared/contract/stand-by.ts";
import type { PodHttp } from "../../functions/shared/http/pod-http.ts";
import { type Cluster, ClusterError } from "../../functions/shared/kubernetes/cluster.ts";
import { type Protocol, protocol } from "../../functions/shared/ledger/protocol.ts";
import type { GroupKey } from "../../functions/shared/workloads/statefulsets.ts";
import { KeyedQueue } from "../../triggers/workqueue/queue.ts";
import { sweep } from "../../triggers/workqueue/sweep.ts";
import { runReconcile, type ServedFunction } from "../../triggers/workqueue/worker.ts";
import type { ClaimRules } from "./claims/taker.ts";
import type { Draw } from "./draw.ts";
import type { Beside } from "./other-operator/beside-process.ts";
import type { DecideCall } from "./restarting/simulated-process.ts";
import type { Connection } from "./roles.ts";

/** What a test may wrap to remove a rule and see what breaks. */
export interface Wrappers {
  readonly cluster?: (cluster: Cluster) => Cluster;
  /** The same, only for the processes that label pods. */
  readonly markers?: (cluster: Cluster) => Cluster;
  /** The connection under the views as well. */
  readonly connection?: (cluster: Cluster) => Cluster;
  readonly protocol?: (protocol: Protocol) => Protocol;
  readonly cache?: (cache: GroupCache) => GroupCache;
  /** The protocol of a webhook. `arrivedMs`: when the oldest open review of a pod came, by the API server's clock. */
  readonly arrivals?: (protocol: Protocol, arrivedMs: (pod: string) => number | undefined) => Protocol;
  /** The calls to pods. */
  readonly pods?: (pods: PodHttp) => PodHttp;
  /** The rules that keep claims safe, for the functions that make claims. */
  readonly claims?: Partial<ClaimRules>;
  /** What a process, by its name, knows of rollout-operator. `open` opens the shipped code over a cluster. */
  readonly otherOperator?: (
    open: (cluster: Cluster) => OtherOperator,
    cluster: Cluster,
    process: string,
  ) => OtherOperator;
  /** What the process managers of pods decide about a call. */
  readonly decideCall?: DecideCall;
  /** The request that a webhook gets. */
  readonly request?: (request: AdmissionRequest) => AdmissionRequest;
  /** The answer that the API server gets. */
  readonly answer?: (answer: AdmissionAnswer) => AdmissionAnswer;
}

export interface ReplicaOptions {
  readonly wrappers: Wrappers;
  readonly sweepMs: number;
  readonly sweepsAtOnce: number;
  readonly draw: Draw;
  readonly log: (who: string, what: string) => void;
  readonly definition: FunctionDefinition;
  /** HTTP to pods, for a function that calls them. */
  readonly pods?: PodHttp;
  /** The process beside rollout-operator; absent or undefined where that never runs. */
  readonly beside?: Beside | undefined;
}

/** What the shipped worker and the shipped sweep report besides verdicts is of no use here. */
const unreported = { reconciled() {}, forget() {}, log() {}, keepOnly() {} };

export interface Replica {
  trigger(key: GroupKey, sweep: boolean): void;
}

/** Starts the function behind the shipped queue, with a sweep at once and another one every `sweepMs`. */
export function startReplica(
  { process, onVerdict, ...direct }: Omit<Connection, "stop">,
  options: ReplicaOptions,
): Replica {
  const { wrappers, sweepMs, sweepsAtOnce, log, draw, beside } = options;
  const definition = beside?.noting(options.definition) ?? options.definition;
  const cluster = wrappers.cluster?.(direct.cluster) ?? direct.cluster;
  const context: Context = {
    cluster,
    cache: wrappers.cache?.(direct.cache) ?? direct.cache,
    protocol: wrappers.protocol?.(protocol) ?? protocol,
    reporter: {
      ...silentReporter,
      verdict: (verdict) => {
        const { key, guard, zone, message } = verdict;
        log(process.name, `verdict ${guard} ${zone}: ${message}`);
        if ("group" in key) onVerdict(key, verdict);
      },
      act: ({ action, object, result, reason }) => log(process.name, `${action} ${object}: ${result} (${reason})`),
      conflict: () => log(process.name, "conflict on the ledger"),
    },
    mode: "act",
    namespaces: undefined,
    memoryOf: createMemory(),
    ...(options.pods === undefined ? {} : { pods: options.pods }),
    ...beside?.context,
  };
  const served: ServedFunction = { definition: definition as ServedFunction["definition"], context };
  const queue = new KeyedQueue<GroupKey>({
    // The queue has a clock of its own, so that a test that removes a clock from the protocol does not stop it.
    clock: direct.cluster,
    nameOf: ({ namespace, group }) => `${namespace}/${group}`,
    run: (key, trigger) =>
      beside === undefined
        ? definition.reconcile(context, key, trigger)
        : runReconcile(served, unreported, key, trigger),
    onFailure: (_key, error, retryMs) => {
      if (!(error instanceof ClusterError)) throw error;
      log(process.name, `reconcile failed, again in ${retryMs} ms: ${error.code} ${error.message}`);
    },
    gatherMs: 20,
    concurrency: 8,
    capacity: 100,
    random: draw.random,
  });

  async function sweepNow(): Promise<void> {
    if (beside !== undefined) {
      const enqueue = (_: ServedFunction, key: Key) => queue.offer(key as GroupKey, { sweep: true });
      return sweep({ served: [served], reporting: unreported, namespaces: context.namespaces, enqueue });
    }
    const groups = await context.cache.groups();
    for (const key of groups) queue.offer(key, { sweep: true });
    await definition.sweep?.(context, groups);
  }

  async function sweepForever(): Promise<void> {
    for (;;) {
      try {
        await sweepNow();
      } catch (error) {
        if (!(error instanceof ClusterError)) throw error;
      }
      await cluster.sleep(sweepMs);
    }
  }
  for (let sweeps = 0; sweeps < sweepsAtOnce; sweeps++) void sweepForever();
  return { trigger: (key, sweep) => void queue.offer(key, { sweep }) };
}
