/** All kubelets of the fake cluster, and its scheduler: pods start, become Ready, break on request, and end. */

import type { ObjectKey } from "../../functions/shared/kubernetes/cluster.ts";
import { conditionOf, isReady, type PodCondition, type PodStatus, rfc3339, type StoredPod } from "./objects.ts";
import type { Store } from "./store.ts";
import type { Cancel, Timeline } from "./timeline.ts";
import type { Change } from "./watch-log.ts";

export interface KubeletOptions {
  readonly timeline: Timeline;
  readonly store: Store;
  /** Time from a pod's creation until its containers run and are ready, in milliseconds. */
  readonly readyAfterMs: (pod: StoredPod) => number;
  /** Time from a pod's deletion until it is gone, in milliseconds. */
  readonly goneAfterMs: (pod: StoredPod) => number;
  /** The node of a pod that was created without one; undefined leaves it pending. */
  readonly schedule?: (pod: StoredPod) => string | undefined;
}

/** Settings of a pod, as annotations. The kubelet of `test/controlplane` reads the same ones. */
export const kubeletAnnotations = {
  readyAfterMs: "test.sluice.dev/ready-after-ms",
  goneAfterMs: "test.sluice.dev/gone-after-ms",
  /** The waiting reason of a container with a `broken` image. */
  waitingReason: "test.sluice.dev/waiting-reason",
} as const;

/** Instead of a reason: the containers run, but their readiness probe fails. */
export const unready = "Unready";
/** Causes that keep a pod from being ready, and for which no waiting reason is reported. */
export const causes = {
  unready,
  /** An init container does not end. */
  init: "Init",
  /** The scheduler finds no node for it. */
  unschedulable: "Unschedulable",
} as const;

const crashLoop = "CrashLoopBackOff";
/** Reasons for which a pod has not started and stays Pending. */
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
  /**
   * When a kubelet first saw each pod, by uid. A real kubelet reports at once when the pod started and that it is not Ready.
   */
  readonly #startTimes = new Map<string, string>();
  /** Pods that run whatever their image: the rest of their planned start has no effect. */
  readonly #healed = new Set<string>();
  readonly #lostNodes = new Set<string>();
  /** How often each node has come back: containers of another boot are others. */
  readonly #boots = new Map<string, number>();
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
   * Makes a pod's containers not ready until the pod is healed or replaced. They wait for this reason, or run with the reason
   * {@link unready}. A pod that has ended stays as it is.
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
   * Makes a pod's containers run and be ready, at once or when they start, whatever the image. A pod that has ended never runs
   * again.
   *
   * @throws ApiStatusError 404
   */
  healPod(key: ObjectKey): void {
    const pod = this.#store.get("pods", key);
    if (hasEnded(pod)) return;
    this.#broken.delete(pod.metadata.uid);
    this.#healed.add(pod.metadata.uid);
    // A pod that has not started yet becomes ready when it would have started, and no earlier.
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

  /** Makes a node silent: its pods are not Ready, do not start and, once deleted, do not go. */
  loseNode(nodeName: string): void {
    this.#lostNodes.add(nodeName);
    for (const pod of this.#podsOn(nodeName)) {
      if (isReady(pod)) this.#putStatus(pod, { ...pod.status, conditions: this.#conditions(pod, "False", "NodeLost") });
    }
  }

  /** Loses a node for good: its pods do not come back, and no pod is scheduled to it. */
  loseNodeForGood(nodeName: string): void {
    this.#goneNodes.add(nodeName);
    this.loseNode(nodeName);
  }

  /** False for a node that is lost for good. */
  isThere(nodeName: string): boolean {
    return !this.#goneNodes.has(nodeName);
  }

  /** True while the pod's node is silent: it reports nothing, and no message reaches it. */
  isSilent(pod: StoredPod): boolean {
    return this.#isLost(pod);
  }

  /** Brings a node back: its pods run, and those that were deleted meanwhile go. */
  recoverNode(nodeName: string): void {
    if (this.#goneNodes.has(nodeName) || !this.#lostNodes.delete(nodeName)) return;
    this.#boots.set(nodeName, (this.#boots.get(nodeName) ?? 0) + 1);
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

  /** The current state of the same pod; undefined if it is gone or replaced. */
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
    const boot = this.#boots.get(pod.spec.nodeName ?? "") ?? 0;
    const containerStatuses = pod.spec.containers.map(({ name, image }, index) => {
      const containerID = `containerd://${boot}x${index}x${pod.metadata.uid}`;
      return {
        name,
        image,
        containerID,
        ready: true,
        started: true,
        restartCount: 0,
        state: { running: { startedAt } },
      };
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
   * The kubelet's conditions. A condition keeps its time while its status stays the same, and a pod is not Ready from its
   * start on. Times have whole seconds, as in Kubernetes.
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

/**
 * Reason that an image gives. A pod whose image has the tag `broken` never becomes ready; the tag `broken-REASON` names the
 * reason, or one of the {@link causes}.
 */
function waitingReason(pod: StoredPod): string | undefined {
  const cause = brokenBy(pod);
  if (cause === undefined) return undefined;
  return pod.metadata.annotations?.[kubeletAnnotations.waitingReason] ?? (cause || crashLoop);
}

/** Why the image of a pod never works: empty for a `broken` one without a reason, undefined for one that works. */
export function brokenBy({ spec }: Pick<StoredPod, "spec">): string | undefined {
  for (const { image } of spec.containers) {
    const [, cause] = /:broken(?:-([A-Za-z]+))?$/.exec(image) ?? [];
    if (cause !== undefined || image.endsWith(":broken")) return cause ?? "";
  }
  return undefined;
}

/** True in the phases that a pod never leaves. */
function hasEnded({ status }: StoredPod): boolean {
  return status.phase === "Failed" || status.phase === "Succeeded";
}
