/** The data of a volume stays after its claim has gone: its PersistentVolume gets the reclaim policy Retain. */

import type { Context } from "../contract/context.ts";
import type { Need } from "../contract/definition.ts";
import { eventReasons } from "../events/reasons.ts";
import { hasCode } from "../kubernetes/cluster.ts";
import type { Pvc } from "../volumes/pvc.ts";
import type { GroupKey } from "../workloads/statefulsets.ts";
import { normal, recordPvcEvent } from "./writing.ts";

/** The right to keep a volume. A policy limits it to the volumes of the served namespaces, and to Retain. */
export const retainingNeed: Need = {
  group: "",
  resource: "persistentvolumes",
  verbs: ["get", "patch"],
  changes: ["spec.persistentVolumeReclaimPolicy"],
};

/**
 * Keeps a volume, after which a user has to remove the PersistentVolume. One that is bound to another uid stays as it is.
 * Throws ClusterError.
 *
 * @param by the reporting function's name
 */
export async function retain(context: Context, by: string, key: GroupKey, pvc: Pvc, notAfterMs: number): Promise<void> {
  const { volumeName } = pvc;
  if (volumeName === undefined) return;
  const { cluster } = context;
  try {
    const { metadata, spec } = await cluster.get("persistentvolumes", { namespace: "", name: volumeName });
    // A volume of that name that is bound to another claim is not this one, and does not go with this claim.
    if (spec?.claimRef?.uid !== pvc.uid || spec.persistentVolumeReclaimPolicy === "Retain") return;
    const { uid, resourceVersion } = metadata;
    const body = { metadata: { uid, resourceVersion }, spec: { persistentVolumeReclaimPolicy: "Retain" } };
    await cluster.patch("persistentvolumes", { namespace: "", name: volumeName }, body, { notAfterMs });
  } catch (error) {
    if (hasCode(error, 404)) return;
    throw error;
  }
  const message = `its PersistentVolume ${volumeName} is kept, with the reclaim policy Retain: delete it when you no longer need it`;
  await recordPvcEvent(context, by, key, pvc, normal(eventReasons.volumeRetained, message, "retained"));
}
