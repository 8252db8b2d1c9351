/**
 * Keeps a deleted volume claim until no pod uses it: the finalizer `kubernetes.io/pvc-protection` of
 * kube-controller-manager 1.36 (pkg/controller/volume/pvcprotection).
 */

import type { Resource } from "../../functions/shared/kubernetes/cluster.ts";
import { claimProtection, type StoredObject, type StoredPod } from "./objects.ts";
import type { Store } from "./store.ts";
import type { Cancel, Timeline } from "./timeline.ts";
import type { Change } from "./watch-log.ts";

const claims: Resource = "persistentvolumeclaims";

export class VolumeProtection {
  readonly #timeline: Timeline;
  readonly #store: Store;
  readonly #delayMs: () => number;
  readonly #subscriptions: readonly Cancel[];

  constructor(options: { readonly timeline: Timeline; readonly store: Store; readonly delayMs: () => number }) {
    this.#timeline = options.timeline;
    this.#store = options.store;
    this.#delayMs = options.delayMs;
    this.#subscriptions = [
      this.#store.onChange(claims, (change: Change<StoredObject>) => this.#onClaim(change)),
      this.#store.onChange("pods", (change) => this.#onPod(change)),
    ];
  }

  stop(): void {
    for (const cancel of this.#subscriptions) cancel();
  }

  #onClaim({ current }: Change<StoredObject>): void {
    if (current !== undefined && isProtectedAndDeleted(current)) this.#read(current);
  }

  #onPod({ current, final }: Change<StoredPod>): void {
    if (current !== undefined) return;
    const { namespace } = final.metadata;
    for (const name of claimsOf(final)) {
      const claim = this.#store.find(claims, { namespace, name });
      if (claim !== undefined && isProtectedAndDeleted(claim)) this.#read(claim);
    }
  }

  #read({ metadata }: StoredObject): void {
    const { namespace = "", name, uid } = metadata;
    this.#timeline.after(this.#delayMs(), () => {
      const claim = this.#store.find(claims, { namespace, name });
      if (claim?.metadata.uid !== uid || !isProtectedAndDeleted(claim)) return;
      const pods = this.#store.list("pods", { namespace }).items;
      // No kubelet knows a pod without a node, and it will not start with a claim that is being deleted.
      if (pods.some((pod) => pod.spec.nodeName !== undefined && claimsOf(pod).includes(name))) return;
      const finalizers = claim.metadata.finalizers?.filter((finalizer) => finalizer !== claimProtection);
      this.#store.patch(claims, { namespace, name }, { metadata: { finalizers } });
    });
  }
}

function claimsOf({ spec }: StoredPod): readonly string[] {
  if (spec.volumes === undefined) return [];
  return spec.volumes.flatMap(({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName ?? []);
}

function isProtectedAndDeleted({ metadata }: StoredObject): boolean {
  return metadata.deletionTimestamp !== undefined && (metadata.finalizers?.includes(claimProtection) ?? false);
}
