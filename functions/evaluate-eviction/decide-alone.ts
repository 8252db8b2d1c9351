/** Which ledger decides an eviction, or the answer that needs none; and which evictions no ledger can ever allow. Pure. */

import {
  allow,
  askAgain,
  badRequest,
  forbidden,
  internalError,
  notFound,
  notYet,
} from "../shared/admission/answers.ts";
import type { AdmissionAnswer, Denied } from "../shared/admission/definition.ts";
import { isOurs } from "../shared/admission/own-workloads.ts";
import { governing, type StoredBudget, type Surroundings, selects } from "../shared/groups/governing.ts";
import { neverByBudget, neverByDisruptionBudget } from "../shared/groups/never-possible.ts";
import type { PodDisruptionBudget } from "../shared/groups/pod-disruption-budget.ts";
import type { ZoneBudget } from "../shared/groups/zone-budget.ts";
import type { Zone } from "../shared/groups/zones.ts";
import { type Claim, namesOrdinal } from "../shared/ledger/claim.ts";
import { describeClaim, guardOfClaim } from "../shared/ledger/claim-kinds.ts";
import { groupKeyOf, groupOfBudget } from "../shared/workloads/group-key.ts";
import { type Pod, podNameOf, statefulSetOfPod } from "../shared/workloads/pods.ts";
import { asStatefulSet, type GroupKey, type StatefulSet, type ZoneWorkload } from "../shared/workloads/statefulsets.ts";
import { needsLedger } from "./decide-asked.ts";
import type { Eviction } from "./group-commit/sort-decisions.ts";

/** What is known about a pod before any ledger is read. */
export interface Alone {
  readonly eviction: Eviction;
  readonly pod: Pod;
  readonly owner: StatefulSet | undefined;
  readonly surroundings: Surroundings;
  /** The group of the owner that it has in place of a StatefulSet, where that group has a ledger. */
  readonly ownedBy?: GroupKey | undefined;
  /** What the ledger of {@link ledgerKeyOf} holds; none where there is no such ledger. */
  readonly claims: readonly Claim[];
}

/**
 * Rule R18: the ledger that shows whether a pod is being told that it leaves, if no budget requires a ledger anyway; undefined
 * for a pod of a StatefulSet whose pods no function tells.
 */
export function ledgerKeyOf(
  pod: Pod,
  { owner, surroundings }: Pick<Alone, "owner" | "surroundings">,
): GroupKey | undefined {
  const { preparesDownscale = false, delay } = owner?.scaling ?? {};
  // A pod that needs a ledger has it read in any case.
  if (owner === undefined || needsLedger(owner) || !(preparesDownscale || delay !== undefined)) return undefined;
  return surroundings.budgets.some((stored) => selects(stored, pod.labels)) ? undefined : groupKeyOf(owner);
}

/**
 * What needs no ledger (as rollout-operator has it): either the answer, or the group whose ledger decides.
 *
 * Rule R14: exempt are pods that have ended or are on their way out, and those that answer for all others; and no others.
 */
export function decideAlone(alone: Alone): AdmissionAnswer | GroupKey {
  const { eviction, pod } = alone;
  if (!isExempt(pod)) return decideWithoutLedger(alone);
  // Rule R11: an eviction without a uid may take the successor of a terminating pod, so that it waits until that pod is gone.
  const decided = pod.terminating && !eviction.isPinned ? decideWithoutLedger(alone) : undefined;
  return decided === undefined || "allowed" in decided ? exempt(pod, eviction) : decided;
}

