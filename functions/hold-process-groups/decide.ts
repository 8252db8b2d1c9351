/** The next step for the removals of a FoundationDBCluster: one write to it, or to its volume claims (invariant B1). Pure. */
import type { HeldGroup, HeldGroups } from "../shared/annotations/foundationdb.ts";
import * as keys from "../shared/annotations/suspension.ts";
import { valueIn } from "../shared/volumes/pvc.ts";
import { foreignEvents, type GroupEvent, goneEvent, isForeign, optionEvents, settingsEvents } from "./decide-events.ts";
import { type Case, decideGroup, type GroupConditions, type GroupDecision } from "./decide-group.ts";
import {
  describeKept,
  isKept,
  isProtecting,
  messageOf,
  type ProtectionChange,
  type ProtectionSnapshot,
  protectionChanges,
} from "./decide-protection.ts";
import type { FoundationCluster, GroupPod } from "./foundation-cluster.ts";
import { type AnnotationChange, annotationChanges, whyUnfound } from "./messages.ts";

export interface RemovalsSnapshot extends ProtectionSnapshot {
  /** The API server's clock, in milliseconds since the epoch. */
  readonly nowMs: number;
  /** With the claims: all that are labelled as the cluster's, by consistent LISTs that came after it. */
  readonly pods: readonly GroupPod[];
  /** The API server has refused to write our finalizer: what is left to do is done without it. */
  readonly isProtectionRefused?: boolean;
}

export type ClusterStep =
  /** What of the spec changes, and which blocks are ours then: one write. */
  | {
      readonly kind: "change-spec";
      readonly toRemove: readonly string[];
      readonly toRemoveUnexcluded: readonly string[];
      readonly blocked: readonly string[];
      readonly heldGroups: HeldGroups;
      readonly lifted: readonly GroupEvent[];
      readonly added: readonly GroupEvent[];
    }
  /** Nothing of a removal stays in the status of these process groups. */
  | { readonly kind: "clear-status"; readonly ids: readonly string[] }
  | { readonly kind: "annotate"; readonly changes: readonly AnnotationChange[] }
  | { readonly kind: "protect"; readonly changes: readonly ProtectionChange[] };

export interface ClusterVerdict {
  readonly guard: string;
  readonly message: string;
  readonly step: ClusterStep | undefined;
  readonly events: readonly GroupEvent[];
  /** The cluster is reconciled again after this time, in milliseconds; undefined: at its next event. */
  readonly requeueAfterMs: number | undefined;
}

/** No event reports its volume claims and its pods. In milliseconds. */
const heldGroupsRequeueMs = 5_000;
/** The most ids that the operator's own definition accepts. */
const mostBlocks = 1_000;
const untilDuration = "what is held back, or protected and deleted, stays until it has one, or is recovered";
/** In a list of the operator it means all process groups. */
const everyGroup = "*";

/** Our finalizer comes first, because a volume claim that is deleted without it is lost. */
export function decide(snapshot: RemovalsSnapshot): ClusterVerdict {
  const changes = snapshot.isProtectionRefused ? [] : protectionChanges(snapshot);
  if (changes.length > 0) return protect(snapshot, changes);
  const verdict = decideRemovals(snapshot);
  const events = [...optionEvents(snapshot), ...settingsEvents(snapshot), ...foreignEvents(snapshot)];
  const [first] = events;
  const isIdle = verdict.step === undefined && verdict.events.length === 0;
  const { guard, message } = (isIdle ? first : undefined) ?? verdict;
  return { ...verdict, guard, message, events: [...verdict.events, ...events] };
}

function protect({ cluster }: RemovalsSnapshot, changes: readonly ProtectionChange[]): ClusterVerdict {
  const [first] = changes.filter(({ protection }) => protection === "add");
  const step: ClusterStep = { kind: "protect", changes };
  const described =
    first === undefined
      ? {
          guard: "releasing",
          message: `volume claims of ${cluster?.name ?? "a cluster that is gone"} are not protected any more`,
        }
      : {
          guard: "protecting",
          message: `the volume claims of ${cluster?.name} get our finalizer, whatever becomes of them`,
        };
  return { ...described, step, events: [], requeueAfterMs: undefined };
}

