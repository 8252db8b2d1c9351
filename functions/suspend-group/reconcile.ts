/** One pass over a group: claims that are over go, and then it is decided what goes and what comes back. */

import type { Context } from "../shared/contract/context.ts";
import type { ReconcileResult } from "../shared/contract/definition.ts";
import { skipUnconcerned } from "../shared/reconcile/concern.ts";
import { type GroupReconciler, reconcileGroup } from "../shared/reconcile/perform.ts";
import { notesOf } from "../shared/suspension/looks.ts";
import { asksForSuspension } from "../shared/suspension/reading.ts";
import { madeBy, openTransaction } from "../shared/transaction/claims.ts";
import { Conflict, forgetLedger, knownLedger, waitForLedger } from "../shared/transaction/ledger-copy.ts";
import type { GroupKey, StatefulSet } from "../shared/workloads/statefulsets.ts";
import { actOn, telling } from "./act.ts";
import { decide, type SuspendSnapshot, type SuspensionTarget } from "./decide.ts";
import { endClaims } from "./end-claims.ts";
import { ask, name, observe } from "./observe.ts";

const isOwn = madeBy(name);

/** Throws ClusterError where trying again later can help. */
export async function run(
  context: Context,
  key: GroupKey,
  wake: { readonly sweep: boolean },
): Promise<ReconcileResult> {
  const idle = await skipUnconcerned(context, key, wake, { asks: asksForSuspension, isOwn });
  if (idle !== undefined) return idle;
  try {
    await endOwn(context, key);
  } catch (error) {
    forgetLedger(context.memoryOf(key));
    // What is the matter with a ledger that cannot be used is said by the pass itself.
    if (error instanceof Conflict) context.reporter.conflict(key, name);
    else if (waitForLedger(error) === undefined) throw error;
  }
  return reconcileGroup(context, gateOf(key), key, wake);
}

async function endOwn(context: Context, key: GroupKey): Promise<void> {
  if (context.mode === "shadow") return;
  const known = knownLedger(context, context.memoryOf(key));
  if (known !== undefined && !known.claims.some(isOwn)) return;
  const look = await openTransaction(context, key);
  if (look !== undefined && look.young === undefined) await endClaims(context, look.observed);
}

function gateOf(key: GroupKey): GroupReconciler<SuspendSnapshot, SuspensionTarget> {
  const known = new Map<string, StatefulSet>();
  return {
    name,
    telling,
    decide,
    ask,
    observe(observed, context) {
      for (const { statefulSet } of observed.zones) known.set(statefulSet.name, statefulSet);
      return observe(context, observed);
    },
    notesOn: ({ times, members, nowMs, protects }) => (protects ? notesOf(times, members, nowMs) : undefined),
    actOn(target) {
      const { name: set } = "set" in target ? target.set : target.member.set;
      return actOn(key, known.get(set) as StatefulSet, target);
    },
  };
}
