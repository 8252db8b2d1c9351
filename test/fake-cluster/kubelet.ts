/** Every kubelet of the world, and its scheduler: pods start, become Ready, break on request, and end. */

import type { ObjectKey } from "../../functions/shared/kubernetes/cluster.ts";
import { conditionOf, isReady, type PodCondition, type PodStatus, rfc3339, type StoredPod } from "./objects.ts";
import type { Store } from "./store.ts";
import type { Cancel, Timeline } from "./timeline.ts";
import type { Change } from "./watch-log.ts";

export interface KubeletOptions {
  readonly timeline: Timeline;
  readonly store: Store;
  /** How long after its creation a pod's containers run and are ready, in milliseconds. */
  readonly readyAfterMs: (pod: StoredPod) => number;
  /** How long after the deletion began a pod is gone, in milliseconds. */
  readonly goneAfterMs: (pod: StoredPod) => number;
  /** The node of a pod that was created without one; undefined leaves it pending. */
  readonly schedule?: (pod: StoredPod) => string | undefined;
}

/** Per-pod settings, as annotations: the same that the kubelet of `test/controlplane` reads. */
export const kubeletAnnotations = {
  readyAfterMs: "test.sluice.dev/ready-after-ms",
  goneAfterMs: "test.sluice.dev/gone-after-ms",
  /** What a container of a `broken` image waits for. */
  waitingReason: "test.sluice.dev/waiting-reason",
} as const;

/** In place of a reason: the containers run, and their readiness probe fails. */
export const unready = "Unready";
/** What keeps a pod from being ready without a waiting reason that says so. */
export const causes = {
  unready,
  /** An init container does not end. */
  init: "Init",
  /** No node takes it. */
  unschedulable: "Unschedulable",
} as const;

const crashLoop = "CrashLoopBackOff";
/** Reasons for which a pod has never started and stays Pending. */
const neverStarted = new Set([
  "ContainerCreating",
  "CreateContainerConfigError",
  "CreateContainerError",
  "ErrImageNeverPull",
  "ErrImagePull",
  "ImageInspectError",
  "ImagePullBackOff",
  "InvalidImageName",
]);

export class Kubelet {
  readonly #timeline: Timeline;
  readonly #store: Store;
  readonly #options: KubeletOptions;
  readonly #subscription: Cancel;
  /** Why pods that were broken on purpose are not ready, by uid. */
  readonly #broken = new Map<string, string>();
  /** When a kubelet first saw a pod, by uid: a real one says at once since when the pod starts and is not Ready. */
  readonly #startTimes = new Map<string, string>();
  /** Pods that run whatever their image says: what was still to come of their start changes nothing. */
  readonly #healed = new Set<string>();
  readonly #lostNodes = new Set<string>();
  readonly #goneNodes = new Set<string>();

  constructor(options: KubeletOptions) {
    this.#options = options;
    this.#timeline = options.timeline;
    this.#store = options.store;
    this.#subscription = this.#store.onChange("pods", (change) => this.#onPod(change));
  }

  stop(): void {
    this.#subscription();
  }

  /**
   * The pod's containers stop being ready and wait for the reason that is given, or run {@link unready}, until it is healed or
   * replaced. One that has ended stays as it is.
   *
   * @throws ApiStatusError 404
   */
  breakPod(key: ObjectKey, reason: string = crashLoop): void {
    const pod = this.#store.get("pods", key);
    if (hasEnded(pod)) return;
    this.#broken.set(pod.metadata.uid, reason);
    this.#healed.delete(pod.metadata.uid);
    if (pod.status.containerStatuses !== undefined) this.#putStatus(pod, this.#waiting(pod, reason));
  }

  /**
   * The pod's containers run and are ready again, or will be when they start, broken image or not. One that has ended never runs
   * again.
   *
   * @throws ApiStatusError 404
   */
  healPod(key: ObjectKey): void {
    const pod = this.#store.get("pods", key);
    if (hasEnded(pod)) return;
    this.#broken.delete(pod.metadata.uid);
    this.#healed.add(pod.metadata.uid);
    // A pod that has not started yet starts when it would have: it is not ready before.
    if (pod.status.containerStatuses !== undefined) this.#putStatus(pod, this.#running(pod));
  }

