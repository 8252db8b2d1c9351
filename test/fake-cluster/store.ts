/**
 * The objects of the fake cluster: what a kube-apiserver with its etcd promises, in one process and synchronously.
 *
 * Objects are immutable: a write stores a new object that shares the unchanged parts with the old one, so that readers may
 * keep what they read. Nothing is ever copied as a whole.
 */

import type {
  DiscoveredResource,
  ListQuery,
  ObjectKey,
  ObjectList,
  Resource,
  WatchEvent,
} from "../../functions/shared/kubernetes/cluster.ts";
import { namespaceTerminating, notFound, notServed, tooLargeResourceVersion, unknownField } from "./api-errors.ts";
import { ObjectHistory } from "./object-history.ts";
import {
  isFinalizingNamespace,
  type KindDefinition,
  type PodSpec,
  resourceNames,
  type StoredObject,
  type StoredPod,
  type StoredStatefulSet,
  type StoredTypes,
  sourceOf,
  typeOf,
} from "./objects.ts";
import type { Random } from "./random.ts";
import { askedScale, type StoredScale, scaleOf, scalePatch } from "./scale.ts";
import { Table } from "./table.ts";
import type { Cancel, Timeline } from "./timeline.ts";
import { type Change, parseSelector, WatchLog, type WatchOptions } from "./watch-log.ts";
import { type DeleteOptions, patchedObject, planDeletion } from "./write-rules.ts";
import { newObject } from "./write-rules-create.ts";

export interface StoreOptions {
  readonly timeline: Timeline;
  /** Source of uids and generated names. */
  readonly random: Random;
  /** Number of changes of each resource type that a watch can look back on. Default 4096. */
  readonly watchHistory?: number;
  /** True: keep the versions of pods and StatefulSets, for `podsAsOf` and `statefulSetsAsOf`. Default false. */
  readonly keepVersions?: boolean;
}

interface StoredKind<T extends StoredObject> {
  readonly table: Table<T>;
  readonly log: WatchLog<T>;
  readonly history: ObjectHistory<T> | undefined;
  readonly listeners: Set<(change: Change<T>) => void>;
}

interface Delivery {
  readonly table: StoredKind<StoredObject>;
  readonly change: Change<StoredObject>;
}

const firstRevision = 1;

export class Store {
  readonly #timeline: Timeline;
  readonly #random: Random;
  readonly #options: StoreOptions;
  readonly #shelves = new Map<Resource, StoredKind<StoredObject>>();
  readonly #withdrawn = new Set<Resource>();
  #revision = firstRevision;
  readonly #undelivered: Delivery[] = [];
  #delivering = false;

  constructor(options: StoreOptions) {
    this.#timeline = options.timeline;
    this.#random = options.random;
    this.#options = options;
    for (const resource of resourceNames) this.#shelves.set(resource, this.#newKind(resource));
  }

  #newKind(resource: Resource): StoredKind<StoredObject> {
    const { watchHistory = 4096, keepVersions = false } = this.#options;
    const isKept = keepVersions && (resource === "pods" || resource === "statefulsets");
    return {
      table: new Table(),
      log: new WatchLog(resource, watchHistory, this.#revision),
      history: isKept ? new ObjectHistory() : undefined,
      listeners: new Set(),
    };
  }

  /** The revision of the last write to anything. */
  get revision(): number {
    return this.#revision;
  }

  /** False after {@link withdraw}, and for a type that is not defined here. */
  serves(resource: Resource): boolean {
    return this.#shelves.has(resource) && !this.#withdrawn.has(resource);
  }

