import { setTimeout as delay } from "node:timers/promises";
import type { Api } from "./api.ts";
import { linesOf } from "./lines.ts";

/** A follower of the objects of one type, with the state that it needs of them. */
export interface Follower<T> {
  /** Of the list; a query after `?` is kept. */
  readonly path: string;
  /** What is kept now, by uid. */
  readonly known: { keys(): Iterable<string> };
  /** An object as it is now; each state may come more than once. */
  seen(object: T): void;
  gone(uid: string): void;
}

interface Followed {
  readonly metadata: { readonly uid: string };
}

const PAGE = 500;
export const BACK_OFF_MS = { first: 50, most: 1_000 };

/**
 * Lists objects and watches them until `signal` is aborted; after any break it lists again, so that nothing is lost. Resolves,
 * after the first list, to a promise of the end. Throws if the API server refuses that list.
 */
export async function follow<T extends Followed>(
  api: Api,
  follower: Follower<T>,
  signal: AbortSignal,
): Promise<{ readonly ended: Promise<void> }> {
  const first = await list(api, follower);
  return { ended: goOn(api, follower, signal, first) };
}

async function goOn<T extends Followed>(
  api: Api,
  follower: Follower<T>,
  signal: AbortSignal,
  first: string,
): Promise<void> {
  let version: string | undefined = first;
  let backOffMs = BACK_OFF_MS.first;
  while (!signal.aborted) {
    try {
      version ??= await list(api, follower);
      backOffMs = BACK_OFF_MS.first;
      await watch(api, follower, version);
    } catch {
      await delay(backOffMs, undefined, { signal }).catch(() => {});
      backOffMs = Math.min(backOffMs * 2, BACK_OFF_MS.most);
    }
    version = undefined;
  }
}

/** Resolves to the revision of the list. */
async function list<T extends Followed>(api: Api, { path, known, seen, gone }: Follower<T>): Promise<string> {
  const found = new Set<string>();
  let next = "";
  for (;;) {
    const page = `${withQuery(path)}limit=${PAGE}&continue=${encodeURIComponent(next)}`;
    const { metadata, items } = await api.get<{
      metadata: { resourceVersion: string; continue?: string };
      items: T[];
    }>(page);
    for (const object of items) {
      found.add(object.metadata.uid);
      seen(object);
    }
    next = metadata.continue ?? "";
    if (next !== "") continue;
    for (const uid of known.keys()) if (!found.has(uid)) gone(uid);
    return metadata.resourceVersion;
  }
}

async function watch<T extends Followed>(api: Api, { path, seen, gone }: Follower<T>, version: string): Promise<void> {
  const answer = await api.send("GET", `${withQuery(path)}watch=true&resourceVersion=${version}`);
  if (answer.statusCode !== 200) {
    await answer.body.dump();
    throw new Error(`the watch was refused: ${answer.statusCode}`);
  }
  for await (const line of linesOf(answer.body)) {
    const { type, object } = JSON.parse(line) as { type: string; object: T };
    if (type === "ERROR") throw new Error("the watch broke off");
    if (type === "ADDED" || type === "MODIFIED") seen(object);
    if (type === "DELETED") gone(object.metadata.uid);
  }
}

function withQuery(path: string): string {
  return `${path}${path.includes("?") ? "&" : "?"}`;
}
