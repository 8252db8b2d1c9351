/** The phases that Sluice writes on pods by itself, and that it passes on from a StatefulSet. */

import { restartPhase, restartReason } from "../shared/annotations/restart.ts";
import { restartTrigger } from "../shared/annotations/restart-trigger.ts";
import { mapLimit } from "../shared/base/map-limit.ts";
import type { Context } from "../shared/contract/context.ts";
import type { NewEvent } from "../shared/events/event.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import { recordOnce } from "../shared/events/recorder.ts";
import { apiMessage, isRightMissing, isTransient, lackOf } from "../shared/kubernetes/cluster.ts";
import type { Act } from "../shared/reconcile/act.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { StatefulSet } from "../shared/workloads/statefulsets.ts";
import { type MarkTarget, triggerReason } from "./decide-mark.ts";
import { name } from "./observe.ts";
import { isChanged, show } from "./show.ts";

/** So many pods are patched at once. */
const patchedAtOnce = 8;

/** Writes only if no claim was written since, and if the pod is still as it was read. */
export function markPods(target: MarkTarget): Act {
  const { statefulSet, pods, phase, reason } = target;
  const event = eventOf(target);
  const refused = refusalOf(statefulSet, "mark", `${restartPhase.key} is not written on all pods`);
  return {
    ...{ name: "mark", object: statefulSet.name, subjectUid: statefulSet.uid, workload: statefulSet },
    ...{ claims: [], confirmsLedger: true, refused, requeueAfterDoneMs: 1_000 },
    ...(event && { event }),
    async carryOut({ cluster }, notAfterMs) {
      const annotations = { [restartPhase.key]: phase, [restartReason.key]: reason };
      await mapLimit(pods, patchedAtOnce, async (pod) => {
        const metadata = { uid: pod.uid, resourceVersion: `${pod.resourceVersion}`, annotations };
        await cluster.patch("pods", pod, { metadata }, { notAfterMs });
      });
    },
  };
}

/** The phase on a StatefulSet stays there where one of the pods has changed, and the next reconcile goes on with the others. */
export function fanOut(statefulSet: StatefulSet, pods: readonly Pod[]): Act {
  const phase = statefulSet.restart?.phaseOfAll ?? "schedule-rolling";
  const carryOut = async (context: Context) => {
    await mapLimit(pods, patchedAtOnce, (pod) => show(context, pod, { phase, id: undefined }));
    const { uid, resourceVersion } = statefulSet;
    const metadata = { uid, resourceVersion, annotations: { [restartPhase.key]: null } };
    await context.cluster.patch("statefulsets", statefulSet, { metadata });
  };
  const object = { object: statefulSet.name, subjectUid: statefulSet.uid, workload: statefulSet };
  const refused = refusalOf(statefulSet, "fan-out", `${restartPhase.key} stays`);
  return { ...object, name: "fan-out", claims: [], takesNothing: true, carryOut, refused };
}

/** Absent where no trigger has asked. */
function eventOf({ pods, phase, reason }: MarkTarget): Omit<NewEvent, "about"> | undefined {
  if (reason?.startsWith(triggerReason) !== true) return undefined;
  const value = reason.slice(triggerReason.length);
  const message = `${restartTrigger.key} has the new value ${value}: ${phase} is written on ${pods.length} of its pods`;
  const identity = `${reason} ${phase} ${pods.map(({ uid }) => uid).join()}`;
  return { type: "Normal", reason: eventReasons.restartTriggered, message, identity };
}

/** A rollout knows refusals by the uid of what it changes, and this one is about something else. */
function refusalOf(statefulSet: StatefulSet, act: string, what: string): Act["refused"] & object {
  return (context, key, error) => {
    const message = isRightMissing(error) ? lackOf(error) : `${what}: ${apiMessage(error)}`;
    const about = { resource: "statefulsets", ...statefulSet } as const;
    const event = { type: "Warning", reason: eventReasons.refused, identity: `${act} ${error.code}` } as const;
    if (!isChanged(error) && !isTransient(error)) void recordOnce(context, name, key, { about, ...event, message });
  };
}
