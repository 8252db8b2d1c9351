/**
 * The basis of an eviction's decision: its review, and its pod. Reviews are parsed here, so that `decide` can trust every
 * field.
 */

import { badRequest, conflict, notFound } from "../shared/admission/answers.ts";
import type { AdmissionRequest, Denied } from "../shared/admission/definition.ts";
import { refuseFailure } from "../shared/admission/failures.ts";
import { isOurs } from "../shared/admission/own-workloads.ts";
import { type Fields, fieldsOf } from "../shared/base/fields.ts";
import { getPod, listBudgets } from "../shared/cache/cache.ts";
import { getOwnerOf } from "../shared/cache/listing.ts";
import type { Context } from "../shared/contract/context.ts";
import { parseStoredBudget, type StoredBudget, selects } from "../shared/groups/governing.ts";
import { openQuestions } from "../shared/health/ask-pods.ts";
import type { ObjectKey } from "../shared/kubernetes/cluster.ts";
import { countRanges } from "../shared/ledger/claim.ts";
import { maxReservations } from "../shared/ledger/reservation.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { GroupKey } from "../shared/workloads/statefulsets.ts";
import type { EvictionSnapshot } from "./decide.ts";
import { type Alone, isExempt, ledgerKeyOf, unseen } from "./decide-alone.ts";
import { findDown } from "./down.ts";
import type { Eviction, ReviewedEviction } from "./group-commit/sort-decisions.ts";
import { findOwnerGroup } from "./owner-group.ts";

export const name = "evaluate-eviction";

/** Path of Sluice's mutating webhook. Only there an answer may change the eviction (rule R11). */
export const pinningPath = "/pods/eviction/pin";
/**
 * Paths of rollout-operator's validating webhook, in its manifests and in its documentation. The API server takes no patch from
 * a validating webhook: it would fail after the reservation was written. A review does not say how its webhook is registered.
 */
export const plainPaths = ["/admission/pod-eviction", "/pods/eviction"] as const;

/** More characters than any uid has, so that a uid that is cut never equals that of a pod. */
const shownUid = 64;

/** A review of an eviction, read. */
export interface Asking {
  readonly namespace: string;
  readonly name: string;
  readonly dryRun: boolean;
  /** The uid that the client itself wants the pod to have. */
  readonly wantedUid: string | undefined;
  readonly isPinning: boolean;
  readonly deleteOptions: Fields | undefined;
}

/** The part of an Eviction that Sluice reads: its options, and their preconditions. */
export function keepOf(object: unknown): unknown {
  const deleteOptions = fieldsOf(fieldsOf(object)?.deleteOptions);
  if (deleteOptions === undefined) return undefined;
  const preconditions = fieldsOf(deleteOptions.preconditions);
  if (preconditions === undefined) return { deleteOptions: {} };
  const short = (value: unknown) => (typeof value === "string" ? value.slice(0, shownUid) : undefined);
  const { uid, resourceVersion } = preconditions;
  return { deleteOptions: { preconditions: { uid: short(uid), resourceVersion: short(resourceVersion) } } };
}

/** The eviction of a review, or why it is none (as in rollout-operator). */
export function readAsking(request: AdmissionRequest): Asking | Denied {
  const { operation, subresource, namespace, name: pod, dryRun, path, object } = request;
  const shown = (text: string) => (text === "" ? "none" : text.slice(0, 60));
  if (operation !== "CREATE") return invalid(`request operation is not create, got: ${shown(operation)}`);
  if (subresource !== "eviction") return invalid(`request SubResource is not eviction, got: ${shown(subresource)}`);
  if (namespace === "" || pod === "") return invalid("request did not include both a namespace and a name");
  const deleteOptions = fieldsOf(fieldsOf(object)?.deleteOptions);
  const preconditions = fieldsOf(deleteOptions?.preconditions);
  const { uid } = preconditions ?? {};
  const wantedUid = typeof uid === "string" && uid !== "" ? uid : undefined;
  return { namespace, name: pod, dryRun, wantedUid, isPinning: path === pinningPath, deleteOptions };
}

/**
 * The pod that is to go, with what governs it; or why there is none. The cache may be behind: what it does not have, or has
 * otherwise than the client, is read from the API server. Throws ClusterError, TooManyLookUps, LedgerUnreadable.
 */
export async function observeAlone(context: Context, asking: Asking): Promise<Alone | Denied> {
  const { cache, cluster, namespaces, protocol, lookUps = cluster } = context;
  const { namespace, wantedUid } = asking;
  if (namespaces !== undefined && !namespaces.includes(namespace)) {
    const message = `namespace ${namespace} is not served here, only ${namespaces.join(", ")}: give the webhook a namespaceSelector`;
    return badRequest("namespace-not-served", message);
  }
  const key = { namespace, name: asking.name };
  let pod = await cache.pod(key, lookUps);
  if (pod !== undefined && isDoubtful(pod, asking)) pod = await getPod(lookUps, key);
  if (pod === undefined) {
    return notFound("pod-gone", `pods "${asking.name}" not found`);
  }
  if (wantedUid !== undefined && pod.uid !== wantedUid) {
    const message = `the eviction is meant for a pod ${asking.name} with the uid ${wantedUid}, and another pod has that name now`;
    return conflict("uid-conflict", message);
  }
  const [owner, budgets] = await Promise.all([cache.ownerOf(pod, lookUps), cache.budgets(namespace)]);
  const surroundings = { workloads: [], neighbours: [], budgets };
  const ownedBy = isOfOther(pod, budgets) ? await findOwnerGroup(context, pod) : undefined;
  const ledgerKey = ledgerKeyOf(pod, { owner, surroundings });
  const ledger = ledgerKey && (await protocol.readLedger(cluster, ledgerKey));
  return { eviction: evictionOf(asking, pod), pod, owner, surroundings, ownedBy, claims: ledger?.claims ?? [] };
}

