/** What is done: the process manager of one pod is called under a claim, and the pod shows the phase. */

import { restartPhase } from "../shared/annotations/restart.ts";
import type { Context } from "../shared/contract/context.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import { recordOnce } from "../shared/events/recorder.ts";
import { type ClusterError, isTransient } from "../shared/kubernetes/cluster.ts";
import type { KnownClaim } from "../shared/ledger/claim.ts";
import type { Act } from "../shared/reconcile/act.ts";
import type { EventPolicy } from "../shared/reconcile/record.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { GroupKey, StatefulSet } from "../shared/workloads/statefulsets.ts";
import { callManager, type StatusAnswer } from "./calls.ts";
import type { Candidate } from "./candidate.ts";
import { idBeginning } from "./coordinated/claims.ts";
import { anchor, showTogether } from "./coordinated/show.ts";
import { releaseAllocation } from "./database/allocation.ts";
import { nextStepMs, type RestartSnapshot, type RestartTarget, shownPhases } from "./decide.ts";
import { isNote } from "./decide-files.ts";
import { phases, shownPhase, verbOf } from "./decide-step.ts";
import { noteRefused, writeCopy } from "./files.ts";
import { fanOut, markPods } from "./mark.ts";
import { name } from "./observe.ts";
import { isChanged, show } from "./show.ts";

export const eventPolicy: EventPolicy = {
  taking: "restarting",
  reasons: {
    begins: eventReasons.processRestarting,
    waits: eventReasons.processRestartWaiting,
    ends: eventReasons.processRestarted,
  },
  quietGuards: new Set([
    "zone-restarting-process",
    "restart-calling",
    "restart-stopping",
    "restart-starting",
    "restart-joining",
    "restart-parked",
    "manager-busy",
  ]),
};

/**
 * First the pod shows the phase, because its id is the anchor of the claim (rule R10a). Then its process manager is called, no
 * later than `notAfterMs` of the monotonic clock (rule R9). Throws ClusterError.
 */
export async function callUnder(
  context: Context,
  statefulSet: StatefulSet,
  pod: Pod,
  claim: Pick<KnownClaim, "id" | "phase" | "epoch" | "sum">,
  notAfterMs: number,
): Promise<StatusAnswer> {
  const { id, epoch = 1, sum } = claim;
  const isTakenBack = claim.phase === "withdrawing";
  if (!isTakenBack) await show(context, pod, { phase: shownPhase(claim), id });
  const verb = verbOf(claim);
  return callManager(context, statefulSet, pod, { verb, restartId: id, epoch, sum }, notAfterMs);
}

export function actOn(target: RestartTarget): Act {
  if (target.kind === "release") return releaseOf(target);
  if (target.kind === "fan-out") return fanOut(target.statefulSet, target.pods);
  if (target.kind === "mark") return markPods(target);
  if (target.kind === "copy") return copyFiles(target);
  if (target.kind === "begin-together") return beginTogether(target);
  const { statefulSet, pod } = target;
  const common = { object: pod.name, subjectUid: pod.uid, workload: statefulSet };
  if (target.kind === "clear") {
    // The id on the StatefulSet goes first: while the pod still has its own id, the next reconcile comes back here.
    const carryOut = async (context: Context) => {
      if (pod.restart?.id?.startsWith(idBeginning)) await anchor(context, statefulSet, null);
      await show(context, pod, undefined);
    };
    // Another process may have begun a restart of the pod since.
    return { ...common, name: "clear", claims: [], confirmsLedger: true, carryOut, refused: () => {} };
  }
  const isAsked = statefulSet.restart?.database !== undefined;
  // The next reconcile changes the setting of the database under this claim, and nothing is stopped before.
  const claim = isAsked ? { ...target.claim, phase: phases.restricting, hold: true } : target.claim;
  const carryOut = async (context: Context, notAfterMs: number) => {
    if (isAsked) await show(context, pod, { phase: shownPhase(claim), id: claim.id });
    else await callUnder(context, statefulSet, pod, claim, notAfterMs);
  };
  return {
    ...common,
    name: "restart",
    claims: [claim],
    carryOut,
    refused: () => {},
    requeueAfterDoneMs: isAsked ? nextStepMs : 1_000,
  };
}

/** The next reconcile brings the files, and nothing is stopped before. */
function beginTogether({ members, claims }: Extract<RestartTarget, { kind: "begin-together" }>): Act {
  const [leader] = members as readonly [Candidate, ...Candidate[]];
  const carryOut = (context: Context) =>
    showTogether(
      context,
      leader.pod.namespace,
      claims,
      members.map(({ pod }) => pod),
    );
  const object = { object: leader.pod.name, subjectUid: leader.pod.uid, workload: leader.zone.workload };
  return { ...object, name: "restart-together", claims, carryOut, refused: () => {}, requeueAfterDoneMs: 1_000 };
}

/** No claim is made: the restart is over, and the ledger must still have none of it. */
function releaseOf({ id, database, statefulSet }: Extract<RestartTarget, { kind: "release" }>): Act {
  const { name: object, uid } = statefulSet;
  const carryOut = async () => {
    await releaseAllocation(database, id);
  };
  const common = { name: "release", object, subjectUid: `${uid} ${id}`, workload: statefulSet, claims: [] };
  return { ...common, confirmsLedger: true, takesNothing: true, carryOut, refused: () => {} };
}

/** Only while the ledger is as it was decided on, because a claim may have been written for the files that are mounted. */
function copyFiles({ statefulSet, sum, copy }: Extract<RestartTarget, { kind: "copy" }>): Act {
  const { namespace } = statefulSet;
  const refused = (context: Context, key: GroupKey, error: ClusterError) => {
    if (!isChanged(error) && !isTransient(error)) noteRefused(context, key, { copy, sum }, error);
  };
  return {
    ...{ name: "copy-files", object: copy.name, subjectUid: copy.uid, workload: statefulSet },
    ...{ claims: [], confirmsLedger: true, refused, requeueAfterDoneMs: 1_000 },
    ...(isNote(copy) ? { takesNothing: true } : {}),
    carryOut: (context, notAfterMs) => writeCopy(context, namespace, copy, notAfterMs),
  };
}

/** A value that is no phase, and one that only the function writes, are reported once. */
export async function reportPhases(context: Context, key: GroupKey, { candidates }: RestartSnapshot): Promise<void> {
  for (const { pod } of candidates) {
    const { text, phase, id } = pod.restart ?? {};
    const isForeign = phase !== undefined && shownPhases.has(phase) && id === undefined;
    if (text === undefined || (phase !== undefined && !isForeign)) continue;
    const message = isForeign
      ? `${restartPhase.key} ${text} is written by Sluice alone, and no restart of ${pod.name} is under way: write ${restartPhase.grammar}`
      : `${restartPhase.key} of ${pod.name} is no phase: write ${restartPhase.grammar}`;
    await recordOnce(context, name, key, {
      about: { resource: "pods", ...pod },
      ...{ type: "Warning", reason: eventReasons.restartPhaseUnknown, message, identity: `${pod.uid} ${text}` },
    });
  }
}
