/** What is done next about the removals of a FoundationDBCluster: one write of it, or its volume claims (invariant B1). Pure. */
import type { HeldGroup, HeldGroups } from "../shared/annotations/foundationdb.ts";
import * as keys from "../shared/annotations/suspension.ts";
import { valueIn } from "../shared/volumes/pvc.ts";
import {
  type GroupEvent,
  isStranger,
  tellOfGone,
  tellOfOption,
  tellOfSettings,
  tellOfStrangers,
} from "./decide-events.ts";
import { type Case, type GroupConditions, type GroupDecision, judge } from "./decide-group.ts";
import {
  isKept,
  isProtecting,
  messageOf,
  type ProtectionChange,
  type ProtectionSnapshot,
  protectionChanges,
  wordsOnKept,
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
      readonly held: HeldGroups;
      readonly lifted: readonly GroupEvent[];
      readonly added: readonly GroupEvent[];
    }
  /** Nothing of a removal stays in the status of these process groups. */
  | { readonly kind: "clear-status"; readonly ids: readonly string[] }
  | { readonly kind: "annotate"; readonly changes: readonly AnnotationChange[] }
  | { readonly kind: "protect"; readonly changes: readonly ProtectionChange[] };

export interface ClusterVerdict {
  readonly guard: string;
  readonly sentence: string;
  readonly step: ClusterStep | undefined;
  readonly told: readonly GroupEvent[];
  /** The cluster is looked at again after this time, in milliseconds; undefined: when something is heard of it. */
  readonly requeueAfterMs: number | undefined;
}

/** No event tells of its volume claims and its pods. In milliseconds. */
const heldGroupsRequeueMs = 5_000;
/** So many ids the operator's own definition takes. */
const mostBlocks = 1_000;
const untilDuration = "what is held back, or protected and deleted, stays until it has one, or is recovered";
/** In a list of the operator it stands for all process groups. */
const everyGroup = "*";

/** Our finalizer comes first: what is deleted without it is lost, whatever else we wanted to do. */
export function decide(snapshot: RemovalsSnapshot): ClusterVerdict {
  const changes = snapshot.isProtectionRefused ? [] : protectionChanges(snapshot);
  if (changes.length > 0) return protect(snapshot, changes);
  const verdict = decideRemovals(snapshot);
  const told = [...tellOfOption(snapshot), ...tellOfSettings(snapshot), ...tellOfStrangers(snapshot)];
  const [first] = told;
  const isIdle = verdict.step === undefined && verdict.told.length === 0;
  const { guard, sentence } = (isIdle ? first : undefined) ?? verdict;
  return { ...verdict, guard, sentence, told: [...verdict.told, ...told] };
}

function protect({ cluster }: RemovalsSnapshot, changes: readonly ProtectionChange[]): ClusterVerdict {
  const [first] = changes.filter(({ protection }) => protection === "add");
  const step: ClusterStep = { kind: "protect", changes };
  const words =
    first === undefined
      ? {
          guard: "releasing",
          sentence: `volume claims of ${cluster?.name ?? "a cluster that is gone"} are not protected any more`,
        }
      : {
          guard: "protecting",
          sentence: `the volume claims of ${cluster?.name} get our finalizer, whatever becomes of them`,
        };
  return { ...words, step, told: [], requeueAfterMs: undefined };
}

function decideRemovals(snapshot: RemovalsSnapshot): ClusterVerdict {
  const { cluster } = snapshot;
  if (cluster === undefined) return decideGone(snapshot);
  const { name, held: record, duration } = cluster;
  if (record.kind === "malformed")
    return toldOf(name, wait("record-malformed", `nothing of ${name} changes: ${record.sentence}`));
  const held = valueIn(record) ?? {};
  const isHolding = Object.keys(held).length > 0;
  if (duration.kind === "absent" && !isHolding && !isProtecting(snapshot))
    return wait("done", `${name} asks for nothing`);
  if (cluster.isDeleting) {
    const sentence = `${name} is being deleted: only our finalizers keep volumes of it, those that are suspended for their time`;
    if (!isHolding && snapshot.pvcs.every((pvc) => !pvc.isProtected)) return wait("done", sentence);
    return toldOf(name, { ...wait("owner-deleting", sentence), step: sayKept(snapshot, "owner-deleting") });
  }
  return decideLiving(snapshot, cluster, held);
}

