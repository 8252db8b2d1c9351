/** A LIST, page by page. */
import { hasCode, type ListQuery, type ObjectList, type ObjectTypes, type Resource } from "../cluster.ts";
import type { ApiRequest } from "../requests.ts";
import { collectionPath } from "../resources.ts";

/** Items of a list per request: some megabytes of JSON at a time. */
const pageSize = 500;

interface ListPage<T> {
  readonly items?: T[] | null;
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
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
    for (const item of page.items ?? []) {
      // Half of a pod's bytes say who wrote which field. Nobody here asks, and a list of thousands is large enough.
      (item.metadata as { managedFields?: unknown }).managedFields = undefined;
      items.push(item);
    }
    if (!page.metadata.continue) return { items, resourceVersion: page.metadata.resourceVersion };
    // The token says of which revision the rest is; naming one as well is refused.
    parameters.delete("resourceVersion");
    parameters.delete("resourceVersionMatch");
    parameters.set("continue", page.metadata.continue);
  }
}
