/** What is read of a group whose suspended volumes may be removed: those whose time looks over once more, by GETs. */

import { valuesOf } from "../shared/base/settings.ts";
import type { Context } from "../shared/contract/context.ts";
import { withDrainAnswers } from "../shared/suspension/drain-answers.ts";
import { withTrueMarks } from "../shared/suspension/marks.ts";
import { readMembers } from "../shared/suspension/reading.ts";
import { saidLately } from "../shared/suspension/said.ts";
import { volumeHoldSetting } from "../shared/suspension/settings.ts";
import { ageOf, durationNow } from "../shared/suspension/time-left.ts";
import { claimsBy } from "../shared/transaction/claims.ts";
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
  const { key, zones, departed, strayClaims } = observed;
  const names = zones.map(({ statefulSet }) => statefulSet.name);
  const beforeMs = context.cluster.serverTimeMs();
  const {
    members: listed,
    nowMs,
    wallMs,
    isNamespaceEnding,
  } = await readMembers(context, key, names, (one) => looksOver(one, beforeMs));
  const read = await withTrueMarks(context, observed.ledger, listed);
  const members = await withDrainAnswers(context, name, key, read, (one) => looksOver(one, nowMs) && !isRemoving(one));
  return {
    group: key.group,
    nowMs,
    wallMs,
    zones,
    departed,
    strayClaims,
    members,
    isNamespaceEnding,
    claims: claimsBy(observed, "volume", name),
    removes: removesVolumes(context),
    times: observed.ledger,
    saidLately: saidLately(context, key),
  };
}

/** A LIST does not tell who wrote a stamp: what may be removed is read by GETs, which do. */
function looksOver(member: Member, nowMs: number): boolean {
  const duration = durationNow(member);
  const ageMs = ageOf(member, nowMs, 0);
  // The list is newer than this moment.
  const soonMs = 60_000;
  return duration.kind === "value" && ageMs !== undefined && ageMs + soonMs >= duration.value;
}
