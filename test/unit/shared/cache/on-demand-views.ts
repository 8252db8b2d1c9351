/** Views of a function that watches on demand, in a fake cluster in virtual time, and its requests to the API server. */

import type { GroupView, ViewNeed } from "../../../../functions/shared/cache/cache.ts";
import { createOnDemandCache, type OnDemandOptions } from "../../../../functions/shared/cache/on-demand.ts";
import { type Cluster, ClusterError, type Resource } from "../../../../functions/shared/kubernetes/cluster.ts";
import { leastBackoffMs } from "../../../../triggers/workqueue/worker.ts";
import { Harness, key, namespace, played } from "../reconcile/harness.ts";

export const idleMs = 5_000;
const types = ["pods", "statefulsets", "zoneawarepoddisruptionbudgets"];
export const opening = [...types.map((type) => `list ${type}`), ...types.map((type) => `watch ${type}`)].sort();
/** The requests of one reconcile that lists: the members and the budgets, and the pods of each of two StatefulSets. */
export const listing = ["list pods", "list pods", "list statefulsets", "list zoneawarepoddisruptionbudgets"];
export const lists = (requests: readonly string[]) => requests.filter((word) => word !== "get statefulsets");

export async function started(options: Partial<OnDemandOptions> = {}, given?: Harness) {
  const harness = given ?? (await new Harness().prepare());
  // None of their pods is so new that its StatefulSet is read again because of it.
  await harness.goOn(60_000);
  const triggered: string[] = [];
  const troubles: string[] = [];
  const cache = createOnDemandCache({
    cluster: harness.cluster,
    namespaces: undefined,
    idleMs,
    onChange: (changed, by) => void triggered.push(`${changed.namespace}/${changed.group} ${by}`),
    onTrouble: (resource, error) => void troubles.push(`${resource}: ${(error as Error).message}`),
    leastBackoffMs,
    ...options,
  });
  harness.use(cache);
  const read = (need: Partial<ViewNeed> = {}, of = key): Promise<GroupView> =>
    played(
      harness.timeline,
      cache.read(of, { settledThrough: 1, permitSinceMs: undefined, consistent: false, ...need }),
    );
  /** The requests that are sent meanwhile, in any order. */
  const asked = async (act: () => Promise<unknown>): Promise<string[]> => {
    harness.forget();
    await act();
    await harness.goOn(3);
    return harness.calls.map(({ verb, resource }) => `${verb} ${resource}`).sort();
  };
  return { harness, cache, read, asked, triggered, troubles, stop: () => played(harness.timeline, cache.stop()) };
}

export const at = (name: string) => ({ namespace, name });
export const refusal = (code: number, resource: Resource, message = "refused") =>
  new ClusterError({ code, reason: "Test", message, verb: "watch", resource });

/** A cluster whose watches a test can keep from delivering events. */
export function deafening(cluster: Cluster) {
  const watched = { isDeaf: false };
  const watch = ((resource, query, options) =>
    (async function* () {
      for await (const event of cluster.watch(resource, query, options)) if (!watched.isDeaf) yield event;
    })()) as Cluster["watch"];
  return { delivery: watched, cluster: { ...cluster, watch } };
}