/** The cluster is gone, so that no object can say that the data is not needed. */
function decideGone(snapshot: RemovalsSnapshot): ClusterVerdict {
  const [first] = snapshot.pvcs.filter(isKept);
  if (first === undefined) return wait("done", "it is gone");
  return { ...wait("owner-gone", tellOfGone(first).sentence), step: sayKept(snapshot, "owner-gone") };
}

function sayKept({ pvcs }: RemovalsSnapshot, why: "owner-deleting" | "owner-gone"): ClusterStep | undefined {
  const changes = pvcs.filter(isKept).flatMap((pvc): AnnotationChange[] => {
    const annotations = messageOf(pvc, wordsOnKept(pvc.group, pvc, why));
    return Object.keys(annotations).length === 0 ? [] : [{ pvc, annotations }];
  });
  return changes.length === 0 ? undefined : { kind: "annotate", changes };
}

function decideLiving(snapshot: RemovalsSnapshot, cluster: FoundationCluster, held: HeldGroups): ClusterVerdict {
  const { nowMs, holds } = snapshot;
  const around: GroupConditions = {
    nowMs,
    durationMs: valueIn(cluster.duration),
    holds,
    unfound: whyUnfound(snapshot),
  };
  const cases = casesOf(snapshot, cluster, held);
  const judged = cases.flatMap((one): Decided[] => {
    const verdict = judge(one, around);
    return verdict === undefined ? [] : [{ one, verdict }];
  });
  const bounded = withinBounds(judged, cluster);
  const step = changeSpec(bounded, cluster, held, nowMs) ?? clearStatus(bounded) ?? annotate(cases, bounded, cluster);
  return conclude(cluster, bounded, step);
}

interface Decided {
  readonly one: Case;
  readonly verdict: GroupDecision;
}

function casesOf({ pvcs, pods }: RemovalsSnapshot, cluster: FoundationCluster, held: HeldGroups): readonly Case[] {
  const { groups, toRemove, toRemoveUnexcluded, blocked } = cluster;
  const own = pvcs.filter((pvc) => !isStranger(pvc, cluster));
  const pvcsOf = Map.groupBy(own, ({ group }) => group);
  // Of several the newest: it may have data that the others had not.
  const podOf = new Map(pods.toSorted((one, other) => one.createdMs - other.createdMs).map((pod) => [pod.group, pod]));
  const ids = new Set([...Object.keys(held), ...groups.keys(), ...pvcsOf.keys()]);
  return [...ids].sort().map((id) => ({
    id,
    group: groups.get(id),
    pvcs: pvcsOf.get(id) ?? [],
    pod: podOf.get(id),
    held: held[id],
    isBlocked: blocked.includes(id) || blocked.includes(everyGroup),
    isListed: toRemove.includes(id),
    isListedUnexcluded: toRemoveUnexcluded.includes(id),
  }));
}

/** The operator's list of blocks has an end: what does not fit waits, and says so. */
function withinBounds(judged: readonly Decided[], { blocked }: FoundationCluster): readonly Decided[] {
  let room = mostBlocks - blocked.length;
  return judged.map(({ one, verdict }) => {
    if (verdict.step !== "hold" || room-- > 0) return { one, verdict };
    const sentence = `${one.id} goes without being held back: spec.buggify.blockRemoval has ${mostBlocks} ids, and takes no more`;
    return { one, verdict: { guard: "block-list-full", sentence, isTold: true } };
  });
}

