/** The rules that prove which StatefulSets exist, whose pods they have and which pods are lost, removed one at a time. */

import { reservations } from "../../functions/shared/annotations/table.ts";
import type { Cluster } from "../../functions/shared/kubernetes/cluster.ts";
import { ClusterError, type PodObject } from "../../functions/shared/kubernetes/cluster.ts";
import { wrapCluster as wrapOne } from "../../functions/shared/kubernetes/wrap-cluster.ts";
import { asStatefulSet, type StatefulSet } from "../../functions/shared/workloads/statefulsets.ts";
import type { Wrappers } from "./replica.ts";
import { never, plain, type RemovedRule, wrapCluster, wrapProtocol, wrapViews } from "./rules.ts";
import { frozenDrains, leftBehind, scenarios } from "./scenarios.ts";
import { noFaults } from "./simulated-cluster.ts";
import { noWatchFaults } from "./simulated-watch.ts";

/** Without this, orphaned pods keep the reservations of their StatefulSet open. */
const orphansUncounted = wrapProtocol((protocol) => ({
  isSettled: (reservation, where, nowMs) => protocol.isSettled(reservation, { ...where, orphans: 0 }, nowMs),
}));

/** Orphaned pods look as if none of them were ever down. */
const leftTakenForReady: Wrappers = {
  cache: (cache) => ({
    ...cache,
    podsMadeFor: async (statefulSet) => {
      const pods = await cache.podsMadeFor(statefulSet);
      return pods.map((pod) => ({ ...pod, readySinceMs: 0 }));
    },
  }),
};

/**
 * A reservation of a StatefulSet that the view lacks makes Sluice ask for it and for its pods. Here the API server knows none.
 */
const foreignUnknown: Wrappers = {
  ...orphansUncounted,
  ...wrapCluster((cluster) => ({
    get: (resource, key, options) => {
      if (resource !== "statefulsets") return cluster.get(resource, key, options);
      const message = `statefulsets "${key.name}" not found`;
      return Promise.reject(new ClusterError({ code: 404, reason: "NotFound", message, verb: "get", resource }));
    },
  })),
};

/** A LIST shows the state of the moment in which it was made. Here it counts for the moment of its answer. */
const listsOfNow: Wrappers["connection"] = (cluster) =>
  wrapOne(cluster, {
    list: async (...call) => {
      const list = await cluster.list(...call);
      if (call[0] !== "statefulsets" || call[1].labelSelector !== undefined) return list;
      const { resourceVersion } = await cluster.list("leases", { namespace: "db" });
      return { ...list, resourceVersion };
    },
  });

/** The pod as if its status did not report whether it has ever been ready: it runs, without a start time. */
function withoutBeginning(pod: PodObject): PodObject {
  if (pod.status?.phase !== "Pending" && pod.status?.phase !== "Running") return pod;
  const { startTime: _, ...status } = pod.status as NonNullable<PodObject["status"]> & { readonly startTime?: string };
  return { ...pod, status: { ...status, phase: "Running" } };
}

const unknownBeginnings: Wrappers["connection"] = (cluster) => {
  const verbs = {
    get: async (...call: Parameters<Cluster["get"]>) => {
      const object = await cluster.get(...call);
      return call[0] === "pods" ? withoutBeginning(object as PodObject) : object;
    },
    list: async (...call: Parameters<Cluster["list"]>) => {
      const list = await cluster.list(...call);
      return call[0] === "pods" ? { ...list, items: (list.items as PodObject[]).map(withoutBeginning) } : list;
    },
    async *watch(...call: Parameters<Cluster["watch"]>) {
      for await (const event of cluster.watch(...call)) {
        const isPod = call[0] === "pods" && event.type !== "BOOKMARK";
        yield isPod ? { ...event, object: withoutBeginning(event.object as PodObject) } : event;
      }
    },
  };
  return wrapOne(cluster, verbs as Partial<Cluster>);
};

const joining = { ...never, evict: 1_500, changeTemplate: 20_000, addZone: 15_000, removeZone: 25_000 };