function decideRemovals(snapshot: RemovalsSnapshot): ClusterVerdict {
  const { cluster } = snapshot;
  if (cluster === undefined) return decideGone(snapshot);
  const { name, heldGroups: record, duration } = cluster;
  if (record.kind === "malformed")
    return withEvent(name, wait("record-malformed", `nothing of ${name} changes: ${record.message}`));
  const blocks = valueIn(record) ?? {};
  const hasHeldGroups = Object.keys(blocks).length > 0;
  if (duration.kind === "absent" && !hasHeldGroups && !isProtecting(snapshot))
    return wait("done", `${name} asks for nothing`);
  if (cluster.isDeleting) {
    const message = `${name} is being deleted: only our finalizers keep volumes of it, those that are suspended for their time`;
    if (!hasHeldGroups && snapshot.pvcs.every((pvc) => !pvc.isProtected)) return wait("done", message);
    return withEvent(name, { ...wait("owner-deleting", message), step: annotateKept(snapshot, "owner-deleting") });
  }
  return decideLiving(snapshot, cluster, blocks);
}

/** The cluster is gone, so that no object can say that the data is not needed. */
function decideGone(snapshot: RemovalsSnapshot): ClusterVerdict {
  const [first] = snapshot.pvcs.filter(isKept);
  if (first === undefined) return wait("done", "it is gone");
  return { ...wait("owner-gone", goneEvent(first).message), step: annotateKept(snapshot, "owner-gone") };
}

function annotateKept({ pvcs }: RemovalsSnapshot, why: "owner-deleting" | "owner-gone"): ClusterStep | undefined {
  const changes = pvcs.filter(isKept).flatMap((pvc): AnnotationChange[] => {
    const annotations = messageOf(pvc, describeKept(pvc.group, pvc, why));
    return Object.keys(annotations).length === 0 ? [] : [{ pvc, annotations }];
  });
  return changes.length === 0 ? undefined : { kind: "annotate", changes };
}

function decideLiving(snapshot: RemovalsSnapshot, cluster: FoundationCluster, heldGroups: HeldGroups): ClusterVerdict {
  const { nowMs, keepsVolumes } = snapshot;
  const around: GroupConditions = {
    nowMs,
    durationMs: valueIn(cluster.duration),
    keepsVolumes,
    unfound: whyUnfound(snapshot),
  };
  const cases = casesOf(snapshot, cluster, heldGroups);
  const decided = cases.flatMap((one): Decided[] => {
    const verdict = decideGroup(one, around);
    return verdict === undefined ? [] : [{ one, verdict }];
  });
  const bounded = withinBounds(decided, cluster);
  const step =
    changeSpec(bounded, cluster, heldGroups, nowMs) ?? clearStatus(bounded) ?? annotate(cases, bounded, cluster);
  return conclude(cluster, bounded, step);
}

interface Decided {
  readonly one: Case;
  readonly verdict: GroupDecision;
}

function casesOf(
  { pvcs, pods }: RemovalsSnapshot,
  cluster: FoundationCluster,
  heldGroups: HeldGroups,
): readonly Case[] {
  const { groups, toRemove, toRemoveUnexcluded, blocked } = cluster;
  const own = pvcs.filter((pvc) => !isForeign(pvc, cluster));
  const pvcsOf = Map.groupBy(own, ({ group }) => group);
  // The newest of several, because it may have data that the others lack.
  const podOf = new Map(pods.toSorted((one, other) => one.createdMs - other.createdMs).map((pod) => [pod.group, pod]));
  const ids = new Set([...Object.keys(heldGroups), ...groups.keys(), ...pvcsOf.keys()]);
  return [...ids].sort().map((id) => ({
    id,
    group: groups.get(id),
    pvcs: pvcsOf.get(id) ?? [],
    pod: podOf.get(id),
    heldGroup: heldGroups[id],
    isBlocked: blocked.includes(id) || blocked.includes(everyGroup),
    isListed: toRemove.includes(id),
    isListedUnexcluded: toRemoveUnexcluded.includes(id),
  }));
}

/** The operator's list of blocks has a limit. A process group beyond it waits, and says so. */
function withinBounds(decided: readonly Decided[], { blocked }: FoundationCluster): readonly Decided[] {
  let room = mostBlocks - blocked.length;
  return decided.map(({ one, verdict }) => {
    if (verdict.step !== "hold" || room-- > 0) return { one, verdict };
    const message = `${one.id} goes without being held back: spec.buggify.blockRemoval has ${mostBlocks} ids, and takes no more`;
    return { one, verdict: { guard: "block-list-full", message, isReported: true } };
  });
}