function changeSpec(
  judged: readonly Decided[],
  cluster: FoundationCluster,
  held: HeldGroups,
  nowMs: number,
): ClusterStep | undefined {
  const stepping = (...kinds: readonly GroupDecision["step"][]) =>
    judged.filter(({ verdict }) => kinds.includes(verdict.step));
  const kept = stepping("hold", "unlist");
  const lifted = stepping("let-go");
  if (kept.length + lifted.length === 0) return undefined;
  const goes = new Set(lifted.map(({ one }) => one.id));
  const back = new Set(stepping("unlist").map(({ one }) => one.id));
  const added = kept.filter(({ one }) => !one.isBlocked);
  const stays = (id: string) => !back.has(id);
  const record: Record<string, HeldGroup> = {};
  for (const [id, one] of Object.entries(held)) if (!goes.has(id)) record[id] = one;
  for (const { one } of kept) {
    const known = record[one.id] ?? { sinceMs: nowMs };
    record[one.id] = back.has(one.id) ? { ...known, recoveringMs: nowMs } : known;
  }
  return {
    kind: "change-spec",
    toRemove: cluster.toRemove.filter(stays),
    toRemoveUnexcluded: cluster.toRemoveUnexcluded.filter(stays),
    blocked: [...cluster.blocked.filter((id) => !goes.has(id)), ...added.map(({ one }) => one.id)],
    held: record,
    lifted: lifted.map(tellOf),
    added: added.map(tellOf),
  };
}

function clearStatus(judged: readonly Decided[]): ClusterStep | undefined {
  const ids = judged.filter(({ verdict }) => verdict.step === "clear").map(({ one }) => one.id);
  return ids.length === 0 ? undefined : { kind: "clear-status", ids };
}

function annotate(
  cases: readonly Case[],
  judged: readonly Decided[],
  cluster: FoundationCluster,
): ClusterStep | undefined {
  const verdicts = new Map(judged.map(({ one, verdict }) => [one.id, verdict]));
  const changes = cases.flatMap((one) => annotationChanges(one, verdicts.get(one.id), cluster));
  return changes.length === 0 ? undefined : { kind: "annotate", changes };
}

function conclude(
  { name, duration }: FoundationCluster,
  judged: readonly Decided[],
  step: ClusterStep | undefined,
): ClusterVerdict {
  const told = judged.filter(({ verdict }) => verdict.isTold).map(tellOf);
  const requeueAfterMs = judged.length === 0 ? undefined : heldGroupsRequeueMs;
  const [acting] = judged.filter(({ verdict }) => verdict.step !== undefined);
  if (step !== undefined) {
    const { guard, sentence } = acting?.verdict ?? {
      guard: "annotating",
      sentence: `the volume claims of ${name} say whose they are, and in which zone`,
    };
    return { guard, sentence, step, told, requeueAfterMs };
  }
  if (duration.kind !== "value") {
    const [guard, sentence] =
      duration.kind === "malformed"
        ? ["duration-malformed", `nothing of ${name} is held back anew: ${duration.sentence}`]
        : ["duration-missing", `${name} has no ${keys.suspendDuration.key}: ${untilDuration}`];
    return { ...wait(guard, sentence), told: [{ id: name, guard, sentence }, ...told], requeueAfterMs };
  }
  // What a user has to correct comes first.
  const [first] = [...judged].sort((a, b) => Number(b.verdict.isTold ?? false) - Number(a.verdict.isTold ?? false));
  const { guard, sentence } = first?.verdict ?? { guard: "done", sentence: `nothing of ${name} is to be removed` };
  return { guard, sentence, step: undefined, told, requeueAfterMs };
}

function tellOf({ one, verdict }: Decided): GroupEvent {
  return { id: one.id, guard: verdict.guard, sentence: verdict.sentence };
}

function wait(guard: string, sentence: string): ClusterVerdict {
  return { guard, sentence, step: undefined, told: [], requeueAfterMs: undefined };
}

/** One that is about the whole cluster. */
function toldOf(id: string, { guard, sentence, ...rest }: ClusterVerdict): ClusterVerdict {
  return { guard, sentence, ...rest, told: [{ id, guard, sentence }] };
}
