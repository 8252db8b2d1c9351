/**
 * Another function that shares the ledger and takes any pod it likes, as evictions and restarts do. A rollout alone always
 * takes the same pod next, which hides faults of the protocol; two functions that want different pods show them.
 */

import { type FunctionDefinition, listGroupKeys } from "../../functions/shared/contract/definition.ts";
import { groupOfPod } from "../../functions/shared/contract/keys.ts";
import { take, type Verdict, wait } from "../../functions/shared/contract/verdict.ts";
import { countDown, isUnsettled, ofStatefulSets, type Zone } from "../../functions/shared/groups/zones.ts";
import { finishAfterMs } from "../../functions/shared/ledger/reservation.ts";
import { deletionOf } from "../../functions/shared/reconcile/act.ts";
import { type GroupReconciler, reconcileGroup } from "../../functions/shared/reconcile/perform.ts";
import type { EventPolicy } from "../../functions/shared/reconcile/record.ts";
import type { GroupObservation } from "../../functions/shared/transaction/observe-group.ts";
import type { Pod } from "../../functions/shared/workloads/pods.ts";
import type { GroupKey, StatefulSet } from "../../functions/shared/workloads/statefulsets.ts";
import type { Draw } from "./draw.ts";

const name = "recycle-pods";
const eventPolicy: EventPolicy = {
  taking: "recycling",
  reasons: { begins: "RecyclingStarted", waits: "RecyclingWaiting", ends: "RecyclingCompleted" },
  quietGuards: new Set(["between-pods"]),
};

interface Recycled {
  readonly statefulSet: StatefulSet;
  readonly pod: Pod;
}

/** A function that keeps taking pods within the budget while `isActive`, about every `everyMs`. */
export function createRecycler(draw: Draw, isActive: () => boolean, everyMs: number): FunctionDefinition<GroupKey> {
  const again = () => wait("between-pods", "the next pod goes later", { requeueAfterMs: draw.between(0, 2 * everyMs) });

  function decide({ zones: all, nowMs, open }: GroupObservation): Verdict<Recycled> {
    const zones = ofStatefulSets(all);
    if (!isActive()) return take([], "all done");
    const members = new Set(zones.map(({ workload }) => workload.name));
    if (open.some((reservation) => !members.has(reservation.statefulSet))) return again();
    const unsettled = zones.filter(isUnsettled);
    const zone = unsettled[0] ?? draw.pick(zones);
    if (zone === undefined || unsettled.length > 1) return again();
    const room = zone.workload.maxUnavailable - countDown(zone);
    const unfinished = room >= 0 ? zone.pods.filter((pod) => isUnfinished(zone, pod, nowMs)) : [];
    const healthy = room > 0 ? zone.pods.filter((pod) => !zone.down.has(pod.ordinal)) : [];
    const next = [...unfinished, ...(healthy.length > 0 ? [draw.pick(healthy)] : [])];
    if (next.length === 0) return again();
    const targets = next.map((pod): Recycled => ({ statefulSet: zone.workload, pod }));
    return take(targets, "recycling", { zone: zone.workload.name, requeueAfterMs: draw.between(0, 2 * everyMs) });
  }

  const reconciler: GroupReconciler<GroupObservation, Recycled> = {
    name,
    eventPolicy,
    observe: (observed) => observed,
    decide,
    actOn: ({ statefulSet, pod }) => deletionOf(statefulSet, pod),
  };
  return {
    name,
    concern: "take pods that no other function would take now",
    guards: {},
    keyedBy: "groups",
    watches: [{ resource: "pods", keysOf: groupOfPod }],
    listKeys: listGroupKeys,
    needs: [],
    reads: [],
    writes: [],
    reconcile: (context, key, trigger) => reconcileGroup(context, reconciler, key, trigger),
  };
}

function isUnfinished({ reserved }: Zone, pod: Zone["pods"][number], nowMs: number): boolean {
  const reservation = reserved.get(pod.ordinal);
  return (
    reservation?.by === name &&
    reservation.uid === pod.uid &&
    !pod.terminating &&
    nowMs - reservation.stampMs >= finishAfterMs
  );
}
