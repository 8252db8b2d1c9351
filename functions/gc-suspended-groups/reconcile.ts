/** One pass over a group: claims of volumes that are gone go, what is due is removed, and what nears its end is told. */

import type { Context } from "../shared/contract/context.ts";
import type { ReconcileResult } from "../shared/contract/definition.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import { ledgerNewMs } from "../shared/ledger/reservation.ts";
import { skipUnconcerned } from "../shared/reconcile/concern.ts";
import { type GroupReconciler, reconcileGroup } from "../shared/reconcile/perform.ts";
import { earlierMs, whyClocksUnsure } from "../shared/suspension/clocks.ts";
import { notesOf, seenSinceMs } from "../shared/suspension/looks.ts";
import { asksForSuspension } from "../shared/suspension/reading.ts";
import { describeSpan, warningDue } from "../shared/suspension/time-left.ts";
import { recordPvcEvent } from "../shared/suspension/writing.ts";
import { madeBy, openTransaction } from "../shared/transaction/claims.ts";
import { Conflict, forgetLedger, knownLedger, waitForLedger } from "../shared/transaction/ledger-copy.ts";
import { isRecovering, isRequested } from "../shared/volumes/members.ts";
import type { GroupKey, StatefulSet } from "../shared/workloads/statefulsets.ts";
import { actOn, endClaims, telling } from "./act.ts";
import { decide, type RemovalSnapshot, type RemovalTarget } from "./decide.ts";
import { name, observe } from "./observe.ts";

const isOwn = madeBy(name);

/** Throws ClusterError where trying again later can help. */
export async function run(
  context: Context,
  key: GroupKey,
  wake: { readonly sweep: boolean },
): Promise<ReconcileResult> {
  const idle = await skipUnconcerned(context, key, wake, { asks: asksForSuspension, isOwn });
  if (idle !== undefined) return idle;
  let isClaimLeft = false;
  try {
    isClaimLeft = await endOwn(context, key);
  } catch (error) {
    forgetLedger(context.memoryOf(key));
    // What is the matter with a ledger that cannot be used is said by the pass itself.
    if (error instanceof Conflict) context.reporter.conflict(key, name);
    else if (waitForLedger(error) === undefined) throw error;
  }
  let last: RemovalSnapshot | undefined;
  const outcome = await reconcileGroup(
    context,
    gateOf(key, (snapshot) => (last = snapshot)),
    key,
    wake,
  );
  if (last !== undefined) await warn(context, key, last);
  // A process that has just begun knows no claim for long, and may be the only one until the next sweep.
  return isClaimLeft
    ? { ...outcome, requeueAfterMs: Math.min(outcome.requeueAfterMs ?? ledgerNewMs, ledgerNewMs) }
    : outcome;
}

/** Resolves to what `endClaims` does. */
async function endOwn(context: Context, key: GroupKey): Promise<boolean> {
  if (context.mode === "shadow") return false;
  const known = knownLedger(context, context.memoryOf(key));
  if (known !== undefined && !known.claims.some(isOwn)) return false;
  const look = await openTransaction(context, key);
  return look !== undefined && look.young === undefined && (await endClaims(context, look.observed));
}

function gateOf(
  key: GroupKey,
  seen: (snapshot: RemovalSnapshot) => void,
): GroupReconciler<RemovalSnapshot, RemovalTarget> {
  const known = new Map<string, StatefulSet>();
  return {
    name,
    telling,
    decide,
    async observe(observed, context) {
      for (const { statefulSet } of observed.zones) known.set(statefulSet.name, statefulSet);
      const snapshot = await observe(context, observed);
      seen(snapshot);
      return snapshot;
    },
    notesOn: ({ times, members, nowMs, removes }) => (removes ? notesOf(times, members, nowMs) : undefined),
    actOn: (target) => actOn(key, known.get(target.member.set.name) as StatefulSet, target),
  };
}

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
