/** Views of a function that is awake, over a small world in virtual time, and what is asked of the API server. */

import type { GroupView, ViewNeed } from "../../../../functions/shared/cache/cache.ts";
import { createOnDemandCache, type OnDemandOptions } from "../../../../functions/shared/cache/on-demand.ts";
import { type Cluster, ClusterError, type Resource } from "../../../../functions/shared/kubernetes/cluster.ts";
import { leastBackoffMs } from "../../../../triggers/workqueue/worker.ts";
import { key, namespace, Passes, played } from "../reconcile/passes.ts";

export const idleMs = 5_000;
const types = ["pods", "statefulsets", "zoneawarepoddisruptionbudgets"];
export const opening = [...types.map((type) => `list ${type}`), ...types.map((type) => `watch ${type}`)].sort();
/** What one pass asks that lists: the members and the budgets, and the pods of each of two StatefulSets. */
export const listing = ["list pods", "list pods", "list statefulsets", "list zoneawarepoddisruptionbudgets"];
export const lists = (words: readonly string[]) => words.filter((word) => word !== "get statefulsets");

export async function awake(options: Partial<OnDemandOptions> = {}, given?: Passes) {
  const passes = given ?? (await new Passes().prepare());
  // No pod of theirs is so new that its StatefulSet is read again for it.
  await passes.goOn(60_000);
  const woken: string[] = [];
  const troubles: string[] = [];
  const cache = createOnDemandCache({
    cluster: passes.cluster,
    namespaces: undefined,
    idleMs,
    onChange: (changed, by) => void woken.push(`${changed.namespace}/${changed.group} ${by}`),
    onTrouble: (resource, error) => void troubles.push(`${resource}: ${(error as Error).message}`),
    leastBackoffMs,
    ...options,
  });
  passes.use(cache);
  const read = (need: Partial<ViewNeed> = {}, of = key): Promise<GroupView> =>
    played(
      passes.timeline,
      cache.read(of, { settledThrough: 1, permitSinceMs: undefined, consistent: false, ...need }),
    );
  /** What is asked while something is done, without an order. */
  const asked = async (act: () => Promise<unknown>): Promise<string[]> => {
    passes.forget();
    await act();
    await passes.goOn(3);
    return passes.calls.map(({ verb, resource }) => `${verb} ${resource}`).sort();
  };
  return { passes, cache, read, asked, woken, troubles, stop: () => played(passes.timeline, cache.stop()) };
}

export const at = (name: string) => ({ namespace, name });
export const refusal = (code: number, resource: Resource, message = "refused") =>
  new ClusterError({ code, reason: "Test", message, verb: "watch", resource });

/** A cluster whose watches tell nothing while they are told to. */
export function deafening(cluster: Cluster) {
  const told = { isDeaf: false };
  const watch = ((resource, query, options) =>
    (async function* () {
      for await (const event of cluster.watch(resource, query, options)) if (!told.isDeaf) yield event;
    })()) as Cluster["watch"];
  return { told, cluster: { ...cluster, watch } };
}