function decideWithoutLedger({
  eviction,
  pod,
  owner,
  surroundings,
  claims,
  ownedBy,
}: Alone): AdmissionAnswer | GroupKey {
  const zone = owner?.name ?? "";
  const first = surroundings.budgets.find((stored) => selects(stored, pod.labels));
  const claim = claims.find((one) => one.zone === zone && namesOrdinal(one, pod.ordinal));
  if (first === undefined && claim !== undefined) {
    return askAgain(guardOfClaim(claim), `${describeClaim(claim)}: ${pod.name} stays until it ends`, zone);
  }
  if (first === undefined && ownedBy !== undefined) return ownedBy;
  const isGoverned = first !== undefined || (owner !== undefined && needsLedger(owner));
  if (!isGoverned || isOurs(pod)) return allow("out-of-scope", { zone, patch: eviction.pin });
  const key = keyOf(pod, owner, first, surroundings);
  const governed = governing(pod, surroundings, key);
  if (governed.kind === "ungovernable") return ungovernable(governed, zone);
  if (owner === undefined) return ofNoStatefulSet(eviction, pod, first?.name ?? "");
  // The pod's name never changes, so that the answer does not advise another try.
  if (pod.name !== podNameOf({ statefulSet: zone, ordinal: pod.ordinal })) {
    const message = `pod ${pod.name} is not named STATEFULSET-ORDINAL, as the pods of ${zone} are, so that its place among them is not known and Sluice cannot reserve it: delete it`;
    return badRequest("no-ordinal", message, { zone });
  }
  return key;
}

/**
 * The answer about a pod that a budget selects and no StatefulSet controls. A copy that a user made counts nowhere, and goes.
 * An orphan of a StatefulSet, or a pod that a StatefulSet may adopt, stays until a user decides about it, and no drain fails.
 */
function ofNoStatefulSet({ pin }: Eviction, pod: Pod, budget: string): AdmissionAnswer {
  const { name, ownerKind } = pod;
  const what = `the budget ${budget} selects pod ${name}, ${describeOwner(pod)}`;
  if (ownerKind !== undefined && ownerKind !== "StatefulSet")
    return internalError("no-statefulset", `${what}, so that its zone is not known: change the selector`);
  const madeFor = statefulSetOfPod(name);
  if (ownerKind === undefined && madeFor === undefined) {
    const warnings = [`${what}: it counts in no zone, and may go; delete this pod if you do not need it`];
    return allow("out-of-scope", { warnings, patch: pin });
  }
  const message = `${what}, so that its zone is not known: make the StatefulSet ${pod.ownerName ?? madeFor} again if this pod is of it, or delete this pod`;
  return askAgain("no-statefulset", message);
}

/** A pod that needs a ledger and that no budget selects shares that of its siblings, which a budget may select. */
function keyOf(
  { namespace }: Pod,
  owner: StatefulSet | undefined,
  first: StoredBudget | undefined,
  { budgets }: Surroundings,
): GroupKey {
  if (owner === undefined) return { namespace, group: groupOfBudget(first?.name ?? "") };
  return groupKeyOf(owner, (first ?? budgets.find((stored) => selects(stored, owner.podLabels)))?.name);
}

/**
 * The group for which metrics count an answer of {@link decideAlone}; undefined for an answer that no group gave. An allowance
 * without a ledger shows no progress of a group, because the pod needed no allowance of its budget.
 */
export function groupOfAnswer(
  { pod, owner, ownedBy, surroundings }: Alone,
  answer: AdmissionAnswer,
): string | undefined {
  if (answer.allowed) return undefined;
  const first = surroundings.budgets.find((stored) => selects(stored, pod.labels));
  if (owner === undefined && first === undefined) return ownedBy?.group;
  return keyOf(pod, owner, first, surroundings).group;
}

/** Rule R11: time for which a read of a pod serves to let it go by its name alone, reserved nowhere, in milliseconds. */
const nameServesForMs = 1_000;

/** An answer of {@link decideAlone}, unless the name may now be another pod's. `ageMs`: time since the pod was read. */
export function whileNamed(answer: AdmissionAnswer, eviction: Eviction, ageMs: number): AdmissionAnswer {
  const goesByName = answer.allowed && !eviction.isPinned;
  return goesByName && ageMs > nameServesForMs ? unseen(eviction) : answer;
}

