/** What a sweep does besides waking groups: it looks at the suspended volume claims whose StatefulSet is gone. */
import type { Stray } from "../shared/group/suspension/members.ts";
import { groupOfLoneStatefulSet } from "../shared/group/whose-ledger.ts";
import { ClusterError, hasCode, wordsOf } from "../shared/kubernetes/cluster.ts";
import * as keys from "../shared/objects/vocabulary/suspension.ts";
import { eventReasons } from "../shared/objects/vocabulary.ts";
import type { Context } from "../shared/pass/definition.ts";
import { isNamespaceEnding, listStrays } from "../shared/pass/suspension/reading.ts";
import { clearingPatch, messageFor, patchVolumeClaim, tellOfClaim } from "../shared/pass/suspension/writing.ts";
import { releasingPatch } from "./act.ts";
import { name, removesVolumes } from "./observe.ts";
import { retainOrStay } from "./retaining.ts";
import { decideStray, type StrayFate } from "./strays.ts";

/** So long after a look was begun something is done by it, in milliseconds (rule R9). */
const actWithinMs = 5_000;

/** Throws ClusterError. */
export async function sweepStrays(context: Context): Promise<void> {
  const { cluster, namespaces } = context;
  for (const namespace of namespaces ?? [undefined]) {
    const notAfterMs = cluster.monotonicMs() + actWithinMs;
    for (const stray of await listStrays(cluster, namespace)) await endStray(context, stray, notAfterMs);
  }
}

async function endStray(context: Context, stray: Stray, notAfterMs: number): Promise<void> {
  const { claim } = stray;
  const ending = await isNamespaceEnding(context.cluster, claim.namespace);
  const fate = decideStray(stray, { removes: removesVolumes(context), isNamespaceEnding: ending });
  const key = { namespace: claim.namespace, group: groupOfLoneStatefulSet(claim.name) };
  const report = { key, function: name, zone: claim.name, shadow: context.mode === "shadow" };
  context.reporter.pass({
    ...report,
    guard: fate.guard,
    sentence: fate.sentence,
    sinceMs: context.cluster.serverTimeMs(),
  });
  if (fate.kind === "nothing" || context.mode === "shadow") return;
  try {
    if (fate.isRetained === true) await retainOrStay(context, key, claim, notAfterMs);
    await patchVolumeClaim(context, claim, patchOf(stray, fate), notAfterMs);
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    // The next sweep looks again.
    if (!hasCode(error, 404, 409)) context.reporter.problem(key, name, `${claim.name}: ${wordsOf(error)}`, error);
    return;
  }
  if (fate.kind === "tell") return;
  const isLate = fate.kind === "answer-recover";
  const reason = isLate ? eventReasons.recoverTooLate : eventReasons.volumeRecovered;
  if (isLate || fate.kind === "clear")
    await tellOfClaim(context, name, key, claim, {
      type: isLate ? "Warning" : "Normal",
      reason,
      message: fate.sentence,
      identity: fate.kind,
    });
}

function patchOf({ claim }: Stray, { kind, guard, sentence }: StrayFate) {
  if (kind === "clear") return clearingPatch(claim);
  if (kind === "release") return releasingPatch(claim);
  const taken = kind === "answer-recover" ? { [keys.recover.key]: null } : {};
  return { annotations: { ...taken, ...messageFor(guard, sentence) } };
}
