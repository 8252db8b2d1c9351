/** The steps of a restart that is under way: each is one write of the ledger, and then one call within its time (rule R9). */

import type { RestartPhase } from "../shared/annotations/restart.ts";
import type { Context } from "../shared/contract/context.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import { recordOnce } from "../shared/events/recorder.ts";
import { changeClaim, type KnownClaim } from "../shared/ledger/claim.ts";
import type { ClaimedObjects } from "../shared/ledger/claim-kinds.ts";
import type { RunningProcess } from "../shared/ledger/process-claim.ts";
import type { OwnClaimEnd } from "../shared/reconcile/reconcile-claims.ts";
import { readClaimedObjects } from "../shared/transaction/claimed-objects.ts";
import { renewClaim, writeClaims } from "../shared/transaction/claims.ts";
import { claimStoodForMs } from "../shared/transaction/ledger-age.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { StatefulSet } from "../shared/workloads/statefulsets.ts";
import { callUnder } from "./act.ts";
import { readStatus, type StatusAnswer } from "./calls.ts";
import { endTogether } from "./coordinated/advance.ts";
import { flush, releaseAllocation, restrictAllocation } from "./database/allocation.ts";
import type { Answered, Database } from "./database/exchange.ts";
import { observeDatabase } from "./database/observe.ts";
import { databaseOfClaims } from "./database/of-claims.ts";
import { restartRequeueMs } from "./decide.ts";
import { restartParked } from "./decide-parked.ts";
import { databaseUnknown, decideStep, phases, podOfClaim, type Step, shownPhase } from "./decide-step.ts";
import { lastWait, name, noteWait } from "./observe.ts";
import { reportAsked, reportParked, reportUnparked } from "./report-parked.ts";
import { isChanged, show } from "./show.ts";

interface Restart {
  readonly context: Context;
  readonly observed: GroupObservation;
  readonly claim: KnownClaim;
  readonly statefulSet: StatefulSet | undefined;
  readonly pod: Pod | undefined;
  /** Undefined where no StatefulSet of the group names one. */
  readonly database: Database | undefined;
}

const stands: OwnClaimEnd = { kind: "stands", requeueAfterMs: restartRequeueMs };
/** For a parked process: an event of the pod reports when its user wants it again. */
const rests: OwnClaimEnd = { kind: "stands", requeueAfterMs: 10_000 };

/** Takes the next step of a restart, if there is one now. Throws as `openTransaction` does. */
export async function endOf(context: Context, observed: GroupObservation, claim: KnownClaim): Promise<OwnClaimEnd> {
  if (claim.mode === "coordinated") return endTogether(context, observed, claim);
  const { cluster, memoryOf } = context;
  const found = await readClaimedObjects(cluster, observed.key.namespace, claim);
  const { statefulSet } = found;
  const pod = podOfClaim(claim, found);
  const answer = pod && statefulSet && (await readStatus(context, statefulSet, pod));
  const database = await databaseOfClaims(context, observed, [statefulSet], pod?.uid);
  const seen = await observeDatabase(database, claim, pod, answer);
  const where = { ...found, processes: runningIn(pod, answer, seen.membership) };
  const before = lastWait(memoryOf(observed.key), claim);
  const times = { nowMs: cluster.serverTimeMs(), knownMs: claimStoodForMs(context, observed.key, claim) };
  const step = decideStep({ claim, where, answer, ...seen, before, ...times });
  if (step.kind === "wait") {
    noteWait(memoryOf(observed.key), claim, step);
    return step.guard === restartParked ? rests : stands;
  }
  try {
    return await carryOut({ context, observed, claim, statefulSet, pod, database }, step);
  } catch (error) {
    if (!isChanged(error)) throw error;
    return stands;
  }
}

function runningIn(
  pod: Pod | undefined,
  answer: StatusAnswer | undefined,
  membership: Answered<boolean> = { value: true },
): ClaimedObjects["processes"] & object {
  if (pod === undefined || answer === undefined || "silence" in answer || answer.processId === undefined)
    return new Map();
  const { podUid, processId } = answer;
  const isMember = "value" in membership && membership.value;
  return new Map<number, RunningProcess>([[pod.ordinal, { podUid, processId, isMember }]]);
}