  /**
   * The pod ends for good: phase Failed.
   *
   * @throws ApiStatusError 404
   */
  failPod(key: ObjectKey, reason = "Evicted"): void {
    const pod = this.#store.get("pods", key);
    const conditions = this.#conditions(pod, "False", "PodFailed");
    this.#putStatus(pod, { ...pod.status, phase: "Failed", reason, conditions });
  }

  /** A node falls silent: its pods are not Ready, start no more and, once deleted, do not go. */
  loseNode(nodeName: string): void {
    this.#lostNodes.add(nodeName);
    for (const pod of this.#podsOn(nodeName)) {
      if (isReady(pod)) this.#putStatus(pod, { ...pod.status, conditions: this.#conditions(pod, "False", "NodeLost") });
    }
  }

  /** A node is lost for good: nothing comes back from it, and nothing is placed on it any more. */
  loseNodeForGood(nodeName: string): void {
    this.#goneNodes.add(nodeName);
    this.loseNode(nodeName);
  }

  /** False for a node that is lost for good. */
  isThere(nodeName: string): boolean {
    return !this.#goneNodes.has(nodeName);
  }

  /** True while the pod's node is silent: nothing comes from it, and nothing reaches it. */
  isSilent(pod: StoredPod): boolean {
    return this.#isLost(pod);
  }

  /** The node is back: what is on it runs, and what was deleted meanwhile goes. */
  recoverNode(nodeName: string): void {
    if (this.#goneNodes.has(nodeName) || !this.#lostNodes.delete(nodeName)) return;
    for (const pod of this.#podsOn(nodeName)) {
      if (pod.metadata.deletionTimestamp !== undefined) this.#planEnd(pod);
      else this.#planStart(pod);
    }
  }

  #podsOn(nodeName: string): StoredPod[] {
    return this.#store.list("pods").items.filter((pod) => pod.spec.nodeName === nodeName);
  }

