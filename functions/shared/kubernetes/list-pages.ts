/** A LIST, page by page. */
import {
  hasCode,
  type ListQuery,
  type Metadata,
  type NodeObject,
  type ObjectList,
  type ObjectTypes,
  type PodObject,
  type Resource,
  tooManyToKeep,
} from "./cluster.ts";
import type { ApiRequest } from "./requests.ts";
import { collectionPath } from "./resources.ts";
import { keptNode } from "./trim-node.ts";
import { KeptPods } from "./trim-pod.ts";

/**
 * Items of a list per request: about a megabyte of JSON at a time, which is many times that when it is parsed. A minor garbage
 * collection frees a small page; larger ones stay until a full collection. `test/bench/README.md` has the figures.
 */
const pageSize = (resource: Resource) => (resource === "pods" ? 100 : 500);
/**
 * Many users may write annotations of volume claims, up to 256 KiB on each. So the first page is small, and the size of each page
 * limits the next one: while 25 MB are parsed at once, everything else in the process waits.
 */
const firstPageSize = (resource: Resource) => (resource === "persistentvolumeclaims" ? 25 : pageSize(resource));
const mostCharactersPerPage = 4_000_000;

const metadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

interface ListPage<T> {
  readonly items?: T[] | null;
  readonly metadata: {
    readonly resourceVersion: string;
    readonly continue?: string;
    readonly remainingItemCount?: number;
  };
}

type Send = <T>(request: ApiRequest) => Promise<T>;

/** Resolves to all objects of one revision. If the API server forgets that meanwhile, begins once more. Throws ClusterError. */
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

/** Reads one page after the other, so that the text of each is garbage before the next one is received. */
async function readPages<R extends Resource>(
  resource: R,
  query: ListQuery,
  send: Send,
): Promise<ObjectList<ObjectTypes[R]>> {
  const { path, label } = collectionPath(resource, query.namespace);
  const parameters = firstPageOf(resource, query);
  const accept = query.metadataOnly === true ? { accept: metadataList } : {};
  const asked = { verb: "list", resource, label, method: "GET", repeatable: true, ...accept } as const;
  const items: ObjectTypes[R][] = [];
  const keep = keeping(resource, query);
  for (;;) {
    const page: ListPage<ObjectTypes[R]> = await send({ ...asked, path: `${path}?${parameters}` });
    const count = items.length + (page.items?.length ?? 0) + (page.metadata.remainingItemCount ?? 0);
    if (query.atMost !== undefined && count > query.atMost) throw tooManyToKeep(resource, count, query.atMost);
    for (const item of page.items ?? []) items.push(keep(item));
    if (!page.metadata.continue) return { items, resourceVersion: page.metadata.resourceVersion };
    // The token names the revision of the rest, and the API server refuses a second one.
    parameters.delete("resourceVersion");
    parameters.delete("resourceVersionMatch");
    parameters.set("continue", page.metadata.continue);
    parameters.set("limit", String(Math.min(pageSize(resource), fitting(page.items ?? []))));
  }
}

/** The parameters of the request for the first page. */
function firstPageOf(resource: Resource, query: ListQuery): URLSearchParams {
  const parameters = new URLSearchParams({ limit: String(firstPageSize(resource)) });
  if (query.labelSelector !== undefined) parameters.set("labelSelector", query.labelSelector);
  if (query.nodeName !== undefined) parameters.set("fieldSelector", `spec.nodeName=${query.nodeName}`);
  if (query.source !== undefined) parameters.set("fieldSelector", `source=${query.source}`);
  if (query.notOlderThan !== undefined) {
    parameters.set("resourceVersion", query.notOlderThan);
    parameters.set("resourceVersionMatch", "NotOlderThan");
  }
  return parameters;
}

/** What is kept of the items of a list, one after the other. */
function keeping<R extends Resource>(resource: R, query: ListQuery): (item: ObjectTypes[R]) => ObjectTypes[R] {
  if (query.metadataOnly === true) return (item) => ({ metadata: withoutUnread(item).metadata }) as ObjectTypes[R];
  if (resource === "nodes") return (item) => keptNode(withoutUnread(item) as NodeObject) as ObjectTypes[R];
  if (resource !== "pods") return withoutUnread;
  const pods = new KeptPods();
  return (item) => pods.keep(item as PodObject) as ObjectTypes[R];
}

/** How many such objects a page may have, by the length of their annotations. Nothing else of an object may be so long. */
function fitting(items: readonly { readonly metadata: Metadata }[]): number {
  const texts = items.flatMap(({ metadata }) => Object.values(metadata.annotations ?? {}));
  const characters = texts.reduce((sum, text) => sum + text.length, 0);
  return Math.max(1, Math.floor((mostCharactersPerPage * items.length) / Math.max(1, characters)));
}

/** `managedFields` are as long as all the rest, and no function reads them in a list. */
function withoutUnread<T extends { readonly metadata: Metadata }>(item: T): T {
  (item.metadata as { managedFields?: unknown }).managedFields = undefined;
  return item;
}
