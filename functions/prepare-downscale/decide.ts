/** Whether a StatefulSet may be made smaller now: its own settings, and the other zones of its group. Pure. */

import { askAgain, badRequest, conflict } from "../shared/admission/answers.ts";
import type { Denied } from "../shared/admission/definition.ts";
import { isMalformed } from "../shared/annotations/parse-scaling.ts";
import { lastDownscale, minTimeBetweenZonesDownscale, unpreparedPods } from "../shared/annotations/scaling.ts";
import { lastDownscales } from "../shared/annotations/table.ts";
import { formatTime } from "../shared/clock/durations.ts";
import { type LedgerSurroundings, refuseClaim } from "../shared/groups/refuse-claim.ts";
import type { Zone } from "../shared/groups/zones.ts";
import type { Claim, ClaimContent, KnownClaim } from "../shared/ledger/claim.ts";
import type { Downscale, SizedObject } from "../shared/scaling/downscale-review.ts";
import { describeSizes, joinScaleDown, type SizeChange } from "../shared/scaling/size-changes.ts";
import { restAfter } from "../shared/scaling/wanted-replicas.ts";
import type { StatefulSet } from "../shared/workloads/statefulsets.ts";

/** The downscale that a review asks for. */
export type RequestedDownscale = Omit<Downscale, "isScale" | "old" | "object">;

/** When StatefulSets were last made smaller, by the API server's clock. Their own annotations may tell later times. */
export interface Times {
  readonly ledger: Readonly<Record<string, number>>;
  readonly isLedgerMalformed: boolean;
  /** When the ledger was made. It knows of no downscale before that. */
  readonly ledgerSinceMs: number;
  /** By the ConfigMap of rollout-operator; `malformed` for an entry that does not parse. */
  readonly tracker: ReadonlyMap<string, number | "malformed">;
}

export interface PreparedDownscale {
  readonly asked: RequestedDownscale;
  readonly nowMs: number;
  readonly around: LedgerSurroundings<StatefulSet>;
  readonly change: SizeChange;
  readonly content: ClaimContent;
  /** The claims of the zone that have not settled. Those of `ours` were made by a review of this function. */
  readonly ours: readonly Claim[];
  readonly foreign: readonly Claim[];
  readonly times: Times;
  /** The group has a name, so that the times and updates of its other zones count. */
  readonly isGrouped: boolean;
  /** Ordinals at which no pod stands, and which the StatefulSet does not release, such as `4,6-49`; empty if there is none. */
  readonly missing: string;
}

export type DownscaleDecision =
  | Denied
  /** The ledger has claims for this change already. Their stamps are renewed, and the change is allowed. */
  | { readonly kind: "joins"; readonly claims: readonly KnownClaim[] }
  /** The pods are told first. `besides`: the claims of other functions that the change joins. */
  | { readonly kind: "tells"; readonly besides: readonly KnownClaim[] };

export function decide(snapshot: PreparedDownscale): DownscaleDecision {
  const { asked, change, ours, foreign } = snapshot;
  const own = joinScaleDown(ours, change);
  const others = joinScaleDown(foreign, change);
  for (const joining of [others, own]) {
    if (joining.kind === "held") return askAgain(joining.guard, messageFor(asked, joining.message), asked.name);
  }
  const besides = others.kind === "joins" ? [others.claim] : [];
  if (own.kind === "joins") return { kind: "joins", claims: [own.claim, ...besides] };
  const refused = refuseByOthers(snapshot) ?? refuseByClaims(snapshot, besides) ?? refuseMissing(snapshot);
  return refused ?? { kind: "tells", besides };
}

/**
 * The refusal of a review about another StatefulSet of that name, or another size, than the stored one: its pods are not those
 * that leave. The API server asks again by itself if it had an older state. The message tells no uid, because a deletion may be
 * made on condition of one.
 */
export function refuseOutdated(
  asked: RequestedDownscale,
  reviewed: SizedObject | undefined,
  stored: StatefulSet,
): Denied | undefined {
  if (reviewed !== undefined && reviewed.metadata.uid !== stored.uid)
    return conflict("uid-conflict", messageFor(asked, "the StatefulSet of this name is another one now"));
  const start = reviewed?.start ?? stored.start;
  if (asked.from.replicas === stored.replicas && start === stored.start) return undefined;
  const is = `it has ${stored.replicas} replicas from ordinal ${stored.start} on now: read it again, and try again`;
  return conflict("size-conflict", messageFor(asked, is));
}

/** The message of every refusal: the object, the sizes, and the cause. */
export function messageFor({ resource, namespace, name, from, to }: RequestedDownscale, cause: string): string {
  return `downscale of ${resource}/${name} in ${namespace} ${describeSizes(from, to)} is not allowed: ${cause}`;
}

