/**
 * Downscales that the webhook always refuses: of an object that its label protects, and to the 1 of Kubernetes if the manifest
 * of a StatefulSet leaves out its number of replicas (grafana/mimir#16602). Sluice trusts no field of a review.
 */

import { badRequest } from "../admission/answers.ts";
import type { AdmissionRequest, Denied } from "../admission/definition.ts";
import { hasLeader, parseScaling, type Scaling } from "../annotations/parse-scaling.ts";
import { noDownscale } from "../annotations/scaling.ts";
import { lastApplied, read } from "../annotations/table.ts";
import { shownCharacters } from "../base/escape-control.ts";
import { type Fields, fieldsOf } from "../base/fields.ts";
import type { Downscale, SizedObject } from "./downscale-review.ts";
import { describeSizes } from "./size-changes.ts";

/** The writer of an object's replicas: an entry of `metadata.managedFields` that owns `spec.replicas`. */
interface FieldManager {
  readonly manager: string;
  /** It applies manifests at the server: what it does not own, its manifest does not say. */
  readonly isApply: boolean;
  /** It also owns the pod template, because it writes whole manifests. */
  readonly ownsTemplate: boolean;
}

/** The fields that show how the number of replicas came about. */
interface ReplicasOrigin {
  /** Managers that own `spec.replicas`; undefined if the object does not say which fields its managers own. */
  readonly owners: readonly FieldManager[] | undefined;
  /** What `kubectl apply` keeps of the manifest: whether it said replicas; undefined where there is none. */
  readonly isDeclared: boolean | undefined;
}

/** How the two numbers of a downscale came about, and whether its manifest alone sets them. */
export interface Origin {
  /** Why its size is not a matter of its manifest alone, in words, such as `follows "a"`; empty where it is. */
  readonly care: string;
  /** As it is to be, its size is for another object to say. */
  readonly followsLeader: boolean;
  readonly old: ReplicasOrigin;
  readonly now: ReplicasOrigin;
}

/** The refusal of a downscale of a protected object; the message is rollout-operator's. */
export function refuseProtected(downscale: Downscale): Denied {
  const { resource, namespace, name, from, to } = downscale;
  const message = `downscale of ${resource}/${name} in ${namespace} ${describeSizes(from, to)} is not allowed because it has the label '${noDownscale.key}=true'`;
  return badRequest("no-downscale", message, { zone: name });
}

/** The refusal of a downscale to 1 that no user asked for; undefined if a user may have meant it. */
export function refuseDropped(change: Downscale, origin: Origin): Denied | undefined {
  const { resource, namespace, name, from } = change;
  const by = droppedBy(change, origin);
  if (by === undefined) return undefined;
  const message =
    `${resource}/${name} in ${namespace} would go from ${from.replicas} replicas to 1: ${by}. It ${origin.care}. ` +
    `Write "replicas: ${from.replicas}" into the manifest; where 1 is meant, use kubectl scale`;
  return badRequest("replicas-dropped", message, { zone: name, field: "spec.replicas" });
}

/** The manager whose manifest left the number out, so that 1 came in its place; undefined if a user may have meant 1. */
function droppedBy(change: Downscale, { care, followsLeader, old, now }: Origin): string | undefined {
  if (change.isScale || change.resource !== "statefulsets" || care === "") return undefined;
  if (change.to.replicas !== 1 || change.from.replicas <= 1) return undefined;
  const [before] = old.owners ?? [];
  // It had an owner and has none, and a client that writes a number owns it: a manifest applied at the server left it out.
  if (before !== undefined && now.owners?.length === 0) {
    return `the manifest that is applied leaves out spec.replicas, which ${before.manager} had written, and Kubernetes takes 1`;
  }
  // What is kept of the manifest changes with each `kubectl apply`, and with nothing else.
  if (old.isDeclared === true && now.isDeclared === false) {
    return "the manifest that is applied leaves out spec.replicas, which the one before it had, and Kubernetes takes 1";
  }
  // A patch that removes the field reaches Sluice as one that writes 1.
  const whole = now.owners?.find(({ isApply, ownsTemplate }) => !isApply && ownsTemplate);
  if (followsLeader && whole !== undefined)
    return `the manifest that ${whole.manager} writes leaves out spec.replicas, or says 1`;
  return undefined;
}

/** How the numbers of a review came about. */
export function originOf({ old, object }: Downscale, request: AdmissionRequest): Origin {
  const [before, after] = [old, object].map((one) => (one === undefined ? undefined : parseScaling(one.metadata)));
  return {
    // One manifest may both begin to follow, or to prepare, and leave the number out.
    care: careOf(after) || careOf(before),
    followsLeader: after !== undefined && hasLeader(after),
    old: writtenOf(old, request.oldObject),
    now: writtenOf(object, request.object),
  };
}

function careOf(scaling: Scaling | undefined): string {
  const { leader, mirrored, delay, preparesDownscale = false } = scaling ?? {};
  if (leader !== undefined) return `follows ${shown(leader)}`;
  if (mirrored !== undefined) return `mirrors ${shown(mirrored.kind)} ${shown(mirrored.name)}`;
  if (delay !== undefined) return "has its pods told some time before they go";
  return preparesDownscale ? "has its pods told before they go" : "";
}

function writtenOf(object: SizedObject | undefined, raw: unknown): ReplicasOrigin {
  const { managedFields } = fieldsOf(fieldsOf(raw)?.metadata) ?? {};
  const managed: readonly unknown[] = Array.isArray(managedFields) ? managedFields : [];
  const entries = managed.map(fieldsOf).filter((entry) => entry !== undefined);
  const hasFields = entries.some(({ fieldsV1 }) => fieldsOf(fieldsV1) !== undefined);
  return {
    owners: hasFields ? entries.flatMap(ownerOf) : undefined,
    isDeclared: object === undefined ? undefined : read(lastApplied, object.metadata),
  };
}

/** The manager of an entry that owns `spec.replicas`; none for any other entry. */
function ownerOf({ manager, operation, fieldsV1 }: Fields): FieldManager[] {
  const spec = fieldsOf(fieldsOf(fieldsV1)?.["f:spec"]) ?? {};
  if (!Object.hasOwn(spec, "f:replicas")) return [];
  return [
    {
      manager: typeof manager === "string" && manager !== "" ? shown(manager) : "an unnamed manager",
      isApply: operation === "Apply",
      ownsTemplate: Object.hasOwn(spec, "f:template"),
    },
  ];
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, shownCharacters));
}
