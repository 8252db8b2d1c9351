/** The objects of one resource type, with the indexes that make reading them cheap. */

import { controllerUidOf, type StoredObject } from "./objects.ts";

const nothing: ReadonlyMap<string, never> = new Map<string, never>();

export class Table<T extends StoredObject> {
  readonly #objects = new Map<string, T>();
  readonly #byOwner = new Map<string, Map<string, T>>();
  /** Keys in etcd's order, by namespace ("" for all). */
  readonly #keys = new Map<string, string[]>();
  /** Objects in that order, built again on the first read after a change. */
  readonly #sorted = new Map<string, readonly T[]>();

  get(key: string): T | undefined {
    return this.#objects.get(key);
  }

  /** The objects of a namespace, or all, in the order of the API server. The array is shared: copy it before you change it. */
  sorted(namespace: string | undefined): readonly T[] {
    let sorted = this.#sorted.get(namespace ?? "");
    if (sorted === undefined) {
      sorted = (this.#keys.get(namespace ?? "") ?? []).map((key) => this.#objects.get(key) as T);
      this.#sorted.set(namespace ?? "", sorted);
    }
    return sorted;
  }

  /** The objects that an owner controls, in the order of their creation; the orphans for "". */
  ownedBy(uid: string): IterableIterator<T> {
    return (this.#byOwner.get(uid) ?? nothing).values();
  }

  put(key: string, previous: T | undefined, current: T): void {
    const { metadata } = current;
    if (!this.#objects.has(key)) for (const scope of scopesOf(metadata)) this.#insert(scope, key);
    this.#objects.set(key, current);
    const owner = controllerUidOf(metadata);
    if (previous !== undefined && previous.metadata.ownerReferences !== metadata.ownerReferences) {
      const before = controllerUidOf(previous.metadata);
      if (before !== owner) this.#byOwner.get(before)?.delete(key);
    }
    group(this.#byOwner, owner).set(key, current);
    this.#forgetOrder(metadata.namespace ?? "");
  }

  remove(key: string, object: T): void {
    this.#objects.delete(key);
    for (const scope of scopesOf(object.metadata)) {
      const keys = this.#keys.get(scope) as string[];
      keys.splice(placeOf(keys, key), 1);
    }
    this.#byOwner.get(controllerUidOf(object.metadata))?.delete(key);
    this.#forgetOrder(object.metadata.namespace ?? "");
  }

  #insert(scope: string, key: string): void {
    const keys = this.#keys.get(scope);
    if (keys === undefined) this.#keys.set(scope, [key]);
    else keys.splice(placeOf(keys, key), 0, key);
  }

  #forgetOrder(namespace: string): void {
    this.#sorted.delete(namespace);
    this.#sorted.delete("");
  }
}

/** The namespace of an object, and "" for all namespaces. A cluster-wide object belongs only to "". */
function scopesOf({ namespace = "" }: StoredObject["metadata"]): readonly string[] {
  return namespace === "" ? [""] : ["", namespace];
}

/** Index of a key among sorted ones, existing or not. */
function placeOf(keys: readonly string[], key: string): number {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((keys[middle] as string) < key) low = middle + 1;
    else high = middle;
  }
  return low;
}

function group<T>(groups: Map<string, Map<string, T>>, name: string): Map<string, T> {
  let members = groups.get(name);
  if (members === undefined) {
    members = new Map();
    groups.set(name, members);
  }
  return members;
}
