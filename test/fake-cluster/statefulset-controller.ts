/**
 * Acts like the StatefulSet controller of kube-controller-manager 1.36 (pkg/controller/statefulset/stateful_set_control.go):
 * the same order of steps and the same status arithmetic, for the strategies OnDelete and RollingUpdate with a partition. It
 * does not have the alpha field maxUnavailable.
 */

import { ClusterError } from "../../functions/shared/kubernetes/cluster.ts";
import {
  conditionOf,
  controllerUidOf,
  isReady,
  type PodTemplate,
  type StatefulSetStatus,
  type StoredPod,
  type StoredStatefulSet,
} from "./objects.ts";
import { isClaimStale, makeClaims, ownClaims } from "./statefulset-claims.ts";
import { controllerReference, ordinalOf, podOf, revisionName, revisionOf } from "./statefulset-revisions.ts";
import type { Store } from "./store.ts";
import type { Cancel, Timeline } from "./timeline.ts";
import type { Change } from "./watch-log.ts";

export interface StatefulSetControllerOptions {
  readonly timeline: Timeline;
  readonly store: Store;
  /**
   * Time from a change until the controller acts, in milliseconds, drawn for each reconcile. Changes until then share one
   * reconcile.
   */
  readonly delayMs: () => number;
  /** The node of a new pod whose template names none; undefined leaves it to a scheduler. */
  readonly assignNode?: (set: StoredStatefulSet, ordinal: number) => string | undefined;
}

interface Queued {
  readonly namespace: string;
  readonly name: string;
  planned: boolean;
  /** When a reconcile is due because a pod will then have been Ready for long enough. */
  requeueAtMs: number;
  failures: number;
}

export class StatefulSetController {
  readonly #timeline: Timeline;
  readonly #store: Store;
  readonly #delayMs: () => number;
  readonly #assignNode: (set: StoredStatefulSet, ordinal: number) => string | undefined;
  /** Queued reconciles, by the uid of the set. */
  readonly #queue = new Map<string, Queued>();
  /** Templates of every revision so far, by the uid of the set and the revision's name: what ControllerRevisions are for. */
  readonly #revisions = new Map<string, Map<string, PodTemplate>>();
  readonly #subscriptions: readonly Cancel[];
  #statusBeingWritten: object | undefined;
  #stopped = false;

  constructor(options: StatefulSetControllerOptions) {
    this.#timeline = options.timeline;
    this.#store = options.store;
    this.#delayMs = options.delayMs;
    this.#assignNode = options.assignNode ?? (() => undefined);
    this.#subscriptions = [
      this.#store.onChange("statefulsets", (change) => this.#onStatefulSet(change)),
      this.#store.onChange("pods", (change) => this.#onPod(change)),
    ];
    for (const set of this.#store.list("statefulsets").items) this.#enqueue(set);
  }

  /** Stops the controller. */
  stop(): void {
    this.#stopped = true;
    for (const cancel of this.#subscriptions) cancel();
  }

  #onStatefulSet({ current, final }: Change<StoredStatefulSet>): void {
    if (current === undefined) {
      this.#queue.delete(final.metadata.uid);
      this.#revisions.delete(final.metadata.uid);
    } else if (current.status !== this.#statusBeingWritten) {
      // The real controller is also triggered by its own status write, and then finds nothing to do.
      this.#enqueue(current);
    }
  }

