/** The acts: volume claims are marked, a zone is made smaller or larger, and claims of the ledger are ended. */

import * as keys from "../shared/annotations/suspension.ts";
import type { Context } from "../shared/contract/context.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import { deleteIfThere } from "../shared/kubernetes/find.ts";
import type { Act } from "../shared/reconcile/act.ts";
import type { EventPolicy } from "../shared/reconcile/record.ts";
import { isOver, noteRefusal, noteRefused, readAgain, resize } from "../shared/scaling/resize.ts";
import { noteMessage } from "../shared/suspension/recent-messages.ts";
import {
  beginAnew,
  clearingPatch,
  memberChanged,
  messageFor,
  normal,
  type PvcPatch,
  patchPvc,
  podSeen,
  recordPvcEvent,
  writtenRequeueMs,
} from "../shared/suspension/writing.ts";
import { noteWithdrawn, workloadNamed } from "../shared/transaction/claims.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import { describeAgreeing, durationOf, type Member } from "../shared/volumes/members.ts";
import { hasNewPartners, partnerAnnotations } from "../shared/volumes/owners.ts";
import { type Pvc, valueIn } from "../shared/volumes/pvc.ts";
import { asStatefulSet, type GroupKey, type StatefulSet, type ZoneWorkload } from "../shared/workloads/statefulsets.ts";
import { leavingClaimOf, type SuspensionTarget } from "./decide.ts";
import type { LettingGo, SuspensionResize } from "./lowering.ts";
import { lostOf, markUnknown, newsOf, tooLate, untilWhen } from "./news.ts";
import { name } from "./observe.ts";

export const eventPolicy: EventPolicy = {
  taking: "suspending",
  reasons: {
    begins: eventReasons.suspending,
    waits: eventReasons.suspensionWaiting,
    ends: eventReasons.suspensionDone,
  },
  quietGuards: new Set([
    "zone-scaling-down",
    "zones-down",
    "zone-removing-volume",
    "wait-between-removals",
    "pod-leaving",
    "recovering",
    "deleted-by-others",
  ]),
};

/** Throws Conflict for a zone that came after the group's view. */
export function actOn(target: SuspensionTarget, observed: GroupObservation): Act {
  const { key } = observed;
  const workload = workloadNamed(observed, "set" in target ? target.set.name : target.member.set.name);
  if (target.kind === "resize") return resizing(asStatefulSet(workload), target);
  if (target.kind === "let-go") return lettingGo(workload, target);
  const { member } = target;
  return {
    name: target.kind,
    object: member.name,
    subjectUid: member.pvcs[0]?.uid ?? member.name,
    workload,
    claims: [],
    takesNothing: true,
    requeueAfterDoneMs: writtenRequeueMs,
    carryOut: (context, notAfterMs) => write(context, key, target, notAfterMs),
    // The next reconcile decides again about what has changed meanwhile, and repeats what was refused.
    refused: (context, _key, { message, code }) => {
      if (code !== 409 && code !== 404)
        context.reporter.problem(key, name, `${target.kind} of ${member.name}: ${message}`);
    },
  };
}

/** Rules R9, R18 and R21: the claim is written, the volume claims are as they were decided on, and so is the StatefulSet. */
function resizing(statefulSet: StatefulSet, { set, target, leaving, claim }: SuspensionResize): Act {
  return {
    name: leaving.length === 0 ? "raise" : "lower",
    object: set.name,
    subjectUid: set.uid,
    workload: statefulSet,
    claims: claim === undefined ? [] : [claim],
    ...(leaving.length === 0 ? { takesNothing: true } : {}),
    requeueAfterDoneMs: writtenRequeueMs,
    async carryOut(context, notAfterMs) {
      await mark(context, leaving, notAfterMs);
      const { now } = await readAgain(context, {
        ...statefulSet,
        uid: set.uid,
        replicas: set.replicas,
        start: set.start,
      });
      await resize(context, now, target, notAfterMs);
    },
    refused: (context, key, error) => noteRefusal(context, key, { statefulSet, target, claim }, error),
  };
}

/** Rules R8 and R9: the claim is written, the volume claims are as they were decided on, and each pod goes by its uid. */
function lettingGo(workload: ZoneWorkload, { set, leaving, claim }: LettingGo): Act {
  const { namespace } = set;
  let isUnderWay = false;
  return {
    name: "let-go",
    object: set.name,
    subjectUid: set.uid,
    workload,
    claims: [claim],
    requeueAfterDoneMs: writtenRequeueMs,
    async carryOut(context, notAfterMs) {
      await mark(context, leaving, notAfterMs);
      const { cluster } = context;
      const sent = await Promise.allSettled(
        leaving
          .flatMap(({ pod }) => pod ?? [])
          .map(({ name, uid }) => deleteIfThere(cluster, "pods", { namespace, name }, { uid }, { notAfterMs })),
      );
      const failures = sent.flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
      isUnderWay = failures.length < sent.length || !failures.every(isOver);
      if (failures.length > 0) throw failures[0];
    },
    refused(context, key, error) {
      if (!isUnderWay && isOver(error)) noteWithdrawn(context, key, claim.id);
      if (isOver(error) && error.code !== 409) noteRefused(context, key, set.uid, `pods of ${set.name} go`, error);
    },
  };
}

