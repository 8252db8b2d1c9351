/** The state of every object of one resource type at every revision, so that a view of any age can be built. */

import type { StoredObject } from "./objects.ts";
import type { Change } from "./watch-log.ts";

interface Version<T> {
  readonly revision: number;
  /** Undefined: the object was removed. */
  readonly object: T | undefined;
  readonly atMs: number;
}

export class ObjectHistory<T extends StoredObject> {
  readonly #versions = new Map<string, Version<T>[]>();

  append(key: string, change: Change<T>): void {
    const version: Version<T> = { revision: change.revision, object: change.current, atMs: change.atMs };
    const versions = this.#versions.get(key);
    if (versions === undefined) this.#versions.set(key, [version]);
    else versions.push(version);
  }

  /** The objects of a namespace at `revision` of the store, in no promised order. */
  asOf(namespace: string, revision: number): T[] {
    const objects: T[] = [];
    for (const versions of this.#versions.values()) {
      const object = versionAt(versions, revision)?.object;
      if (object !== undefined && object.metadata.namespace === namespace) objects.push(object);
    }
    return objects;
  }

  /** Every version of one object, the oldest first; undefined for a removal. */
  of(key: string): readonly Version<T>[] {
    return this.#versions.get(key) ?? [];
  }

  /** Forgets versions that a reader who looks back at most `ms` cannot see. */
  trim(ms: number): void {
    for (const [key, versions] of this.#versions) {
      let keep = 0;
      while (keep + 1 < versions.length && (versions[keep + 1] as Version<T>).atMs <= ms) keep++;
      const only = versions.length - keep === 1 ? (versions[keep] as Version<T>) : undefined;
      if (only !== undefined && only.object === undefined && only.atMs <= ms) this.#versions.delete(key);
      else if (keep > 0) versions.splice(0, keep);
    }
  }
}

function versionAt<T>(versions: readonly Version<T>[], revision: number): Version<T> | undefined {
  // Searches from the end, because readers mostly ask for the newest versions, and a pod has few of them.
  for (let index = versions.length - 1; index >= 0; index--) {
    const version = versions[index] as Version<T>;
    if (version.revision <= revision) return version;
  }
  return undefined;
}
