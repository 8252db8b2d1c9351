/** The condition by which a controller says why it deletes a pod. */

import { conditionOf, type PodCondition, type PodStatus, rfc3339, type StoredPod } from "./objects.ts";
import type { Store } from "./store.ts";
import type { Timeline } from "./timeline.ts";

const type = "DisruptionTarget";

/** Writes the condition together with other changes of the pod's status. `pod` must be the current object. */
export function markDisrupted(
  store: Store,
  timeline: Timeline,
  pod: StoredPod,
  reason: string,
  more: Partial<PodStatus> = {},
): void {
  const before = conditionOf(pod, type);
  const others = (pod.status.conditions ?? []).filter((condition) => condition !== before);
  const lastTransitionTime = before?.status === "True" ? before.lastTransitionTime : rfc3339(timeline.nowMs());
  const condition: PodCondition = { type, status: "True", lastTransitionTime, reason };
  store.putStatus("pods", pod, { ...pod.status, ...more, conditions: [...others, condition] });
}
