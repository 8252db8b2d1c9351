/** One process of the function: shipped code over a connection that fails, woken by events that may be lost. */
import type { Cluster } from "../../functions/shared/cluster.ts";
import { ClusterError } from "../../functions/shared/cluster.ts";
import { type Context, createMemory, type FunctionDefinition } from "../../functions/shared/definition.ts";
import { silentReporter } from "../../functions/shared/report.ts";
import { type Protocol, protocol } from "../../functions/shared/reservation.ts";
import type { GroupKey } from "../../functions/shared/statefulsets.ts";
import type { Views } from "../../functions/shared/views.ts";
import type { Process } from "./simulated-cluster.ts";

/** What a test may wrap to take a rule away and see what breaks. */
export interface Wrappers {
  readonly cluster?: (cluster: Cluster) => Cluster;
  readonly protocol?: (protocol: Protocol) => Protocol;
  readonly views?: (views: Views) => Views;
}

export interface ReplicaOptions {
  readonly process: Process;
  readonly cluster: Cluster;
  readonly views: Views;
  readonly wrappers: Wrappers;
  readonly sweepMs: number;
  readonly log: (who: string, what: string) => void;
  readonly definition: FunctionDefinition;
}

const gatherMs = 20;
const retryMs = 500;

interface KeyState {
  woken: boolean;
  sweep: boolean;
  running: boolean;
  timerAtMs: number;
}

/** Wakes the function for a group: gathered, one run at a time, one more if it was woken meanwhile. */
export interface Replica {
  wake(key: GroupKey, sweep: boolean): void;
}

export function startReplica(options: ReplicaOptions): Replica {
  const { process, wrappers, sweepMs, log, definition } = options;
  const cluster = wrappers.cluster?.(options.cluster) ?? options.cluster;
  const context: Context = {
    cluster,
    views: wrappers.views?.(options.views) ?? options.views,
    protocol: wrappers.protocol?.(protocol) ?? protocol,
    reporter: {
      ...silentReporter,
      pass: ({ guard, zone, sentence }) => log(process.name, `verdict ${guard} ${zone}: ${sentence}`),
      act: ({ action, object, result, reason }) => log(process.name, `${action} ${object}: ${result} (${reason})`),
      conflict: () => log(process.name, "conflict on the ledger"),
    },
    mode: "act",
    namespaces: undefined,
    memoryOf: createMemory(),
  };
  const keys = new Map<string, KeyState>();

  /** One timer a key, the earliest that was asked for. */
  function wakeIn(key: GroupKey, state: KeyState, ms: number): void {
    const atMs = cluster.monotonicMs() + ms;
    if (atMs >= state.timerAtMs) return;
    state.timerAtMs = atMs;
    void cluster.sleep(ms).then(() => {
      if (state.timerAtMs !== atMs) return;
      state.timerAtMs = Number.POSITIVE_INFINITY;
      wake(key, false);
    });
  }

  function wake(key: GroupKey, sweep: boolean, afterMs = gatherMs): void {
    const name = `${key.namespace}/${key.group}`;
    const state = keys.get(name) ?? { woken: false, sweep: false, running: false, timerAtMs: Number.POSITIVE_INFINITY };
    keys.set(name, state);
    state.sweep ||= sweep;
    if (state.woken && afterMs === gatherMs) return;
    state.woken = true;
    if (!state.running) void runSoon(key, state, afterMs);
  }

  async function runSoon(key: GroupKey, state: KeyState, afterMs: number): Promise<void> {
    state.running = true;
    await cluster.sleep(afterMs);
    const { sweep } = state;
    state.woken = false;
    state.sweep = false;
    try {
      const { recheckMs, acting } = await definition.run(context, key, { sweep });
      if (recheckMs !== undefined) wakeIn(key, state, recheckMs);
      void acting?.then((againMs) => (againMs === undefined ? undefined : wakeIn(key, state, againMs)));
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
      log(process.name, `pass failed: ${error.code} ${error.message}`);
      state.sweep ||= sweep;
      wakeIn(key, state, retryMs);
    }
    state.running = false;
    if (state.woken) void runSoon(key, state, gatherMs);
  }

  async function sweepForever(): Promise<void> {
    for (;;) {
      try {
        const groups = await context.views.groups();
        await definition.sweep?.(context, groups);
        for (const key of groups) wake(key, true);
      } catch (error) {
        if (!(error instanceof ClusterError)) throw error;
      }
      await cluster.sleep(sweepMs);
    }
  }
  void sweepForever();
  return { wake };
}
