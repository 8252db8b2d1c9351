/** The acts: the point of no return, the removal, and the reports about both. Each write names a uid and a revision. */

import * as keys from "../shared/annotations/suspension.ts";
import type { Context } from "../shared/contract/context.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import { apiMessage, hasCode, isRefused, type Metadata, type PvcObject } from "../shared/kubernetes/cluster.ts";
import { deleteIfThere } from "../shared/kubernetes/find.ts";
import type { KnownClaim } from "../shared/ledger/claim.ts";
import { kinds } from "../shared/ledger/claim-kinds.ts";
import { ledgerNewMs } from "../shared/ledger/reservation.ts";
import type { Act } from "../shared/reconcile/act.ts";
import type { OwnClaimEnd } from "../shared/reconcile/reconcile-claims.ts";
import type { EventPolicy } from "../shared/reconcile/record.ts";
import { earlierMs, whyClocksUnsure } from "../shared/suspension/clocks.ts";
import { removalEnded, seenSinceMs } from "../shared/suspension/looks.ts";
import { readMembers } from "../shared/suspension/reading.ts";
import { noteMessage } from "../shared/suspension/recent-messages.ts";
import { hasTime } from "../shared/suspension/restart-time.ts";
import { retain } from "../shared/suspension/retain-volume.ts";
import { describeSpan, warningDue } from "../shared/suspension/time-left.ts";
import {
  anewPatch,
  beginAnew,
  memberChanged,
  messageFor,
  normal,
  type PvcPatch,
  patchPvc,
  recordPvcEvent,
  warning,
  writtenRequeueMs,
} from "../shared/suspension/writing.ts";
import { readClaimedObjects } from "../shared/transaction/claimed-objects.ts";
import { isWithdrawn, noteWithdrawn, workloadNamed } from "../shared/transaction/claims.ts";
import { isLongKnown } from "../shared/transaction/ledger-age.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import { describeAgreeing, isRecovering, isRequested, type Member } from "../shared/volumes/members.ts";
import type { Pvc } from "../shared/volumes/pvc.ts";
import type { GroupKey } from "../shared/workloads/statefulsets.ts";
import type { RemovalSnapshot, RemovalTarget } from "./decide-removals.ts";
import { findRetained } from "./holding.ts";
import { name } from "./observe.ts";

export const eventPolicy: EventPolicy = {
  taking: "removing",
  reasons: { begins: eventReasons.removing, waits: eventReasons.removalWaiting, ends: eventReasons.removed },
  quietGuards: new Set([
    "suspended",
    "removing",
    "wait-between-removals",
    "zone-busy",
    "zones-down",
    "zone-scaling-down",
    "zone-removing-volume",
    "on-hold",
  ]),
};

/** Throws Conflict for a zone that came after the group's view. */
export function actOn(target: RemovalTarget, observed: GroupObservation): Act {
  const { member, kind } = target;
  const { key } = observed;
  return {
    name: kind,
    object: member.name,
    subjectUid: member.pvcs[0]?.uid ?? member.name,
    workload: workloadNamed(observed, member.set.name),
    ...(target.kind === "remove" ? { claims: [target.claim] } : { claims: [], takesNothing: true }),
    requeueAfterDoneMs: writtenRequeueMs,
    carryOut: (context, notAfterMs) => carryOut(context, key, target, notAfterMs),
    // The next reconcile decides again about what has changed meanwhile, and repeats what was refused.
    refused: (context, _key, error) => {
      const { message, code, attempts } = error;
      const isNotDone = attempts === 1 && isRefused(error);
      if (target.kind === "remove" && isNotDone) noteWithdrawn(context, key, target.claim.id);
      if (code !== 409 && code !== 404) context.reporter.problem(key, name, `${kind} of ${member.name}: ${message}`);
    },
  };
}

function carryOut(context: Context, key: GroupKey, target: RemovalTarget, notAfterMs: number): Promise<void> {
  switch (target.kind) {
    case "remove":
      return remove(context, key, target.member, target.claim.id, notAfterMs);
    case "restamp":
      return beginAnew(context, name, key, target.anew, notAfterMs);
    case "release":
      return release(context, key, target, notAfterMs);
    case "stand-back":
      return standBack(context, key, target, notAfterMs);
    case "tell":
      return writeMessage(context, key, target, notAfterMs);
  }
}

type TargetOf<Kind extends RemovalTarget["kind"]> = Extract<RemovalTarget, { readonly kind: Kind }>;