/** The refusal by another zone of the group: it was made smaller a short time ago, or it is being updated. */
function refuseByOthers(snapshot: PreparedDownscale): Denied | undefined {
  const { isGrouped, around, asked } = snapshot;
  if (!isGrouped) return undefined;
  const others = around.zones.filter(({ workload }) => workload.name !== asked.name);
  return (
    others.map((zone) => refuseByTime(snapshot, zone)).find((one) => one !== undefined) ??
    others.map((zone) => refuseByUpdate(asked, zone)).find((one) => one !== undefined)
  );
}

/** The label of the other zone says for how long, as in rollout-operator. Of several times of its downscale the newest counts. */
function refuseByTime({ asked, nowMs, times }: PreparedDownscale, { workload }: Zone): Denied | undefined {
  const { name, scaling, createdMs } = workload;
  if (scaling === undefined) return undefined;
  const { minTimeMs, lastDownscaleMs } = scaling;
  const isTimeMalformed = isMalformed(scaling, minTimeBetweenZonesDownscale);
  if (minTimeMs === undefined && !isTimeMalformed) return undefined;
  const tracked = times.tracker.get(name);
  const broken = [
    ...(isMalformed(scaling, lastDownscale) ? [`annotation ${lastDownscale.key} of ${name}`] : []),
    ...(tracked === "malformed" ? [`the entry of ${name} in the ConfigMap of rollout-operator`] : []),
    ...(times.isLedgerMalformed ? [`annotation ${lastDownscales.key} of the ledger`] : []),
  ];
  if (broken.length > 0)
    return badRequest("last-downscale-malformed", messageFor(asked, `${broken.join(" and ")} is no time: correct it`));
  const known = [lastDownscaleMs, tracked, times.ledger[name]].filter((ms) => typeof ms === "number");
  if (known.length === 0 && createdMs > times.ledgerSinceMs) return undefined;
  if (minTimeMs === undefined) {
    const what = `label ${minTimeBetweenZonesDownscale.key} of ${name} is no Go duration: write one such as 12h`;
    return badRequest("min-time-malformed", messageFor(asked, what));
  }
  const rest = restAfter(workload, known, times.ledgerSinceMs, nowMs);
  if (rest === undefined) return undefined;
  const wait = `the time between two zones is ${minTimeMs / 1000} s: try again after ${formatTime(rest.untilMs)}`;
  return askAgain("min-time-between-zones", messageFor(asked, `${rest.because}, and ${wait}`), name);
}

function refuseByUpdate(asked: RequestedDownscale, { workload, outdated }: Zone): Denied | undefined {
  const { name, updateRevision, countedReplicas, updatedReplicas } = workload;
  if (updateRevision !== undefined && outdated.length === 0 && countedReplicas === updatedReplicas) return undefined;
  return askAgain("zone-updating", messageFor(asked, describeUpdate(workload, outdated.length)), name);
}

/** The status counts a pod that is terminating, but not among the updated ones. */
function describeUpdate({ name, ...status }: Zone["workload"], outdated: number): string {
  const { updateRevision, countedReplicas, updatedReplicas } = status;
  if (updateRevision === undefined) return `the status of ${name} is behind its spec`;
  if (outdated > 0) return `${name} is being updated: ${outdated} of its pods are of an older revision`;
  const left = countedReplicas - updatedReplicas;
  return `by its status ${left} pods of ${name} are on their way out, or of an older revision`;
}

/**
 * The refusal where another zone is not whole, or another function has taken the pods. The number of pods that leave is not
 * limited, because the limit of a zone is for pods that come back. Claims that the change joins hold nothing back.
 */
function refuseByClaims(
  { asked, around, content }: PreparedDownscale,
  besides: readonly KnownClaim[],
): Denied | undefined {
  const isJoined = (claim: Claim) => besides.some(({ id }) => id === claim.id);
  const zones = around.zones.map((zone) =>
    zone.workload.name === asked.name ? { ...zone, claims: zone.claims.filter((claim) => !isJoined(claim)) } : zone,
  );
  const blocked = refuseClaim({ ...around, zones }, content, Number.POSITIVE_INFINITY);
  return blocked && askAgain(blocked.guard, messageFor(asked, blocked.message), asked.name);
}

function refuseMissing({ asked, missing }: PreparedDownscale): Denied | undefined {
  if (missing === "") return undefined;
  const what = `no pod stands at ${missing} of ${asked.name}, so that no pod can be told there: wait for it, or write these ordinals into the annotation ${unpreparedPods.key}`;
  return askAgain("pod-missing", messageFor(asked, what), asked.name);
}
