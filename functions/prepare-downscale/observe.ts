/** What a downscale is decided by: its StatefulSet, the ledger, the pods that would leave, and the times of other zones. */

import { badRequest, conflict } from "../shared/admission/answers.ts";
import type { Denied } from "../shared/admission/definition.ts";
import { isObjectName } from "../shared/base/dns-names.ts";
import { fieldsOf } from "../shared/base/fields.ts";
import { setting, valuesOf } from "../shared/base/settings.ts";
import { parseTime } from "../shared/clock/durations.ts";
import type { Context } from "../shared/contract/context.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import { isNewEvent, recordEvent } from "../shared/events/recorder.ts";
import { selects } from "../shared/groups/governing.ts";
import { ofStatefulSets } from "../shared/groups/zones.ts";
import { type Cluster, type ClusterError, hasCode, lackOf } from "../shared/kubernetes/cluster.ts";
import {
  type ClaimContent,
  formatMembers,
  type KnownClaim,
  makeClaim,
  namesOrdinal,
  type OrdinalRange,
} from "../shared/ledger/claim.ts";
import { type ClaimedObjects, kinds } from "../shared/ledger/claim-kinds.ts";
import type { Downscale } from "../shared/scaling/downscale-review.ts";
import { isPrepared, podsToNotify, preparedId } from "../shared/scaling/prepared.ts";
import { leavingOrdinals, type SizeChange, scaleDownPhases } from "../shared/scaling/size-changes.ts";
import { readClaimedObjects } from "../shared/transaction/claimed-objects.ts";
import { timesAfter } from "../shared/transaction/claims.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import { groupKeyOf } from "../shared/workloads/group-key.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import { type GroupKey, parseStatefulSet, type StatefulSet } from "../shared/workloads/statefulsets.ts";
import { messageFor, type PreparedDownscale, type RequestedDownscale, type Times } from "./decide.ts";

export const name = "prepare-downscale";
/** The ConfigMap in which rollout-operator keeps the times of downscales with `-use-zone-tracker`, by default. */
export const usualTrackerName = "rollout-operator-zone-tracker";
export const settings = {
  zoneTrackerName: setting<string>({
    name: "ZONE_TRACKER_NAME",
    fallback: usualTrackerName,
    meaning: "ConfigMap of rollout-operator whose times of downscales are read; in the namespace of the StatefulSet",
    grammar: "the name of a ConfigMap",
    parse: (text) => (isObjectName(text) ? text : undefined),
  }),
};

/**
 * The stored StatefulSet. It alone says which pods are told, and where, because any client in the network may post a review.
 * Throws ClusterError.
 */
export async function readStatefulSet(cluster: Cluster, { namespace, name: set }: Downscale): Promise<StatefulSet> {
  return parseStatefulSet(await cluster.get("statefulsets", { namespace, name: set }));
}

/** Whose ledger the claim is written to (rule R1). Throws ClusterError. */
export async function readKey(
  { cache }: Context,
  asked: RequestedDownscale,
  stored: StatefulSet,
): Promise<GroupKey | Denied> {
  const { namespace, group, podLabels } = stored;
  if (group !== undefined) return groupKeyOf(stored);
  const budgets = (await cache.budgets(namespace)).filter((one) => selects(one, podLabels));
  const names = budgets.map((one) => one.name);
  if (names.length > 1) {
    const cause = `the budgets ${names.join(" and ")} all select its pods, and only one may: change the selector of one of them`;
    return badRequest("several-budgets", messageFor(asked, cause));
  }
  return groupKeyOf(stored, names[0]);
}

/** What a downscale is decided by, and what its claim is made of. */
export interface DownscaleObservation {
  readonly snapshot: PreparedDownscale;
  /** The claims of this function that are over, on any zone of the group: the next write takes them out. */
  readonly settled: readonly KnownClaim[];
  /** The pods that must be told, highest ordinal first. */
  readonly toNotify: readonly Pod[];
  readonly where: ClaimedObjects;
  /** Messages about what could not be read, and does not hold the change back. */
  readonly warnings: readonly string[];
}

/** Reads the pods and the StatefulSet by GETs, after the ledger (rule R21). Throws ClusterError. */
export async function observe(
  context: Context,
  observed: GroupObservation,
  asked: RequestedDownscale,
  statefulSet: StatefulSet,
): Promise<DownscaleObservation | Denied> {
  const { cluster } = context;
  const { ledger, zones, departed, strayClaims } = observed;
  const content = contentOf(asked, statefulSet, observed);
  const [where, tracker, settled] = await Promise.all([
    readClaimedObjects(cluster, asked.namespace, makeClaim(content)),
    readTracker(context, observed.ledger.key, statefulSet),
    findSettled(cluster, observed, asked),
  ]);
  if (where.statefulSet?.uid !== statefulSet.uid)
    return conflict("uid-conflict", messageFor(asked, "it was deleted, or made again, while this was decided"));
  const ofZone = ledger.claims.filter(({ zone }) => zone === asked.name);
  const isOpen = (claim: { readonly id: string }) => !settled.some(({ id }) => id === claim.id);
  const pods = [...where.pods.values()].sort((one, other) => other.ordinal - one.ordinal);
  const released = statefulSet.scaling?.unprepared ?? [];
  const snapshot: PreparedDownscale = {
    asked,
    nowMs: cluster.serverTimeMs(),
    around: {
      zones: ofStatefulSets(zones).map((zone) => ({ ...zone, claims: zone.claims.filter(isOpen) })),
      departed,
      strayClaims: strayClaims.filter(isOpen),
    },
    change: { ...changeOf(asked, statefulSet), pods: new Map(pods.map((pod) => [pod.name, pod.uid])) },
    content,
    ours: ofZone.filter((claim) => isPrepared(claim) && isOpen(claim)),
    foreign: ofZone.filter((claim) => !isPrepared(claim)),
    times: {
      ledger: timesAfter(observed, settled).lastDownscales ?? ledger.lastDownscales ?? {},
      isLedgerMalformed: ledger.hasMalformedTimes === true,
      ledgerSinceMs: Number.isNaN(ledger.createdMs) ? cluster.serverTimeMs() : ledger.createdMs,
      tracker: tracker.times,
    },
    // As in rollout-operator, an empty name counts as none.
    isGrouped: (statefulSet.group ?? "") !== "",
    missing: formatMembers(
      gapsIn(content.members, [...pods.map(({ ordinal }) => ({ first: ordinal, last: ordinal })), ...released]),
    ),
  };
  return { snapshot, settled, toNotify: podsToNotify(pods, statefulSet), where, warnings: tracker.warnings };
}

