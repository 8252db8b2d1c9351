/** What a sweep does besides waking groups: it looks at the suspended volume claims whose StatefulSet is gone. */

import * as keys from "../shared/annotations/suspension.ts";
import type { Context } from "../shared/contract/context.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import { ClusterError, hasCode, wordsOf } from "../shared/kubernetes/cluster.ts";
import { isNamespaceEnding } from "../shared/kubernetes/find.ts";
import { actWithinMs } from "../shared/ledger/reservation.ts";
import { withoutFalseMark } from "../shared/suspension/marks.ts";
import { clocksOf, listLedgerClaims, listStrays } from "../shared/suspension/reading.ts";
import { clearingPatch, messageFor, type PvcNews, patchPvc, recordPvcEvent } from "../shared/suspension/writing.ts";
import type { Stray } from "../shared/volumes/members.ts";
import { valueIn } from "../shared/volumes/pvc.ts";
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
    // Read after the marks: each is written under a claim that stands already.
    const isMarked = strays.some(({ pvc }) => valueIn(pvc.state) === "Removing");
    const claims = isMarked ? await listLedgerClaims(cluster, namespace) : [];
    for (const { pvc, users } of strays)
      await endStray(context, { pvc: withoutFalseMark(pvc, claims), users }, notAfterMs);
  }
}

async function endStray(context: Context, stray: Stray, notAfterMs: number): Promise<void> {
  const { pvc } = stray;
  const ending = await isNamespaceEnding(context.cluster, pvc.namespace);
  const fate = decideStray(stray, {
    removes: removesVolumes(context),
    isNamespaceEnding: ending,
    ...clocksOf(context.cluster),
  });
  const key = { namespace: pvc.namespace, group: groupOfLoneStatefulSet(pvc.name) };
  const report = { key, function: name, zone: pvc.name, shadow: context.mode === "shadow" };
  context.reporter.pass({
    ...report,
    guard: fate.guard,
    sentence: fate.sentence,
    sinceMs: context.cluster.serverTimeMs(),
  });
  if (fate.kind === "nothing" || context.mode === "shadow") return;
  try {
    if (fate.isRetained === true) await retainOrStay(context, key, pvc, notAfterMs);
    await patchPvc(context, pvc, patchOf(context, stray, fate), notAfterMs);
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    // The next sweep looks again.
    if (!hasCode(error, 404, 409)) context.reporter.problem(key, name, `${pvc.name}: ${wordsOf(error)}`, error);
    return;
  }
  const news = newsOf(stray, fate);
  if (news !== undefined) await recordPvcEvent(context, name, key, pvc, { ...news, message: fate.sentence });
}

/** What is said in an Event besides; undefined where nothing is. */
function newsOf({ pvc }: Stray, { kind, sentence }: StrayDecision): Omit<PvcNews, "message"> | undefined {
  if (kind === "clear") return { type: "Normal", reason: eventReasons.volumeRecovered, identity: kind };
  if (kind === "answer-recover") return { type: "Warning", reason: eventReasons.recoverTooLate, identity: kind };
  if (kind === "unmark" && pvc.isMarkFalse)
    return { type: "Warning", reason: eventReasons.removalMarkUnknown, identity: kind };
  if (kind === "release" && pvc.isTerminating)
    return { type: "Normal", reason: eventReasons.removing, identity: "released" };
  return { type: "Warning", reason: eventReasons.removalWaiting, identity: sentence };
}

function patchOf(context: Context, { pvc }: Stray, { kind, guard, sentence }: StrayDecision) {
  if (kind === "clear") return clearingPatch(pvc);
  if (kind === "release") return releasingPatch(pvc);
  const nowMs = context.cluster.serverTimeMs();
  const marks = { [keys.removalClaim.key]: null, ...messageFor(guard, sentence) };
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
  return { annotations: { ...taken, ...messageFor(guard, sentence) } };
}
