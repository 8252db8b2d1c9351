/** What the volume claims of a process group are to say of themselves. Pure. */

import * as keys from "../shared/annotations/suspension.ts";
import { formatTime } from "../shared/clock/durations.ts";
import { meant } from "../shared/volumes/pvc.ts";
import { type Case, type GroupDecision, isDrained, keptSinceMs } from "./decide-group.ts";
import { isKept, isKeptBecause, messageOf } from "./decide-protection.ts";
import type { FoundationCluster, GroupClaim } from "./foundation-cluster.ts";

/** What volume claims say by our hand. */
export const claimWords = [
  keys.suspendDuration,
  keys.removalMode,
  keys.waitBetweenRemovals,
  keys.volumeOwner,
  keys.volumeZone,
  keys.removalHeld,
  keys.suspendRequest,
  keys.drainedAt,
  keys.suspendMessage,
  keys.protectedVolume,
] as const;

/** By key; null takes one away. */
type Texts = Readonly<Record<string, string | null>>;

export interface AnnotationChange {
  readonly claim: GroupClaim;
  readonly annotations: Texts;
}

const groupKind = "FoundationDBCluster.apps.foundationdb.org";

/** Each says whose it is and how volumes go, and those of a removal that they are to be suspended. */
export function annotationChanges(
  one: Case,
  verdict: GroupDecision | undefined,
  cluster: FoundationCluster,
): readonly AnnotationChange[] {
  return one.claims.flatMap((claim): AnnotationChange[] => {
    const why = verdict !== undefined && isKept(claim) && isKeptBecause(verdict.guard) ? messageOf(claim, verdict) : {};
    const wanted = isOver(claim)
      ? paceOf(claim, cluster)
      : { ...wordsOf(one, claim, cluster), ...requestOf(one, claim, verdict), ...why };
    const news = Object.entries(wanted).filter(([key, text]) => (claim.annotations[key] ?? null) !== text);
    return news.length === 0 ? [] : [{ claim, annotations: Object.fromEntries(news) }];
  });
}

function isOver(claim: GroupClaim): boolean {
  return (claim.isTerminating && !isKept(claim)) || meant(claim.state) === "Removing";
}

/** All of its group obey the strictest word: one that is on its way out must not say for ever what the cluster said once. */
function paceOf({ owned }: GroupClaim, { policy }: FoundationCluster): Texts {
  if (owned === undefined) return {};
  const pace = [keys.removalMode.key, keys.waitBetweenRemovals.key];
  return Object.fromEntries(pace.map((key) => [key, policy[key] ?? null]));
}

/** Where the cluster does not say any more for how long, those that are held stay so, and no volume of them goes. */
function wordsOf({ group, held, pod }: Case, claim: GroupClaim, cluster: FoundationCluster): Texts {
  const { name, duration, policy } = cluster;
  if (duration.kind === "absent" && !claim.isProtected) return held === undefined ? {} : policy;
  // Its data is elsewhere and its pod is gone, by somebody else's hand: nobody waits for it as for a missing pod.
  const isRetired = held === undefined && pod === undefined && group?.isMarked && group.excludedMs !== undefined;
  if (isRetired && claim.state.kind === "absent" && !isKept(claim))
    return { [keys.volumeOwner.key]: null, [keys.volumeZone.key]: null };
  const zone = group?.faultDomain;
  // While it is suspended its zone stays as it is: the operator may forget where its pod was.
  const isKnown = zone !== undefined && keys.volumeZone.parse(zone) !== undefined && claim.state.kind === "absent";
  return {
    ...policy,
    [keys.volumeOwner.key]: `${groupKind}/${name}`,
    ...(isKnown ? { [keys.volumeZone.key]: zone } : {}),
  };
}

function requestOf(one: Case, claim: GroupClaim, verdict: GroupDecision | undefined): Texts {
  const { held, group } = one;
  const free = { [keys.removalHeld.key]: null };
  if (isKept(claim)) return { ...free, ...keptRequest(one, claim) };
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

/** Its time runs as that of any other, once its pod is gone; a user's own word stays. */
function keptRequest(one: Case, claim: GroupClaim): Texts {
  const sinceMs = keptSinceMs(one);
  if (sinceMs === undefined) return { [keys.drainedAt.key]: null };
  return {
    ...(claim.drainedMs === undefined ? { [keys.drainedAt.key]: formatTime(sinceMs) } : {}),
    ...(claim.request.kind === "absent" ? { [keys.suspendRequest.key]: "true" } : {}),
  };
}