  #onPod({ previous, final }: Change<StoredPod>): void {
    const owner = controllerUidOf(final.metadata);
    const queued = this.#queue.get(owner);
    if (queued !== undefined) this.#plan(owner, queued, this.#delayMs());
    const before = previous === undefined ? owner : controllerUidOf(previous.metadata);
    const former = before === owner ? undefined : this.#queue.get(before);
    if (former !== undefined) this.#plan(before, former, this.#delayMs());
    if (owner !== "") return;
    for (const set of this.#store.list("statefulsets", { namespace: final.metadata.namespace }).items) {
      if (isAdoptable(set, final)) this.#enqueue(set);
    }
  }

  #enqueue(set: StoredStatefulSet): void {
    const { uid, namespace, name } = set.metadata;
    let queued = this.#queue.get(uid);
    if (queued === undefined) {
      queued = { namespace, name, planned: false, requeueAtMs: Number.POSITIVE_INFINITY, failures: 0 };
      this.#queue.set(uid, queued);
    }
    this.#plan(uid, queued, this.#delayMs());
  }

  #plan(uid: string, queued: Queued, delayMs: number): void {
    if (queued.planned) return;
    queued.planned = true;
    this.#timeline.after(delayMs, () => {
      queued.planned = false;
      if (this.#stopped || this.#queue.get(uid) !== queued) return;
      const set = this.#store.find("statefulsets", queued);
      if (set === undefined || set.metadata.uid !== uid) return;
      try {
        this.#sync(set, queued);
        queued.failures = 0;
      } catch (error) {
        if (!(error instanceof ClusterError)) throw error;
        this.#plan(uid, queued, Math.min(16_000, 100 * 2 ** queued.failures++));
      }
    });
  }

  #sync(set: StoredStatefulSet, queued: Queued): void {
    const nowMs = this.#timeline.nowMs();
    const pods = this.#podsOf(set);
    const updateRevision = revisionName(set);
    const templates = this.#templatesOf(set, updateRevision);
    const known = set.status.currentRevision;
    const currentRevision = known !== undefined && templates.has(known) ? known : updateRevision;
    const sync: Sync = { set, nowMs, currentRevision, updateRevision, templates, ordered: isOrdered(set) };
    let failure: unknown;
    let rolled = 0;
    try {
      if (set.metadata.deletionTimestamp === undefined) rolled = this.#act(sync, pods);
    } catch (error) {
      failure = error;
    }
    // As in the original, pods that this reconcile created do not count yet, and pods that it deleted count as they were read.
    this.#writeStatus(sync, pods, rolled);
    this.#requeueWhenAvailable(sync, pods, queued);
    if (failure !== undefined) throw failure;
  }

  /** The pods of a set, including orphans that it may adopt. */
  #podsOf(set: StoredStatefulSet): StoredPod[] {
    const pods = [...this.#store.ownedBy("pods", set.metadata.uid)].filter(
      (pod) => ordinalOf(set, pod.metadata.name) >= 0,
    );
    if (set.metadata.deletionTimestamp !== undefined) return pods;
    const orphans = [...this.#store.ownedBy("pods", "")].filter((pod) => isAdoptable(set, pod));
    for (const { metadata } of orphans) {
      const ownerReferences = [...(metadata.ownerReferences ?? []), controllerReference(set)];
      pods.push(this.#store.patch("pods", metadata, { metadata: { uid: metadata.uid, ownerReferences } }));
    }
    return pods;
  }

  #templatesOf(set: StoredStatefulSet, updateRevision: string): ReadonlyMap<string, PodTemplate> {
    let templates = this.#revisions.get(set.metadata.uid);
    if (templates === undefined) {
      templates = new Map();
      this.#revisions.set(set.metadata.uid, templates);
    }
    if (!templates.has(updateRevision)) templates.set(updateRevision, set.spec.template);
    return templates;
  }

  /**
   * Creates missing pods, deletes superfluous ones, and replaces failed ones; an ordered set takes one step at a time. Returns
   * how many pods it deleted to update them.
   */
  #act(sync: Sync, pods: readonly StoredPod[]): number {
    const { set, nowMs, ordered } = sync;
    const start = set.spec.ordinals?.start ?? 0;
    const end = start + set.spec.replicas;
    const replicas = Array.from({ length: set.spec.replicas }, (): StoredPod | undefined => undefined);
    const condemned: StoredPod[] = [];
    for (const pod of pods) {
      const ordinal = ordinalOf(set, pod.metadata.name);
      if (ordinal >= start && ordinal < end) replicas[ordinal - start] = pod;
      else condemned.push(pod);
    }
    condemned.sort((a, b) => ordinalOf(set, b.metadata.name) - ordinalOf(set, a.metadata.name));
    for (let index = 0; index < replicas.length; index++) {
      if (this.#processReplica(sync, replicas[index], start + index) && ordered) return 0;
    }
    for (const pod of condemned) ownClaims(this.#store, set, pod);
    const unavailable = (pod: StoredPod | undefined): boolean => pod === undefined || isUnavailable(pod, set, nowMs);
    const healthy = !replicas.some(unavailable);
    const firstUnhealthy = healthy ? condemned.findLast(unavailable) : undefined;
    for (const pod of condemned) {
      if (pod.metadata.deletionTimestamp !== undefined) {
        if (ordered) return 0;
        continue;
      }
      if (ordered && isUnavailable(pod, set, nowMs) && pod !== firstUnhealthy) return 0;
      this.#delete(pod);
      if (ordered) return 0;
    }
    return set.spec.updateStrategy.type === "RollingUpdate" && this.#roll(sync, replicas) ? 1 : 0;
  }

  /** True if an ordered set must stop in this reconcile. */
  #processReplica(sync: Sync, pod: StoredPod | undefined, ordinal: number): boolean {
    const { set, nowMs } = sync;
    if (pod === undefined) {
      if (!isClaimStale(this.#store, set, ordinal)) this.#create(sync, ordinal);
      return true;
    }
    if (pod.status.phase === "Failed" || pod.status.phase === "Succeeded") {
      if (pod.metadata.deletionTimestamp === undefined) this.#delete(pod);
      return true;
    }
    if (pod.status.phase === "Pending") makeClaims(this.#store, set, ordinal);
    const isBehind = isUnavailable(pod, set, nowMs) || pod.status.phase !== "Running";
    if (!isBehind || !sync.ordered) ownClaims(this.#store, set, pod);
    return isBehind;
  }

  #create(sync: Sync, ordinal: number): void {
    const { set, currentRevision, updateRevision, templates } = sync;
    const { updateStrategy, ordinals, template } = set.spec;
    // With OnDelete a new pod always has the newest revision. With RollingUpdate the partition decides, or, without one, the
    // number of pods that still have the current revision (newVersionedStatefulSetPod).
    const { type, rollingUpdate } = updateStrategy;
    const kept = rollingUpdate === undefined ? (set.status.currentReplicas ?? 0) : (rollingUpdate.partition ?? 0);
    const old = type === "RollingUpdate" && ordinal < (ordinals?.start ?? 0) + kept;
    const revision = old ? currentRevision : updateRevision;
    const nodeName = template.spec.nodeName ?? this.#assignNode(set, ordinal);
    const body = podOf(set, templates.get(revision) as PodTemplate, revision, ordinal, nodeName);
    makeClaims(this.#store, set, ordinal);
    ownClaims(this.#store, set, this.#store.create("pods", set.metadata.namespace, body));
  }

  #delete(pod: StoredPod): void {
    const { uid } = pod.metadata;
    if (this.#store.find("pods", pod.metadata)?.metadata.uid === uid) {
      this.#store.delete("pods", pod.metadata, { preconditions: { uid } });
    }
  }

  /** Deletes the highest outdated pod if all pods above it are available. Returns true if it did. */
  #roll(sync: Sync, replicas: readonly (StoredPod | undefined)[]): boolean {
    const { set, nowMs, updateRevision } = sync;
    const lowest = set.spec.updateStrategy.rollingUpdate?.partition ?? 0;
    for (let target = replicas.length - 1; target >= lowest; target--) {
      const pod = replicas[target];
      if (pod === undefined) return false;
      if (revisionOf(pod) !== updateRevision && pod.metadata.deletionTimestamp === undefined) {
        this.#delete(pod);
        return true;
      }
      if (isUnavailable(pod, set, nowMs)) return false;
    }
    return false;
  }

  #writeStatus(sync: Sync, pods: readonly StoredPod[], rolled: number): void {
    const { set } = sync;
    const status = statusOf(sync, pods, rolled);
    if (!differs(status, set.status)) return;
    const now = this.#store.find("statefulsets", set.metadata);
    if (now?.metadata.uid !== set.metadata.uid) return;
    this.#statusBeingWritten = status;
    try {
      this.#store.putStatus("statefulsets", now, status);
    } finally {
      this.#statusBeingWritten = undefined;
    }
  }

  #requeueWhenAvailable(sync: Sync, pods: readonly StoredPod[], queued: Queued): void {
    const { set, nowMs } = sync;
    const minReadyMs = (set.spec.minReadySeconds ?? 0) * 1000;
    if (minReadyMs === 0) return;
    let requeueAtMs = Number.POSITIVE_INFINITY;
    for (const pod of pods) {
      const ready = conditionOf(pod, "Ready");
      if (ready?.status !== "True") continue;
      const availableAtMs = Date.parse(ready.lastTransitionTime) + minReadyMs;
      if (availableAtMs > nowMs) requeueAtMs = Math.min(requeueAtMs, availableAtMs);
    }
    if (requeueAtMs === Number.POSITIVE_INFINITY || (queued.requeueAtMs > nowMs && queued.requeueAtMs <= requeueAtMs))
      return;
    queued.requeueAtMs = requeueAtMs;
    this.#timeline.after(requeueAtMs - nowMs, () => {
      queued.requeueAtMs = Number.POSITIVE_INFINITY;
      if (this.#queue.get(set.metadata.uid) === queued) this.#plan(set.metadata.uid, queued, 0);
    });
  }
}

