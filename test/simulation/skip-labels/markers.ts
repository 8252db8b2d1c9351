/** The processes that label pods, with shipped code behind the shipped queue, and what each of their reconciles has read. */
import { AsyncLocalStorage } from "node:async_hooks";
import { markSkipLabel } from "../../../functions/mark-skip-label/function.ts";
import { fieldsOf } from "../../../functions/shared/base/fields.ts";
import type { Context } from "../../../functions/shared/contract/context.ts";
import { type ObjectRef, pathOf } from "../../../functions/shared/contract/keys.ts";
import { createMemory } from "../../../functions/shared/contract/memory.ts";
import { silentReporter } from "../../../functions/shared/contract/reporter.ts";
import {
  type Cluster,
  ClusterError,
  type KnownResource,
  type ObjectKey,
} from "../../../functions/shared/kubernetes/cluster.ts";
import { wrapCluster } from "../../../functions/shared/kubernetes/wrap-cluster.ts";
import { protocol } from "../../../functions/shared/ledger/protocol.ts";
import { KeyedQueue } from "../../../triggers/workqueue/queue.ts";
import type { Connection } from "../roles.ts";
import type { SeedRun } from "../seed.ts";
import { type Process, runIn } from "../simulated-cluster.ts";
import { hookedNamespace } from "./stop-hooks.ts";

/** A consistent LIST of pods that a reconcile has read. */
export interface Listed {
  readonly revision: number;
  /** Time of the answer on the true clock. */
  readonly answeredMs: number;
}

/** What a reconcile had read before a write, and when the write was sent. */
export interface Grounds {
  readonly lists: readonly Listed[];
  readonly sentMs: number;
}

interface Marker {
  readonly process: Process;
  trigger(key: ObjectRef): void;
}

export class Markers {
  readonly #run: SeedRun;
  readonly #isRefused: (pod: ObjectKey) => boolean;
  readonly #reconciles = new AsyncLocalStorage<Listed[]>();
  readonly #grounds = new WeakMap<object, Grounds>();
  /** Uids of the owners about which a marker has tried to send a Warning. */
  readonly warned = new Set<string>();
  #markers: readonly Marker[] = [];

  /** `isRefused`: whether another webhook refuses the pod's label at this time. */
  constructor(run: SeedRun, isRefused: (pod: ObjectKey) => boolean) {
    this.#run = run;
    this.#isRefused = isRefused;
  }

  /** What the reconcile that has sent this body had read. */
  groundsOf(body: object): Grounds | undefined {
    return this.#grounds.get(body);
  }

  /** Sends an event to each process. It may be lost, doubled or late. */
  notify(resource: KnownResource, changed: ObjectKey): void {
    const { draw, plan, world, isFaulty } = this.#run;
    const keys = markSkipLabel.watches
      .filter((one) => one.resource === resource)
      .flatMap((one) => keysOf(one, changed));
    this.#markers = this.#markers.filter(({ process }) => process.alive);
    for (const { process, trigger } of this.#markers) {
      for (const key of keys) {
        const copies = draw.chance(plan.doubleEvents) ? 2 : 1;
        for (let copy = 0; copy < copies; copy++) {
          if (isFaulty() && draw.chance(plan.loseEvents)) continue;
          world.timeline.after(draw.between(1, 200), () => runIn(process, () => trigger(key)));
        }
      }
    }
  }

  open({ process, cluster: direct, cache }: Connection): undefined {
    const { plan, wrappers, log, draw, checkers } = this.#run;
    const real = this.#recording(this.#refusing(direct));
    const own = wrappers.markers?.(real) ?? real;
    const cluster = wrappers.cluster?.(own) ?? own;
    const context: Context = {
      cluster,
      cache,
      protocol,
      reporter: {
        ...silentReporter,
        verdict: (verdict) => {
          checkers.explained(verdict);
          log(process.name, `verdict ${verdict.guard}: ${verdict.message}`);
        },
        act: ({ action, object, result, reason }) => log(process.name, `${action} ${object}: ${result} (${reason})`),
      },
      mode: "act",
      namespaces: undefined,
      memoryOf: createMemory(),
      settings: { skipLabelWaitMs: plan.skipLabels?.waitMs },
    };
    const queue = new KeyedQueue<ObjectRef>({
      clock: direct,
      nameOf: pathOf,
      run: (key, trigger) => this.#reconciles.run([], () => markSkipLabel.reconcile(context, key, trigger)),
      onFailure: (_key, error, retryMs) => {
        if (!(error instanceof ClusterError)) throw error;
        log(process.name, `reconcile failed, again in ${retryMs} ms: ${error.code} ${error.message}`);
      },
      gatherMs: 20,
      concurrency: 8,
      capacity: 100,
      random: draw.random,
    });
    this.#markers = [...this.#markers, { process, trigger: (key) => void queue.offer(key) }];
    void sweepForever(context, queue, plan.sweepMs);
    return undefined;
  }

  #recording(cluster: Cluster): Cluster {
    const { timeline } = this.#run.world;
    return wrapCluster(cluster, {
      list: async (resource, query, options) => {
        const reconcile = this.#reconciles.getStore();
        const list = await cluster.list(resource, query, options);
        if (resource === "pods" && query.namespace === hookedNamespace)
          reconcile?.push({ revision: Number(list.resourceVersion), answeredMs: timeline.nowMs() });
        return list;
      },
      patch: (resource, key, body, options) => {
        this.#grounds.set(body, { lists: [...(this.#reconciles.getStore() ?? [])], sentMs: timeline.nowMs() });
        return cluster.patch(resource, key, body, options);
      },
      create: (resource, namespace, body, options) => {
        const { type, involvedObject } = fieldsOf(body) ?? {};
        const uid = fieldsOf(involvedObject)?.uid;
        if (resource === "events" && type === "Warning" && typeof uid === "string") this.warned.add(uid);
        return cluster.create(resource, namespace, body, options);
      },
    });
  }

  #refusing(cluster: Cluster): Cluster {
    return wrapCluster(cluster, {
      patch: async (resource, key, body, options) => {
        if (resource !== "pods" || !this.#isRefused(key)) return cluster.patch(resource, key, body, options);
        await cluster.sleep(this.#run.plan.faults.latencyMs);
        const message = 'admission webhook "labels.example.com" denied the request: not now';
        throw new ClusterError({ code: 403, reason: "Forbidden", message, verb: "patch", resource });
      },
    });
  }
}

function keysOf({ keysOf }: (typeof markSkipLabel.watches)[number], changed: ObjectKey): readonly ObjectRef[] {
  const keys = keysOf(changed, { groupOf: () => undefined });
  if ("name" in keys) throw new Error("a look-up comes before a reconcile, and the simulation makes none");
  return keys;
}

async function sweepForever(context: Context, queue: KeyedQueue<ObjectRef>, sweepMs: number): Promise<void> {
  for (;;) {
    try {
      for (const key of await markSkipLabel.listKeys(context, undefined)) queue.offer(key, { sweep: true });
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
    }
    await context.cluster.sleep(sweepMs);
  }
}