function changeSpec(
  decided: readonly Decided[],
  cluster: FoundationCluster,
  heldGroups: HeldGroups,
  nowMs: number,
): ClusterStep | undefined {
  const stepping = (...kinds: readonly GroupDecision["step"][]) =>
    decided.filter(({ verdict }) => kinds.includes(verdict.step));
  const kept = stepping("hold", "unlist");
  const lifted = stepping("let-go");
  if (kept.length + lifted.length === 0) return undefined;
  const goes = new Set(lifted.map(({ one }) => one.id));
  const back = new Set(stepping("unlist").map(({ one }) => one.id));
  const added = kept.filter(({ one }) => !one.isBlocked);
  const stays = (id: string) => !back.has(id);
  const record: Record<string, HeldGroup> = {};
  for (const [id, one] of Object.entries(heldGroups)) if (!goes.has(id)) record[id] = one;
  for (const { one } of kept) {
    const known = record[one.id] ?? { sinceMs: nowMs };
    record[one.id] = back.has(one.id) ? { ...known, recoveringMs: nowMs } : known;
  }
  return {
    kind: "change-spec",
    toRemove: cluster.toRemove.filter(stays),
    toRemoveUnexcluded: cluster.toRemoveUnexcluded.filter(stays),
    blocked: [...cluster.blocked.filter((id) => !goes.has(id)), ...added.map(({ one }) => one.id)],
    heldGroups: record,
    lifted: lifted.map(eventOf),
    added: added.map(eventOf),
  };
}

function clearStatus(decided: readonly Decided[]): ClusterStep | undefined {
  const ids = decided.filter(({ verdict }) => verdict.step === "clear").map(({ one }) => one.id);
  return ids.length === 0 ? undefined : { kind: "clear-status", ids };
}

function annotate(
  cases: readonly Case[],
  decided: readonly Decided[],
  cluster: FoundationCluster,
): ClusterStep | undefined {
  const verdicts = new Map(decided.map(({ one, verdict }) => [one.id, verdict]));
  const changes = cases.flatMap((one) => annotationChanges(one, verdicts.get(one.id), cluster));
  return changes.length === 0 ? undefined : { kind: "annotate", changes };
}

function conclude(
  { name, duration }: FoundationCluster,
  decided: readonly Decided[],
  step: ClusterStep | undefined,
): ClusterVerdict {
  const events = decided.filter(({ verdict }) => verdict.isReported).map(eventOf);
  const requeueAfterMs = decided.length === 0 ? undefined : heldGroupsRequeueMs;
  const [withStep] = decided.filter(({ verdict }) => verdict.step !== undefined);
  if (step !== undefined) {
    const { guard, message } = withStep?.verdict ?? {
      guard: "annotating",
      message: `the volume claims of ${name} say whose they are, and in which zone`,
    };
    return { guard, message, step, events, requeueAfterMs };
  }
  if (duration.kind !== "value") {
    const [guard, message] =
      duration.kind === "malformed"
        ? ["duration-malformed", `nothing of ${name} is held back anew: ${duration.message}`]
        : ["duration-missing", `${name} has no ${keys.suspendDuration.key}: ${untilDuration}`];
    return { ...wait(guard, message), events: [{ id: name, guard, message }, ...events], requeueAfterMs };
  }
  // Mistakes that a user must correct come first.
  const [first] = [...decided].sort(
    (a, b) => Number(b.verdict.isReported ?? false) - Number(a.verdict.isReported ?? false),
  );
  const { guard, message } = first?.verdict ?? { guard: "done", message: `nothing of ${name} is to be removed` };
  return { guard, message, step: undefined, events, requeueAfterMs };
}

function eventOf({ one, verdict }: Decided): GroupEvent {
  return { id: one.id, guard: verdict.guard, message: verdict.message };
}

function wait(guard: string, message: string): ClusterVerdict {
  return { guard, message, step: undefined, events: [], requeueAfterMs: undefined };
}

/** One that is about the whole cluster. */
function withEvent(id: string, { guard, message, ...rest }: ClusterVerdict): ClusterVerdict {
  return { guard, message, ...rest, events: [{ id, guard, message }] };
}
