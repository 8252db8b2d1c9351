/**
 * Binds volume claims to volumes and reports the phase of both, as the volume binder of kube-controller-manager 1.36 does
 * (pkg/controller/volume/persistentvolume), including the protection of volumes. It creates volumes only for claims of the
 * provisioned class, in place of a provisioner, which is no part of Kubernetes.
 */

import type { Resource } from "../../functions/shared/kubernetes/cluster.ts";
import type { StoredObject } from "./objects.ts";
import type { Store } from "./store.ts";
import type { Cancel, Timeline } from "./timeline.ts";
import { bytesOf, type Claim, claimRefOf, isBoundTo, type Volume, volumeProtection } from "./volumes.ts";
import type { Change } from "./watch-log.ts";

const claims: Resource = "persistentvolumeclaims";
const volumes: Resource = "persistentvolumes";

export interface VolumeBinderOptions {
  readonly timeline: Timeline;
  readonly store: Store;
  readonly delayMs: () => number;
  /** Each claim of this storage class gets a volume of its own, which goes with the claim. */
  readonly provisionedClass: string | undefined;
}

export class VolumeBinder {
  readonly #options: VolumeBinderOptions;
  readonly #store: Store;
  readonly #subscriptions: readonly Cancel[];

  constructor(options: VolumeBinderOptions) {
    this.#options = options;
    this.#store = options.store;
    this.#subscriptions = [
      this.#store.onChange(claims, (change: Change<StoredObject>) => this.#onClaim(change)),
      this.#store.onChange(volumes, (change: Change<StoredObject>) => this.#onVolume(change)),
    ];
  }

  stop(): void {
    for (const cancel of this.#subscriptions) cancel();
  }

  #onClaim({ current, final }: Change<StoredObject>): void {
    // Most worlds have no volumes, so their claims are not read.
    if (this.#options.provisionedClass === undefined && this.#store.list(volumes).items.length === 0) return;
    const { volumeName } = (final as Claim).spec ?? {};
    if (current === undefined && volumeName !== undefined) this.#after(() => this.#bindOrReleaseVolume(volumeName));
    else if (current !== undefined) this.#after(() => this.#bindOrReleaseClaim(final.metadata));
  }

  #onVolume({ current, final }: Change<StoredObject>): void {
    const { name } = final.metadata;
    const claim = claimRefOf(final as Volume);
    if (current !== undefined) this.#after(() => this.#bindOrReleaseVolume(name));
    if ((current as Volume | undefined)?.status?.phase === "Available") this.#after(() => this.#bindWaiting());
    if (current === undefined && claim !== undefined) this.#after(() => this.#bindOrReleaseClaim(claim));
  }

  #bindWaiting(): void {
    for (const { metadata, status } of this.#store.list(claims).items as readonly Claim[]) {
      if (status?.phase === "Pending") this.#bindOrReleaseClaim(metadata);
    }
  }

  #bindOrReleaseClaim({ namespace = "", name }: { readonly namespace?: string; readonly name: string }): void {
    const claim = this.#store.find(claims, { namespace, name }) as Claim | undefined;
    if (claim === undefined) return;
    const { volumeName } = claim.spec ?? {};
    const bound = volumeName === undefined ? undefined : this.#volume(volumeName);
    if (claim.status?.phase === "Bound") {
      if (bound === undefined) this.#writeStatus(claims, claim, { ...claim.status, phase: "Lost" });
      return;
    }
    if (claim.status?.phase !== "Pending" || claim.metadata.deletionTimestamp !== undefined) return;
    const volume = volumeName === undefined ? this.#match(claim) : bound;
    if (volume !== undefined) this.#bind(claim, volume);
    else if (volumeName === undefined) this.#provision(claim);
  }

  /** The volume that names the claim, or the smallest that fits. */
  #match(claim: Claim): Volume | undefined {
    const { resources, storageClassName = "", volumeMode } = claim.spec ?? {};
    const asked = bytesOf(resources?.requests?.storage);
    const sizeOf = ({ spec }: Volume): number => bytesOf(spec?.capacity?.storage);
    const fitting = (this.#store.list(volumes).items as readonly Volume[]).filter(
      (volume) =>
        volume.metadata.deletionTimestamp === undefined &&
        (volume.spec?.volumeMode ?? "Filesystem") === (volumeMode ?? "Filesystem") &&
        sizeOf(volume) >= asked,
    );
    const named = fitting.find((volume) => claimRefOf(volume) !== undefined && isBoundTo(volume, claim));
    if (named !== undefined) return named;
    return fitting
      .filter((volume) => claimRefOf(volume) === undefined && volume.status?.phase === "Available")
      .filter(({ spec }) => (spec?.storageClassName ?? "") === storageClassName)
      .filter(({ spec }) => (claim.spec?.accessModes ?? []).every((mode) => spec?.accessModes?.includes(mode) === true))
      .toSorted((one, other) => sizeOf(one) - sizeOf(other))[0];
  }

  #bind(claim: Claim, volume: Volume): void {
    if (claimRefOf(volume) !== undefined && !isBoundTo(volume, claim)) return;
    const { namespace = "", name, uid } = claim.metadata;
    const byController = { "pv.kubernetes.io/bound-by-controller": "yes" };
    const claimRef = { apiVersion: "v1", kind: "PersistentVolumeClaim", namespace, name, uid };
    const annotations = claimRefOf(volume) === undefined ? byController : {};
    const key = { namespace: "", name: volume.metadata.name };
    this.#store.patch(volumes, key, { metadata: { annotations }, spec: { claimRef } });
    this.#store.patch(volumes, key, { status: { phase: "Bound" } }, "status");
    const completed = { "pv.kubernetes.io/bind-completed": "yes", ...byController };
    const { accessModes, capacity } = volume.spec ?? {};
    const own = { namespace, name };
    this.#store.patch(claims, own, { metadata: { annotations: completed }, spec: { volumeName: key.name } });
    this.#store.patch(claims, own, { status: { phase: "Bound", accessModes, capacity } }, "status");
  }

  #provision({ metadata, spec }: Claim): void {
    const { provisionedClass } = this.#options;
    if (provisionedClass === undefined || spec?.storageClassName !== provisionedClass) return;
    const { namespace = "", name, uid } = metadata;
    const own = {
      metadata: { name: `pvc-${uid}`, annotations: { "pv.kubernetes.io/provisioned-by": "sluice.dev/world" } },
    };
    if (this.#volume(own.metadata.name) !== undefined) return;
    const claimRef = { apiVersion: "v1", kind: "PersistentVolumeClaim", namespace, name, uid };
    const { accessModes, resources, volumeMode } = spec;
    const kept = { accessModes, volumeMode, capacity: resources?.requests ?? {}, storageClassName: provisionedClass };
    const more = { claimRef, persistentVolumeReclaimPolicy: "Delete" };
    this.#store.create(volumes, "", { ...own, spec: { ...kept, ...more } });
    this.#after(() => this.#bindOrReleaseClaim(metadata));
  }

  #bindOrReleaseVolume(name: string): void {
    const volume = this.#volume(name);
    if (volume === undefined) return;
    const { metadata, spec, status } = volume;
    const reference = claimRefOf(volume);
    const claim = reference === undefined ? undefined : this.#store.find(claims, reference);
    const isOver = reference?.uid !== undefined && claim?.metadata.uid !== reference.uid;
    const isBound = reference?.uid !== undefined && !isOver && (claim as Claim).spec?.volumeName === name;
    const waits = reference?.uid !== undefined && !isOver && !isBound;
    const phase = isOver ? "Released" : isBound ? "Bound" : waits ? status?.phase : "Available";
    if (phase !== undefined && phase !== status?.phase) {
      this.#writeStatus(volumes, volume, { ...status, phase });
      return;
    }
    const finalizers = metadata.finalizers ?? [];
    if (metadata.deletionTimestamp !== undefined && phase !== "Bound" && finalizers.includes(volumeProtection)) {
      const left = finalizers.filter((finalizer) => finalizer !== volumeProtection);
      this.#store.patch(volumes, { namespace: "", name }, { metadata: { finalizers: left } });
    } else if (isOver && metadata.deletionTimestamp === undefined && this.#goesWithClaim(spec)) {
      this.#store.delete(volumes, { namespace: "", name }, { preconditions: { uid: metadata.uid } });
    }
  }

  #goesWithClaim(spec: Volume["spec"]): boolean {
    const { provisionedClass } = this.#options;
    const isOurs = provisionedClass !== undefined && spec?.storageClassName === provisionedClass;
    return isOurs && spec.persistentVolumeReclaimPolicy === "Delete";
  }

  #volume(name: string): Volume | undefined {
    return this.#store.find(volumes, { namespace: "", name }) as Volume | undefined;
  }

  #writeStatus(resource: Resource, { metadata }: StoredObject, status: object): void {
    const { namespace = "", name } = metadata;
    this.#store.patch(resource, { namespace, name }, { status }, "status");
  }

  #after(act: () => void): void {
    this.#options.timeline.after(this.#options.delayMs(), act);
  }
}
