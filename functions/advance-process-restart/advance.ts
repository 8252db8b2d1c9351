/** The steps of a restart that is under way: each is one write of the ledger, and then one call within its time (rule R9). */

import type { Context } from "../shared/contract/context.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import { recordOnce } from "../shared/events/recorder.ts";
import { changeClaim, type KnownClaim } from "../shared/ledger/claim.ts";
import type { ClaimedObjects } from "../shared/ledger/claim-kinds.ts";
import type { RunningProcess } from "../shared/ledger/process-claim.ts";
import type { OwnClaimEnd } from "../shared/reconcile/reconcile-claims.ts";
import { readClaimedObjects } from "../shared/transaction/claimed-objects.ts";
import { renewClaim, writeClaims } from "../shared/transaction/claims.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { StatefulSet } from "../shared/workloads/statefulsets.ts";
import { callUnder, isChanged, show } from "./act.ts";
import { readStatus, type StatusAnswer } from "./calls.ts";
import { restartRequeueMs } from "./decide.ts";
import { decideStep, podOfClaim, type Step, shownPhase } from "./decide-step.ts";
import { name, noteWait } from "./observe.ts";

interface Restart {
  readonly context: Context;
  readonly observed: GroupObservation;
  readonly claim: KnownClaim;
  readonly statefulSet: StatefulSet | undefined;
  readonly pod: Pod | undefined;
}

/** Takes the next step of a restart, if there is one now. Throws as `openTransaction` does. */
export async function endOf(context: Context, observed: GroupObservation, claim: KnownClaim): Promise<OwnClaimEnd> {
  const { cluster, memoryOf } = context;
  const found = await readClaimedObjects(cluster, observed.key.namespace, claim);
  const { statefulSet } = found;
  const pod = podOfClaim(claim, found);
  const answer = pod && statefulSet && (await readStatus(context, statefulSet, pod));
  const where = { ...found, processes: runningIn(pod, answer) };
  const step = decideStep({ claim, where, answer, nowMs: cluster.serverTimeMs() });
  if (step.kind === "wait") {
    noteWait(memoryOf(observed.key), step);
    return { kind: "stands", requeueAfterMs: restartRequeueMs };
  }
  try {
    return await carryOut({ context, observed, claim, statefulSet, pod }, step);
  } catch (error) {
    if (!isChanged(error)) throw error;
    return { kind: "stands", requeueAfterMs: restartRequeueMs };
  }
}

function runningIn(pod: Pod | undefined, answer: StatusAnswer | undefined): ClaimedObjects["processes"] & object {
  if (pod === undefined || answer === undefined || "silence" in answer || answer.processId === undefined)
    return new Map();
  const { podUid, processId } = answer;
  return new Map<number, RunningProcess>([[pod.ordinal, { podUid, processId, isMember: true }]]);
}

async function carryOut(restart: Restart, step: Exclude<Step, { kind: "wait" }>): Promise<OwnClaimEnd> {
  const { context, observed, claim, statefulSet, pod } = restart;
  if (step.kind === "end") {
    await writeClaims(context, observed, { out: [claim], into: [] });
    if (pod !== undefined) await show(context, pod, step.shown && { phase: step.shown, id: undefined });
    if (pod !== undefined && step.shown === "failed") await reportFailure(restart, pod, step.message);
    return { kind: "undone" };
  }
  if (pod === undefined || statefulSet === undefined) return { kind: "stands", requeueAfterMs: restartRequeueMs };
  if (step.kind === "show") {
    await show(context, pod, { phase: shownPhase(claim), id: claim.id });
    return { kind: "stands", requeueAfterMs: restartRequeueMs };
  }
  const { phase, ...changes } = step.changes;
  const renewed = changeClaim(renewClaim(claim, context.cluster.serverTimeMs(), phase), changes);
  const deadlineMs = await writeClaims(context, observed, { out: [claim], into: [renewed] });
  await callUnder(context, statefulSet, pod, renewed, deadlineMs);
  return { kind: "undone" };
}

function reportFailure({ context, observed, claim }: Restart, pod: Pod, message: string): Promise<void> {
  return recordOnce(context, name, observed.key, {
    about: { resource: "pods", ...pod },
    ...{ type: "Warning", reason: eventReasons.processRestartFailed, message, identity: claim.id },
  });
}
