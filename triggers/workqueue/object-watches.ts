/**
 * Watches the objects whose changes enqueue functions, in a long-lived process. The cache watches some types itself. These are
 * the watches of all others, which deliver only names.
 */

import { type FollowOptions, reflect } from "../../functions/shared/cache/reflector.ts";
import type { WatchSource } from "../../functions/shared/contract/keys.ts";
import {
  type Cluster,
  type Metadata,
  type ObjectKey,
  type Resource,
  resources,
  type WatchEvent,
} from "../../functions/shared/kubernetes/cluster.ts";

export interface ChangesOptions extends Pick<FollowOptions, "onTrouble"> {
  readonly cluster: Cluster;
  readonly sources: readonly WatchSource[];
  /** Undefined: all of them. What is of the whole cluster is watched either way. */
  readonly namespaces: readonly string[] | undefined;
  /**
   * Gets each object that there is at the start, or that comes, changes or goes later. `selector`: the label by which that
   * watch chooses its objects; undefined for one that chooses all.
   */
  onChange(resource: Resource, object: ObjectKey, selector: string | undefined): void;
}

/** Watches until stopped, whatever breaks. Functions that watch the same objects share a watch. Resolves, never rejects. */
export async function followChanges(options: ChangesOptions, stopped: AbortSignal): Promise<void> {
  const { cluster, sources, namespaces, onChange, onTrouble } = options;
  const distinct = new Map(sources.map((one) => [`${one.resource} ${one.selector?.key}`, one]));
  const loops = [...distinct.values()].flatMap(({ resource, selector }) => {
    const notify = ({ metadata: { namespace = "", name } }: { readonly metadata: Metadata }) =>
      onChange(resource, { namespace, name }, selector?.key);
    const store = {
      replace: (items: readonly { readonly metadata: Metadata }[]) => items.forEach(notify),
      apply(event: WatchEvent<{ readonly metadata: Metadata }>) {
        if (event.type !== "BOOKMARK") notify(event.object);
      },
    };
    const labelled = selector === undefined ? {} : { labelSelector: selector.key };
    const scopes = resources[resource].isNamespaced ? namespaces?.map((namespace) => ({ namespace })) : undefined;
    return (scopes ?? [{}]).map((scope) => {
      const following = { resource, query: { ...scope, ...labelled }, store, optional: true };
      return reflect({ cluster, onTrouble }, following, stopped, () => undefined);
    });
  });
  await Promise.all(loops);
}
