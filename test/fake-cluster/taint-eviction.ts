/**
 * Deletes pods from nodes with a NoExecute taint that they do not tolerate, or no longer tolerate, as the taint eviction
 * controller of kube-controller-manager 1.36 does (pkg/controller/tainteviction).
 */

import { markDisrupted } from "./disruption-target.ts";
import { jsonEqual } from "./merge-patch.ts";
import type { StoredPod, StoredTypes } from "./objects.ts";
import type { Store } from "./store.ts";
import { taintsOf, toleratedMs } from "./taints.ts";
import type { Cancel, Timeline } from "./timeline.ts";
import type { Change } from "./watch-log.ts";

type StoredNode = StoredTypes["nodes"];

const noExecute = "NoExecute";

export class TaintEviction {
  readonly #timeline: Timeline;
  readonly #store: Store;
  readonly #delayMs: () => number;
  readonly #subscriptions: readonly Cancel[];
  /** Names of the nodes with such a taint. */
  readonly #tainted = new Set<string>();
  /** Planned deletions, by the uid of the pod. */
  readonly #planned = new Map<string, Cancel>();

  constructor(options: { readonly timeline: Timeline; readonly store: Store; readonly delayMs: () => number }) {
    this.#timeline = options.timeline;
    this.#store = options.store;
    this.#delayMs = options.delayMs;
    this.#subscriptions = [
      this.#store.onChange("nodes", (change) => this.#onNode(change)),
      this.#store.onChange("pods", (change) => this.#onPod(change)),
    ];
  }

  stop(): void {
    for (const cancel of this.#subscriptions) cancel();
  }

  #onNode({ previous, current, final }: Change<StoredNode>): void {
    const { name } = final.metadata;
    const taints = taintsOf(current, noExecute);
    if (taints.length === 0) this.#tainted.delete(name);
    else this.#tainted.add(name);
    // The removal of a node cancels no deletion.
    if (current === undefined || jsonEqual(taints, taintsOf(previous, noExecute))) return;
    this.#timeline.after(this.#delayMs(), () => {
      for (const pod of this.#store.list("pods").items) if (pod.spec.nodeName === name) this.#check(pod);
    });
  }

  #onPod({ previous, current, final }: Change<StoredPod>): void {
    if (current === undefined) {
      this.#takeBack(final);
      return;
    }
    const { nodeName = "" } = current.spec;
    if (!this.#tainted.has(nodeName) || previous?.spec.nodeName === nodeName) return;
    this.#timeline.after(this.#delayMs(), () => this.#check(current));
  }

  #check(pod: StoredPod): void {
    const taints = taintsOf(this.#store.find("nodes", { namespace: "", name: pod.spec.nodeName ?? "" }), noExecute);
    const mayStayMs = taints.length === 0 ? Number.POSITIVE_INFINITY : toleratedMs(pod, taints);
    const isPlanned = this.#planned.has(pod.metadata.uid);
    // A further taint that the pod tolerates for a time neither delays nor hastens the deletion.
    if (isPlanned && mayStayMs > 0 && mayStayMs !== Number.POSITIVE_INFINITY) return;
    this.#takeBack(pod);
    if (mayStayMs === Number.POSITIVE_INFINITY) return;
    this.#planned.set(
      pod.metadata.uid,
      this.#timeline.after(mayStayMs, () => this.#evict(pod)),
    );
  }

  #takeBack({ metadata: { uid } }: StoredPod): void {
    this.#planned.get(uid)?.();
    this.#planned.delete(uid);
  }

  #evict({ metadata }: StoredPod): void {
    const pod = this.#store.find("pods", metadata);
    if (pod?.metadata.uid !== metadata.uid) return;
    markDisrupted(this.#store, this.#timeline, pod, "DeletionByTaintManager");
    this.#store.delete("pods", metadata, { preconditions: { uid: metadata.uid } });
  }
}