  #onPod({ previous, current, final }: Change<StoredPod>): void {
    if (current === undefined) {
      this.#broken.delete(final.metadata.uid);
      this.#healed.delete(final.metadata.uid);
      this.#startTimes.delete(final.metadata.uid);
      return;
    }
    const leaving = current.metadata.deletionTimestamp !== undefined;
    if (leaving && previous?.metadata.deletionTimestamp === undefined) this.#planEnd(current);
    if (leaving) return;
    if (current.spec.nodeName === undefined) {
      if (previous === undefined) this.#schedule(current);
    } else if (previous?.spec.nodeName === undefined) {
      this.#planStart(current);
    }
  }

  #schedule(pod: StoredPod): void {
    const nodeName = this.#options.schedule?.(pod);
    if (nodeName === undefined) return;
    this.#timeline.after(0, () => {
      const current = this.#still(pod);
      if (current !== undefined && current.spec.nodeName === undefined) this.#store.bind(current, nodeName);
    });
  }

  #planStart(pod: StoredPod): void {
    const { uid } = pod.metadata;
    if (!this.#startTimes.has(uid)) this.#startTimes.set(uid, rfc3339(this.#timeline.nowMs()));
    this.#timeline.after(asked(pod, "readyAfterMs") ?? this.#options.readyAfterMs(pod), () => {
      const current = this.#still(pod);
      if (current === undefined || this.#isLost(current) || current.metadata.deletionTimestamp !== undefined) return;
      if (hasEnded(current)) return;
      const { uid } = current.metadata;
      const reason = this.#broken.get(uid) ?? (this.#healed.has(uid) ? undefined : waitingReason(current));
      this.#putStatus(current, reason === undefined ? this.#running(current) : this.#waiting(current, reason));
    });
  }

  #planEnd(pod: StoredPod): void {
    this.#timeline.after(asked(pod, "goneAfterMs") ?? this.#options.goneAfterMs(pod), () => {
      const current = this.#still(pod);
      if (current === undefined || this.#isLost(current)) return;
      const { uid } = current.metadata;
      this.#store.delete("pods", current.metadata, { gracePeriodSeconds: 0, preconditions: { uid } });
    });
  }

  /** The pod as it is now, if it is still the same one. */
  #still(pod: StoredPod): StoredPod | undefined {
    const current = this.#store.find("pods", pod.metadata);
    return current?.metadata.uid === pod.metadata.uid ? current : undefined;
  }

  #isLost(pod: StoredPod): boolean {
    return this.#lostNodes.size > 0 && pod.spec.nodeName !== undefined && this.#lostNodes.has(pod.spec.nodeName);
  }

  #putStatus(pod: StoredPod, status: PodStatus): void {
    this.#store.putStatus("pods", pod, status);
  }

  #running(pod: StoredPod): PodStatus {
    const startedAt = rfc3339(this.#timeline.nowMs());
    const containerStatuses = pod.spec.containers.map(({ name, image }) => {
      return { name, image, ready: true, started: true, restartCount: 0, state: { running: { startedAt } } };
    });
    const conditions = this.#conditions(pod, "True");
    return { ...pod.status, phase: "Running", startTime: this.#startTimeOf(pod), conditions, containerStatuses };
  }

  #waiting(pod: StoredPod, reason: string): PodStatus {
    const startedAt = rfc3339(this.#timeline.nowMs());
    const isInit = reason === causes.init;
    const runs = reason === unready;
    const state = runs ? { running: { startedAt } } : { waiting: { reason: isInit ? "PodInitializing" : reason } };
    const containerStatuses = pod.spec.containers.map(({ name, image }) => {
      return { name, image, ready: false, started: runs, restartCount: runs || isInit ? 0 : 1, state };
    });
    const init = isInit ? { initContainerStatuses: [{ name: "init", ready: false, state: { running: {} } }] } : {};
    const phase = (isInit || neverStarted.has(reason)) && pod.status.phase !== "Running" ? "Pending" : "Running";
    const conditions = this.#conditions(pod, "False", "ContainersNotReady");
    return { ...pod.status, phase, startTime: this.#startTimeOf(pod), conditions, containerStatuses, ...init };
  }

  #startTimeOf({ metadata: { uid }, status }: StoredPod): string {
    return status.startTime ?? this.#startTimes.get(uid) ?? rfc3339(this.#timeline.nowMs());
  }

  /**
   * The kubelet's conditions; a condition keeps its time while its status stays, and a pod is not Ready from its start on. Whole
   * seconds, as Kubernetes has them.
   */
  #conditions(pod: StoredPod, ready: "True" | "False", reason?: string): readonly PodCondition[] {
    const now = rfc3339(this.#timeline.nowMs());
    const before = conditionOf(pod, "Ready") ?? { status: "False", lastTransitionTime: this.#startTimeOf(pod) };
    const lastTransitionTime = before.status === ready ? before.lastTransitionTime : now;
    const why = reason === undefined ? undefined : { reason };
    return [
      conditionOf(pod, "PodScheduled") ?? { type: "PodScheduled", status: "True", lastTransitionTime: now },
      conditionOf(pod, "Initialized") ?? { type: "Initialized", status: "True", lastTransitionTime: now },
      { type: "ContainersReady", status: ready, lastTransitionTime, ...why },
      { type: "Ready", status: ready, lastTransitionTime, ...why },
    ];
  }
}

function asked(pod: StoredPod, setting: "readyAfterMs" | "goneAfterMs"): number | undefined {
  const value = pod.metadata.annotations?.[kubeletAnnotations[setting]];
  return value === undefined ? undefined : Number(value);
}

/** Images with the tag `broken` never become ready; one with `broken-REASON` says why, or which of the {@link causes} it is. */
function waitingReason(pod: StoredPod): string | undefined {
  const cause = brokenBy(pod);
  if (cause === undefined) return undefined;
  return pod.metadata.annotations?.[kubeletAnnotations.waitingReason] ?? (cause || crashLoop);
}

/** What breaks a pod by its image: empty for a `broken` one without a reason, undefined for one that works. */
export function brokenBy({ spec }: Pick<StoredPod, "spec">): string | undefined {
  for (const { image } of spec.containers) {
    const [, cause] = /:broken(?:-([A-Za-z]+))?$/.exec(image) ?? [];
    if (cause !== undefined || image.endsWith(":broken")) return cause ?? "";
  }
  return undefined;
}

/** The phases of which Kubernetes says that a pod never leaves them. */
function hasEnded({ status }: StoredPod): boolean {
  return status.phase === "Failed" || status.phase === "Succeeded";
}
