/** A whole small cluster in one process: store, controllers, kubelets and the workloads that tests roll. */

import type { ObjectKey, Resource } from "../../functions/shared/kubernetes/cluster.ts";
import { GarbageCollector } from "./garbage-collector.ts";
import { brokenBy, causes, Kubelet } from "./kubelet.ts";
import { NamespaceController } from "./namespace-controller.ts";
import { isReady, type StoredPod, type StoredStatefulSet } from "./objects.ts";
import { PodCollector } from "./pod-collector.ts";
import { type Random, seededRandom } from "./random.ts";
import { StatefulSetController } from "./statefulset-controller.ts";
import { Store } from "./store.ts";
import { TaintEviction } from "./taint-eviction.ts";
import { taintsOf } from "./taints.ts";
import { type Timeline, VirtualTimeline } from "./timeline.ts";
import { VolumeBinder } from "./volume-binder.ts";
import { VolumeProtection } from "./volume-protection.ts";

export interface WorldOptions {
  readonly timeline: Timeline;
  /** Seed of all randomness of the world. Default 1. */
  readonly seed?: number;
  /** Time from a change until the StatefulSet controller acts, in milliseconds. Default 5. */
  readonly controllerDelayMs?: number | (() => number);
  /** Time from a pod's creation until it is Ready, in milliseconds. Default 1000. */
  readonly readyAfterMs?: number | ((pod: StoredPod) => number);
  /** Time from a pod's deletion until it is gone, in milliseconds. Default 500. */
  readonly goneAfterMs?: number | ((pod: StoredPod) => number);
  /** True: keep the versions of pods and StatefulSets, for `store.podsAsOf`. Default false. */
  readonly keepVersions?: boolean;
  /** Number of changes of each resource type that a watch can look back on. */
  readonly watchHistory?: number;
  /** Number of nodes of each zone. Default 3. */
  readonly nodesPerZone?: number;
  /**
   * Interval of the pod collector's rounds, and the time for which a node must be missing first. Default: as in a real
   * cluster.
   */
  readonly podCollector?: { readonly everyMs: number; readonly quarantineMs: number };
  /** Claims of this storage class get a volume of their own. Default: none. */
  readonly provisionedClass?: string;
}

export interface GroupOptions {
  readonly namespace: string;
  /** Value of the label `rollout-group`, and prefix of the StatefulSets' names. */
  readonly group: string;
  readonly zones: readonly string[];
  /** Replicas of each zone. */
  readonly replicas: number;
  /** The annotation `rollout-max-unavailable`; absent: none. */
  readonly maxUnavailable?: number | string;
  readonly minReadySeconds?: number;
  /** Default Parallel. */
  readonly podManagementPolicy?: "Parallel" | "OrderedReady";
  /** Default OnDelete. */
  readonly updateStrategy?: "OnDelete" | "RollingUpdate";
  /** Zones that start with `grafana.com/rollout-paused: "true"`; true: all of them. */
  readonly paused?: boolean | readonly string[];
  /** Default `app:1`. */
  readonly image?: string;
  readonly terminationGracePeriodSeconds?: number;
  /** Labels of the StatefulSets; absent: `rollout-group` alone. */
  readonly labels?: Readonly<Record<string, string>>;
  /** More labels of the pods, which their StatefulSets may lack and do not select by. */
  readonly podLabels?: Readonly<Record<string, string>>;
  /** Names of volume claim templates; absent: the pods have no volumes. */
  readonly volumes?: readonly string[];
}

export interface WorldGroup {
  readonly namespace: string;
  readonly group: string;
  /** One StatefulSet for each zone, in the order of the zones: `GROUP-ZONE`. */
  readonly statefulSets: readonly ObjectKey[];
}

/** The node label that names the zone. */
export const zoneLabel = "topology.kubernetes.io/zone";
const podCollection = { everyMs: 20_000, quarantineMs: 40_000 };
const pausedAnnotation = "grafana.com/rollout-paused";

