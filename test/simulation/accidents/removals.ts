/** Removes what prevents accidents, by wrapping what the shipped functions get. The product has no switch for it. */

import type { GroupView } from "../../../functions/shared/cache/cache.ts";
import type { StoredLedger } from "../../../functions/shared/ledger/reservation.ts";
import type { Pod } from "../../../functions/shared/workloads/pods.ts";
import {
  asStatefulSet,
  type StatefulSet,
  type ZoneWorkload,
} from "../../../functions/shared/workloads/statefulsets.ts";
import type { Wrappers } from "../replica.ts";
import { wrapCluster, wrapProtocol, wrapViews } from "../rules.ts";

/** A rule, and the wrappers that remove it. */
export interface Removal {
  readonly rule: string;
  /** What the wrappers remove. */
  readonly removed: string;
  readonly wrappers: Wrappers;
}

const withView = (change: (view: GroupView) => GroupView): Wrappers =>
  wrapViews((cache) => async (key, need) => change(await cache.read(key, need)));

/** The StatefulSet as if it wanted only these pods, whose ordinals follow each other. */
const wantingOnly = (set: ZoneWorkload, pods: readonly Pod[]): StatefulSet => {
  return { ...asStatefulSet(set), start: Math.min(...pods.map(({ ordinal }) => ordinal)), replicas: pods.length };
};

/** The view as if every wanted ordinal had a pod that is up. Missing pods are made up after a sibling. */
function asIfUp(view: GroupView): GroupView {
  const podsOf = (set: ZoneWorkload): Pod[] => {
    const all = [...view.podsOf(set)];
    const up = all.map(
      (pod): Pod => ({ ...pod, terminating: false, pending: false, readySinceMs: pod.readySinceMs ?? 0 }),
    );
    const [sibling] = up;
    if (sibling === undefined) return up;
    for (let ordinal = set.start; ordinal < set.start + set.replicas; ordinal++) {
      if (up.some((pod) => pod.ordinal === ordinal)) continue;
      const revision = set.updateRevision ?? sibling.revision;
      up.push({ ...sibling, name: `${set.name}-${ordinal}`, uid: `none-${set.name}-${ordinal}`, ordinal, revision });
    }
    return up;
  };
  return { ...view, podsOf };
}

export const countingWhatIsDown: Removal = {
  rule: "R7",
  removed: "counting what is missing, terminating, not ready or reserved as down",
  wrappers: { ...withView(asIfUp), ...wrapProtocol(() => ({ isSettled: () => true })) },
};

export const limitsOfTheWanted: Removal = {
  rule: "R7",
  removed: "limits of the wanted number: those that stand make the number, and what terminates is forgotten",
  wrappers: {
    ...withView((view) => {
      const podsOf = (set: ZoneWorkload) => [...view.podsOf(set)].filter(({ terminating }) => !terminating);
      const statefulSets = view.workloads.map((set) => wantingOnly(set, podsOf(set)));
      return { ...view, workloads: statefulSets, podsOf };
    }),
    ...wrapProtocol(() => ({ isSettled: () => true })),
  },
};

export const missingIsDown: Removal = {
  rule: "R7",
  removed: "counting an ordinal that has no pod as down",
  wrappers: withView((view) => {
    const statefulSets = view.workloads.map((set) => wantingOnly(set, [...view.podsOf(set)]));
    return { ...view, workloads: statefulSets };
  }),
};

export const settledThrough: Removal = {
  rule: "R5",
  removed: "settled-through: views of any age are taken",
  wrappers: wrapViews((cache) => (key, need) => cache.read(key, { ...need, settledThrough: 1 })),
};

export const reservingFirst: Removal = {
  rule: "R8",
  removed: "the reservation before the act",
  wrappers: wrapProtocol(() => ({
    writeLedger: async (_cluster, ledger, { seenThrough, ...change }) => ({
      ...ledger,
      ...change,
      settledThrough: Math.max(ledger.settledThrough ?? 0, seenThrough),
    }),
  })),
};

