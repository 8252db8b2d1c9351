/** One process of this function in a fake cluster, whose pods keep the time at which they were told to leave. */
import { prepareDelayedDownscale } from "../../../../functions/prepare-delayed-downscale/function.ts";
import type { ReconcileResult } from "../../../../functions/shared/contract/definition.ts";
import type { Delivery } from "../../../../functions/shared/http/calls.ts";
import type { StoredPod } from "../../../fake-cluster/objects.ts";
import { createWorldPodHttp, type PodReply } from "../../../fake-cluster/pod-http.ts";
import { Harness, key, namespace, played } from "../../shared/reconcile/harness.ts";

export const delayMs = 60_000;

export interface Asked {
  readonly pod: string;
  readonly uid: string;
  readonly method: string;
  readonly atMs: number;
}

export class Ingesters {
  readonly harness: Harness;
  /** Unix seconds since when each pod knows that it leaves, by its name. A pod's disk keeps it. */
  readonly disks = new Map<string, number>();
  readonly asked: Asked[] = [];
  readonly deliveries: Delivery[] = [];
  /** Most calls that were under way at the same time. */
  mostAtOnce = 0;
  /** A pod's answer instead of its usual one, which undefined stands for. */
  answer: (pod: StoredPod, method: string) => PodReply | undefined = () => undefined;
  #underWay = 0;

  /** Two zones of this many pods, which mirror the size of `source`. The ledger is old enough to permit a change. */
  static async of(replicas = 4, changes: Readonly<Record<string, string | null>> = {}): Promise<Ingesters> {
    const ingesters = new Ingesters(new Harness({ replicas }));
    const { world } = ingesters.harness;
    const source = world.addGroup({ namespace, group: "source", zones: ["x"], replicas, labels: {} });
    const annotations = {
      "grafana.com/rollout-delayed-downscale": "1m",
      "grafana.com/rollout-prepare-delayed-downscale-url": "http://user:secret@pod:8080/ingester/prepare",
      "grafana.com/rollout-mirror-replicas-from-resource-name": source.statefulSets[0]?.name ?? "",
      "grafana.com/rollout-mirror-replicas-from-resource-kind": "StatefulSet",
      "grafana.com/rollout-mirror-replicas-from-resource-api-version": "apps/v1",
      ...changes,
    };
    for (const name of ["group-a", "group-b"]) world.annotate({ namespace, name }, annotations);
    world.settle();
    await ingesters.run(true);
    await ingesters.harness.goOn(11_000);
    ingesters.forget();
    return ingesters;
  }

  private constructor(harness: Harness) {
    this.harness = harness;
    this.restart();
  }

  /** A process with an empty memory. */
  restart(mode: "act" | "shadow" = "act"): void {
    const pods = createWorldPodHttp({
      world: this.harness.world,
      clock: this.harness.cluster,
      answer: (pod, delivery) => {
        this.deliveries.push(delivery);
        return this.#reply(pod, delivery.method);
      },
      way: () => 1,
    });
    const counted = {
      send: async (...call: Parameters<typeof pods.send>) => {
        this.mostAtOnce = Math.max(this.mostAtOnce, ++this.#underWay);
        try {
          return await pods.send(...call);
        } finally {
          this.#underWay--;
        }
      },
    };
    this.harness.restart({ pods: counted, mode });
  }

  #reply(pod: StoredPod, method: string): PodReply {
    const { name, uid } = pod.metadata;
    this.asked.push({ pod: name, uid, method, atMs: this.harness.timeline.nowMs() });
    const reply = this.answer(pod, method);
    if (reply !== undefined) return reply;
    if (method === "DELETE") this.disks.delete(name);
    else if (!this.disks.has(name)) this.disks.set(name, Math.floor(this.harness.timeline.nowMs() / 1000));
    return { status: 200, body: JSON.stringify({ timestamp: this.disks.get(name) ?? 0 }) };
  }

  /** Runs one reconcile with all its acts. */
  async run(sweep = false): Promise<ReconcileResult["requeueAfterMs"]> {
    const { timeline, context } = this.harness;
    const outcome = await played(timeline, prepareDelayedDownscale.reconcile(context, key, { sweep }));
    const acted = outcome.pendingActs === undefined ? undefined : await played(timeline, outcome.pendingActs);
    return acted === undefined ? outcome.requeueAfterMs : Math.min(acted, outcome.requeueAfterMs ?? acted);
  }

  /** Reconciles for this long, each time at the moment that the last reconcile asked for. */
  async goOn(ms: number): Promise<void> {
    const endMs = this.harness.timeline.nowMs() + ms;
    while (this.harness.timeline.nowMs() < endMs) {
      const requeueAfterMs = (await this.run()) ?? 30_000;
      const leftMs = endMs - this.harness.timeline.nowMs();
      await this.harness.goOn(Math.max(10, Math.min(requeueAfterMs, leftMs)));
    }
  }

  /** Sets the wanted size. */
  want(replicas: number): void {
    this.harness.world.scale({ namespace, name: "source-x" }, replicas);
  }

  size(zone: "a" | "b"): number | undefined {
    return this.harness.world.store.get("statefulsets", { namespace, name: `group-${zone}` }).spec.replicas;
  }

  forget(): void {
    this.asked.length = 0;
    this.harness.forget();
  }

  /** The calls as `METHOD POD`, sorted. */
  get requests(): string[] {
    return this.asked.map(({ pod, method }) => `${method} ${pod}`).sort();
  }

  get guard(): string | undefined {
    return this.harness.guard;
  }

  get claims(): readonly string[] {
    return this.harness.ledger.claims.map(({ zone, kind }) => `${kind} ${zone}`);
  }
}