async function release(context: Context, key: GroupKey, { pvcs, kept }: TargetOf<"release">, notAfterMs: number) {
  for (const pvc of pvcs) {
    if (kept.includes(pvc)) await retainOrStay(context, key, pvc, notAfterMs);
    await answerLateWish(context, key, pvc);
    await patchPvc(context, pvc, releasingPatch(pvc), notAfterMs);
  }
}

const unretained = { guard: "volume-not-retained" } as const;

/** Keeps the PersistentVolume. If that is refused, its volume claim and an Event say why. Throws ClusterError then as well. */
export async function retainOrStay(context: Context, key: GroupKey, pvc: Pvc, notAfterMs: number): Promise<void> {
  try {
    await retain(context, name, key, pvc, notAfterMs);
  } catch (error) {
    if (!isRefused(error) || hasCode(error, 409)) throw error;
    const message = `our finalizer stays on ${pvc.name}, which is deleted: its PersistentVolume ${pvc.volumeName} does not get the reclaim policy Retain: ${apiMessage(error)}. Give it that by hand, or take the finalizer away`;
    if (pvc.message?.guard !== unretained.guard)
      await patchPvc(context, pvc, { annotations: messageFor(unretained.guard, message) }, notAfterMs);
    await recordPvcEvent(context, name, key, pvc, warning(eventReasons.removalWaiting, message, unretained.guard));
    throw error;
  }
}

async function standBack(context: Context, key: GroupKey, target: TargetOf<"stand-back">, notAfterMs: number) {
  const { pvcs, guard, message } = target;
  const annotations = {
    [keys.suspendState.key]: "Suspended",
    [keys.removalClaim.key]: null,
    ...messageFor(guard, message),
  };
  for (const pvc of pvcs) await patchPvc(context, pvc, { annotations }, notAfterMs);
  // A deletion that a process was about to send names an earlier revision, so that none is under way any more.
  for (const { removalClaim } of pvcs) if (removalClaim) noteWithdrawn(context, key, removalClaim);
}

async function writeMessage(context: Context, key: GroupKey, target: TargetOf<"tell">, notAfterMs: number) {
  const { member, guard, message } = target;
  for (const pvc of member.pvcs) {
    await patchPvc(context, pvc, { annotations: messageFor(guard, message) }, notAfterMs);
    noteMessage(context, key, pvc);
  }
}

/** A request to recover after the point of no return is answered before its volume claim is gone. */
async function answerLateWish(context: Context, key: GroupKey, pvc: Pvc): Promise<void> {
  if (pvc.recover.kind === "absent" || !pvc.isTerminating) return;
  const message = "its removal had begun before a user wanted it back";
  await recordPvcEvent(context, name, key, pvc, warning(eventReasons.recoverTooLate, message, "too late"));
}

/**
 * Our finalizer goes, and its label. Of one that is being deleted that of its protection goes, too: nothing else
 * would let it go. From any other only hold-process-groups takes that away. Its time goes instead, because no observation follows
 * from now on.
 */
export function releasingPatch(pvc: Pvc): PvcPatch {
  const { finalizers, isTerminating } = pvc;
  const ours = isTerminating ? [keys.volumeHold, keys.volumeProtection] : [keys.volumeHold];
  const message = `VOLUME_HOLD is remove: ${pvc.name} is not held any more, and its time begins anew where that is taken back`;
  const released = { guard: "uninstalling", message, podCreatedMs: undefined };
  return {
    ...(hasTime(pvc) && !isTerminating ? anewPatch(released, pvc) : {}),
    finalizers: finalizers.filter((one) => !ours.includes(one)),
    labels: { [keys.suspended.key]: null },
  };
}

/**
 * Rule R21, invariants S1 and S2: the mark of the point of no return is written under the uid and the revision that were read, so
 * that a user who wants a volume back meanwhile has it. The member is read once more under that mark, and only then is anything
 * deleted, by uid and revision. Throws ClusterError.
 */
