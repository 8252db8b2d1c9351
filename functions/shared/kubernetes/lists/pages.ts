/** A LIST, page by page. */
import {
  type ContainerStatus,
  hasCode,
  type ListQuery,
  type Metadata,
  type ObjectList,
  type ObjectTypes,
  type PodObject,
  type Resource,
  tooManyToKeep,
} from "../cluster.ts";
import type { ApiRequest } from "../requests.ts";
import { collectionPath } from "../resources.ts";

/** Items of a list per request: some megabytes of JSON at a time. */
const pageSize = 500;

interface ListPage<T> {
  readonly items?: T[] | null;
  readonly metadata: {
    readonly resourceVersion: string;
    readonly continue?: string;
    readonly remainingItemCount?: number;
  };
}

type Send = <T>(request: ApiRequest) => Promise<T>;

/** Resolves to all objects, of one revision. Where that is forgotten meanwhile, it begins once more. Throws ClusterError. */
export async function listPages<R extends Resource>(
  resource: R,
  query: ListQuery,
  send: Send,
): Promise<ObjectList<ObjectTypes[R]>> {
  try {
    return await readPages(resource, query, send);
  } catch (error) {
    // The token of a later page grew too old. A first page never answers this.
    if (!hasCode(error, 410)) throw error;
    return await readPages(resource, query, send);
  }
}

/** One page after the other, so that the text of each is garbage before the next one comes. */
async function readPages<R extends Resource>(
  resource: R,
  query: ListQuery,
  send: Send,
): Promise<ObjectList<ObjectTypes[R]>> {
  const { path, label } = collectionPath(resource, query.namespace);
  const parameters = new URLSearchParams({ limit: String(pageSize) });
  if (query.labelSelector !== undefined) parameters.set("labelSelector", query.labelSelector);
  if (query.notOlderThan !== undefined) {
    parameters.set("resourceVersion", query.notOlderThan);
    parameters.set("resourceVersionMatch", "NotOlderThan");
  }
  const asked = { verb: "list", resource, label, method: "GET", repeatable: true } as const;
  const items: ObjectTypes[R][] = [];
  for (;;) {
    const page: ListPage<ObjectTypes[R]> = await send({ ...asked, path: `${path}?${parameters}` });
    const count = items.length + (page.items?.length ?? 0) + (page.metadata.remainingItemCount ?? 0);
    if (query.atMost !== undefined && count > query.atMost) throw tooManyToKeep(resource, count, query.atMost);
    for (const item of page.items ?? []) items.push(withoutUnread(resource, item));
    if (!page.metadata.continue) return { items, resourceVersion: page.metadata.resourceVersion };
    // The token says of which revision the rest is; naming one as well is refused.
    parameters.delete("resourceVersion");
    parameters.delete("resourceVersionMatch");
    parameters.set("continue", page.metadata.continue);
  }
}

/** Most of a pod is what nobody here asks for, and a list of thousands is large enough: what is kept is what `PodObject` has. */
function withoutUnread<T extends { readonly metadata: Metadata }>(resource: Resource, item: T): T {
  (item.metadata as { managedFields?: unknown }).managedFields = undefined;
  if (resource !== "pods") return item;
  const { metadata, spec, status }: PodObject = item;
  const { phase, startTime, conditions, containerStatuses, initContainerStatuses } = status ?? {};
  const containers = (all: readonly ContainerStatus[] | undefined) =>
    all?.map(({ name, ready, restartCount, state }) => ({ name, ready, restartCount, state }));
  const pod = {
    metadata,
    spec: spec && { volumes: spec.volumes },
    status: status && {
      phase,
      startTime,
      conditions: conditions?.map(({ type, status: said, lastTransitionTime: at }) => ({
        type,
        status: said,
        lastTransitionTime: at,
      })),
      containerStatuses: containers(containerStatuses),
      initContainerStatuses: containers(initContainerStatuses),
    },
  };
  return pod as unknown as T;
}