interface Sync {
  readonly set: StoredStatefulSet;
  readonly nowMs: number;
  readonly currentRevision: string;
  readonly updateRevision: string;
  readonly templates: ReadonlyMap<string, PodTemplate>;
  readonly ordered: boolean;
}

function isOrdered(set: StoredStatefulSet): boolean {
  return set.spec.podManagementPolicy !== "Parallel";
}

function isAdoptable(set: StoredStatefulSet, pod: StoredPod): boolean {
  const { namespace, uid, deletionTimestamp } = set.metadata;
  if (pod.metadata.namespace !== namespace || deletionTimestamp !== undefined || uid === "") return false;
  if (pod.metadata.deletionTimestamp !== undefined || ordinalOf(set, pod.metadata.name) < 0) return false;
  const wanted = Object.entries(set.spec.selector.matchLabels ?? {});
  return wanted.length > 0 && wanted.every(([label, value]) => pod.metadata.labels?.[label] === value);
}

function isAvailable(pod: StoredPod, set: StoredStatefulSet, nowMs: number): boolean {
  if (!isReady(pod)) return false;
  const minReadySeconds = set.spec.minReadySeconds ?? 0;
  if (minReadySeconds === 0) return true;
  const since = conditionOf(pod, "Ready")?.lastTransitionTime;
  return since !== undefined && Date.parse(since) + minReadySeconds * 1000 <= nowMs;
}

