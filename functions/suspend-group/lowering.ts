/** Which pods go next, and by which claim of the ledger: one zone is made smaller, or pods of another owner are let go. Pure. */

import { type Wait, wait } from "../shared/contract/verdict.ts";
import { type PodDisruptionBudget, refusalOfAll } from "../shared/groups/pod-disruption-budget.ts";
import { leaversOf, refuseScaleDown } from "../shared/groups/refuse-claim.ts";
import { blockedLeaving, isAsked, type Questions } from "../shared/health/permit.ts";
import { type Blocked, describeClaim, guardOfClaim } from "../shared/ledger/claim-kinds.ts";
import type { OtherClaim } from "../shared/reconcile/act.ts";
import { scaleDownPhases } from "../shared/scaling/size-changes.ts";
import { suspensionId } from "../shared/suspension/looks.ts";
import type { VolumesSnapshot } from "../shared/suspension/observe-volumes.ts";
import { chooseTurn } from "../shared/suspension/removal-turn.ts";
import type { Member } from "../shared/volumes/members.ts";
import type { SuspendableSet } from "../shared/volumes/suspendable-set.ts";
import { podNameOf } from "../shared/workloads/pods.ts";
import type { MemberDecision } from "./decide-member.ts";

export interface SuspendSnapshot extends VolumesSnapshot {
  /** Why the API server would not have another size of late, or pods deleted, by the uid of the zone. */
  readonly refused: ReadonlyMap<string, string>;
  /** False: no volume claim gets our finalizer. */
  readonly protects: boolean;
  /** Of its namespace, as of now; none are read where no pod of another owner is to go. */
  readonly disruptionBudgets: readonly PodDisruptionBudget[];
  /** What asked pods have said; absent where no StatefulSet of the group asks. */
  readonly questions?: Questions | undefined;
}

/** Another size, with the members that go; none where one comes back. */
export interface SuspensionResize {
  readonly kind: "resize";
  readonly set: SuspendableSet;
  readonly target: number;
  readonly leaving: readonly Member[];
  /** Written before pods leave; undefined where none does, or where the webhook of its own size claims them. */
  readonly claim: OtherClaim | undefined;
}

/** Pods of one zone of an owner that is no StatefulSet: they are deleted, and it is for the owner not to make them anew. */
export interface LettingGo {
  readonly kind: "let-go";
  readonly set: SuspendableSet;
  readonly leaving: readonly Member[];
  readonly claim: OtherClaim;
}

export interface Lowered {
  readonly targets: readonly (SuspensionResize | LettingGo)[];
  /** Why none goes; absent where one does. */
  readonly blocked?: Pick<MemberDecision, "guard" | "message">;
}

/** One zone is made smaller, by those of its highest ordinals that are to go. */
export function lower(snapshot: SuspendSnapshot, going: readonly Member[], lastMs: number | undefined): Lowered {
  const [own] = snapshot.claims;
  if (own !== undefined)
    return notLowered(
      wait(guardOfClaim(own), `${describeClaim(own)}; no other zone is made smaller until that has ended`),
    );
  const due = going.filter((member) => whyOutOfOrder(snapshot, member, going) === undefined);
  const [first] = going;
  if (due.length === 0 && first !== undefined)
    return notLowered(whyOutOfOrder(snapshot, first, going) ?? wait("suspending", `${first.name} is to go`));
  const turn = chooseTurn(due, lastMs, undefined, snapshot);
  if (turn.kind === "wait") return notLowered(turn);
  // Of one at a time it is the highest of its zone.
  const [chosen] = turn.members;
  const ofZone = due.filter(({ set }) => set === chosen?.set).sort((one, other) => other.ordinal - one.ordinal);
  return asManyAsMay(ofZone.slice(0, mostAtOnce(snapshot, ofZone, turn.members)), (some) => claimFor(snapshot, some));
}

/** Where pods are asked before they go, one goes at a time. */
function mostAtOnce({ zones }: SuspendSnapshot, [member]: readonly Member[], of: readonly Member[]): number {
  const own = zones.find(({ workload }) => workload.uid === member?.set.uid);
  return own !== undefined && isAsked(own.workload) ? 1 : of.length;
}

/** Fewer of them where the budget of their zone does not let all of them go. */
function asManyAsMay(all: readonly Member[], goBy: (some: readonly Member[]) => Lowered): Lowered {
  let last = goBy(all);
  const fewerMay = ({ blocked }: Lowered) => blocked?.guard === "budget" || blocked?.guard === "disruption-budget";
  for (let count = all.length - 1; count > 0 && fewerMay(last); count--) last = goBy(all.slice(0, count));
  return last;
}

/** Why these do not go by that claim, by the ledger, their zone, and their answers. */
function whyStays(snapshot: SuspendSnapshot, claim: OtherClaim): Blocked | undefined {
  const { zones, questions, nowMs } = snapshot;
  const blocked = refuseScaleDown(snapshot, { ...claim, by: "", stampMs: nowMs });
  const own = zones.find(({ workload }) => workload.name === claim.zone);
  return blocked ?? (own && blockedLeaving(questions, zones, own, leaversOf(own, claim)));
}