/** Each write fails if another client has changed the volume claim since it was read; then it names the pod that goes. */
async function mark(context: Context, leaving: readonly Member[], notAfterMs: number): Promise<void> {
  const marked = leaving.flatMap((member) =>
    member.pvcs.map((one) => {
      const { pod, name: leaver } = member;
      const annotations = {
        [keys.suspendPodUid.key]: pod?.uid ?? null,
        ...podSeen(pod?.createdMs, one),
        // The revision makes the text a new one each time: a write that changes nothing would leave the revision as it is, and
        // a process that is about to clear the volume claim would not notice that it was decided on once more.
        ...messageFor("suspending", `${leaver} goes, by revision ${one.resourceVersion} of ${one.name}`),
      };
      return patchPvc(context, one, { annotations }, notAfterMs);
    }),
  );
  await Promise.all(marked);
}

async function write(
  context: Context,
  key: GroupKey,
  target: Exclude<SuspensionTarget, SuspensionResize | LettingGo>,
  notAfterMs: number,
): Promise<void> {
  const { member } = target;
  if (target.kind === "restamp") return beginAnew(context, name, key, target.anew, notAfterMs);
  const pvcs = "pvcs" in target ? target.pvcs : member.pvcs;
  if (target.kind === "clear") await refuseWhileLeaving(context, key, member);
  for (const pvc of pvcs) {
    await patchPvc(context, pvc, patchOf(context, target, pvc), notAfterMs);
    if (target.kind === "tell") noteMessage(context, key, pvc);
  }
  if (target.kind === "protect" || target.kind === "prove") await recordDrain(context, key, member);
  if (target.kind === "tell" || target.kind === "note" || target.kind === "protect" || target.kind === "prove") return;
  for (const pvc of pvcs) await recordPvcEvent(context, name, key, pvc, newsOf(context, target, pvc));
}

/** By which statement its pod goes; once for each pod. */
async function recordDrain(context: Context, key: GroupKey, member: Member): Promise<void> {
  const message = describeAgreeing(member);
  const [pvc] = member.pvcs;
  if (message === undefined || pvc === undefined) return;
  const news = normal(eventReasons.volumeDrained, message, `drained ${member.pod?.uid}`);
  await recordPvcEvent(context, name, key, pvc, news);
}

/**
 * Rule R21, invariant S2: the ledger is read after the volume claims. The process that takes the pod claims it, then marks
 * its volume claims. So either the claim stands here, or that mark and this write exclude each other. Throws ClusterError.
 */
async function refuseWhileLeaving(context: Context, key: GroupKey, member: Member): Promise<void> {
  const ledger = await context.protocol.readLedger(context.cluster, key);
  if (ledger !== undefined && leavingClaimOf(ledger.claims, member) !== undefined) throw memberChanged(member.name);
}

type WrittenTarget = Exclude<SuspensionTarget, SuspensionResize | LettingGo | { readonly kind: "restamp" }>;

function patchOf({ cluster }: Context, target: WrittenTarget, pvc: Pvc): PvcPatch {
  const { member } = target;
  const nowMs = cluster.serverTimeMs();
  switch (target.kind) {
    case "prove":
      return {
        annotations: {
          [keys.drainedAt.key]: new Date(nowMs).toISOString(),
          ...messageFor("drained", describeAgreeing(member) ?? member.name),
        },
      };
    case "protect":
      return {
        annotations: {
          [keys.suspendState.key]: valueIn(pvc.state) ?? "Suspending",
          [keys.suspendOwnerUid.key]: member.set.uid,
          ...podSeen(member.pod?.createdMs, pvc),
          // Its pod goes, and with it the label that says the zone.
          ...(pvc.owned?.isZoneWritten === false ? { [keys.volumeZone.key]: member.set.name } : {}),
          ...partnerAnnotations(member),
          ...messageFor("suspending", `${member.name} is to go${lostOf(pvc)}`),
        },
        labels: { [keys.suspended.key]: "true" },
        // The API server accepts no finalizer on an object that is being deleted.
        ...(pvc.isTerminating ? {} : { finalizers: [...new Set([...pvc.finalizers, keys.volumeHold])] }),
      };
    case "stamp":
      return {
        annotations: {
          [keys.suspendState.key]: "Suspended",
          [keys.suspendedAt.key]: new Date(nowMs).toISOString(),
          ...keptFor(member),
          ...messageFor("suspended", `${untilWhen(member, nowMs)}${lostOf(pvc)}`),
        },
      };
    case "note":
      return { annotations: keptFor(member) };
    case "unmark":
      return {
        annotations: {
          [keys.suspendState.key]: valueIn(pvc.request) === true ? "Suspending" : null,
          [keys.suspendedAt.key]: null,
          [keys.removalClaim.key]: null,
          ...messageFor("mark-unknown", markUnknown(pvc)),
        },
      };
    case "clear":
      return clearingPatch(pvc);
    case "answer-recover":
      return { annotations: { [keys.recover.key]: null, ...messageFor("recover-too-late", tooLate(pvc)) } };
    case "tell":
      return {
        annotations: {
          ...podSeen(member.pod?.createdMs, pvc),
          ...(hasNewPartners(member) ? partnerAnnotations(member) : {}),
          ...messageFor(target.guard, target.message),
        },
      };
  }
}

/** How long a volume is kept: when its StatefulSet is gone, only the volume claim says so. */
function keptFor(member: Member): Readonly<Record<string, string>> {
  const keptMs = valueIn(durationOf(member));
  return keptMs === undefined ? {} : { [keys.suspendKeptFor.key]: String(Math.ceil(keptMs / 1_000)) };
}