export class World {
  readonly timeline: Timeline;
  readonly random: Random;
  readonly store: Store;
  readonly statefulSetController: StatefulSetController;
  readonly garbageCollector: GarbageCollector;
  readonly volumeProtection: VolumeProtection;
  readonly volumeBinder: VolumeBinder;
  readonly namespaceController: NamespaceController;
  readonly taintEviction: TaintEviction;
  readonly podCollector: PodCollector;
  readonly kubelet: Kubelet;
  readonly #nodesPerZone: number;
  #placed = 0;

  constructor(options: WorldOptions) {
    const { timeline } = options;
    const delayMs = asFunction(options.controllerDelayMs ?? 5);
    this.timeline = timeline;
    this.random = seededRandom(options.seed ?? 1);
    this.#nodesPerZone = options.nodesPerZone ?? 3;
    this.store = new Store({
      timeline,
      random: this.random,
      keepVersions: options.keepVersions ?? false,
      ...(options.watchHistory === undefined ? undefined : { watchHistory: options.watchHistory }),
    });
    const { store } = this;
    const assignNode = (set: StoredStatefulSet, _ordinal: number): string | undefined =>
      brokenBy(set.spec.template) === causes.unschedulable
        ? undefined
        : this.#nodeIn(set.spec.template.spec.nodeSelector?.[zoneLabel]);
    this.statefulSetController = new StatefulSetController({ timeline, store, delayMs, assignNode });
    this.garbageCollector = new GarbageCollector({ timeline, store, delayMs });
    this.volumeProtection = new VolumeProtection({ timeline, store, delayMs });
    this.volumeBinder = new VolumeBinder({ timeline, store, delayMs, provisionedClass: options.provisionedClass });
    this.taintEviction = new TaintEviction({ timeline, store, delayMs });
    this.podCollector = new PodCollector({ timeline, store, ...(options.podCollector ?? podCollection) });
    this.namespaceController = new NamespaceController({ timeline, store, delayMs });
    this.kubelet = new Kubelet({
      timeline,
      store,
      readyAfterMs: asFunction(options.readyAfterMs ?? 1000),
      goneAfterMs: asFunction(options.goneAfterMs ?? 500),
      schedule: (pod) =>
        brokenBy(pod) === causes.unschedulable ? undefined : this.#nodeIn(pod.spec.nodeSelector?.[zoneLabel]),
    });
  }

  /** Creates one StatefulSet for each zone, as Grafana's charts do. The pods come later; see {@link settle}. */
  addGroup(options: GroupOptions): WorldGroup {
    const { namespace, group, zones } = options;
    const statefulSets = zones.map((zone) => {
      const body = statefulSetBody(options, zone);
      const { name } = this.store.create("statefulsets", namespace, body).metadata;
      return { namespace, name };
    });
    return { namespace, group, statefulSets };
  }

  /** Gives a StatefulSet's containers another image, and so a new revision. */
  changeTemplate(statefulSet: ObjectKey, image: string): StoredStatefulSet {
    const { spec } = this.store.get("statefulsets", statefulSet);
    const containers = spec.template.spec.containers.map((container) => ({ ...container, image }));
    return this.store.patch("statefulsets", statefulSet, { spec: { template: { spec: { containers } } } });
  }

  scale(statefulSet: ObjectKey, replicas: number): StoredStatefulSet {
    return this.store.patch("statefulsets", statefulSet, { spec: { replicas } });
  }

  /** Sets annotations; null removes one. */
  annotate(
    key: ObjectKey,
    annotations: Readonly<Record<string, string | null>>,
    resource: Resource = "statefulsets",
  ): void {
    this.store.patch(resource, key, { metadata: { annotations } });
  }

  pause(statefulSet: ObjectKey, paused = true): void {
    this.annotate(statefulSet, { [pausedAnnotation]: paused ? "true" : null });
  }

  /** Deletes a StatefulSet. Its pods go with it, unless they are orphaned. */
  removeStatefulSet(
    statefulSet: ObjectKey,
    propagationPolicy: "Background" | "Foreground" | "Orphan" = "Background",
  ): void {
    this.store.delete("statefulsets", statefulSet, { propagationPolicy });
  }

