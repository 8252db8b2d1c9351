/** A RabbitMQ cluster of three nodes in a fake cluster: processes that rebalance it, and the requests that its nodes got. */
import { rebalanceQueues } from "../../../../functions/rebalance-queues/function.ts";
import { type RebalanceState, rebalanceState } from "../../../../functions/shared/annotations/rebalancing.ts";
import { read } from "../../../../functions/shared/annotations/table.ts";
import { createListReader } from "../../../../functions/shared/cache/listing.ts";
import type { Context } from "../../../../functions/shared/contract/context.ts";
import type { ReconcileResult } from "../../../../functions/shared/contract/definition.ts";
import type { ObjectRef } from "../../../../functions/shared/contract/keys.ts";
import { createMemory } from "../../../../functions/shared/contract/memory.ts";
import type { Cluster } from "../../../../functions/shared/kubernetes/cluster.ts";
import type { StoredStatefulSet } from "../../../fake-cluster/objects.ts";
import { createWorldPodHttp, type PodReply } from "../../../fake-cluster/pod-http.ts";
import type { GroupOptions } from "../../../fake-cluster/world.ts";
import { createWorldCluster } from "../../../fake-cluster/world-cluster.ts";
import { type Call, counting, Harness, type Interference, namespace, played } from "../../shared/reconcile/harness.ts";

export { namespace };
export const setKey = { namespace, name: "group-a" };
export const key: ObjectRef = { resource: "statefulsets", ...setKey };
export const label = "sluice.dev/rebalance-queues";
export const stateKey = "sluice.dev/rebalance-state";
export const wish = "rabbitmq.com/queueRebalanceNeededAt";
export const usual = { "sluice.dev/health-question": "rabbitmq", "sluice.dev/health-secret": "rabbit" };
export const settleMs = 60_000;

export interface Asked {
  readonly pod: string;
  readonly method: string;
  readonly url: string;
  readonly authorization: string | undefined;
  readonly atMs: number;
}

export class Brokers {
  readonly harness: Harness;
  readonly asked: Asked[] = [];
  reply: (pod: string) => PodReply = () => ({ status: 204 });
  /** Time that a message to or from a pod takes. */
  slowMs = 1;

  constructor(annotations: Readonly<Record<string, string>> = usual, group: Partial<GroupOptions> = {}) {
    this.harness = new Harness({ zones: ["a"], replicas: 3, updateStrategy: "RollingUpdate", ...group });
    const { world } = this.harness;
    const data = { username: btoa("admin"), password: btoa("s3cret") };
    world.store.create("secrets", namespace, { metadata: { name: "rabbit" }, data } as never);
    world.annotate(setKey, annotations);
    this.label("true");
  }

  label(value: string | null): void {
    this.harness.world.store.patch("statefulsets", setKey, { metadata: { labels: { [label]: value } } });
  }

  annotate(annotations: Readonly<Record<string, string | null>>): void {
    this.harness.world.annotate(setKey, annotations);
  }

  process(changes: Partial<Context> = {}): Process {
    return new Process(this, changes);
  }

  /** A pod goes, as by an eviction, and a replacement comes. */
  async replace(pod: string): Promise<void> {
    const { world, timeline } = this.harness;
    const { uid } = world.store.get("pods", { namespace, name: pod }).metadata;
    world.store.delete("pods", { namespace, name: pod }, { preconditions: { uid } });
    await this.goOn(1);
    world.settle();
    await timeline.run(() => true);
  }

  goOn(ms: number): Promise<void> {
    return this.harness.goOn(ms);
  }

  get set(): StoredStatefulSet {
    return this.harness.world.store.get("statefulsets", setKey);
  }

  get state(): RebalanceState | undefined {
    return read(rebalanceState, this.set.metadata);
  }

  /** The pods that were asked, in order. */
  get pods(): string[] {
    return this.asked.map(({ pod }) => pod);
  }

  get events(): string[] {
    return this.harness.events;
  }

  podHttp(clock: Cluster) {
    const { world, timeline } = this.harness;
    return createWorldPodHttp({
      world,
      clock,
      answer: ({ metadata: { name: pod } }, { method, origin, path, headers }) => {
        this.asked.push({
          pod,
          method,
          url: `${origin}${path}`,
          authorization: headers.authorization,
          atMs: timeline.nowMs(),
        });
        return this.reply(pod);
      },
      way: () => this.slowMs,
    });
  }
}

/** A process, whose requests are counted. */
export class Process {
  readonly calls: Call[] = [];
  interfere: Interference = () => {};
  readonly context: Context;
  readonly #brokers: Brokers;

  constructor(brokers: Brokers, changes: Partial<Context>) {
    this.#brokers = brokers;
    const { harness } = brokers;
    const cluster = counting(createWorldCluster(harness.world), this.calls, () => this.interfere);
    this.context = {
      ...harness.context,
      cluster,
      cache: createListReader(cluster, undefined),
      pods: brokers.podHttp(cluster),
      memoryOf: createMemory(),
      ...changes,
    };
  }

  start(sweep = false): Promise<ReconcileResult> {
    return rebalanceQueues.reconcile(this.context, key, { sweep });
  }

  /** Runs one reconcile. Resolves to its guard. */
  async run(): Promise<string | undefined> {
    const before = this.#brokers.harness.verdicts.length;
    await played(this.#brokers.harness.timeline, this.start());
    const { verdicts } = this.#brokers.harness;
    return verdicts.length > before ? verdicts.at(-1)?.guard : undefined;
  }

  /** Runs one reconcile. Resolves to the time at which it wants to reconcile again. */
  async requeue(): Promise<number | undefined> {
    return (await played(this.#brokers.harness.timeline, this.start())).requeueAfterMs;
  }

  /** Reconciles for this long, each time when the last one said, or after half a minute. */
  async goOn(ms: number): Promise<void> {
    const { timeline } = this.#brokers.harness;
    const endMs = timeline.nowMs() + ms;
    while (timeline.nowMs() < endMs) {
      const requeueAfterMs = (await this.requeue()) ?? 30_000;
      const leftMs = endMs - timeline.nowMs();
      if (leftMs > 0) await this.#brokers.goOn(Math.max(10, Math.min(requeueAfterMs, leftMs)));
    }
  }

  get requests(): string[] {
    return this.calls.map(({ verb, resource }) => `${verb} ${resource}`);
  }

  count(request: string): number {
    return this.requests.filter((one) => one === request).length;
  }
}

/** A cluster that was rebalanced once, and a process with an empty memory. */
export async function balanced(...given: ConstructorParameters<typeof Brokers>): Promise<Brokers> {
  const brokers = new Brokers(...given);
  await brokers.process().goOn(settleMs + 2_000);
  brokers.asked.length = 0;
  brokers.harness.forget();
  return brokers;
}
