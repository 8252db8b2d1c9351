/** What is done next about the removals of a FoundationDBCluster: one write of it, or its volume claims (invariant B1). Pure. */
import { formatTime } from "../shared/objects/durations.ts";
import type { HeldGroup, HeldGroups } from "../shared/objects/vocabulary/foundationdb.ts";
import * as keys from "../shared/objects/vocabulary/suspension.ts";
import { meant } from "../shared/objects/volumes/volume-claim.ts";
import type { FoundationCluster, GroupClaim, GroupPod } from "./foundation-cluster.ts";
import { type Around, type Case, isDrained, type Judged, judge } from "./judge.ts";

export interface RemovalsSnapshot {
  /** The API server's clock, in milliseconds since the epoch. */
  readonly nowMs: number;
  /** Undefined where it is gone. */
  readonly cluster: FoundationCluster | undefined;
  /** All that are labelled as the cluster's, by consistent LISTs that came after it. */
  readonly claims: readonly GroupClaim[];
  readonly pods: readonly GroupPod[];
  readonly holds: boolean;
}

/** A process group of which something is said in an Event. */
export interface Told extends Pick<Judged, "guard" | "sentence"> {
  readonly id: string;
}

export type Step =
  /** What of the spec changes, and which blocks are ours then: one write. */
  | {
      readonly kind: "change-spec";
      readonly toRemove: readonly string[];
      readonly toRemoveUnexcluded: readonly string[];
      readonly blocked: readonly string[];
      readonly held: HeldGroups;
      readonly lifted: readonly Told[];
      readonly added: readonly Told[];
    }
  /** Nothing of a removal stays in the status of these process groups. */
  | { readonly kind: "clear-status"; readonly ids: readonly string[] }
  /** By key; null takes one away. */
  | { readonly kind: "annotate"; readonly changes: readonly ClaimChange[] };

export interface ClaimChange {
  readonly claim: GroupClaim;
  readonly annotations: Readonly<Record<string, string | null>>;
}

export interface Verdict {
  readonly guard: string;
  readonly sentence: string;
  readonly step: Step | undefined;
  readonly told: readonly Told[];
  /** The cluster is looked at again after this time, in milliseconds; undefined: when something is heard of it. */
  readonly recheckMs: number | undefined;
}

/** No event tells of its volume claims and its pods. In milliseconds. */
const lookAgainMs = 5_000;
/** So many ids the operator's own definition takes. */
const mostBlocks = 1_000;
/** In a list of the operator it stands for all process groups. */
const everyGroup = "*";
const groupKind = "FoundationDBCluster.apps.foundationdb.org";

export function decide(snapshot: RemovalsSnapshot): Verdict {
  const { cluster } = snapshot;
  if (cluster === undefined) return wait("done", "it is gone");
  const { name, held: record, duration } = cluster;
  if (record.kind === "malformed")
    return toldOf(name, wait("record-malformed", `nothing of ${name} changes: ${record.sentence}`));
  const held = meant(record) ?? {};
  const isHolding = Object.keys(held).length > 0;
  if (duration.kind === "absent" && !isHolding) return wait("done", `${name} asks for nothing`);
  if (cluster.isDeleting) {
    const sentence = `${name} is being deleted: only our finalizers keep volumes of it, each for its time`;
    return isHolding ? toldOf(name, wait("owner-deleting", sentence)) : wait("done", sentence);
  }
  return decideLiving(snapshot, cluster, held);
}

function decideLiving(snapshot: RemovalsSnapshot, cluster: FoundationCluster, held: HeldGroups): Verdict {
  const { nowMs, holds } = snapshot;
  const around: Around = { nowMs, durationMs: meant(cluster.duration), holds };
  const cases = casesOf(snapshot, cluster, held);
  const judged = cases.flatMap((one): Looked[] => {
    const verdict = judge(one, around);
    return verdict === undefined ? [] : [{ one, verdict }];
  });
  const bounded = withinBounds(judged, cluster);
  const step = changeSpec(bounded, cluster, held, nowMs) ?? clearStatus(bounded) ?? annotate(cases, bounded, cluster);
  return conclude(cluster, bounded, step);
}

interface Looked {
  readonly one: Case;
  readonly verdict: Judged;
}

function casesOf({ claims, pods }: RemovalsSnapshot, cluster: FoundationCluster, held: HeldGroups): readonly Case[] {
  const { groups, toRemove, toRemoveUnexcluded, blocked } = cluster;
  const claimsOf = Map.groupBy(claims, ({ group }) => group);
  // Of several the newest: it may have data that the others had not.
  const podOf = new Map(pods.toSorted((one, other) => one.createdMs - other.createdMs).map((pod) => [pod.group, pod]));
  const ids = new Set([...Object.keys(held), ...groups.keys(), ...claimsOf.keys()]);
  return [...ids].sort().map((id) => ({
    id,
    group: groups.get(id),
    claims: claimsOf.get(id) ?? [],
    pod: podOf.get(id),
    held: held[id],
    isBlocked: blocked.includes(id) || blocked.includes(everyGroup),
    isListed: toRemove.includes(id),
    isListedUnexcluded: toRemoveUnexcluded.includes(id),
  }));
}

/** The operator's list of blocks has an end: what does not fit waits, and says so. */
function withinBounds(judged: readonly Looked[], { blocked }: FoundationCluster): readonly Looked[] {
  let room = mostBlocks - blocked.length;
  return judged.map(({ one, verdict }) => {
    if (verdict.step !== "hold" || room-- > 0) return { one, verdict };
    const sentence = `${one.id} goes without being held back: spec.buggify.blockRemoval has ${mostBlocks} ids, and takes no more`;
    return { one, verdict: { guard: "block-list-full", sentence, isTold: true } };
  });
}