  /** True if every StatefulSet has as many pods as it wants, all Ready and none terminating, and its status says so. */
  isSettled(): boolean {
    for (const { metadata, spec, status } of this.store.list("statefulsets").items) {
      if (status.observedGeneration !== metadata.generation) return false;
      if (status.replicas !== spec.replicas || status.availableReplicas !== spec.replicas) return false;
      let ready = 0;
      for (const pod of this.store.ownedBy("pods", metadata.uid)) {
        if (pod.metadata.deletionTimestamp !== undefined || !isReady(pod)) return false;
        ready++;
      }
      if (ready !== spec.replicas) return false;
    }
    return true;
  }

  /**
   * Runs a virtual timeline until {@link isSettled}.
   *
   * @throws Error if that takes more than `limitMs` of virtual time, or can never happen.
   */
  settle(limitMs = 3_600_000): void {
    const { timeline } = this;
    if (!(timeline instanceof VirtualTimeline))
      throw new Error("only a world on a virtual timeline can be settled at once");
    const deadline = timeline.nowMs() + limitMs;
    while (!this.isSettled()) {
      const next = timeline.nextAtMs();
      if (next === undefined || next > deadline) throw new Error("the world does not settle");
      // Runs all events of one time before each check, because the check costs more than the events.
      timeline.runUntil(next);
    }
  }

  /** Stops controllers and kubelets. */
  stop(): void {
    this.statefulSetController.stop();
    this.garbageCollector.stop();
    this.volumeProtection.stop();
    this.volumeBinder.stop();
    this.taintEviction.stop();
    this.podCollector.stop();
    this.namespaceController.stop();
    this.kubelet.stop();
  }

  #nodeIn(zone: string | undefined): string {
    for (let tried = 1; ; tried++) {
      const nodeName = `${zone ?? "node"}-${this.#placed++ % this.#nodesPerZone}`;
      if (this.#takesPods(nodeName) || tried === this.#nodesPerZone) return nodeName;
    }
  }

  /** True for a node that takes new pods. A node that is no object does so unless it is lost for good. */
  #takesPods(nodeName: string): boolean {
    if (!this.kubelet.isThere(nodeName)) return false;
    const node = this.store.find("nodes", { namespace: "", name: nodeName });
    if (node === undefined) return true;
    const isTainted = [...taintsOf(node, "NoSchedule"), ...taintsOf(node, "NoExecute")].length > 0;
    return node.spec?.unschedulable !== true && !isTainted;
  }
}

export function createWorld(options: WorldOptions): World {
  return new World(options);
}

function statefulSetBody(options: GroupOptions, zone: string): object {
  const { group, maxUnavailable, paused } = options;
  const name = `${group}-${zone}`;
  const labels = { name, "rollout-group": group };
  const podLabels = { ...labels, ...options.podLabels };
  const isPaused = paused === true || (Array.isArray(paused) && paused.includes(zone));
  const annotations = {
    ...(maxUnavailable === undefined ? undefined : { "rollout-max-unavailable": String(maxUnavailable) }),
    ...(isPaused ? { [pausedAnnotation]: "true" } : undefined),
  };
  return {
    metadata: { name, labels: options.labels ?? { "rollout-group": group }, annotations },
    spec: {
      replicas: options.replicas,
      serviceName: group,
      selector: { matchLabels: labels },
      podManagementPolicy: options.podManagementPolicy ?? "Parallel",
      updateStrategy: { type: options.updateStrategy ?? "OnDelete" },
      ...(options.volumes === undefined
        ? undefined
        : { volumeClaimTemplates: options.volumes.map((volume) => ({ metadata: { name: volume }, spec: {} })) }),
      ...(options.minReadySeconds === undefined ? undefined : { minReadySeconds: options.minReadySeconds }),
      template: {
        metadata: { labels: podLabels },
        spec: {
          terminationGracePeriodSeconds: options.terminationGracePeriodSeconds ?? 30,
          nodeSelector: { [zoneLabel]: zone },
          containers: [{ name: "app", image: options.image ?? "app:1" }],
        },
      },
    },
  };
}

function asFunction<A extends unknown[]>(value: number | ((...given: A) => number)): (...given: A) => number {
  return typeof value === "number" ? () => value : value;
}
