/** Rolls a group zone by zone: decides which pods may go now, or which guard blocks them. */

import { formatTime } from "../shared/clock/durations.ts";
import { requeueAfterMs, take, type Verdict, type Wait, wait } from "../shared/contract/verdict.ts";
import { blockedByLimit } from "../shared/groups/pod-limit.ts";
import { type Departed, describeDeparted } from "../shared/groups/refuse-claim.ts";
import { claimOn, countDown, describeDown, isUnsettled, type Zone } from "../shared/groups/zones.ts";
import type { Claim } from "../shared/ledger/claim.ts";
import { describeClaim, guardOfClaim } from "../shared/ledger/claim-kinds.ts";
import { dropAfterMs, finishAfterMs, type Refusal } from "../shared/ledger/reservation.ts";
import { type Pod, podNameOf } from "../shared/workloads/pods.ts";
import { choose, type GroupNow, type RolloutTarget, subjectOf } from "./decide-pods.ts";
import { mend, neverReadyAfterMs, repairInMs, repairsOf } from "./repair.ts";

export interface RolloutSnapshot extends GroupNow {
  /** The function whose reservations may be finished here: our own name (rule R10). */
  readonly self: string;
  /** What is down in StatefulSets that have left the group, or are gone and have left their pods. */
  readonly departed: readonly Departed[];
  /** The claims on StatefulSets that are none of the group's any more. */
  readonly strayClaims: readonly Claim[];
  /** Deletions that the API server refused for good, by pod uid. */
  readonly refusals: ReadonlyMap<string, Refusal>;
}

/**
 * When to reconcile again for the end of a claim, in milliseconds. No event reports it, and a copy of the ledger serves for
 * this long.
 */
const claimedMs = 5_000;

/**
 * The decision of one reconcile (as rollout-operator has it, with its defects mended; invariants Z1 to Z4).
 *
 * Broken outdated pods are replaced wherever they are, and those that are down zone by zone (rule R13). Healthy ones go in one
 * zone only: the one that is not ready, otherwise the first by name that has outdated pods that may go, and never beyond the
 * zone's limit nor beyond the budget that governs the pod.
 */
export function decide(group: RolloutSnapshot): Verdict<RolloutTarget> {
  const blocked = blockedAsWhole(group);
  if (blocked !== undefined) return blocked;
  const repairs = group.zones.flatMap((zone) => repairsOf(group, zone));
  const verdict = withComingRepair(group, advance(group, new Set(repairs.map(({ pod }) => pod))));
  // While healthy pods may go, pods that are already down go first.
  if (verdict.kind === "wait") repairs.push(...mend(group, group.refusals));
  const aside = [...repairs, ...group.zones.flatMap(finishedOf)].filter(
    (target) => !group.refusals.has(subjectOf(target)),
  );
  const [first] = aside;
  if (first === undefined) return verdict;
  const targets = verdict.kind === "take" ? [...aside, ...verdict.targets] : aside;
  const zone = verdict.zone || first.statefulSet.name;
  return take(targets, `${describeAside(aside)}; ${verdict.message}`, {
    zone,
    requeueAfterMs: verdict.requeueAfterMs,
  });
}

/** Why a group may be neither rolled nor repaired: it is not Sluice's to roll. */
function blockedAsWhole({ zones }: RolloutSnapshot): Wait | undefined {
  const other = zones.find(({ workload }) => workload.strategy !== "OnDelete");
  if (other === undefined) return undefined;
  const { name, strategy } = other.workload;
  const message = `${name} has update strategy ${strategy}; Sluice rolls groups whose StatefulSets are all OnDelete`;
  return wait("strategy-not-on-delete", message, { zone: name, requeueAfterMs });
}

/** The decision about healthy pods. `repaired`: the pods that are replaced in the same reconcile. */
function advance(group: RolloutSnapshot, repaired: ReadonlySet<Pod>): Verdict<RolloutTarget> {
  const [departed] = group.departed;
  if (departed !== undefined) {
    return wait("zone-departed", describeDeparted(departed), { zone: departed.statefulSet, requeueAfterMs });
  }
  const [stray] = group.strayClaims;
  if (stray !== undefined) {
    return waitForClaim(stray, "its StatefulSet has left the group or is gone, and no zone is touched until it ends");
  }
  const unsettled = group.zones.filter(isUnsettled);
  const [claimed] = unsettled.flatMap(({ claims }) => claims);
  if (unsettled.length > 1 && claimed !== undefined) {
    return waitForClaim(claimed, `no healthy pod is taken: ${unsettled.map(describeDown).join("; ")}`);
  }
  if (unsettled.length > 1) {
    const zones = unsettled.map(describeDown).join("; ");
    return wait("zones-down", `pods are down in more than one zone, so no healthy pod is taken: ${zones}`, {
      requeueAfterMs,
    });
  }
  const only = unsettled[0];
  if (only !== undefined) return advanceZone(group, only, repaired);

  const blocked: Wait[] = [];
  for (const zone of group.zones) {
    if (zone.workload.paused) continue;
    if (!zone.outdated.some((pod) => !group.refusals.has(pod.uid))) continue;
    const verdict = advanceZone(group, zone, repaired);
    if (verdict.kind === "take") return verdict;
    blocked.push(verdict);
  }
  const [first] = blocked;
  if (first === undefined) return atRest(group);
  return { ...first, requeueAfterMs: Math.min(...blocked.map((one) => one.requeueAfterMs ?? requeueAfterMs)) };
}

