/**
 * Deletes by force the pods of nodes that are gone, and terminating pods of nodes that are out of service, as the pod garbage
 * collector of kube-controller-manager 1.36 does (pkg/controller/podgc). A node is gone if it once was an object and no longer
 * is: most pods here run on nodes that never were objects.
 */

import { markDisrupted } from "./disruption-target.ts";
import type { StoredPod, StoredTypes } from "./objects.ts";
import type { Store } from "./store.ts";
import { outOfService } from "./taints.ts";
import type { Cancel, Timeline } from "./timeline.ts";
import type { Change } from "./watch-log.ts";

type StoredNode = StoredTypes["nodes"];

export interface PodCollectorOptions {
  readonly timeline: Timeline;
  readonly store: Store;
  /** Interval of its rounds, in milliseconds. */
  readonly everyMs: number;
  /** Time for which a node must be missing before its pods are deleted, in milliseconds. */
  readonly quarantineMs: number;
}

export class PodCollector {
  readonly #options: PodCollectorOptions;
  readonly #store: Store;
  readonly #subscriptions: readonly Cancel[];
  readonly #startMs: number;
  /** Since when nodes are gone, by name. */
  readonly #gone = new Map<string, number>();
  readonly #outOfService = new Set<string>();
  #next: Cancel | undefined;

  constructor(options: PodCollectorOptions) {
    this.#options = options;
    this.#store = options.store;
    this.#startMs = options.timeline.nowMs();
    this.#subscriptions = [
      this.#store.onChange("nodes", (change) => this.#onNode(change)),
      this.#store.onChange("pods", (change) => this.#onPod(change)),
    ];
  }

  stop(): void {
    for (const cancel of this.#subscriptions) cancel();
    this.#next?.();
  }

  #onNode({ current, final }: Change<StoredNode>): void {
    const { name } = final.metadata;
    if (current === undefined) this.#gone.set(name, this.#options.timeline.nowMs());
    else this.#gone.delete(name);
    if (current !== undefined && isOutOfService(current)) this.#outOfService.add(name);
    else this.#outOfService.delete(name);
    this.#plan();
  }

  #onPod({ current }: Change<StoredPod>): void {
    const nodeName = current?.spec.nodeName;
    if (nodeName !== undefined && (this.#gone.has(nodeName) || this.#outOfService.has(nodeName))) this.#plan();
  }

  /** Plans the next round while there is something to check. */
  #plan(): void {
    if (this.#next !== undefined || (this.#gone.size === 0 && this.#outOfService.size === 0)) return;
    const { timeline, everyMs } = this.#options;
    const passedMs = (timeline.nowMs() - this.#startMs) % everyMs;
    this.#next = timeline.after(everyMs - passedMs, () => {
      this.#next = undefined;
      this.#collect();
    });
  }

  #collect(): void {
    const { timeline, quarantineMs } = this.#options;
    let waits = false;
    for (const pod of this.#store.list("pods").items) {
      const { nodeName = "" } = pod.spec;
      const goneMs = this.#gone.get(nodeName);
      if (goneMs !== undefined) {
        if (timeline.nowMs() - goneMs >= quarantineMs) this.#take(pod, "DeletionByPodGC");
        else waits = true;
      } else if (this.#outOfService.has(nodeName) && pod.metadata.deletionTimestamp !== undefined) this.#take(pod);
    }
    if (waits) this.#plan();
  }

  #take(pod: StoredPod, reason?: string): void {
    const { metadata, status } = pod;
    if (status.phase !== "Failed" && status.phase !== "Succeeded") {
      if (reason === undefined) this.#store.putStatus("pods", pod, { ...status, phase: "Failed" });
      else markDisrupted(this.#store, this.#options.timeline, pod, reason, { phase: "Failed" });
    }
    this.#store.delete("pods", metadata, { gracePeriodSeconds: 0, preconditions: { uid: metadata.uid } });
  }
}

function isOutOfService({ spec, status }: StoredNode): boolean {
  const isReady = status?.conditions?.some((condition) => condition.type === "Ready" && condition.status === "True");
  return isReady !== true && spec?.taints?.some(({ key }) => key === outOfService) === true;
}