/** The change in the form in which claims are compared with it. The caller adds the `pods`. */
export function changeOf({ name: zone, from, to }: RequestedDownscale, { uid }: StatefulSet): Omit<SizeChange, "pods"> {
  return { zone, uid, from, to };
}

function contentOf(
  { name: zone, from, to }: RequestedDownscale,
  { uid }: StatefulSet,
  { ledger, nowMs }: GroupObservation,
): ClaimContent {
  return {
    // A zone has at most one claim from each revision of the ledger, because a write makes another revision.
    id: preparedId(`${zone.slice(0, 150)}-${ledger.resourceVersion}`),
    kind: "scale-down",
    zone,
    members: leavingOrdinals(from, to),
    uids: { [zone]: uid },
    by: name,
    stampMs: nowMs,
    phase: scaleDownPhases.preparing,
    terms: "asked",
  };
}

/**
 * Claims of this function whose pods are gone and are not wanted any more. The next write ends them, so that this review need not
 * wait for release-prepared. A claim on another zone costs no read while the view still has one of its pods.
 */
async function findSettled(
  cluster: Cluster,
  { ledger, zones }: GroupObservation,
  { namespace, name: own }: RequestedDownscale,
): Promise<readonly KnownClaim[]> {
  const stands = (claim: KnownClaim) =>
    zones.some(
      ({ workload, pods }) => workload.name === claim.zone && pods.some(({ ordinal }) => namesOrdinal(claim, ordinal)),
    );
  const asked = ledger.claims.filter(isPrepared).filter((claim) => claim.zone === own || !stands(claim));
  const found = asked.map(async (claim) => {
    const where = await readClaimedObjects(cluster, namespace, claim);
    return kinds[claim.kind].isSettled(claim, where, cluster.serverTimeMs()) ? [claim] : [];
  });
  return (await Promise.all(found)).flat();
}

/** The parts of `ranges` that `covering` leaves out. It lists no single ordinal, because a user may ask for 2^31 replicas. */
function gapsIn(ranges: readonly OrdinalRange[], covering: readonly OrdinalRange[]): readonly OrdinalRange[] {
  const inOrder = covering.toSorted((one, other) => one.first - other.first);
  return ranges.flatMap((range) => {
    const gaps: OrdinalRange[] = [];
    let next = range.first;
    for (const { first, last } of inOrder) {
      if (first > range.last || last < next) continue;
      if (first > next) gaps.push({ first: next, last: first - 1 });
      next = last + 1;
    }
    return next <= range.last ? [...gaps, { first: next, last: range.last }] : gaps;
  });
}

/**
 * The times of rollout-operator's zone tracker, by StatefulSet. Without the right to read the ConfigMap there are none, and a
 * warning names the right: that is no reason to refuse every downscale. Where no other record has a time, the ledger's age
 * counts. Throws ClusterError.
 */
async function readTracker(
  context: Context,
  key: GroupKey,
  statefulSet: StatefulSet,
): Promise<{ readonly times: Times["tracker"]; readonly warnings: readonly string[] }> {
  const { cluster } = context;
  const at = { namespace: key.namespace, name: valuesOf(settings, context.settings).zoneTrackerName };
  try {
    const { data = {} } = await cluster.get("configmaps", at);
    const entries = Object.entries(data).map(([set, text]) => [set, parseEntry(text) ?? "malformed"] as const);
    return { times: new Map(entries), warnings: [] };
  } catch (error) {
    if (!hasCode(error, 403, 404)) throw error;
    const warning = `the ConfigMap ${at.name}, by which rollout-operator keeps time between zones, counts as absent: ${lackOf(error)}`;
    if (error.code === 404) return { times: new Map(), warnings: [] };
    warnOnce(context, key, statefulSet, warning, error);
    return { times: new Map(), warnings: [warning] };
  }
}

/** One log line and one Event for each group: an autoscaler shows its user no warning of an answer, and asks again and again. */
function warnOnce(context: Context, key: GroupKey, about: StatefulSet, message: string, error: ClusterError): void {
  const identity = `${eventReasons.forbidden} ${message}`;
  if (!isNewEvent(context, key, identity)) return;
  context.reporter.problem(key, name, message, error);
  if (context.mode === "shadow") return;
  const event = { type: "Warning", reason: eventReasons.forbidden, message, identity } as const;
  void recordEvent(context, name, key, { about: { resource: "statefulsets", ...about }, ...event });
}

/** The time in `{"lastDownscaled": "2026-01-31T12:00:00Z"}`. Upper and lower case of the field's name do not count, as in Go. */
function parseEntry(text: string): number | undefined {
  try {
    const entries = Object.entries(fieldsOf(JSON.parse(text)) ?? {});
    const [, time] = entries.find(([field]) => field.toLowerCase() === "lastdownscaled") ?? [];
    return typeof time === "string" ? parseTime(time) : undefined;
  } catch {
    return undefined;
  }
}
