/** The common parts of functions that change sizes: their rights, the change itself, and their memory of refusals. */

import { getStatefulSet } from "../cache/listing.ts";
import type { Context } from "../contract/context.ts";
import type { Need } from "../contract/definition.ts";
import { refusedRequeueMs } from "../contract/verdict.ts";
import { apiMessage, ClusterError, isRefused } from "../kubernetes/cluster.ts";
import type { KnownClaim } from "../ledger/claim.ts";
import type { ClaimedObjects } from "../ledger/claim-kinds.ts";
import { type ClaimEnd, findEnd, isWithdrawn, noteWithdrawn } from "../transaction/claims.ts";
import { ledgerNeeds } from "../transaction/ledger-copy.ts";
import { type GroupKey, isWanted, type StatefulSet } from "../workloads/statefulsets.ts";

/** The rights of a function that changes sizes by a ledger. */
export const resizingNeeds: readonly Need[] = [
  { group: "apps", resource: "statefulsets", verbs: ["get", "list", "watch", "patch"], changes: ["spec.replicas"] },
  { group: "", resource: "pods", verbs: ["get", "list", "watch"] },
  { group: "rollout-operator.grafana.com", resource: "zoneawarepoddisruptionbudgets", verbs: ["list", "watch"] },
  ...ledgerNeeds,
];

/** Recent refusals of the API server, by the uid of the zone. */
export function refusedSizes(context: Context, key: GroupKey): ReadonlyMap<string, string> {
  const { refusedSizes: refused } = context.memoryOf(key);
  const nowMs = context.cluster.monotonicMs();
  for (const [uid, { untilMs }] of refused) if (untilMs <= nowMs) refused.delete(uid);
  return new Map([...refused].map(([uid, { message }]) => [uid, message]));
}

/** Remembers that a size was not changed to `target` replicas, with the claim that was written for it, if one was. */
export function noteRefusal(
  context: Context,
  key: GroupKey,
  {
    statefulSet,
    target,
    claim,
  }: { statefulSet: StatefulSet; target: number; claim: { readonly id: string } | undefined },
  error: ClusterError,
): void {
  // A repeated try may still be carried out: then only rule R20 ends the claim.
  if (claim !== undefined && isOver(error)) noteWithdrawn(context, key, claim.id);
  if (error.code !== 409)
    noteRefused(context, key, statefulSet.uid, `${statefulSet.name} go to ${target} replicas`, error);
}

/** True for a refusal of the only attempt, of which nothing is under way. */
export function isOver(error: unknown): boolean {
  return error instanceof ClusterError && error.attempts === 1 && isRefused(error);
}

/** Remembers what the API server has not let a zone do, by the zone's uid; `wish` follows "does not let". */
export function noteRefused(context: Context, key: GroupKey, uid: string, wish: string, error: ClusterError): void {
  const message = `the API server does not let ${wish}: ${apiMessage(error)}`;
  context.memoryOf(key).refusedSizes.set(uid, { message, untilMs: context.cluster.monotonicMs() + refusedRequeueMs });
}

export type ScaleDownEnd = ClaimEnd | { readonly kind: "withdrawn" };

/**
 * What becomes of a scale-down, `withdrawn`: this process knows that it did nothing under it, and no other client takes its
 * pods. Where another client has made the zone smaller in the same moment, they leave all the same: it stands until they are
 * gone, or are wanted again. The ledger must have been read before (rule R21). Throws ClusterError.
 */
export async function endOfScaleDown(context: Context, key: GroupKey, claim: KnownClaim): Promise<ScaleDownEnd> {
  const end = await findEnd(context, key, claim);
  const isOurs = end.kind !== "settled" && isWithdrawn(context, key, claim);
  return isOurs && areWanted(end.where) ? { kind: "withdrawn" } : end;
}

function areWanted({ statefulSet, pods }: ClaimedObjects): boolean {
  return [...pods.keys()].every((ordinal) => statefulSet !== undefined && isWanted(statefulSet, ordinal));
}

/** A StatefulSet and the one that it follows, as GETs show them. Throws ClusterError where it is not as it was. */
export async function readAgain(
  { cluster }: Context,
  before: StatefulSet,
): Promise<{ readonly now: StatefulSet; readonly members: readonly StatefulSet[] }> {
  const { namespace, uid, replicas, start, scaling } = before;
  const leader = scaling?.leader;
  const [now, leading] = await Promise.all([
    getStatefulSet(cluster, before),
    leader === undefined ? undefined : getStatefulSet(cluster, { namespace, name: leader }),
  ]);
  if (now?.uid !== uid || now.replicas !== replicas || now.start !== start) throw sizeChanged(before);
  const isMember = leading !== undefined && leading.group === now.group;
  return { now, members: isMember ? [now, leading] : [now] };
}

/** Changes the size of a StatefulSet as it was read, by uid and resourceVersion, no later than a moment (rules R9 and R21). */
export async function resize(
  { cluster, cache }: Context,
  { namespace, name, uid, resourceVersion }: StatefulSet,
  replicas: number,
  notAfterMs: number,
): Promise<void> {
  const body = { metadata: { uid, resourceVersion }, spec: { replicas } };
  cache.learn(await cluster.patch("statefulsets", { namespace, name }, body, { notAfterMs }));
}

/** The error in place of a change that is no longer wanted. */
export function sizeChanged({ name }: StatefulSet): ClusterError {
  const message = `${name}, its pods or the size that is wanted have changed meanwhile`;
  return new ClusterError({ code: 409, reason: "Changed", message, verb: "patch", resource: "statefulsets" });
}