function describeOwner({ ownerKind }: Pod): string {
  if (ownerKind === undefined) return "which nothing controls";
  if (ownerKind === "StatefulSet") return "whose StatefulSet is gone";
  const article = /^[aeiou]/i.test(ownerKind) ? "an" : "a";
  return `which ${article} ${ownerKind} controls, and no StatefulSet`;
}

/**
 * The pod to be evicted, and its zone; undefined if another pod has its name by now. `isOwned`: its owner is no StatefulSet. A
 * StatefulSet's pod without its StatefulSet's name is not found, because a reservation would name another pod.
 */
export function findPod<Z extends Pick<Zone<ZoneWorkload>, "workload" | "pods" | "leaving">>(
  zones: readonly Z[],
  { name, uid }: Eviction,
  isOwned = false,
): { zone: Z; pod: Pod } | undefined {
  const isIt = (one: Pod) => one.uid === uid && one.name === name;
  for (const zone of zones) {
    if (!isOwned && !name.startsWith(`${zone.workload.name}-`)) continue;
    const pod = zone.pods.find(isIt) ?? zone.leaving.find(isIt);
    if (pod !== undefined) return { zone, pod };
  }
  return undefined;
}

/** Rule R14: a pod that has ended, or is terminating, counts for no budget. */
export function isExempt({ finished, terminating }: Pod): boolean {
  return finished || terminating;
}

/** The answer still pins the uid, because this pod is exempt and its successor may not be. */
export function exempt(pod: Pod, { pin }: Eviction): AdmissionAnswer {
  const why = pod.terminating ? "is terminating already" : "has ended";
  const warnings = [`pod is not ready: ${pod.name} ${why}, and counts for no budget`];
  return allow("exempt", { warnings, patch: pin });
}

/**
 * Rule R25: a budget that can never let the pod go comes before each reason that ends by itself. A budget of zones is refused
 * as in rollout-operator, with a code at which a drain gives up. A PodDisruptionBudget is refused as the API server would do it
 * afterwards.
 */
export function refuseForever(
  group: {
    readonly disruptionBudgets: readonly PodDisruptionBudget[];
    readonly surroundings: Surroundings<ZoneWorkload>;
  },
  pod: Pod,
  zone: string,
  { name, budget }: { readonly name: string; readonly budget: ZoneBudget },
): Denied | undefined {
  const byBudget = neverByBudget(name, budget);
  if (byBudget !== undefined) return forbidden("never-possible", `max unavailable = 0: ${byBudget}`, { zone });
  const { workloads, neighbours } = group.surroundings;
  const all = [...workloads.map(asStatefulSet), ...neighbours];
  const byOther = neverByDisruptionBudget(pod, group.disruptionBudgets, all);
  return byOther === undefined ? undefined : askAgain("never-possible", `${pod.name} stays: ${byOther}`, zone);
}

/** The refusal of a pod whose budget Sluice cannot keep. */
export function ungovernable(
  { guard, message, field }: { guard: string; message: string; field: string },
  zone: string,
): Denied {
  // rollout-operator's users know several budgets as a 400; the other mistakes wait until a user corrects the budget.
  if (guard === "several-budgets") return badRequest(guard, message, { zone });
  return { ...askAgain(guard, message, zone), field };
}

/**
 * Rule R11: the refusal of a terminating pod if nothing pins its uid. The API server tries an eviction for some seconds, and
 * each time takes the pod that has the name at that moment.
 */
export function leaving({ name }: Eviction, zone: string): Denied {
  const message = `${name} is on its way out already, and this eviction names no uid, so that it could take the pod that comes instead; nothing is left to do when ${name} is gone`;
  return notYet("pod-leaving", message, zone);
}

/** The answer about a terminating pod that is now gone: the drain goes on. */
export function left({ name }: Eviction): Denied {
  return notFound("pod-gone", `pods "${name}" not found: the pod that was on its way out is gone`);
}

/** The refusal if another pod has the name by now, or none. */
export function unseen({ name }: Eviction): Denied {
  return askAgain("pod-unseen", `pod ${name} may have changed a moment ago: try again`);
}
