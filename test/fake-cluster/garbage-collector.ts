/**
 * Collects objects of every type whose owners are gone, as the garbage collector of kube-controller-manager 1.36 does
 * (pkg/controller/garbagecollector/garbagecollector.go). One difference: owners that wait for each other in a circle wait for
 * ever.
 */

import {
  type ObjectKey,
  type OwnerReference,
  type Resource,
  resources,
} from "../../functions/shared/kubernetes/cluster.ts";
import { resourceNames, type StoredObject, traitsOf } from "./objects.ts";
import type { Store } from "./store.ts";
import type { Cancel, Timeline } from "./timeline.ts";
import type { Change } from "./watch-log.ts";

interface Identity {
  readonly resource: Resource;
  readonly key: ObjectKey;
  readonly uid: string;
}

const noOwners: readonly StoredReference[] = [];

interface StoredReference extends OwnerReference {
  readonly blockOwnerDeletion?: boolean;
}

const resourceOfKind: ReadonlyMap<string, Resource> = new Map(
  resourceNames.map((resource) => [`${resources[resource].group}/${resources[resource].kind}`, resource]),
);

export class GarbageCollector {
  readonly #timeline: Timeline;
  readonly #store: Store;
  readonly #delayMs: () => number;
  readonly #subscriptions: readonly Cancel[];
  /** Dependents by the owner's uid and their own uid. An owner stays here until it and its dependents are gone. */
  readonly #dependents = new Map<string, Map<string, Identity>>();

