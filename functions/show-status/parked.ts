/** The evictions that this process parks, with the nodes of their pods. */
import { limitReads } from "../shared/base/limit-reads.ts";
import type { ParkedEviction, StatusContext } from "../shared/contract/definition.ts";
import { find } from "../shared/kubernetes/find.ts";
import type { Omissions } from "./omissions.ts";
import type { SeenParked } from "./snapshot.ts";

/** A pod of a uid never changes its node, so that each is read once. */
const readLimits = { everyMs: 1_000, waitMs: 1_000 };
/** As many as a process parks at most. */
const mostReads = 64;
const part = "nodes of evictions that wait";

/** Resolves within a second. A pod whose node is not known by then has none, and has one in a later status. */
export function createParkedReader(context: StatusContext, omissions: Omissions): () => Promise<readonly SeenParked[]> {
  const { cluster } = context;
  /** By uid. Undefined: it has none, or is gone. */
  const nodes = new Map<string, string | undefined>();
  let parked: readonly ParkedEviction[] = [];
  const read = async ({ key: { namespace }, pod, uid }: ParkedEviction): Promise<void> => {
    const found = await find(cluster, "pods", { namespace, name: pod });
    nodes.set(uid, found?.metadata.uid === uid ? found.spec?.nodeName : undefined);
  };
  const refresh = limitReads(cluster, readLimits, async () => {
    const uids = new Set(parked.map(({ uid }) => uid));
    for (const uid of nodes.keys()) if (!uids.has(uid)) nodes.delete(uid);
    const unknown = parked.filter(({ uid }) => !nodes.has(uid)).slice(0, mostReads);
    try {
      await Promise.all(unknown.map(read));
      omissions.end(part);
    } catch (error) {
      omissions.note(part, error);
    }
  });
  return async () => {
    parked = context.parked?.() ?? [];
    await refresh();
    const startMs = cluster.serverTimeMs() - cluster.monotonicMs();
    return parked.map(({ key, pod, uid, place, guard, message, sinceMs }) => {
      const node = nodes.get(uid);
      return { key, pod, place, guard, message, node, sinceMs: Math.round(startMs + sinceMs) };
    });
  };
}
