/** The common part of telling pods of a downscale and of taking it back: where the pods are told, and by which claims. */

import { prepareDownscalePath, prepareDownscalePort } from "../annotations/scaling.ts";
import { showValue, unshown } from "../base/escape-control.ts";
import { parsePath, parsePort } from "../base/ports-and-paths.ts";
import type { PodAddress, PodRequest } from "../http/pod-http.ts";
import { type Claim, isWithin, type KnownClaim, type ToldAt } from "../ledger/claim.ts";
import type { Blocked } from "../ledger/claim-kinds.ts";
import { askedGroupOf } from "../workloads/group-key.ts";
import type { Pod } from "../workloads/pods.ts";
import type { StatefulSet } from "../workloads/statefulsets.ts";

/** Where the pods of a StatefulSet are told that they leave (POST), or that they stay after all (DELETE). */
export interface PrepareEndpoint extends ToldAt {
  readonly namespace: string;
  readonly group: string;
}

/**
 * The endpoint that a StatefulSet names, or what is missing. All of it is checked, because a user's text must lead only to the
 * pod's own host.
 */
export function prepareEndpointOf(statefulSet: StatefulSet): PrepareEndpoint | Blocked {
  const { namespace, name, serviceName, scaling } = statefulSet;
  const { preparePort, preparePath } = scaling ?? {};
  const lacking = (guard: string, what: string): Blocked => ({ guard, message: `StatefulSet ${name} ${what}` });
  if (preparePort === undefined)
    return lacking("prepare-port-missing", `has no annotation ${prepareDownscalePort.key}: write a port, such as 80`);
  if (preparePath === undefined)
    return lacking("prepare-path-missing", `has no annotation ${prepareDownscalePath.key}: write a path`);
  if (serviceName === "")
    return lacking("service-name-missing", "has no spec.serviceName: without it its pods have no names in DNS");
  const [port, path] = [parsePort(preparePort), parsePath(preparePath)];
  if (port === undefined)
    return lacking(
      "prepare-port-malformed",
      `has the annotation ${prepareDownscalePort.key} ${showValue(preparePort)}: write a port from 1 to 65535`,
    );
  if (path === undefined)
    return lacking(
      "prepare-path-malformed",
      `has the annotation ${prepareDownscalePath.key}, ${unshown}: write a path without spaces`,
    );
  return { namespace, scheme: "http", service: serviceName, group: askedGroupOf(statefulSet), port, path };
}

/** The pods that must be told: all but those that were never ready and whose ordinals the StatefulSet releases. */
export function podsToNotify(pods: readonly Pod[], statefulSet: StatefulSet | undefined): readonly Pod[] {
  const released = statefulSet?.scaling?.unprepared ?? [];
  return pods.filter(({ ordinal, neverReady }) => !neverReady || !isWithin(released, ordinal));
}

/**
 * Where the pods of a claim are told that they stay: where they were told that they leave. A claim of an earlier version has no
 * such field, so that its StatefulSet decides.
 */
export function undoEndpointOf({ toldAt }: KnownClaim, statefulSet: StatefulSet): PrepareEndpoint | Blocked {
  if (toldAt === undefined) return prepareEndpointOf(statefulSet);
  return { ...toldAt, namespace: statefulSet.namespace, group: askedGroupOf(statefulSet) };
}

/** The address of the pod of that name. */
export function addressOf({ namespace, service, group, port, scheme }: PrepareEndpoint, pod: string): PodAddress {
  return { scheme, pod, service, namespace, group, port };
}

/** The request to a pod. It has no body, and a second one does no harm. */
export function requestTo({ path }: PrepareEndpoint, method: "POST" | "DELETE"): PodRequest {
  return { method, path, headers: { "content-type": "application/json" }, repeatable: true };
}

/**
 * True for an answer to a DELETE that leaves nothing to take back: the pod did it, or answers that it knows of no such thing,
 * however often it is asked. A fault of its own is no answer.
 */
export function isTakenBack({ status }: { readonly status: number }): boolean {
  return status < 500 && ![408, 425, 429].includes(status);
}

const idPrefix = "prepared-";

/** The id of a new claim of a review that tells pods; `unique` is a text that no other claim of the ledger has in its id. */
export function preparedId(unique: string): string {
  return `${idPrefix}${unique}`;
}

/** True for a claim that a review made, which told its pods. */
export function isPrepared(claim: Claim): claim is KnownClaim {
  return claim.isKnown && claim.kind === "scale-down" && claim.id.startsWith(idPrefix);
}
