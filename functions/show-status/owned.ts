/** The views of groups whose pods no StatefulSet controls. No watch serves such a group, so that its view is made of LISTs. */
import { limitReads } from "../shared/base/limit-reads.ts";
import type { GroupView } from "../shared/cache/cache.ts";
import { readOwnedView } from "../shared/cache/listing.ts";
import type { StatusContext } from "../shared/contract/definition.ts";
import { type Cluster, isTransient, type ListQuery } from "../shared/kubernetes/cluster.ts";
import { type GroupKey, groupPathOf } from "../shared/workloads/statefulsets.ts";
import type { Omissions } from "./omissions.ts";

/** Each GET asks for the views, so that nothing is listed while no GET comes. */
const listLimits = { everyMs: 10_000, waitMs: 1_000, earlyMs: 100 };
/** Of more pods or volume claims than these in a namespace none is kept. */
const mostListed = 10_000;
/** Any account that may make Leases may write ledgers of owners that do not exist. */
const mostGroups = 50;
const otherGroups = "further groups of other owners";

export interface OwnedViews {
  /** Resolves when the views of these groups are at most ten seconds old, or within a second. */
  refresh(keys: readonly GroupKey[]): Promise<void>;
  /** The view of a group by the last LISTs; undefined if it could not be listed. */
  find(key: GroupKey): GroupView | undefined;
}

/** What a LIST that has no answer showed before stays, and what one that is refused showed is left out. */
export function createOwnedViews({ cluster }: Pick<StatusContext, "cluster">, omissions: Omissions): OwnedViews {
  const views = new Map<string, GroupView>();
  let wanted: ReadonlyMap<string, GroupKey> = new Map();
  let before: ReadonlyMap<string, GroupKey> = wanted;
  const readOne = async (path: string, key: GroupKey, lists: SharedLists): Promise<void> => {
    try {
      views.set(path, await readOwnedView(lists, key, { settledThrough: 0 }));
      omissions.end(partOf(path));
    } catch (error) {
      if (!isTransient(error)) views.delete(path);
      omissions.note(partOf(path), error);
    }
  };
  const refresh = limitReads(cluster, listLimits, async () => {
    const read = new Map([...wanted].slice(0, mostGroups));
    for (const path of before.keys()) if (!read.has(path)) forget(path);
    before = read;
    noteFurther(wanted.size - read.size);
    const lists = shareLists(cluster);
    await Promise.all([...read].map(([path, key]) => readOne(path, key, lists)));
  });
  const forget = (path: string) => {
    views.delete(path);
    omissions.end(partOf(path));
  };
  const noteFurther = (count: number) => {
    if (count === 0) omissions.end(otherGroups);
    else omissions.note(otherGroups, new Error(`there are ${count} beyond the ${mostGroups} that are read`));
  };
  return {
    refresh(keys) {
      wanted = new Map(keys.map((key) => [groupPathOf(key), key]));
      return wanted.size + before.size === 0 ? Promise.resolve() : refresh();
    },
    find: (key) => views.get(groupPathOf(key)),
  };
}

const partOf = (path: string): string => `group ${path}`;

type SharedLists = Pick<Cluster, "list" | "monotonicMs">;

/** The groups of a namespace are made of the same LISTs, so that each of these is sent once. */
function shareLists(cluster: SharedLists): SharedLists {
  const listed = new Map<string, Promise<unknown>>();
  const list = (resource: string, query: ListQuery): Promise<unknown> => {
    const asked = JSON.stringify([resource, query]);
    const shared = listed.get(asked) ?? cluster.list(resource as "pods", { ...query, atMost: mostListed });
    listed.set(asked, shared);
    return shared;
  };
  return { list: list as Cluster["list"], monotonicMs: () => cluster.monotonicMs() };
}