/**
 * Rule R10: the process that let a pod go may have ended since, and no other process knows whether the pod's deletion is still
 * under way.
 */
function whoMayGo({ down, reserved }: Zone): string {
  const one = [...reserved.values()].find(({ ordinal }) => down.get(ordinal) === "reserved");
  if (one === undefined) return "";
  const until = formatTime((one.overdueSeenMs ?? one.stampMs) + dropAfterMs);
  return `; ${podNameOf(one)} may still go, by ${one.by}, until ${until} at the latest`;
}

/** The zone that is not ready, or otherwise the next one. */
function advanceZone(group: RolloutSnapshot, zone: Zone, repaired: ReadonlySet<Pod>): Verdict<RolloutTarget> {
  const { name, paused, updateRevision } = zone.workload;
  const again = zone.nextAvailableInMs ?? requeueAfterMs;
  const [claim] = zone.claims;
  if (paused) return waitForPaused(zone, claim);
  if (updateRevision === undefined) return behind(zone);

  const outdated = zone.outdated.filter((pod) => !repaired.has(pod));
  if (outdated.length === 0 && claim !== undefined) return waitForClaim(claim, "the other zones wait until it ends");
  if (outdated.length === 0) {
    return wait("zone-settling", `${describeDown(zone)}; the next zone starts when it is ready${whoMayGo(zone)}`, {
      zone: name,
      requeueAfterMs: again,
    });
  }
  const candidates = outdated.filter((pod) => !group.refusals.has(pod.uid) && mayReserve(group, zone, pod));
  const choice = choose(group, zone, candidates);
  if (choice.taken.length > 0) return takeChosen(zone, choice, outdated.length);
  const { limit, blocked, nextInMs } = choice;
  const refused = outdated.find((pod) => group.refusals.has(pod.uid));
  if (refused !== undefined && (candidates.length === 0 || isBlockedByRefusals(group, zone))) {
    return refusedWait(group, zone, refused, again);
  }
  const { guard, message } = blocked ?? blockedByLimit(zone, limit);
  if (claim !== undefined) return waitForClaim(claim, `${message}; ${outdated.length} outdated pods wait`);
  const soonMs = countDown(zone) > 0 ? Math.min(again, finishAfterMs) : again;
  return wait(guard, `${message}; ${outdated.length} outdated pods wait`, {
    zone: name,
    requeueAfterMs: Math.min(soonMs, nextInMs ?? soonMs),
  });
}

function takeChosen(
  { workload }: Zone,
  { taken, limit, blocked, nextInMs }: ReturnType<typeof choose>,
  outdated: number,
): Verdict<RolloutTarget> {
  const { name } = workload;
  const targets = taken.map((pod): RolloutTarget => ({ action: "delete", statefulSet: workload, pod }));
  const others = blocked === undefined || blocked.isLimit ? "" : `; ${blocked.message}`;
  return take(
    targets,
    `rolling ${name}: ${taken.length} of ${outdated} outdated pods go now, ${limit.pods} may be down${limit.by}${others}`,
    { zone: name, requeueAfterMs: nextInMs === undefined ? undefined : Math.min(nextInMs, finishAfterMs) },
  );
}

function waitForPaused(zone: Zone, claim: Claim | undefined): Wait {
  const { name } = zone.workload;
  if (claim !== undefined) return waitForClaim(claim, `${name} is paused, and the other zones wait`);
  return wait("paused-zone-down", `${describeDown(zone)} and is paused; the other zones wait until it is ready`, {
    zone: name,
    requeueAfterMs,
  });
}

/** Rule R18: this function counts what another function has claimed, and waits for it; no event reports a claim's end. */
function waitForClaim(claim: Claim, besides: string): Wait {
  return wait(guardOfClaim(claim), `${describeClaim(claim)}; ${besides}`, {
    zone: claim.zone,
    requeueAfterMs: claimedMs,
  });
}

/**
 * True if all pods that are down are reserved for deletions that were refused. None of them comes back, so that `budget` would
 * not say enough.
 */
