/** The objects of one resource type, with the indexes that make reading them cheap. */

import { controllerUidOf, type StoredObject } from "./objects.ts";

const nothing: ReadonlyMap<string, never> = new Map<string, never>();

export class Table<T extends StoredObject> {
  readonly #objects = new Map<string, T>();
  readonly #byNamespace = new Map<string, Map<string, T>>();
  readonly #byOwner = new Map<string, Map<string, T>>();
  /** In the order of etcd's keys; rebuilt when asked for after a change, per namespace ("" for all). */
  readonly #sorted = new Map<string, readonly T[]>();

  get(key: string): T | undefined {
    return this.#objects.get(key);
  }

  /** The objects of a namespace, or all, in the order of the API server. The array is shared: copy it before changing it. */
  sorted(namespace: string | undefined): readonly T[] {
    let sorted = this.#sorted.get(namespace ?? "");
    if (sorted === undefined) {
      const entries = [...(namespace === undefined ? this.#objects : (this.#byNamespace.get(namespace) ?? nothing))];
      sorted = entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([, object]) => object);
      this.#sorted.set(namespace ?? "", sorted);
    }
    return sorted;
  }

  /** The objects that an owner controls, in the order of their creation; of uid "" the orphans. */
  ownedBy(uid: string): IterableIterator<T> {
    return (this.#byOwner.get(uid) ?? nothing).values();
  }

  put(key: string, previous: T | undefined, current: T): void {
    this.#objects.set(key, current);
    const { metadata } = current;
    group(this.#byNamespace, metadata.namespace ?? "").set(key, current);
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
    this.#byNamespace.get(object.metadata.namespace ?? "")?.delete(key);
    this.#byOwner.get(controllerUidOf(object.metadata))?.delete(key);
    this.#forgetOrder(object.metadata.namespace ?? "");
  }

  #forgetOrder(namespace: string): void {
    this.#sorted.delete(namespace);
    this.#sorted.delete("");
  }
}

function group<T>(groups: Map<string, Map<string, T>>, name: string): Map<string, T> {
  let members = groups.get(name);
  if (members === undefined) {
    members = new Map();
    groups.set(name, members);
  }
  return members;
}
