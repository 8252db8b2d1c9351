/** The additional work of a sweep: it decides about the suspended volume claims whose StatefulSet is gone. */

import * as keys from "../shared/annotations/suspension.ts";
import type { Context } from "../shared/contract/context.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import { apiMessage, ClusterError, hasCode } from "../shared/kubernetes/cluster.ts";
import { isNamespaceEnding } from "../shared/kubernetes/find.ts";
import { actWithinMs } from "../shared/ledger/reservation.ts";
import { withoutFalseMark } from "../shared/suspension/marks.ts";
import { clocksOf, listLedgerClaims, listStrays } from "../shared/suspension/reading.ts";
import {
  clearingPatch,
  messageFor,
  normal,
  type PvcNews,
  patchPvc,
  recordPvcEvent,
  warning,
} from "../shared/suspension/writing.ts";
import type { Stray } from "../shared/volumes/members.ts";
import { type Pvc, valueIn } from "../shared/volumes/pvc.ts";
import { groupOfLoneStatefulSet } from "../shared/workloads/group-key.ts";
import { releasingPatch, retainOrStay } from "./act.ts";
import { decideStray, type StrayDecision } from "./decide-stray.ts";
import { name, removesVolumes } from "./observe.ts";

/** Throws ClusterError. */
export async function sweepStrays(context: Context): Promise<void> {
  const { cluster, namespaces } = context;
  for (const namespace of namespaces ?? [undefined]) {
    const notAfterMs = cluster.monotonicMs() + actWithinMs;
    const strays = await listStrays(cluster, namespace);
    // The claims are read after the marks, because a mark is written only under a claim that already stands.
    const isMarked = strays.some(({ pvc }) => valueIn(pvc.state) === "Removing");
    const claims = isMarked ? await listLedgerClaims(cluster, namespace) : [];
    for (const { pvc, users } of strays)
      await endStray(context, { pvc: withoutFalseMark(pvc, claims), users }, notAfterMs);
  }
}

async function endStray(context: Context, stray: Stray, notAfterMs: number): Promise<void> {
  const { pvc } = stray;
  const isEnding = await isNamespaceEnding(context.cluster, pvc.namespace);
  const around = { removes: removesVolumes(context), isNamespaceEnding: isEnding, ...clocksOf(context.cluster) };
  const decision = decideStray(stray, around);
  const key = { namespace: pvc.namespace, group: groupOfLoneStatefulSet(pvc.name) };
  const report = { key, function: name, zone: pvc.name, shadow: context.mode === "shadow" };
  const { guard, message } = decision;
  context.reporter.verdict({ ...report, guard, message, sinceMs: context.cluster.serverTimeMs() });
  if (decision.kind === "nothing" || context.mode === "shadow") return;
  try {
    if (decision.isRetained === true) await retainOrStay(context, key, pvc, notAfterMs);
    await patchPvc(context, pvc, patchOf(context, stray, decision), notAfterMs);
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    // The next sweep tries again.
    if (!hasCode(error, 404, 409)) context.reporter.problem(key, name, `${pvc.name}: ${apiMessage(error)}`, error);
    return;
  }
  await recordPvcEvent(context, name, key, pvc, newsOf(pvc, decision));
}

/** The Event about it. */
function newsOf({ isMarkFalse, isTerminating }: Pvc, { kind, message }: StrayDecision): PvcNews {
  if (kind === "clear") return normal(eventReasons.volumeRecovered, message, kind);
  if (kind === "answer-recover") return warning(eventReasons.recoverTooLate, message, kind);
  if (kind === "unmark" && isMarkFalse) return warning(eventReasons.removalMarkUnknown, message, kind);
  if (kind === "release" && isTerminating) return normal(eventReasons.removing, message, "released");
  return warning(eventReasons.removalWaiting, message, message);
}

function patchOf(context: Context, { pvc }: Stray, { kind, guard, message }: StrayDecision) {
  if (kind === "clear") return clearingPatch(pvc);
  if (kind === "release") return releasingPatch(pvc);
  const nowMs = context.cluster.serverTimeMs();
  const marks = { [keys.removalClaim.key]: null, ...messageFor(guard, message) };
  if (kind === "stamp")
    return {
      annotations: {
        ...marks,
        [keys.suspendState.key]: "Suspended",
        [keys.suspendedAt.key]: new Date(nowMs).toISOString(),
      },
    };
  if (kind === "restamp")
    return { annotations: { ...marks, [keys.suspendState.key]: "Suspending", [keys.suspendedAt.key]: null } };
  if (kind === "unmark") return { annotations: { ...marks, [keys.suspendState.key]: "Suspended" } };
  const taken = kind === "answer-recover" ? { [keys.recover.key]: null } : {};
  return { annotations: { ...taken, ...messageFor(guard, message) } };
}
