/**
 * What names one piece of a function's work, and how a change of an object leads to it. An event has only a name. That name is
 * a key, or it says what has to be read to find the keys.
 */

import type { AnyEntry } from "../annotations/table.ts";
import type { GroupCache } from "../cache/cache.ts";
import type { Cluster, KnownResource, ObjectKey, Resource } from "../kubernetes/cluster.ts";
import { statefulSetOfPod } from "../workloads/pods.ts";
import { type GroupKey, groupPathOf } from "../workloads/statefulsets.ts";

/** An object that is a key: an owner, a volume claim, a node. */
export interface ObjectRef extends ObjectKey {
  readonly resource: Resource;
}

export type Key = GroupKey | ObjectRef;

export function isGroup(key: Key): key is GroupKey {
  return "group" in key;
}

/** Names a key among all others of one process: a group never has the path of an object. */
export function pathOf(key: Key): string {
  return isGroup(key) ? groupPathOf(key) : `${key.resource} ${key.namespace}/${key.name}`;
}

/** What is known without a read, because reconciles have seen it. */
export interface KnownKeys {
  /** Undefined for a StatefulSet that no reconcile has seen, or that was last seen in no group. */
  groupOf(namespace: string, statefulSet: string): GroupKey | undefined;
}

/** The read that finds the keys of a changed object. */
export interface KeyLookUp<K extends Key = Key> {
  /** Of several look-ups of a function that have the same name, one is made: it answers all of them. */
  readonly name: string;
  /** Answers no key for an object that is gone. Throws ClusterError. */
  find(sources: KeySources): Promise<readonly K[]>;
}

export interface KeySources {
  readonly cluster: Pick<Cluster, "get" | "list">;
  readonly cache: GroupCache;
  /** Where the keys of an object may be that is of no namespace: in those that are served, or in all of them when undefined. */
  readonly namespaces: readonly string[] | undefined;
}

/** The objects of one type whose changes trigger a function. */
export interface WatchedSource {
  readonly resource: KnownResource;
  /** The label that an object must have for its changes to concern the function; absent: all of them do. */
  readonly selector?: AnyEntry;
}

/** A source of a function's keys: changes of the objects of one type. */
export interface WatchSource<K extends Key = Key> extends WatchedSource {
  /**
   * The keys that a change of this object concerns, or the look-up that finds them. Any client may name the object, and
   * there may be no such object. Empty for one that concerns no key.
   */
  keysOf(changed: ObjectKey, known: KnownKeys): readonly K[] | KeyLookUp<K>;
}

/** The group of a StatefulSet: known, or found by one GET. */
export function groupOfStatefulSet({ namespace, name }: ObjectKey, known: KnownKeys): GroupKey[] | KeyLookUp<GroupKey> {
  const group = known.groupOf(namespace, name);
  if (group !== undefined) return [group];
  return {
    name: `statefulsets ${namespace}/${name}`,
    async find({ cache }) {
      const found = await cache.groupOf(namespace, name);
      return found === undefined ? [] : [found];
    },
  };
}

/** The group of the StatefulSet that a pod is named after; none for a pod of another name. */
export function groupOfPod({ namespace, name }: ObjectKey, known: KnownKeys): GroupKey[] | KeyLookUp<GroupKey> {
  const statefulSet = statefulSetOfPod(name);
  return statefulSet === undefined ? [] : groupOfStatefulSet({ namespace, name: statefulSet }, known);
}

/**
 * All groups of the namespace, because no read shows whose pods a budget selected before it changed, or before it was deleted.
 */
export function groupsOfNamespace({ namespace }: ObjectKey): KeyLookUp<GroupKey> {
  return { name: `groups ${namespace}`, find: ({ cache }) => cache.groups(namespace) };
}
