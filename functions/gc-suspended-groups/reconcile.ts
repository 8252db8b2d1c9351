/** One pass over a group: claims of volumes that are gone go, what is due is removed, and what nears its end is told. */

import type { Context } from "../shared/contract/context.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import type { ClaimingFunction } from "../shared/reconcile/reconcile-claims.ts";
import { earlierMs, whyClocksUnsure } from "../shared/suspension/clocks.ts";
import { notesOf, seenSinceMs } from "../shared/suspension/looks.ts";
import { asksForSuspension } from "../shared/suspension/reading.ts";
import { describeSpan, warningDue } from "../shared/suspension/time-left.ts";
import { recordPvcEvent } from "../shared/suspension/writing.ts";
import { isRecovering, isRequested } from "../shared/volumes/members.ts";
import type { GroupKey } from "../shared/workloads/statefulsets.ts";
import { actOn, endOf, telling } from "./act.ts";
import { decide, type RemovalSnapshot, type RemovalTarget } from "./decide.ts";
import { name, observe } from "./observe.ts";

export const collecting: ClaimingFunction<RemovalSnapshot, RemovalTarget> = {
  name,
  claimKind: "volume",
  telling,
  asks: asksForSuspension,
  endOf,
  observe,
  decide,
  actOn,
  notesOn: ({ times, members, nowMs, removes }) => (removes ? notesOf(times, members, nowMs) : undefined),
  after: warn,
};

/** Each is said once in a suspension, by the name of its Event, however many processes say it. */
async function warn(context: Context, key: GroupKey, snapshot: RemovalSnapshot): Promise<void> {
  const { members, nowMs, removes, times } = snapshot;
  // Where it is unsure what time it is, another Event says that.
  if (!removes || whyClocksUnsure(snapshot) !== undefined) return;
  for (const member of members) {
    const due =
      isRequested(member) && !isRecovering(member)
        ? warningDue(member, earlierMs(snapshot), seenSinceMs(times, nowMs))
        : undefined;
    if (due === undefined) continue;
    const message = `the volume of ${member.name} is removed in ${describeSpan(due.leftMs)}: kubectl sluice recover keeps it`;
    for (const pvc of member.pvcs) {
      const identity = `${due.name} ${pvc.suspendedMs}`;
      await recordPvcEvent(context, name, key, pvc, {
        type: "Warning",
        reason: eventReasons.volumeRemovalNears,
        message,
        identity,
      });
    }
  }
}
