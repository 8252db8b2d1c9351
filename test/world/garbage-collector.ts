/** Deletes the pods of a StatefulSet that is gone, or lets go of them, as the garbage collector does by propagation policy. */

import type { StoredPod, StoredStatefulSet } from "./objects.ts";
import type { Store } from "./store.ts";
import type { Cancel, Timeline } from "./timeline.ts";
import type { Change } from "./watch-log.ts";

export class GarbageCollector {
  readonly #timeline: Timeline;
  readonly #store: Store;
  readonly #delayMs: () => number;
  readonly #subscriptions: readonly Cancel[];

  constructor(options: { readonly timeline: Timeline; readonly store: Store; readonly delayMs: () => number }) {
    this.#timeline = options.timeline;
    this.#store = options.store;
    this.#delayMs = options.delayMs;
    this.#subscriptions = [
      this.#store.onChange("statefulsets", (change) => this.#onStatefulSet(change)),
      this.#store.onChange("pods", (change) => this.#onPod(change)),
    ];
  }

  stop(): void {
    for (const cancel of this.#subscriptions) cancel();
  }

  #onStatefulSet({ current, final }: Change<StoredStatefulSet>): void {
    const leaving = current === undefined || current.metadata.deletionTimestamp !== undefined;
    if (leaving) this.#timeline.after(this.#delayMs(), () => this.#collect(final));
  }

  /** A set that waits for its pods (Foreground) goes with the last of them. */
  #onPod({ current, final }: Change<StoredPod>): void {
    if (current !== undefined) return;
    for (const owner of final.metadata.ownerReferences ?? []) {
      const set = this.#store.find("statefulsets", { namespace: final.metadata.namespace, name: owner.name });
      if (set?.metadata.uid !== owner.uid || set.metadata.finalizers?.includes("foregroundDeletion") !== true) continue;
      this.#timeline.after(this.#delayMs(), () => this.#collect(set));
    }
  }

  #collect({ metadata }: StoredStatefulSet): void {
    const found = this.#store.find("statefulsets", metadata);
    const set = found?.metadata.uid === metadata.uid ? found : undefined;
    const finalizers = set?.metadata.finalizers ?? [];
    const pods = [...this.#store.ownedBy("pods", metadata.uid)];
    if (finalizers.includes("orphan")) {
      for (const pod of pods) this.#letGo(pod, metadata.uid);
      this.#finish(metadata, finalizers, "orphan");
      return;
    }
    if (set !== undefined && !finalizers.includes("foregroundDeletion")) return;
    for (const pod of pods) {
      const { uid, deletionTimestamp } = pod.metadata;
      if (deletionTimestamp === undefined) {
        this.#store.delete("pods", pod.metadata, { preconditions: { uid }, propagationPolicy: "Background" });
      }
    }
    if (set !== undefined && pods.length === 0) this.#finish(metadata, finalizers, "foregroundDeletion");
  }

  #letGo(pod: StoredPod, ownerUid: string): void {
    const ownerReferences = (pod.metadata.ownerReferences ?? []).filter(({ uid }) => uid !== ownerUid);
    const patch = { metadata: { ownerReferences: ownerReferences.length === 0 ? null : ownerReferences } };
    this.#store.patch("pods", pod.metadata, patch);
  }

  #finish(
    key: { readonly namespace: string; readonly name: string },
    finalizers: readonly string[],
    done: string,
  ): void {
    this.#store.patch("statefulsets", key, { metadata: { finalizers: finalizers.filter((name) => name !== done) } });
  }
}
