/** The annotations that the volume claims of a process group get, and why some claims may not be found. Pure. */

import * as keys from "../shared/annotations/suspension.ts";
import { formatTime } from "../shared/clock/durations.ts";
import { valueIn } from "../shared/volumes/pvc.ts";
import { type Case, type GroupDecision, isDrained, keptSinceMs } from "./decide-group.ts";
import { isKept, isKeptBecause, messageOf, type ProtectionSnapshot } from "./decide-protection.ts";
import type { FoundationCluster, ProcessGroupPvc } from "./foundation-cluster.ts";

/** The annotations that Sluice writes on volume claims. */
export const pvcAnnotations = [
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

/** By key; null removes an annotation. */
type Texts = Readonly<Record<string, string | null>>;

export interface AnnotationChange {
  readonly pvc: ProcessGroupPvc;
  readonly annotations: Texts;
}

const groupKind = "FoundationDBCluster.apps.foundationdb.org";

/** Each claim gets its owner and its removal policy. Claims of a removal also get the request to suspend them. */
export function annotationChanges(
  one: Case,
  verdict: GroupDecision | undefined,
  cluster: FoundationCluster,
): readonly AnnotationChange[] {
  return one.pvcs.flatMap((pvc): AnnotationChange[] => {
    const why = verdict !== undefined && isKept(pvc) && isKeptBecause(verdict.guard) ? messageOf(pvc, verdict) : {};
    const wanted = isOver(pvc)
      ? removalTextsOf(pvc, cluster)
      : { ...textsOf(one, pvc, cluster), ...requestOf(one, pvc, verdict), ...why };
    const news = Object.entries(wanted).filter(([key, text]) => (pvc.annotations[key] ?? null) !== text);
    return news.length === 0 ? [] : [{ pvc, annotations: Object.fromEntries(news) }];
  });
}

function isOver(pvc: ProcessGroupPvc): boolean {
  return (pvc.isTerminating && !isKept(pvc)) || valueIn(pvc.state) === "Removing";
}

/** The strictest setting counts for the whole group, so that no claim keeps for ever what its cluster once asked for. */
function removalTextsOf({ owned }: ProcessGroupPvc, { policy }: FoundationCluster): Texts {
  if (owned === undefined) return {};
  const removalKeys = [keys.removalMode.key, keys.waitBetweenRemovals.key];
  return Object.fromEntries(removalKeys.map((key) => [key, policy[key] ?? null]));
}

/** If the cluster has no duration any more, blocked claims stay blocked, and no volume of them goes. */
function textsOf({ group, heldGroup, pod }: Case, pvc: ProcessGroupPvc, cluster: FoundationCluster): Texts {
  const { name, duration, policy } = cluster;
  if (duration.kind === "absent" && !pvc.isProtected) return heldGroup === undefined ? {} : policy;
  // Its data is elsewhere, and another client took its pod, so that no function waits for it as for a missing pod.
  const isRetired = heldGroup === undefined && pod === undefined && group?.isMarked && group.excludedMs !== undefined;
  if (isRetired && pvc.state.kind === "absent" && !isKept(pvc))
    return { [keys.volumeOwner.key]: null, [keys.volumeZone.key]: null };
  const zone = group?.faultDomain;
  // While it is suspended its zone stays as it is, because the operator may forget where its pod was.
  const isKnown = zone !== undefined && keys.volumeZone.parse(zone) !== undefined && pvc.state.kind === "absent";
  return {
    ...policy,
    [keys.volumeOwner.key]: `${groupKind}/${name}`,
    ...(isKnown ? { [keys.volumeZone.key]: zone } : {}),
  };
}

function requestOf(one: Case, pvc: ProcessGroupPvc, verdict: GroupDecision | undefined): Texts {
  const { heldGroup, group } = one;
  const free = { [keys.removalHeld.key]: null };
  if (isKept(pvc)) return { ...free, ...keptRequest(one, pvc) };
  if (verdict?.step === "withdraw") return { ...free, [keys.suspendRequest.key]: null, [keys.drainedAt.key]: null };
  // From now on the request is recorded here, and the function that fulfils it may remove it.
  if (heldGroup === undefined || heldGroup.recoveringMs !== undefined || verdict?.guard === "withdrawn") return free;
  // A user's annotation stays.
  const request = {
    [keys.removalHeld.key]: "true",
    ...(pvc.request.kind === "absent" ? { [keys.suspendRequest.key]: "true" } : {}),
  };
  if (!isDrained(one)) return { ...request, [keys.drainedAt.key]: null };
  const since = formatTime(group?.excludedMs ?? 0);
  return pvc.drainedMs === undefined ? { ...request, [keys.drainedAt.key]: since } : request;
}

/** Its time runs like that of any other claim once its pod is gone. A user's annotation stays. */
function keptRequest(one: Case, pvc: ProcessGroupPvc): Texts {
  const sinceMs = keptSinceMs(one);
  if (sinceMs === undefined) return { [keys.drainedAt.key]: null };
  return {
    ...(pvc.drainedMs === undefined ? { [keys.drainedAt.key]: formatTime(sinceMs) } : {}),
    ...(pvc.request.kind === "absent" ? { [keys.suspendRequest.key]: "true" } : {}),
  };
}

/** The most volume claims that a message names. */
const mostNamed = 5;

/**
 * Why a volume may exist that was not found. Undefined if every volume claim of the cluster was found, and a label names the
 * process group of each.
 */
export function whyUnfound({ cluster, unplaced }: ProtectionSnapshot): string | undefined {
  if (cluster === undefined) return undefined;
  const { name, marks } = cluster;
  const waits = "until then no process group without a volume claim goes";
  if (marks.unreadable !== undefined)
    return `${marks.unreadable}, so that volume claims of ${name} may not be found: correct it; ${waits}`;
  if (unplaced.length === 0) return undefined;
  const names = unplaced.map((pvc) => pvc.name).sort();
  const more = names.length > mostNamed ? ` and ${names.length - mostNamed} more` : "";
  const labels = marks.idLabels.join(" nor ");
  return `no label says of which process group of ${name} these volume claims are: ${names.slice(0, mostNamed).join(", ")}${more}; each has neither ${labels}: give each the label ${marks.idLabels[0]} with the id of its process group; ${waits}`;
}
