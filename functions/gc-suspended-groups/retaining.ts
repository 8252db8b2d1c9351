/** A volume claim that is deleted loses our finalizer only if its PersistentVolume stays. */

import type { SuspensionMessage } from "../shared/annotations/suspension.ts";
import type { Context } from "../shared/contract/context.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import { hasCode, isRefused, wordsOf } from "../shared/kubernetes/cluster.ts";
import { retain } from "../shared/suspension/retain-volume.ts";
import { messageFor, patchPvc, recordPvcEvent } from "../shared/suspension/writing.ts";
import type { Pvc } from "../shared/volumes/pvc.ts";
import type { GroupKey } from "../shared/workloads/statefulsets.ts";
import { name } from "./observe.ts";

/** Its PersistentVolume is kept; where that is refused, it says why. Throws ClusterError then, too. */
export async function retainOrStay(context: Context, key: GroupKey, pvc: Pvc, notAfterMs: number): Promise<void> {
  try {
    await retain(context, name, key, pvc, notAfterMs);
  } catch (error) {
    if (!isRefused(error) || hasCode(error, 409)) throw error;
    const sentence = `our finalizer stays on ${pvc.name}, which is deleted: its PersistentVolume ${pvc.volumeName} does not get the reclaim policy Retain: ${wordsOf(error)}. Give it that by hand, or take the finalizer away`;
    await say(context, key, pvc, { guard: "volume-not-retained", sentence }, notAfterMs);
    throw error;
  }
}

/** On the volume claim, and in an Event about it, once. Throws ClusterError. */
async function say(
  context: Context,
  key: GroupKey,
  pvc: Pvc,
  { guard, sentence }: SuspensionMessage,
  notAfterMs: number,
): Promise<void> {
  if (pvc.message?.guard !== guard)
    await patchPvc(context, pvc, { annotations: messageFor(guard, sentence) }, notAfterMs);
  const news = { type: "Warning", reason: eventReasons.removalWaiting, message: sentence, identity: guard } as const;
  await recordPvcEvent(context, name, key, pvc, news);
}