const readAs = (change: (ledger: StoredLedger) => StoredLedger): Wrappers =>
  wrapProtocol((protocol) => ({
    readLedger: async (...call) => {
      const ledger = await protocol.readLedger(...call);
      return ledger && change(ledger);
    },
    writeLedger: async (...call) => change(await protocol.writeLedger(...call)),
  }));

export const countingClaims: Removal = {
  rule: "R18",
  removed: "counting claims, and leaving their pods alone",
  wrappers: readAs((ledger) => ({ ...ledger, claims: [] })),
};

export const whoReserved: Removal = {
  rule: "R10",
  removed: "who made a reservation: each is taken for the rollout's own",
  wrappers: readAs((ledger) => {
    const reservations = ledger.reservations.map((one) => ({ ...one, by: "advance-zone-rollout" }));
    return { ...ledger, reservations };
  }),
};

export const pinningTheUid: Removal = {
  rule: "R11",
  removed: "the uid that evictions are pinned to",
  wrappers: { answer: (answer) => (answer.allowed ? { ...answer, patch: [] } : answer) },
};

export const sparingReplacements: Removal = {
  rule: "R11",
  removed: "keeping a pod that came for a reserved one, where nothing pins the uid",
  wrappers: { request: (request) => ({ ...request, path: "/pods/eviction/pin" }) },
};

export const oneLedger: Removal = {
  rule: "R1",
  removed: "one ledger for a group: each ZoneWorkload is a group by itself",
  wrappers: {
    cache: (cache) => ({
      ...cache,
      groups: async () => {
        const [key] = await cache.groups();
        if (key === undefined) return [];
        const { workloads } = await cache.read(key, {
          settledThrough: 1,
          permitSinceMs: undefined,
          consistent: true,
        });
        return workloads.map(({ namespace, name }) => ({ namespace, group: name }));
      },
      read: async (key, need) => {
        const view = await cache.read({ ...key, group: key.group.split("-")[0] ?? "" }, need);
        const isOwn = ({ name }: ZoneWorkload) => key.group === name;
        return { ...view, workloads: view.workloads.filter(isOwn) };
      },
    }),
  },
};

export const numbersOfBudgets: Removal = {
  rule: "R25",
  removed: "the numbers of a PodDisruptionBudget",
  wrappers: {
    cache: (cache) => ({
      ...cache,
      disruptionBudgets: async (namespace) => {
        const budgets = await cache.disruptionBudgets(namespace);
        return budgets.map((budget) => ({ ...budget, minimum: { ...budget.minimum, pods: 0 } }));
      },
    }),
  },
};

export const unwantedIsSettled: Removal = {
  rule: "R6",
  removed: "settling the ordinals that no ZoneWorkload wants any more",
  wrappers: wrapProtocol((protocol) => ({
    isSettled: (reservation, where, nowMs) => where.pod !== undefined && protocol.isSettled(reservation, where, nowMs),
  })),
};

export const collectingLedgers: Removal = {
  rule: "R4",
  removed: "collecting the ledgers of groups that have vanished",
  wrappers: wrapCluster((cluster) => ({
    delete: async (resource, ...call) => {
      if (resource !== "leases") await cluster.delete(resource, ...call);
    },
  })),
};

export const writtenByWhom: Removal = {
  rule: "replicas-dropped",
  removed: "who wrote the number of replicas",
  wrappers: {
    request: (request) => {
      const without = (object: unknown) => {
        const { metadata, ...rest } = object as { readonly metadata: object };
        return { ...rest, metadata: { ...metadata, managedFields: undefined } };
      };
      return { ...request, object: without(request.object), oldObject: without(request.oldObject) };
    },
  },
};

export const annotationsOfPods: Removal = {
  rule: "R18",
  removed: "the uid of a pod that was told: its word is that of its name, and of its disk",
  wrappers: wrapCluster((cluster) => ({
    list: async (resource, options) => {
      const { items, ...rest } = await cluster.list(resource, options);
      if (resource !== "pods") return { items, ...rest };
      const asOne = items.map((pod) => {
        const { name } = pod.metadata;
        return { ...pod, metadata: { ...pod.metadata, uid: name, creationTimestamp: "2000-01-01T00:00:00Z" } };
      });
      return { ...rest, items: asOne };
    },
  })),
};