/** Pods of one zone of an owner: no pod has to go before another. */
export function letGo(snapshot: SuspendSnapshot, going: readonly Member[], lastMs: number | undefined): Lowered {
  const [own] = snapshot.claims;
  if (own !== undefined)
    return notLowered(wait(guardOfClaim(own), `${describeClaim(own)}; no other pod is let go until that has ended`));
  // What is not ready goes first: it would hold back the others of its zone.
  const isReady = ({ pod }: Member) => Number(pod?.isReady === true);
  const inOrder = going.toSorted((one, other) => isReady(one) - isReady(other));
  const due = inOrder.filter((member) => whyBudgeted(snapshot, [member]) === undefined);
  if (due.length === 0)
    return notLowered(whyBudgeted(snapshot, inOrder.slice(0, 1)) ?? wait("suspending", "nothing is to go"));
  const turn = chooseTurn(due, lastMs, undefined, snapshot);
  if (turn.kind === "wait") return notLowered(turn);
  return asManyAsMay(turn.members, (some) => letGoOf(snapshot, some));
}

/** These pods are deleted, which a PodDisruptionBudget does not see: it is asked here, as an eviction would ask it. */
function whyBudgeted({ zones, disruptionBudgets }: SuspendSnapshot, leaving: readonly Member[]): Wait | undefined {
  const uids = leaving.flatMap(({ pod }) => pod?.uid ?? []);
  const pods = zones.flatMap((zone) => zone.pods.filter(({ uid }) => uids.includes(uid)));
  const why = refusalOfAll(pods, disruptionBudgets);
  return why === undefined ? undefined : wait("disruption-budget", `${leaving[0]?.name} is to go, and waits: ${why}`);
}

function letGoOf(snapshot: SuspendSnapshot, leaving: readonly Member[]): Lowered {
  const [first] = leaving;
  if (first === undefined) return notLowered(wait("suspending", "nothing is to go"));
  const refusal = snapshot.refused.get(first.set.uid);
  if (refusal !== undefined) return notLowered(wait("delete-refused", refusal));
  const budgeted = whyBudgeted(snapshot, leaving);
  if (budgeted !== undefined) return notLowered(budgeted);
  const claim: OtherClaim = {
    id: suspensionId(first.set.name, snapshot.nowMs),
    kind: "scale-down",
    zone: first.set.name,
    members: leaving
      .map(({ ordinal }) => ({ first: ordinal, last: ordinal }))
      .sort((one, other) => one.first - other.first),
    uids: Object.fromEntries(leaving.flatMap(({ pod }) => (pod === undefined ? [] : [[pod.name, pod.uid]]))),
    phase: scaleDownPhases.confirmed,
    terms: "asked",
  };
  const why = whyStays(snapshot, claim);
  if (why !== undefined) return notLowered(wait(why.guard, `${first.name} is to go, and waits: ${why.message}`));
  return { targets: [{ kind: "let-go", set: first.set, leaving, claim }] };
}

function notLowered({ guard, message }: Pick<Wait, "guard" | "message">): Lowered {
  return { targets: [], blocked: { guard, message } };
}

/** Why a member does not go whatever the others of its group do; undefined where it only waits for its turn. */
export function whyOutOfOrder(snapshot: SuspendSnapshot, member: Member, going: readonly Member[]): Wait | undefined {
  return whySizeStays(snapshot, member) ?? whyNotTop(member, going);
}

/** Only the highest ordinals can go: a StatefulSet has no holes. */
function whyNotTop({ set, ordinal, name }: Member, going: readonly Member[]): Wait | undefined {
  for (let above = set.start + set.replicas - 1; above > ordinal; above--) {
    if (going.some((one) => one.set === set && one.ordinal === above)) continue;
    const message = `${name} stays: ${podNameOf({ statefulSet: set.name, ordinal: above })} is above it, and is not to go; a StatefulSet gives up its highest ordinals only`;
    return wait("not-top-ordinal", message);
  }
  return undefined;
}

function whySizeStays({ refused }: SuspendSnapshot, { set, name }: Member): Wait | undefined {
  if (set.followsLeader)
    return wait("size-led", `${name} stays: another object says the size of ${set.name}, and would have the pod back`);
  const refusal = refused.get(set.uid);
  return refusal === undefined ? undefined : wait("size-refused", refusal);
}

function claimFor(snapshot: SuspendSnapshot, leaving: readonly Member[]): Lowered {
  const [top] = leaving;
  const lowest = leaving.at(-1);
  if (top === undefined || lowest === undefined) return notLowered(wait("suspending", "nothing is to go"));
  const { set } = top;
  const target = lowest.ordinal - set.start;
  const claim: OtherClaim = {
    id: suspensionId(set.name, snapshot.nowMs),
    kind: "scale-down",
    zone: set.name,
    members: [{ first: lowest.ordinal, last: set.start + set.replicas - 1 }],
    uids: {
      [set.name]: set.uid,
      ...Object.fromEntries(leaving.flatMap(({ pod }) => (pod === undefined ? [] : [[pod.name, pod.uid]]))),
    },
    phase: scaleDownPhases.confirmed,
    terms: "asked",
  };
  const why = whyStays(snapshot, claim);
  if (why !== undefined) return notLowered(wait(why.guard, `${top.name} is to go, and waits: ${why.message}`));
  // The webhook that is asked about the change makes the claim, and tells the pods.
  return { targets: [{ kind: "resize", set, target, leaving, claim: set.preparesDownscale ? undefined : claim }] };
}