async function carryOut(restart: Restart, step: Exclude<Step, { kind: "wait" }>): Promise<OwnClaimEnd> {
  const { context, observed, claim, statefulSet, pod } = restart;
  if (step.kind === "end") return end(restart, step);
  if (step.kind === "release") return releaseEarly(restart);
  if (pod === undefined || statefulSet === undefined) return stands;
  if (step.kind === "show") {
    await show(context, pod, { phase: shownPhase(claim), id: claim.id });
    if (claim.mode === "parked") await reportAsked(context, observed.key, claim, pod);
    return stands;
  }
  if (step.kind === "park") {
    const parked = renewClaim(claim, context.cluster.serverTimeMs(), phases.parked);
    await writeClaims(context, observed, { out: [claim], into: [parked] });
    await reportParked(context, observed.key, claim, pod);
    return { kind: "undone" };
  }
  const { phase, ...changes } = step.changes;
  const renewed = changeClaim(renewClaim(claim, context.cluster.serverTimeMs(), phase), changes);
  const deadlineMs = await writeClaims(context, observed, { out: [claim], into: [renewed] });
  if (renewed.phase === phases.restricting) await restrict(restart, deadlineMs);
  else if (renewed.phase === phases.flushing) await (restart.database && flush(restart.database, deadlineMs));
  else await callUnder(context, statefulSet, pod, renewed, deadlineMs);
  return { kind: "undone" };
}

async function restrict(restart: Restart, deadlineMs: number): Promise<void> {
  const { claim, database } = restart;
  if (database === undefined) return;
  const answered = await restrictAllocation(database, claim.id, deadlineMs);
  if ("unknown" in answered) noteUnknown(restart, "allocation could not be restricted", answered.unknown);
}

/** The claim stands until the pod is ready, and notes that nothing is to be undone any more. */
async function releaseEarly(restart: Restart): Promise<OwnClaimEnd> {
  if (!(await release(restart))) return stands;
  const { context, observed, claim } = restart;
  const released = changeClaim(renewClaim(claim, context.cluster.serverTimeMs()), { hold: false });
  await writeClaims(context, observed, { out: [claim], into: [released] });
  return { kind: "undone" };
}

/** What the restart has changed in the database is undone first. A restart that has failed does not wait for that. */
async function end(restart: Restart, { shown, message }: Extract<Step, { kind: "end" }>): Promise<OwnClaimEnd> {
  const { context, observed, claim, pod, database } = restart;
  if (claim.hold === true && !(await release(restart)) && shown !== "failed") return stands;
  // The phase is written before the claim goes: without it, the other pods would get the files that broke this one.
  const phase = shown ?? phaseAfter(restart);
  if (pod !== undefined && phase !== undefined) await show(context, pod, { phase, id: claim.id });
  const lastRestartMs = database === undefined ? {} : { lastRestartMs: context.cluster.serverTimeMs() };
  await writeClaims(context, observed, { out: [claim], into: [], ...lastRestartMs });
  if (pod !== undefined && phase === undefined) await show(context, pod, undefined);
  if (pod !== undefined && shown === undefined && claim.mode === "parked")
    await reportUnparked(context, observed.key, claim, pod);
  if (pod !== undefined && shown === "failed") await reportFailure(restart, pod, message);
  return { kind: "undone" };
}

/**
 * The phase that the pod keeps; undefined for none. If a person asked the whole group to restart together while the process was
 * parked, it restarts with the others: alone, it would run while they are down.
 */
function phaseAfter({ claim, observed }: Restart): RestartPhase | undefined {
  const together = "schedule-coordinated";
  const isWaited = observed.zones.some(({ pods }) => pods.some(({ restart }) => restart?.phase === together));
  return claim.mode === "parked" && isWaited ? together : undefined;
}

/** Resolves to true once a read of the database shows nothing of the restart. Throws ClusterError. */
async function release(restart: Restart): Promise<boolean> {
  const { claim, database } = restart;
  const unnamed = { unknown: "no StatefulSet of the group names its database" };
  const released = database === undefined ? unnamed : await releaseAllocation(database, claim.id);
  if (!("unknown" in released)) return true;
  const what = claim.phase === phases.parked ? "parked" : "back";
  noteUnknown(restart, `the process is ${what}, and allocation is still restricted`, released.unknown);
  return false;
}

function noteUnknown({ context, observed, claim }: Restart, what: string, why: string): void {
  noteWait(context.memoryOf(observed.key), claim, { guard: databaseUnknown, message: `${what}: ${why}` });
}

function reportFailure({ context, observed, claim }: Restart, pod: Pod, message: string): Promise<void> {
  return recordOnce(context, name, observed.key, {
    about: { resource: "pods", ...pod },
    ...{ type: "Warning", reason: eventReasons.processRestartFailed, message, identity: claim.id },
  });
}