function isBlockedByRefusals(group: RolloutSnapshot, zone: Zone): boolean {
  if (zone.down.size === 0 || zone.missing > 0) return false;
  return [...zone.down].every(([ordinal, why]) => {
    const reservation = zone.reserved.get(ordinal);
    return why === "reserved" && reservation !== undefined && group.refusals.has(reservation.uid);
  });
}

/**
 * Every zone is ready and none has a pod to take: the rollout is done, or blocked by a pause, a refusal or a status that is
 * behind.
 */
function atRest(group: RolloutSnapshot): Verdict<RolloutTarget> {
  for (const zone of group.zones) {
    const refused = zone.outdated.find((pod) => group.refusals.has(pod.uid));
    if (refused !== undefined && !zone.workload.paused) return refusedWait(group, zone, refused, requeueAfterMs);
  }
  const late = group.zones.find(({ workload }) => workload.updateRevision === undefined && !workload.paused);
  if (late !== undefined) return behind(late);
  const paused = group.zones.find((zone) => zone.workload.paused && zone.outdated.length > 0);
  if (paused !== undefined) {
    const { name } = paused.workload;
    return wait("paused", `${name} is paused with ${paused.outdated.length} outdated pods; every other zone is done`, {
      zone: name,
    });
  }
  return take([], `every pod of ${group.key.group} runs the wanted revision`);
}

function behind({ workload: { name } }: Zone): Verdict<RolloutTarget> {
  const message = `the StatefulSet controller has not caught up with the spec of ${name}, so its wanted revision is not known`;
  return wait("status-behind", message, { zone: name, requeueAfterMs: 1_000 });
}

function refusedWait(group: RolloutSnapshot, zone: Zone, pod: Pod, again: number): Verdict<RolloutTarget> {
  const { message } = group.refusals.get(pod.uid) as Refusal;
  return wait("delete-refused", `${pod.name} stays outdated: ${message}`, {
    zone: zone.workload.name,
    requeueAfterMs: again,
  });
}

/**
 * Rules R10 and R18: this function leaves alone what another one has reserved or claimed. It finishes its own reservation once
 * the process that wrote it must have given up.
 */
function mayReserve(group: RolloutSnapshot, zone: Zone, pod: Pod): boolean {
  if (claimOn(zone, pod.ordinal) !== undefined) return false;
  const reservation = zone.reserved.get(pod.ordinal);
  if (reservation === undefined || reservation.uid !== pod.uid) return true;
  return reservation.by === group.self && group.nowMs - reservation.stampMs >= finishAfterMs;
}

/** No event reports that a pod's time is over, so the verdict gives its end, and requeues for the next repair. */
function withComingRepair(group: RolloutSnapshot, verdict: Verdict<RolloutTarget>): Verdict<RolloutTarget> {
  let next: { readonly pod: Pod; readonly inMs: number } | undefined;
  const outdated = group.zones.flatMap((zone) => zone.outdated.map((pod) => ({ zone, pod })));
  for (const { zone, pod } of outdated) {
    const inMs = group.refusals.has(pod.uid) ? 0 : (repairInMs(group, zone, pod) ?? 0);
    if (inMs > 0 && (next === undefined || inMs < next.inMs)) next = { pod, inMs };
  }
  if (next === undefined) return verdict;
  const { pod, inMs } = next;
  if (verdict.kind === "take")
    return { ...verdict, requeueAfterMs: Math.min(inMs, verdict.requeueAfterMs ?? finishAfterMs) };
  const message = `${verdict.message}; ${pod.name} was never ready, and is replaced if it is not ready ${neverReadyAfterMs / 1000} s after it was made`;
  return { ...verdict, message, requeueAfterMs: Math.min(inMs, verdict.requeueAfterMs ?? inMs) };
}

/** Kubernetes never moves `status.currentRevision` for OnDelete; the last step of a zone does (kubernetes#73492). */
function finishedOf(zone: Zone): RolloutTarget[] {
  const { paused, updateRevision, currentRevision } = zone.workload;
  if (paused || updateRevision === undefined || currentRevision === undefined || currentRevision === updateRevision)
    return [];
  const complete = !isUnsettled(zone) && zone.pods.every((pod) => pod.revision === updateRevision);
  return complete ? [{ action: "record-revision", statefulSet: zone.workload }] : [];
}

function describeAside(aside: readonly RolloutTarget[]): string {
  const repaired = aside.flatMap((target) =>
    target.action === "repair" ? [`${target.pod.name} (${target.cause})`] : [],
  );
  const finished = aside
    .filter(({ action }) => action === "record-revision")
    .map(({ statefulSet }) => statefulSet.name);
  const pods = [...repaired.slice(0, 5), ...(repaired.length > 5 ? ["…"] : [])].join(", ");
  const parts = [
    ...(repaired.length > 0 ? [`replacing broken outdated pods ${pods}`] : []),
    ...(finished.length > 0 ? [`recording the revision of ${finished.join(", ")}`] : []),
  ];
  return parts.join("; ");
}
