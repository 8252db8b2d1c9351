/** The data of a volume stays after its claim has gone: its PersistentVolume gets the reclaim policy Retain. */
import { hasCode, isRefused, wordsOf } from "../shared/kubernetes/cluster.ts";
import type { GroupKey } from "../shared/objects/statefulsets.ts";
import type { SuspensionMessage } from "../shared/objects/vocabulary/suspension.ts";
import { eventReasons } from "../shared/objects/vocabulary.ts";
import type { VolumeClaim } from "../shared/objects/volumes/volume-claim.ts";
import type { Context } from "../shared/pass/definition.ts";
import { messageFor, patchVolumeClaim, tellOfClaim } from "../shared/pass/suspension/writing.ts";
import { name } from "./observe.ts";

/** A user has to remove the PersistentVolume then. One that is bound to another uid stays as it is. Throws ClusterError. */
export async function retain(context: Context, key: GroupKey, claim: VolumeClaim, notAfterMs: number): Promise<void> {
  const { volumeName } = claim;
  if (volumeName === undefined) return;
  const { cluster } = context;
  try {
    const { metadata, spec } = await cluster.get("persistentvolumes", { namespace: "", name: volumeName });
    // A volume of that name that is bound to another claim is none of ours, and does not go with this one.
    if (spec?.claimRef?.uid !== claim.uid || spec.persistentVolumeReclaimPolicy === "Retain") return;
    const { uid, resourceVersion } = metadata;
    const body = { metadata: { uid, resourceVersion }, spec: { persistentVolumeReclaimPolicy: "Retain" } };
    await cluster.patch("persistentvolumes", { namespace: "", name: volumeName }, body, { notAfterMs });
  } catch (error) {
    if (hasCode(error, 404)) return;
    throw error;
  }
  const message = `its PersistentVolume ${volumeName} is kept, with the reclaim policy Retain: delete that when nobody needs it`;
  await tellOfClaim(context, name, key, claim, {
    type: "Normal",
    reason: eventReasons.volumeRetained,
    message,
    identity: "retained",
  });
}

/** The same of one that goes only if its data stays: where that is refused, it says why. Throws ClusterError then, too. */
export async function retainOrStay(
  context: Context,
  key: GroupKey,
  claim: VolumeClaim,
  notAfterMs: number,
): Promise<void> {
  try {
    await retain(context, key, claim, notAfterMs);
  } catch (error) {
    if (!isRefused(error) || hasCode(error, 409)) throw error;
    const sentence = `our finalizer stays on ${claim.name}, which somebody has deleted: its PersistentVolume ${claim.volumeName} does not get the reclaim policy Retain: ${wordsOf(error)}. Give it that by hand, or take the finalizer away`;
    await say(context, key, claim, { guard: "volume-not-retained", sentence }, notAfterMs);
    throw error;
  }
}

/** On the volume claim, and in an Event about it, once. Throws ClusterError. */
async function say(
  context: Context,
  key: GroupKey,
  claim: VolumeClaim,
  { guard, sentence }: SuspensionMessage,
  notAfterMs: number,
): Promise<void> {
  if (claim.message?.guard !== guard)
    await patchVolumeClaim(context, claim, { annotations: messageFor(guard, sentence) }, notAfterMs);
  const news = { type: "Warning", reason: eventReasons.removalWaiting, message: sentence, identity: guard } as const;
  await tellOfClaim(context, name, key, claim, news);
}
