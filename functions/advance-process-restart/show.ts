/** What a pod shows of its restart. */

import { restartId, restartPhase, restartReason } from "../shared/annotations/restart.ts";
import type { Context } from "../shared/contract/context.ts";
import { hasCode } from "../shared/kubernetes/cluster.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import { reasonAfter } from "./decide-mark.ts";

/** The phase that a pod shows, and the id of its restart; `undefined` takes both off. */
type Shown = { readonly phase: string; readonly id: string | undefined } | undefined;

/** Writes what a pod shows, unless it has changed since it was read. `reason`: null takes it off. Throws ClusterError. */
export async function show(
  { cluster }: Context,
  pod: Pod,
  shown: Shown,
  reason: string | null | undefined = reasonAfter(pod.restartReason),
): Promise<void> {
  const annotations = {
    ...{ [restartPhase.key]: shown?.phase ?? null, [restartId.key]: shown?.id ?? null },
    ...(reason !== pod.restartReason && { [restartReason.key]: reason }),
  };
  const metadata = { uid: pod.uid, resourceVersion: `${pod.resourceVersion}`, annotations };
  await cluster.patch("pods", pod, { metadata });
}

/** A pod that has changed is read again by the next reconcile. */
export function isChanged(error: unknown): boolean {
  return hasCode(error, 409) || hasCode(error, 404);
}