/** True for an existing pod without a StatefulSet and without a budget: another owner's ledger may decide about it. */
function isOfOther(pod: Pod, budgets: readonly StoredBudget[]): boolean {
  const isDecidedElsewhere = isExempt(pod) || isOurs(pod) || pod.ownerKind === "StatefulSet";
  return !isDecidedElsewhere && !budgets.some((stored) => selects(stored, pod.labels));
}

/** {@link observeAlone} by the API server alone, for an answer after which the client asks no more. Throws as that does. */
export function observeAfresh(context: Context, asking: Asking): Promise<Alone | Denied> {
  const { lookUps = context.cluster } = context;
  const cache = {
    ...context.cache,
    pod: (key: ObjectKey) => getPod(lookUps, key),
    ownerOf: (pod: Pod) => getOwnerOf(lookUps, pod),
    budgets: async (namespace: string) => (await listBudgets(lookUps, namespace)).map(parseStoredBudget),
  };
  return observeAlone({ ...context, cache }, asking);
}

/**
 * The client means another pod; or the pod has ended or is terminating, and goes without a reservation. If nothing pins its
 * uid, the eviction would take the pod that may have replaced it since (rule R11).
 */
function isDoubtful({ uid, finished, terminating }: Pod, { wantedUid, isPinning }: Asking): boolean {
  if (wantedUid !== undefined) return uid !== wantedUid;
  return !isPinning && (finished || terminating);
}

function evictionOf({ wantedUid, isPinning, deleteOptions }: Asking, pod: Pod): Eviction {
  const { name: podName, uid, terminating: isLeaving } = pod;
  const pin = isPinning && wantedUid === undefined ? pinOf(deleteOptions, uid) : [];
  // The client's own precondition on the revision stays as it is.
  const pinsRevision = pin.length > 0 && (fieldsOf(deleteOptions?.preconditions)?.resourceVersion ?? "") === "";
  return { name: podName, uid, isPinned: isPinning || wantedUid !== undefined, pin, isLeaving, pinsRevision };
}

/** Rule R11: the operations that add the uid to the client's Eviction, and change nothing else of it. */
function pinOf(deleteOptions: Fields | undefined, uid: string): readonly object[] {
  const place = "/deleteOptions";
  if (deleteOptions === undefined) return [{ op: "add", path: place, value: { preconditions: { uid } } }];
  if (fieldsOf(deleteOptions.preconditions) === undefined) {
    return [{ op: "add", path: `${place}/preconditions`, value: { uid } }];
  }
  return [{ op: "add", path: `${place}/preconditions/uid`, value: uid }];
}

/**
 * Rule R11: a pod that goes by its name alone is read once more, by a GET, after its reservation was written. The cache may be
 * behind: an eviction that was allowed before may have been carried out since, and this one would take the pod that came instead.
 * Resolves to the refusal of a pod that is gone or going, or that cannot be read.
 */
export async function confirm(
  { cluster }: Context,
  { namespace }: GroupKey,
  eviction: Eviction,
): Promise<Denied | undefined> {
  if (eviction.isPinned) return undefined;
  try {
    const pod = await getPod(cluster, { namespace, name: eviction.name });
    return pod?.uid === eviction.uid && !pod.terminating ? undefined : unseen(eviction);
  } catch (error) {
    const failure = refuseFailure(error, `pod ${eviction.name}`);
    if (failure === undefined) throw error;
    return failure;
  }
}

/** Reads the common basis of the decisions about one group's reviews. Throws ClusterError. */
export async function observe(
  context: Context,
  observed: GroupObservation,
  asked: readonly ReviewedEviction[],
): Promise<EvictionSnapshot> {
  const { key, nowMs, ledger, zones, open, departed, strayClaims, givenUp, view } = observed;
  const evictions = asked.map(({ eviction }) => eviction);
  return {
    key,
    nowMs,
    self: name,
    down: await findDown(context, observed, evictions),
    zones,
    departed,
    strayClaims,
    givenUp: new Map([...givenUp].filter(([, { by }]) => by === name)),
    surroundings: view,
    disruptionBudgets: await context.cache.disruptionBudgets(key.namespace),
    room: maxReservations - open.length - countRanges(ledger.claims),
    questions: openQuestions(context, observed),
    asked,
  };
}

function invalid(message: string): Denied {
  return badRequest("invalid-request", message);
}
