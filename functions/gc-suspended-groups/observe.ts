/** The observation of a group whose suspended volumes may be removed. Those whose time seems over are read once more, by GETs. */

import { valuesOf } from "../shared/base/settings.ts";
import type { Context } from "../shared/contract/context.ts";
import { observeVolumes } from "../shared/suspension/observe-volumes.ts";
import { volumeHoldSetting } from "../shared/suspension/settings.ts";
import { ageOf, durationNow } from "../shared/suspension/time-left.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import { isRemoving, type Member } from "../shared/volumes/members.ts";
import type { RemovalSnapshot } from "./decide-removals.ts";

export const name = "gc-suspended-groups";
export const settings = { volumeHold: volumeHoldSetting };

export function removesVolumes(context: Context): boolean {
  return valuesOf(settings, context.settings).volumeHold === "keep";
}

/** Throws ClusterError. */
export async function observe(observed: GroupObservation, context: Context): Promise<RemovalSnapshot> {
  const beforeMs = context.cluster.serverTimeMs();
  const volumes = await observeVolumes(context, observed, name, {
    claimKind: "volume",
    isLive: (one) => seemsOver(one, beforeMs),
    isAsked: (one, nowMs) => seemsOver(one, nowMs) && !isRemoving(one),
  });
  return { ...volumes, removes: removesVolumes(context) };
}

/** A LIST does not show which client wrote a stamp. Members that may be removed are read by GETs, which do. */
function seemsOver(member: Member, nowMs: number): boolean {
  const duration = durationNow(member);
  const ageMs = ageOf(member, nowMs, 0);
  // The list is newer than this moment.
  const soonMs = 60_000;
  return duration.kind === "value" && ageMs !== undefined && ageMs + soonMs >= duration.value;
}