async function remove(context: Context, key: GroupKey, member: Member, id: string, notAfterMs: number): Promise<void> {
  const { set, ordinal, name: pod } = member;
  const annotations = {
    [keys.suspendState.key]: "Removing",
    [keys.removalClaim.key]: id,
    ...messageFor("removing", `the volumes of ${pod} are removed`),
  };
  const marked: Pvc[] = [];
  for (const pvc of member.pvcs) marked.push(await patchPvc(context, pvc, { annotations }, notAfterMs));
  const isSame = (one: Member) => one.set.name === set.name && one.ordinal === ordinal;
  const read = await readMembers(context, key, [set.name], isSame);
  const now = read.members.find(isSame);
  const retained = now && findRetained(now, marked);
  // If its size was changed, its pod may have come and gone, and the next reconcile finds that its time is not over. If the
  // clocks contradict each other by now, neither of them proves that it is.
  if (retained === undefined || whyClocksUnsure(read) !== undefined || now?.set.resizedMs !== member.set.resizedMs)
    throw memberChanged(pod);
  for (const pvc of retained) await retain(context, name, key, pvc, notAfterMs);
  for (const pvc of marked) {
    if (pvc.isTerminating) continue;
    const { uid, resourceVersion } = pvc;
    await deleteIfThere(context.cluster, "persistentvolumeclaims", pvc, { uid, resourceVersion }, { notAfterMs });
    const agreement = describeAgreeing(member);
    const message = `it is deleted: its time was over, and nothing uses it${agreement === undefined ? "" : `; ${agreement}`}`;
    await recordPvcEvent(context, name, key, pvc, normal(eventReasons.removing, message, "removed"));
  }
}

/**
 * A claim is over when its volumes are gone and nothing rests on it. A claim that is older than anything that may rest on it,
 * and not known for long, is checked again, because a process that has just started may be the only one until the next sweep.
 * Throws what a transaction throws.
 */
export async function endOf(context: Context, observed: GroupObservation, claim: KnownClaim): Promise<OwnClaimEnd> {
  const { cluster } = context;
  const { key } = observed;
  // By a LIST after the ledger was read (rule R21).
  const { items } = await cluster.list("persistentvolumeclaims", { namespace: key.namespace });
  // Sluice cannot save a volume claim that is deleted and has no finalizer of ours, even if another finalizer holds it.
  const left = items.filter(({ metadata }) => !isLost(metadata));
  const volumes = new Map(left.map(({ metadata }) => [metadata.name, metadata.uid]));
  const found = await readClaimedObjects(cluster, key.namespace, claim, volumes);
  // A mark on it keeps nothing, because the pod may run on it again and keeps it for as long.
  const where = { ...found, isAnchored: found.isAnchored && volumes.has(claim.anchor?.name ?? "") };
  const row = kinds[claim.kind];
  const nowMs = cluster.serverTimeMs();
  const isVoid = isWithdrawn(context, key, claim) && !where.isAnchored;
  const isKnown = isLongKnown(context, key, claim);
  const isAbandoned = row.isAbandoned(claim, where, nowMs);
  if (isVoid || row.isSettled(claim, where, nowMs) || (isAbandoned && isKnown))
    return { kind: "over", times: isVoid && isUntouched(claim, items) ? {} : removalEnded(observed.ledger, nowMs) };
  return { kind: "stands", ...(isAbandoned ? { requeueAfterMs: ledgerNewMs } : {}) };
}

/** True while each volume claim of a claim exists: one may have been deleted before the deletion of the next was refused. */
function isUntouched({ uids = {} }: KnownClaim, stored: readonly PvcObject[]): boolean {
  const standing = stored.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  return Object.values(uids).every((uid) => standing.some(({ metadata }) => metadata.uid === uid));
}

function isLost({ deletionTimestamp, finalizers = [] }: Metadata): boolean {
  const isOurs = finalizers.some((one) => one === keys.volumeHold || one === keys.volumeProtection);
  return deletionTimestamp !== undefined && !isOurs;
}

/** Each warning appears once in a suspension, by the name of its Event, however many processes send it. */
export async function warn(context: Context, key: GroupKey, snapshot: RemovalSnapshot): Promise<void> {
  const { members, nowMs, removes, times } = snapshot;
  // If the time is unclear, another Event says so.
  if (!removes || whyClocksUnsure(snapshot) !== undefined) return;
  for (const member of members.filter((one) => isRequested(one) && !isRecovering(one))) {
    const due = warningDue(member, earlierMs(snapshot), seenSinceMs(times, nowMs));
    if (due === undefined) continue;
    const message = `the volume of ${member.name} is removed in ${describeSpan(due.leftMs)}: kubectl sluice recover keeps it`;
    for (const pvc of member.pvcs) {
      const news = warning(eventReasons.volumeRemovalNears, message, `${due.name} ${pvc.suspendedMs}`);
      await recordPvcEvent(context, name, key, pvc, news);
    }
  }
}