  constructor(options: { readonly timeline: Timeline; readonly store: Store; readonly delayMs: () => number }) {
    this.#timeline = options.timeline;
    this.#store = options.store;
    this.#delayMs = options.delayMs;
    this.#subscriptions = resourceNames.map((resource) =>
      this.#store.onChange(resource, (change: Change<StoredObject>) => this.#onChange(resource, change)),
    );
  }

  stop(): void {
    for (const cancel of this.#subscriptions) cancel();
  }

  #onChange(resource: Resource, { previous, current, final }: Change<StoredObject>): void {
    const { uid, deletionTimestamp, finalizers } = final.metadata;
    if (current === undefined || deletionTimestamp !== undefined) {
      const isOurs = finalizers?.some((finalizer) => finalizer === "orphan" || finalizer === "foregroundDeletion");
      const owner = identityOf(resource, final);
      if (this.#dependents.has(uid) || isOurs) this.#after(() => this.#collect(owner));
    }
    const before = ownersOf(previous);
    const now = ownersOf(current);
    if (before !== now) this.#onOwners(identityOf(resource, final), before, now);
  }

  #onOwners(dependent: Identity, before: readonly StoredReference[], now: readonly StoredReference[]): void {
    for (const { uid } of now) {
      const dependents = this.#dependents.get(uid) ?? new Map<string, Identity>();
      this.#dependents.set(uid, dependents.set(dependent.uid, dependent));
    }
    for (const owner of before) {
      if (now.some(({ uid }) => uid === owner.uid)) continue;
      const dependents = this.#dependents.get(owner.uid);
      dependents?.delete(dependent.uid);
      const found = this.#ownerOf(dependent, owner);
      if (found === "gone" && dependents?.size === 0) this.#dependents.delete(owner.uid);
      // It may have been the last dependent that its owner waited for.
      if (typeof found === "object" && isWaiting(found.object)) this.#after(() => this.#collect(found.identity));
    }
    if (now.some((owner) => this.#ownerOf(dependent, owner) === "gone")) this.#after(() => this.#check(dependent));
  }

  /** Orphans or checks all dependents of an owner that is leaving or gone, as the owner's finalizers say. */
  #collect(owner: Identity): void {
    const object = this.#find(owner);
    const finalizers = object?.metadata.finalizers ?? [];
    const dependents = [...(this.#dependents.get(owner.uid)?.values() ?? [])];
    if (finalizers.includes("orphan")) {
      for (const dependent of dependents) this.#keepOwners(dependent, ({ uid }) => uid !== owner.uid);
      this.#finish(owner, finalizers, "orphan");
      return;
    }
    if (object !== undefined && !isWaiting(object)) return;
    const isBlocked = dependents.some((dependent) =>
      ownersOf(this.#find(dependent)).some(({ uid, blockOwnerDeletion }) => uid === owner.uid && blockOwnerDeletion),
    );
    for (const dependent of dependents) this.#check(dependent);
    if (object === undefined && dependents.length === 0) this.#dependents.delete(owner.uid);
    if (object !== undefined && !isBlocked) this.#finish(owner, finalizers, "foregroundDeletion");
  }

  /**
   * Deletes a dependent if each of its owners is gone or waits for it; if one owner stays, removes only the other references.
   */
  #check(dependent: Identity): void {
    const object = this.#find(dependent);
    if (object === undefined || object.metadata.deletionTimestamp !== undefined) return;
    const owners = ownersOf(object);
    const found = new Map(owners.map((owner) => [owner.uid, this.#ownerOf(dependent, owner)]));
    const stays = ({ uid }: StoredReference): boolean => {
      const owner = found.get(uid);
      return owner === "unknown" || (typeof owner === "object" && !isWaiting(owner.object));
    };
    if (owners.every(stays)) return;
    if (owners.some(stays)) {
      this.#keepOwners(dependent, stays);
      return;
    }
    const isAwaited = owners.some(({ uid }) => typeof found.get(uid) === "object");
    const hasDependents = (this.#dependents.get(dependent.uid)?.size ?? 0) > 0;
    this.#store.delete(dependent.resource, dependent.key, {
      preconditions: { uid: dependent.uid },
      propagationPolicy: isAwaited && hasDependents ? "Foreground" : policyOf(object),
    });
  }

  /** The object that a reference names; "unknown" for a kind that the fake cluster lacks: such an owner counts as existing. */
  #ownerOf(
    dependent: Identity,
    { apiVersion = "", kind, name, uid }: StoredReference,
  ): { readonly identity: Identity; readonly object: StoredObject } | "gone" | "unknown" {
    const group = apiVersion.includes("/") ? apiVersion.slice(0, apiVersion.indexOf("/")) : "";
    const resource = resourceOfKind.get(`${group}/${kind}`);
    if (resource === undefined) return "unknown";
    const namespace = traitsOf(resource).isNamespaced ? dependent.key.namespace : "";
    const identity = { resource, key: { namespace, name }, uid };
    const object = this.#find(identity);
    return object === undefined ? "gone" : { identity, object };
  }

  #find({ resource, key, uid }: Identity): StoredObject | undefined {
    const object = this.#store.find(resource, key);
    return object?.metadata.uid === uid ? object : undefined;
  }

  #keepOwners(dependent: Identity, keep: (owner: StoredReference) => boolean): void {
    const object = this.#find(dependent);
    if (object === undefined) return;
    const ownerReferences = ownersOf(object).filter(keep);
    const patch = { metadata: { ownerReferences: ownerReferences.length === 0 ? null : ownerReferences } };
    this.#store.patch(dependent.resource, dependent.key, patch);
  }

  #finish(owner: Identity, finalizers: readonly string[], done: string): void {
    const left = finalizers.filter((name) => name !== done);
    this.#store.patch(owner.resource, owner.key, { metadata: { finalizers: left } });
  }

  #after(act: () => void): void {
    this.#timeline.after(this.#delayMs(), act);
  }
}

function identityOf(resource: Resource, { metadata }: StoredObject): Identity {
  const { namespace = "", name, uid } = metadata;
  return { resource, key: { namespace, name }, uid };
}

function ownersOf(object: StoredObject | undefined): readonly StoredReference[] {
  return (object?.metadata.ownerReferences as readonly StoredReference[] | undefined) ?? noOwners;
}

/** True for an owner that goes when all of its dependents are gone. */
function isWaiting({ metadata }: StoredObject): boolean {
  return metadata.deletionTimestamp !== undefined && (metadata.finalizers?.includes("foregroundDeletion") ?? false);
}

function policyOf({ metadata }: StoredObject): "Background" | "Foreground" | "Orphan" {
  if (metadata.finalizers?.includes("orphan")) return "Orphan";
  return metadata.finalizers?.includes("foregroundDeletion") ? "Foreground" : "Background";
}
