/** WATCH over HTTP: one JSON object on each line until the time is up or the client disconnects. */

import type { ServerResponse } from "node:http";
import { ClusterError, type Resource, type WatchEvent } from "../../functions/shared/kubernetes/cluster.ts";
import { statusOf } from "./api-errors.ts";
import { checkRevision, fieldMatcher, selectorOf } from "./http-list.ts";
import type { ApiRequest } from "./http-request.ts";
import { type StoredObject, traitsOf } from "./objects.ts";
import type { Cancel } from "./timeline.ts";
import type { World } from "./world.ts";

/** An event on its way to a watch. */
export interface WatchedEvent {
  readonly resource: Resource;
  readonly userAgent: string;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly object: StoredObject;
}

export interface ServeOptions {
  /** Default 0: any free one. */
  readonly port?: number;
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** True drops an event of one watch, as a gap in the connection would. */
  readonly dropWatchEvent?: (event: WatchedEvent) => boolean;
  /** Interval of bookmarks for a watch that allows them, in milliseconds. Default 60,000. */
  readonly bookmarkEveryMs?: number;
}

/** Time before its end at which a watch gets a last bookmark, so that the next watch continues from a recent revision. */
const bookmarkBeforeEndMs = 2000;

/** @throws ApiStatusError 400 for a malformed selector. Later refusals are events, as the API server sends them. */
export function serveWatch(world: World, asked: ApiRequest, response: ServerResponse, options: ServeOptions): void {
  const { resource, namespace, query, userAgent } = asked;
  const { store, timeline } = world;
  const matches = fieldMatcher(resource, query);
  checkRevision("watch", resource, query.get("resourceVersion") ?? "");
  const bookmarks = query.get("allowWatchBookmarks") === "true" || query.get("allowWatchBookmarks") === "1";
  const endings: Cancel[] = [];
  const write = (type: string, object: object): void => {
    response.write(`${JSON.stringify({ type, object })}\n`);
  };
  const end = (): void => {
    for (const ending of endings.splice(0)) ending();
    response.end();
  };
  const bookmark = (): void => {
    const { apiVersion, kind } = traitsOf(resource);
    write("BOOKMARK", { kind, apiVersion, metadata: { resourceVersion: String(store.revision) } });
  };
  const listener = (event: WatchEvent<StoredObject>): void => {
    if (event.type === "BOOKMARK" || (matches !== undefined && !matches(event.object))) return;
    if (options.dropWatchEvent?.({ resource, userAgent, type: event.type, object: event.object })) return;
    write(event.type, event.object);
  };
  const watchOptions = {
    ...(namespace === undefined ? undefined : { namespace }),
    ...selectorOf(query),
    resourceVersion: query.get("resourceVersion") ?? "",
  };
  const start = (): void => {
    response.writeHead(200, { "Content-Type": "application/json", "Cache-Control": "no-cache, private" });
    response.flushHeaders();
  };
  try {
    // Past events are delivered while the watch is being opened. The response's head must be sent before them, but not before
    // a refusal.
    const early: WatchEvent<StoredObject>[] = [];
    let begun = false;
    endings.push(store.watch(resource, watchOptions, (event) => (begun ? listener(event) : early.push(event))));
    start();
    begun = true;
    for (const event of early) listener(event);
  } catch (error) {
    if (!(error instanceof ClusterError) || error.code !== 410) throw error;
    start();
    write("ERROR", statusOf(error));
    end();
    return;
  }
  response.once("close", end);
  const durationMs = watchDurationMs(query);
  endings.push(timeline.after(durationMs, end));
  if (!bookmarks) return;
  if (durationMs > bookmarkBeforeEndMs) endings.push(timeline.after(durationMs - bookmarkBeforeEndMs, bookmark));
  const every = setInterval(bookmark, options.bookmarkEveryMs ?? 60_000);
  endings.push(() => clearInterval(every));
}

/** By default the API server ends a watch after half an hour to an hour. */
function watchDurationMs(query: URLSearchParams): number {
  const seconds = Number(query.get("timeoutSeconds") ?? 0);
  return seconds > 0 ? seconds * 1000 : 1_800_000 * (1 + Math.random());
}