function changeSpec(
  judged: readonly Looked[],
  cluster: FoundationCluster,
  held: HeldGroups,
  nowMs: number,
): Step | undefined {
  const stepping = (...kinds: readonly Judged["step"][]) =>
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

function clearStatus(judged: readonly Looked[]): Step | undefined {
  const ids = judged.filter(({ verdict }) => verdict.step === "clear").map(({ one }) => one.id);
  return ids.length === 0 ? undefined : { kind: "clear-status", ids };
}

/** Every volume claim says whose it is and how volumes go, and those of a removal that they are to be suspended. */
function annotate(cases: readonly Case[], judged: readonly Looked[], cluster: FoundationCluster): Step | undefined {
  const verdicts = new Map(judged.map(({ one, verdict }) => [one.id, verdict]));
  const changes = cases.flatMap((one) =>
    one.claims.flatMap((claim): ClaimChange[] => {
      if (claim.isTerminating || meant(claim.state) === "Removing") return [];
      const wanted = { ...wordsOf(one, claim, cluster), ...requestOf(one, claim, verdicts.get(one.id)) };
      const news = Object.entries(wanted).filter(([key, text]) => (claim.annotations[key] ?? null) !== text);
      return news.length === 0 ? [] : [{ claim, annotations: Object.fromEntries(news) }];
    }),
  );
  return changes.length === 0 ? undefined : { kind: "annotate", changes };
}

/** Where the cluster does not say any more for how long, those that are held stay so, and no volume of them goes. */
function wordsOf(
  { group, held, pod }: Case,
  claim: GroupClaim,
  cluster: FoundationCluster,
): ClaimChange["annotations"] {
  const { name, duration, policy } = cluster;
  if (duration.kind === "absent") return held === undefined ? {} : policy;
  // Its data is elsewhere and its pod is gone, by somebody else's hand: nobody waits for it as for a missing pod.
  const isRetired = held === undefined && pod === undefined && group?.isMarked && group.excludedMs !== undefined;
  if (isRetired && claim.state.kind === "absent") return { [keys.volumeOwner.key]: null, [keys.volumeZone.key]: null };
  const zone = group?.faultDomain;
  // While it is suspended its zone stays as it is: the operator may forget where its pod was.
  const isKnown = zone !== undefined && keys.volumeZone.parse(zone) !== undefined && claim.state.kind === "absent";
  return {
    ...policy,
    [keys.volumeOwner.key]: `${groupKind}/${name}`,
    ...(isKnown ? { [keys.volumeZone.key]: zone } : {}),
  };
}

function requestOf(one: Case, claim: GroupClaim, verdict: Judged | undefined): Record<string, string | null> {
  const { held, group } = one;
  const free = { [keys.removalHeld.key]: null };
  if (verdict?.step === "withdraw") return { ...free, [keys.suspendRequest.key]: null, [keys.drainedAt.key]: null };
  // From now on whoever fulfils the wish may take it away: it is on record here.
  if (held === undefined || held.recoveringMs !== undefined || verdict?.guard === "withdrawn") return free;
  // A user's own word stays.
  const request = {
    [keys.removalHeld.key]: "true",
    ...(claim.request.kind === "absent" ? { [keys.suspendRequest.key]: "true" } : {}),
  };
  if (!isDrained(one)) return { ...request, [keys.drainedAt.key]: null };
  const since = formatTime(group?.excludedMs ?? 0);
  return claim.drainedMs === undefined ? { ...request, [keys.drainedAt.key]: since } : request;
}

function conclude(cluster: FoundationCluster, judged: readonly Looked[], step: Step | undefined): Verdict {
  const { name, duration } = cluster;
  const told = judged.filter(({ verdict }) => verdict.isTold).map(tellOf);
  const recheckMs = judged.length === 0 ? undefined : lookAgainMs;
  const [acting] = judged.filter(({ verdict }) => verdict.step !== undefined);
  if (step !== undefined) {
    const { guard, sentence } = acting?.verdict ?? {
      guard: "annotating",
      sentence: `the volume claims of ${name} say whose they are, and in which zone`,
    };
    return { guard, sentence, step, told, recheckMs };
  }
  const wrong = duration.kind === "malformed" ? duration.sentence : undefined;
  if (wrong !== undefined)
    return { ...toldOf(name, wait("duration-malformed", `nothing of ${name} is held back anew: ${wrong}`)), recheckMs };
  if (duration.kind === "absent") {
    const sentence = `${name} has no ${keys.suspendDuration.key} any more: what is held back stays until it has one again, or is recovered`;
    return { ...toldOf(name, wait("duration-missing", sentence)), recheckMs };
  }
  // What somebody has to mend comes first.
  const [first] = [...judged].sort((a, b) => Number(b.verdict.isTold ?? false) - Number(a.verdict.isTold ?? false));
  const { guard, sentence } = first?.verdict ?? { guard: "done", sentence: `nothing of ${name} is to be removed` };
  return { guard, sentence, step: undefined, told, recheckMs };
}

function tellOf({ one, verdict }: Looked): Told {
  return { id: one.id, guard: verdict.guard, sentence: verdict.sentence };
}

function wait(guard: string, sentence: string): Verdict {
  return { guard, sentence, step: undefined, told: [], recheckMs: undefined };
}

/** One that is about the whole cluster. */
function toldOf(id: string, { guard, sentence, ...rest }: Verdict): Verdict {
  return { guard, sentence, ...rest, told: [{ id, guard, sentence }] };
}
