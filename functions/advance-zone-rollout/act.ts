/** The acts of a rollout, and its reports about them. */
import { eventReasons } from "../shared/events/reasons.ts";
import { type Act, deletionOf } from "../shared/reconcile/act.ts";
import type { EventPolicy } from "../shared/reconcile/record.ts";
import { type RolloutTarget, subjectOf } from "./decide-pods.ts";

export const eventPolicy: EventPolicy = {
  taking: "rolling",
  reasons: { begins: eventReasons.rolling, waits: eventReasons.waiting, ends: eventReasons.completed },
  quietGuards: new Set([
    "budget",
    "zone-budget",
    "partition-budget",
    "zone-settling",
    "status-behind",
    "zone-scaling-down",
    "zone-removing-volume",
    "zone-restarting-process",
  ]),
};

/** Time in milliseconds until the group is reconciled again after the last step of a zone. */
const zoneDoneRequeueMs = 20;

export function actOn(target: RolloutTarget): Act {
  if (target.action === "delete") return deletionOf(target.statefulSet, target.pod);
  return target.action === "repair" ? repairOf(target) : recordOf(target);
}

/**
 * A broken pod is deleted under the uid and the resourceVersion that were read (rule R13). An Event reports it; the ledger is
 * not written.
 */
function repairOf(target: Extract<RolloutTarget, { action: "repair" }>): Act {
  const { pod, statefulSet, cause } = target;
  const { uid } = pod;
  const message = `pod ${pod.name} was ${cause} on revision ${pod.revision} and is replaced by ${statefulSet.updateRevision}`;
  return {
    name: target.action,
    object: pod.name,
    subjectUid: subjectOf(target),
    workload: statefulSet,
    claims: [],
    confirmsLedger: true,
    async carryOut({ cluster }, notAfterMs) {
      await cluster.delete("pods", pod, { uid, resourceVersion: String(pod.resourceVersion) }, { notAfterMs });
    },
    event: { type: "Normal", reason: eventReasons.repaired, message, identity: uid },
  };
}

function recordOf(target: Extract<RolloutTarget, { action: "record-revision" }>): Act {
  const { statefulSet } = target;
  const { namespace, name, resourceVersion, updateRevision } = statefulSet;
  return {
    name: target.action,
    object: name,
    subjectUid: subjectOf(target),
    workload: statefulSet,
    claims: [],
    async carryOut({ cluster, cache }, notAfterMs) {
      const body = { metadata: { resourceVersion }, status: { currentRevision: updateRevision } };
      const call = { subresource: "status", notAfterMs } as const;
      cache.learn(await cluster.patch("statefulsets", { namespace, name }, body, call));
    },
    // The cache has learnt the answer to this write, so that its watch event triggers no function.
    requeueAfterDoneMs: zoneDoneRequeueMs,
  };
}