  /** All types that are served. */
  served(): Resource[] {
    return [...this.#shelves.keys()].filter((resource) => this.serves(resource));
  }

  /**
   * Serves a type from now on, as the creation of its CRD does, and returns its name. The garbage collector does not know its
   * objects.
   */
  define(definition: KindDefinition): DiscoveredResource {
    const resource = typeOf(definition);
    if (!this.#shelves.has(resource)) this.#shelves.set(resource, this.#newKind(resource));
    this.restore(resource);
    return resource;
  }

  /**
   * Removes a resource type with its objects, as the deletion of its CRD does: requests for it find nothing. Its watches get
   * the removals and then nothing more, whereas a real server ends them.
   */
  withdraw(resource: Resource): void {
    const stored = this.#table(resource);
    for (const object of stored.table.sorted(undefined)) this.#remove(stored, object);
    this.#withdrawn.add(resource);
  }

  /** Undoes {@link withdraw}, without the objects. */
  restore(resource: Resource): void {
    this.#withdrawn.delete(resource);
  }

  /** The object, or undefined. */
  find<R extends Resource>(resource: R, key: ObjectKey): StoredTypes[R] | undefined {
    return this.#table(resource).table.get(keyOf(key));
  }

  /** @throws ApiStatusError 404 */
  get<R extends Resource>(resource: R, key: ObjectKey): StoredTypes[R] {
    const object = this.find(resource, key);
    if (object === undefined) throw notFound("get", resource, key.name);
    return object;
  }

  /**
   * The current objects in the order of the API server. The caller owns the array.
   *
   * @throws ApiStatusError 504 if `notOlderThan` lies in the future, 400 for a malformed selector, a `nodeName` of what are no
   * pods or a `source` of what are no Events, 404 for a type that is not served.
   */
  list<R extends Resource>(resource: R, query: ListQuery = {}): ObjectList<StoredTypes[R]> {
    if (!this.serves(resource)) throw notServed("list", resource);
    if (query.notOlderThan !== undefined && Number(query.notOlderThan) > this.#revision) {
      throw tooLargeResourceVersion(resource, query.notOlderThan, this.#revision);
    }
    const matches = parseSelector("list", resource, query.labelSelector);
    const { nodeName, source } = query;
    if (nodeName !== undefined && resource !== "pods") throw unknownField(resource, "spec.nodeName");
    if (source !== undefined && resource !== "events") throw unknownField(resource, "source");
    const sorted = this.#table(resource).table.sorted(query.namespace);
    let items = matches === undefined ? sorted.slice() : sorted.filter((object) => matches(object.metadata.labels));
    if (nodeName !== undefined) items = items.filter(({ spec }) => (spec as PodSpec).nodeName === nodeName);
    if (source !== undefined) items = items.filter((object) => sourceOf(object) === source);
    if (query.metadataOnly === true) items = items.map(({ metadata }) => ({ metadata }) as StoredTypes[R]);
    return { items, resourceVersion: String(this.#revision) };
  }

  /** The objects whose controller has this uid; the orphans for "". Callers must not write while they iterate. */
  ownedBy<R extends Resource>(resource: R, uid: string): IterableIterator<StoredTypes[R]> {
    return this.#table(resource).table.ownedBy(uid);
  }

  /**
   * @param body what a client would POST; fields that the server sets (uid, times, generation, status) are ignored.
   * @param namespace empty for a cluster-wide type. A namespace that is no object counts as existing.
   * @throws ApiStatusError 403 if the namespace is being deleted, 409 AlreadyExists, 400 and 422 for an invalid name or
   *   namespace, 404 for a type that is not served.
   */
  create<R extends Resource>(resource: R, namespace: string, body: object): StoredTypes[R] {
    if (!this.serves(resource)) throw notServed("create", resource);
    const stored = this.#table(resource);
    const isEnding =
      this.find("namespaces", { namespace: "", name: namespace })?.metadata.deletionTimestamp !== undefined;
    if (isEnding) throw namespaceTerminating(resource, nameIn(body), namespace);
    const object = newObject({
      resource,
      namespace,
      body,
      random: this.#random,
      nowMs: this.#timeline.nowMs(),
      taken: (key) => stored.table.get(key) !== undefined,
    });
    return this.#put(stored, undefined, object as StoredTypes[R]);
  }

  /**
   * A JSON merge patch. `metadata.resourceVersion` in it is a condition. Removing the last finalizer of an object that is
   * being deleted removes the object.
   *
   * @throws ApiStatusError 404, 409 for another resourceVersion, 422 for another uid, 400 for another name.
   */
  patch<R extends Resource>(resource: R, key: ObjectKey, body: object, subresource?: "status"): StoredTypes[R] {
    const current = this.find(resource, key);
    if (current === undefined) throw notFound("patch", resource, key.name);
    return this.replace(resource, current, patchedObject(resource, current, body, subresource) as StoredTypes[R]);
  }

  /** Stores `next`, which the rules of writes have accepted, in place of `current`, which must be the current object. */
  replace<R extends Resource>(resource: R, current: StoredTypes[R], next: StoredTypes[R]): StoredTypes[R] {
    if (next === current) return current;
    const stored = this.#table(resource);
    const { deletionTimestamp, deletionGracePeriodSeconds, finalizers } = next.metadata;
    const isKept = (finalizers ?? []).length > 0 || isFinalizingNamespace(next);
    if (deletionTimestamp !== undefined && (deletionGracePeriodSeconds ?? 0) === 0 && !isKept) {
      this.#remove(stored, current);
      return next;
    }
    return this.#put(stored, current, next);
  }

  /** @throws ApiStatusError 404, also for a type that has no scale. */
  getScale(resource: Resource, key: ObjectKey): StoredScale {
    return scaleOf("get", resource, this.get(resource, key));
  }

  /**
   * A JSON merge patch of the scale. Returns the new scale.
   *
   * @throws ApiStatusError as {@link askedScale}, {@link scalePatch} and {@link patch} do.
   */
  patchScale(resource: Resource, key: ObjectKey, body: object): StoredScale {
    const current = this.find(resource, key);
    if (current === undefined) throw notFound("patch", resource, key.name);
    const patch = scalePatch(resource, current, askedScale(resource, current, body));
    return scaleOf("patch", resource, this.patch(resource, key, patch));
  }

  /**
   * Replaces a status, as a controller or kubelet does. `object` must be the current object.
   *
   * @throws ApiStatusError 404, 409
   */
  putStatus<R extends "pods" | "statefulsets">(resource: R, object: StoredTypes[R], status: object): StoredTypes[R] {
    const stored = this.#table(resource);
    const current = stored.table.get(keyOf(object.metadata));
    if (current !== object) {
      const { resourceVersion } = object.metadata;
      return this.patch(resource, object.metadata, { metadata: { resourceVersion }, status }, "status");
    }
    return this.#put(stored, current, { ...current, status });
  }

  /** Binds a pod to a node, as the scheduler does. `pod` must be the current object. */
  bind(pod: StoredPod, nodeName: string): StoredPod {
    return this.#put(this.#table("pods"), pod, { ...pod, spec: { ...pod.spec, nodeName } });
  }

  /**
   * Deletes an object, or begins to: a pod on a node terminates until its kubelet confirms with `gracePeriodSeconds: 0`, and
   * finalizers keep any object. A second deletion succeeds and changes nothing.
   *
   * @returns the object as the deletion left or found it, and whether it is gone.
   * @throws ApiStatusError 404, 409 for a failed precondition.
   */
  delete<R extends Resource>(
    resource: R,
    key: ObjectKey,
    options: DeleteOptions = {},
  ): { readonly object: StoredTypes[R]; readonly removed: boolean } {
    const stored = this.#table(resource);
    const current = stored.table.get(keyOf(key));
    if (current === undefined) throw notFound("delete", resource, key.name);
    const plan = planDeletion(resource, current, options, this.#timeline.nowMs());
    const marked = plan.marked === undefined ? current : this.#put(stored, current, plan.marked as StoredTypes[R]);
    return plan.remove ? { object: this.#remove(stored, marked), removed: true } : { object: marked, removed: false };
  }

  /**
   * Calls the listener with each change, in order, from inside the write that makes it, or from inside the write that is under
   * way.
   *
   * @throws ApiStatusError 410 if the changes since `resourceVersion` are forgotten, 404 for a type that is not served.
   */
  watch<R extends Resource>(
    resource: R,
    options: WatchOptions,
    listener: (event: WatchEvent<StoredTypes[R]>) => void,
  ): Cancel {
    if (!this.serves(resource)) throw notServed("watch", resource);
    const stored = this.#table(resource);
    return stored.log.watch(options, stored.table.sorted(options.namespace), this.#revision, listener);
  }

  /** Sends a bookmark to every watch of this resource that asked for bookmarks. */
  sendBookmarks(resource: Resource): void {
    this.#table(resource).log.sendBookmarks(this.#revision);
  }

  /**
   * Like a watch without a filter, but with the object before and after. For controllers of the fake cluster and for checkers.
   */
  onChange<R extends Resource>(resource: R, listener: (change: Change<StoredTypes[R]>) => void): Cancel {
    const { listeners } = this.#table(resource);
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
    };
  }

  /** The pods of a namespace at a revision, in no promised order. Needs `keepVersions`. */
  podsAsOf(namespace: string, revision: number): StoredPod[] {
    return this.#history("pods").asOf(namespace, revision);
  }

  /** The StatefulSets of a namespace at a revision, in no promised order. Needs `keepVersions`. */
  statefulSetsAsOf(namespace: string, revision: number): StoredStatefulSet[] {
    return this.#history("statefulsets").asOf(namespace, revision);
  }

  /** Every remembered version of a pod of that name, the oldest first. Needs `keepVersions`. */
  versionsOf<R extends "pods" | "statefulsets">(
    resource: R,
    key: ObjectKey,
  ): readonly { readonly revision: number; readonly object: StoredTypes[R] | undefined; readonly atMs: number }[] {
    return this.#history(resource).of(keyOf(key));
  }

  /** Forgets versions that a reader who looks back no further than `ms` (since the epoch) does not see. */
  trimVersions(ms: number): void {
    this.#history("pods").trim(ms);
    this.#history("statefulsets").trim(ms);
  }

  #history<R extends "pods" | "statefulsets">(resource: R): ObjectHistory<StoredTypes[R]> {
    const { history } = this.#table(resource);
    if (history === undefined) throw new Error("this store was made without keepVersions");
    return history;
  }

  #table<R extends Resource>(resource: R): StoredKind<StoredTypes[R]> {
    const stored = this.#shelves.get(resource);
    if (stored === undefined) throw notServed("get", resource);
    return stored as unknown as StoredKind<StoredTypes[R]>;
  }

  #put<T extends StoredObject>(stored: StoredKind<T>, previous: T | undefined, object: T): T {
    const revision = ++this.#revision;
    const current = { ...object, metadata: { ...object.metadata, resourceVersion: String(revision) } };
    stored.table.put(keyOf(current.metadata), previous, current);
    this.#record(stored, { revision, atMs: this.#timeline.nowMs(), previous, current, final: current });
    return current;
  }

  #remove<T extends StoredObject>(stored: StoredKind<T>, object: T): T {
    const revision = ++this.#revision;
    const final = { ...object, metadata: { ...object.metadata, resourceVersion: String(revision) } };
    stored.table.remove(keyOf(object.metadata), object);
    this.#record(stored, { revision, atMs: this.#timeline.nowMs(), previous: object, current: undefined, final });
    return final;
  }

  /** Listeners may write: they get such a change after the current one, so that all of them see the same order. */
  #record<T extends StoredObject>(stored: StoredKind<T>, change: Change<T>): void {
    stored.log.remember(change);
    stored.history?.append(keyOf(change.final.metadata), change);
    this.#undelivered.push({ table: stored as unknown as StoredKind<StoredObject>, change });
    if (this.#delivering) return;
    this.#delivering = true;
    try {
      for (let index = 0; index < this.#undelivered.length; index++) {
        const next = this.#undelivered[index] as Delivery;
        for (const listener of next.table.listeners) listener(next.change);
        next.table.log.publish(next.change);
      }
    } finally {
      this.#undelivered.length = 0;
      this.#delivering = false;
    }
  }
}

function nameIn(body: object): string {
  return (body as { metadata?: { name?: string } }).metadata?.name ?? "";
}

/** Key of an object in the indexes, which sorts as etcd's keys do. */
export function keyOf(key: { readonly namespace?: string; readonly name: string }): string {
  return `${key.namespace ?? ""}/${key.name}`;
}
