/** The writes to a volume claim, under its uid and revision, and the Events about it. */

import { finalizerPaths, pathsOf } from "../annotations/paths.ts";
import * as keys from "../annotations/suspension.ts";
import { cut } from "../base/truncate.ts";
import type { Context } from "../contract/context.ts";
import type { Need } from "../contract/definition.ts";
import type { Key } from "../contract/keys.ts";
import { eventReasons } from "../events/reasons.ts";
import { recordOnce } from "../events/recorder.ts";
import { ClusterError, type Metadata } from "../kubernetes/cluster.ts";
import { type Pvc, parsePvc } from "../volumes/pvc.ts";
import type { GroupKey } from "../workloads/statefulsets.ts";
import { isPodNews } from "./drain-proof.ts";
import { type Anew, isDrainVoid } from "./restart-time.ts";

/** When to reconcile again after a write, in milliseconds. */
export const writtenRequeueMs = 200;

/** The rights of both functions that suspend volumes and remove them. */
export const suspensionNeeds: readonly Need[] = [
  {
    group: "",
    resource: "persistentvolumeclaims",
    verbs: ["get", "list", "patch"],
    changes: [
      ...pathsOf(...keys.pvcEntries, ...keys.stateEntries, keys.volumeZone, keys.suspended),
      ...finalizerPaths(keys.volumeHold, keys.volumeProtection),
    ],
  },
  { group: "", resource: "namespaces", verbs: ["get"] },
  // A cluster sets the policy of its own process groups.
  { group: "apps.foundationdb.org", resource: "foundationdbclusters", verbs: ["get"] },
];

export interface PvcPatch {
  /** By key; null takes one away. */
  readonly annotations?: Readonly<Record<string, string | null>>;
  readonly labels?: Readonly<Record<string, string | null>>;
  readonly finalizers?: Metadata["finalizers"];
}

/**
 * A merge patch that fails where the volume claim is another one, or was changed since it was read: each step is such a swap.
 * Resolves to the volume claim as it is then. Throws ClusterError.
 */
export async function patchPvc(
  { cluster }: Pick<Context, "cluster">,
  { namespace, name, uid, resourceVersion }: Pvc,
  patch: PvcPatch,
  notAfterMs: number,
): Promise<Pvc> {
  const body = { metadata: { uid, resourceVersion, ...patch } };
  return parsePvc(await cluster.patch("persistentvolumeclaims", { namespace, name }, body, { notAfterMs }));
}

/** A volume claim's message about its wait, as an annotation. */
export function messageFor(guard: string, message: string): Readonly<Record<string, string>> {
  return { [keys.suspendMessage.key]: keys.formatMessage({ guard, text: cut(message) }) };
}

/**
 * Takes the time away, so that it begins when nothing uses the volume any more. Both functions write exactly this, and there is
 * nothing left to write once one of them has: they do not write against each other.
 */
export function anewPatch(anew: Pick<Anew, "guard" | "message" | "podCreatedMs">, pvc: Pvc): PvcPatch {
  return {
    annotations: {
      // A malformed state stays until its user corrects it.
      ...(pvc.state.kind === "malformed" ? {} : { [keys.suspendState.key]: "Suspending" }),
      [keys.suspendedAt.key]: null,
      [keys.removalClaim.key]: null,
      ...(isDrainVoid(anew, pvc) ? { [keys.drainedAt.key]: null } : {}),
      ...podSeen(anew.podCreatedMs, pvc),
      ...messageFor(anew.guard, anew.message),
    },
  };
}

/**
 * A word on the drain that is older than a pod says nothing, also when that pod is gone again: when it was made is written down.
 * `createdMs`: of the pod that stands, in milliseconds since the epoch; undefined where none does.
 */
export function podSeen(createdMs: number | undefined, pvc: Pvc): Readonly<Record<string, string>> {
  if (createdMs === undefined || !isPodNews(createdMs, pvc)) return {};
  return { [keys.suspendPodCreated.key]: new Date(createdMs).toISOString() };
}

/** Has the time of volumes begin anew, and says so in an Event on each. Throws ClusterError. */
export async function beginAnew(
  context: Context,
  by: string,
  key: GroupKey,
  anew: Anew,
  notAfterMs: number,
): Promise<void> {
  for (const pvc of anew.pvcs) await patchPvc(context, pvc, anewPatch(anew, pvc), notAfterMs);
  for (const pvc of anew.pvcs) {
    const news = normal(eventReasons.volumeSuspended, anew.message, `restamp ${pvc.suspendedMs ?? 0}`);
    await recordPvcEvent(context, by, key, pvc, news);
  }
}

/**
 * Removes all annotations of Sluice and all requests, so that a user who wants it suspended again must state again that it is
 * drained.
 */
export function clearingPatch({ finalizers }: Pvc): PvcPatch {
  const entries = [...keys.pvcEntries, ...keys.stateEntries];
  return {
    annotations: Object.fromEntries(entries.map(({ key }) => [key, null])),
    labels: { [keys.suspended.key]: null },
    finalizers: finalizers.filter((one) => one !== keys.volumeHold),
  };
}

export interface PvcNews {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
  /** What makes it the same when it is sent again. */
  readonly identity: string;
}

/** An Event of the type Normal. `identity`: makes it the same Event when it is sent again. */
export function normal(reason: string, message: string, identity: string): PvcNews {
  return { type: "Normal", reason, message, identity };
}

/** An Event of the type Warning, in the same form. */
export function warning(reason: string, message: string, identity: string): PvcNews {
  return { type: "Warning", reason, message, identity };
}

/** Sends an Event on a volume claim, once. Resolves, never rejects: a failure is only logged. */
export async function recordPvcEvent(
  context: Context,
  by: string,
  key: Key,
  { namespace, name, uid }: Pick<Pvc, "namespace" | "name" | "uid">,
  news: PvcNews,
): Promise<void> {
  const about = { resource: "persistentvolumeclaims", namespace, name, uid } as const;
  await recordOnce(context, by, key, { about, ...news, identity: `${uid} ${news.identity}` });
}

/** The error in place of a write that is no longer wanted. */
export function memberChanged(name: string): ClusterError {
  const message = `${name}, its pod or its volume claims have changed meanwhile`;
  return new ClusterError({ code: 409, reason: "Changed", message, verb: "patch", resource: "persistentvolumeclaims" });
}