/** The StatefulSet as if its pods had no other label than its group, if it has one. */
function byOwnLabels(set: StatefulSet): StatefulSet {
  return { ...set, podLabels: set.group === undefined ? {} : { "rollout-group": set.group } };
}

/** Ledgers look empty to the function that searches for those that may be collected. */
const ledgersUnread = wrapCluster((cluster) => ({
  list: async (...call) => {
    const list = await cluster.list(...call);
    if (call[0] !== "leases") return list;
    const items = list.items.map((lease) => {
      const { [reservations.key]: _, ...annotations } = lease.metadata.annotations ?? {};
      return { ...lease, metadata: { ...lease.metadata, annotations } };
    });
    return { ...list, items };
  },
}));

export const membershipRules: readonly RemovedRule[] = [
  {
    rule: "R5",
    removed: "members-through, and asking for the StatefulSets and the pods that reservations name",
    breaks: ["Z1", "Z2", "E1"],
    aim: (plan) => frozenDrains(plan, { every: joining }),
    wrappers: {
      ...foreignUnknown,
      ...wrapViews((cache) => (key, need) => cache.read(key, { ...need, membersThrough: undefined })),
    },
  },
  {
    rule: "R5",
    removed: "the revision of a LIST of StatefulSets that is answered late",
    breaks: ["Z1", "Z2", "E1"],
    aim: (plan) =>
      frozenDrains(plan, {
        sweepMs: 5_000,
        faults: { ...noFaults, latencyMs: 5, lateList: 0.5, watch: { ...noWatchFaults, break: 0.02 } },
        every: { ...joining, addZone: 8_000, removeZone: 12_000 },
      }),
    wrappers: { ...foreignUnknown, connection: listsOfNow },
  },
  {
    rule: "R6",
    removed: "counting the pods that a StatefulSet has left behind",
    breaks: ["Z1", "Z2", "E1"],
    aim: (plan) =>
      frozenDrains(plan, { zones: 3, faults: { ...noFaults, latencyMs: 5 }, every: { ...joining, recreate: 8_000 } }),
    wrappers: orphansUncounted,
  },
  {
    rule: "R7",
    removed: "counting what is down of the pods that a StatefulSet has left behind",
    breaks: ["Z1", "E1"],
    aim: leftBehind,
    wrappers: leftTakenForReady,
  },
  {
    rule: "R1",
    removed: "deciding by the labels of pods which StatefulSets a budget governs",
    breaks: ["Z1", "Z2", "E1"],
    aim: (plan) =>
      frozenDrains(plan, {
        faults: { ...noFaults, latencyMs: 5 },
        neighbours: { group: true, spanned: true, loose: false, labelled: false, byApp: false },
        every: { ...never, evict: 1_500, changeTemplate: 20_000 },
      }),
    wrappers: wrapViews((cache) => async (key, need) => {
      const { hasPods: _, ...view } = await cache.read(key, need);
      return {
        ...view,
        workloads: view.workloads.map(asStatefulSet).map(byOwnLabels),
        neighbours: view.neighbours.map(byOwnLabels),
      };
    }),
  },
  {
    rule: "R6",
    removed: "waiting until all that a ledger holds has settled, before it is collected",
    breaks: ["K1"],
    aim: (plan) =>
      plain(plan, {
        zones: 2,
        keepers: 2,
        sweepMs: 3_000,
        goneAfterMs: 8_000,
        recycleEveryMs: 500,
        safetyMs: 150_000,
        every: { ...never, relabel: 12_000 },
      }),
    wrappers: ledgersUnread,
  },
  {
    rule: "R13",
    removed: "repairing what was never ready and gives no reason for it",
    breaks: ["L1"],
    // Where pods are asked, nothing else mends a pod that gives no answer.
    aim: (plan, draw) => ({
      ...(scenarios.broken?.(plan, draw) ?? plan),
      claims: { kinds: [], everyMs: 1_000, isForeign: false, asks: "shipped" },
    }),
    wrappers: { connection: unknownBeginnings },
  },
];