function isUnavailable(pod: StoredPod, set: StoredStatefulSet, nowMs: number): boolean {
  return pod.metadata.deletionTimestamp !== undefined || !isAvailable(pod, set, nowMs);
}

/** Counts of zero are left out, as the API server leaves them out. */
function statusOf(sync: Sync, pods: readonly StoredPod[], rolled: number): StatefulSetStatus {
  const { set, nowMs, currentRevision, updateRevision } = sync;
  let readyReplicas = 0;
  let availableReplicas = 0;
  let currentReplicas = 0;
  let updatedReplicas = 0;
  for (const pod of pods) {
    if (pod.status.phase === "Running" && isReady(pod)) {
      readyReplicas++;
      if (isAvailable(pod, set, nowMs)) availableReplicas++;
    }
    if (pod.metadata.deletionTimestamp !== undefined) continue;
    const revision = revisionOf(pod);
    if (revision === currentRevision) currentReplicas++;
    if (revision === updateRevision) updatedReplicas++;
  }
  const { replicas, updateStrategy } = set.spec;
  const complete = updatedReplicas === replicas && readyReplicas === replicas && pods.length === replicas;
  // Only a rolling update ends by itself. With OnDelete the current revision stays until a client writes it.
  const finished = updateStrategy.type === "RollingUpdate" && complete;
  const current = finished ? updatedReplicas : currentReplicas - rolled;
  return {
    observedGeneration: set.metadata.generation ?? 0,
    replicas: pods.length,
    ...(readyReplicas === 0 ? undefined : { readyReplicas }),
    availableReplicas,
    ...(current === 0 ? undefined : { currentReplicas: current }),
    ...(updatedReplicas === 0 ? undefined : { updatedReplicas }),
    currentRevision: finished ? updateRevision : currentRevision,
    updateRevision,
    collisionCount: 0,
  };
}

function differs(status: StatefulSetStatus, before: StatefulSetStatus): boolean {
  return (
    (status.observedGeneration ?? 0) > (before.observedGeneration ?? 0) ||
    status.replicas !== before.replicas ||
    (status.readyReplicas ?? 0) !== (before.readyReplicas ?? 0) ||
    status.availableReplicas !== before.availableReplicas ||
    (status.currentReplicas ?? 0) !== (before.currentReplicas ?? 0) ||
    (status.updatedReplicas ?? 0) !== (before.updatedReplicas ?? 0) ||
    status.currentRevision !== before.currentRevision ||
    status.updateRevision !== before.updateRevision
  );
}
