/** What a review shows of an object's size: from how many replicas it goes to how many. No field of a review is trusted. */

import { allow, badRequest, notFound } from "../admission/answers.ts";
import type { AdmissionAnswer, AdmissionRequest, Allowed, Denied } from "../admission/definition.ts";
import { refuseFailure } from "../admission/failures.ts";
import { type Fields, fieldsOf } from "../base/fields.ts";
import { hasCode, type Metadata } from "../kubernetes/cluster.ts";
import { resources } from "../kubernetes/resources.ts";
import { largestOrdinal } from "../workloads/pods.ts";
import { leavingOrdinals, type Size } from "./size-changes.ts";

/** The types whose sizes are checked: each says it in `spec.replicas`, and has a scale subresource. */
export const scaledResources = ["statefulsets", "deployments", "replicasets"] as const;
export type ScaledResource = (typeof scaledResources)[number];

/** The fields of a reviewed object that decisions about sizes use, whatever its type. Any client may have written it. */
export interface SizedObject {
  /** Names and the uid are empty where the review does not have them. */
  readonly metadata: Pick<Metadata, "namespace" | "name" | "uid" | "resourceVersion" | "labels" | "annotations">;
  /** The first ordinal of a StatefulSet; 0 for an object of another type. */
  readonly start: number;
}

/** A review that takes pods: it makes an object smaller, or moves the first ordinal of a StatefulSet. */
export interface Downscale {
  readonly resource: ScaledResource;
  readonly namespace: string;
  readonly name: string;
  /** They start at 0 where `isScale`: a scale does not say the first ordinal, and cannot change it. */
  readonly from: Size;
  readonly to: Size;
  /** It was asked for at the scale subresource: neither object is in the review then, and the old one must be looked up. */
  readonly isScale: boolean;
  /** As it is stored, and as it is to be; undefined where `isScale`. */
  readonly old: SizedObject | undefined;
  readonly object: SizedObject | undefined;
}

const startInCel = (object: string): string =>
  `(has(${object}.spec.ordinals) && has(${object}.spec.ordinals.start) ? ${object}.spec.ordinals.start : 0)`;

/**
 * In CEL, a review by which pods may leave: where none does, the API server need not ask, so that without an answer only
 * downscales wait. A scale of 0 has no replicas. Pods leave where a StatefulSet begins later, or ends sooner.
 */
export const mayBeDownscale = [
  ...["object.spec", "oldObject.spec", "object.spec.replicas", "oldObject.spec.replicas"].map(
    (part) => `!has(${part})`,
  ),
  "object.spec.replicas < oldObject.spec.replicas",
  `${startInCel("object")} > ${startInCel("oldObject")}`,
  `${startInCel("object")} + object.spec.replicas < ${startInCel("oldObject")} + oldObject.spec.replicas`,
].join(" || ");

interface Sized {
  readonly replicas: number | undefined;
  /** Its first ordinal; undefined where it is none that Kubernetes accepts. */
  readonly start: number | undefined;
  readonly object: SizedObject | undefined;
}

const longestShownField = 80;

/**
 * The downscale that a review asks for, or the answer to a review that asks for none. As in rollout-operator, what cannot be
 * read goes through with a warning. An exception is a first ordinal that Kubernetes does not accept, because Sluice cannot tell
 * which pods it takes: the answer is 400, as the API server's own is.
 */
export function readDownscale(request: AdmissionRequest): Downscale | AdmissionAnswer {
  const { resource, subresource, namespace, name } = request;
  const scaled = scaledResources.find((one) => one === resource.resource && resource.group === resources[one].group);
  if (scaled === undefined) return unreadable(`nothing is known of the size of ${shown(resource.resource)}`);
  const isScale = subresource === "scale";
  const read = isScale ? readScale : (object: unknown) => readObject(scaled, object);
  const old = read(request.oldObject);
  if (typeof old === "string") return unreadable(`the old object of ${scaled}/${name} cannot be read: ${old}`);
  const now = read(request.object);
  if (typeof now === "string") return unreadable(`the new object of ${scaled}/${name} cannot be read: ${now}`);
  if (old.start === undefined || now.start === undefined) return refuseOrdinals(scaled, request);
  if (old.replicas === undefined && now.replicas === undefined) return allow("not-a-downscale");
  if (old.replicas === undefined || now.replicas === undefined) {
    const which = old.replicas === undefined ? "old" : "new";
    const message = `only the ${which} object of ${scaled}/${name} has no replicas: whether it becomes smaller is not known, and it goes through`;
    return allow("replicas-unclear", { warnings: [message] });
  }
  const from = { start: old.start, replicas: old.replicas };
  const to = { start: now.start, replicas: now.replicas };
  if (leavingOrdinals(from, to).length === 0) return allow("not-a-downscale");
  return { resource: scaled, namespace, name, from, to, isScale, old: old.object, object: now.object };
}

function refuseOrdinals(resource: ScaledResource, { namespace, name }: AdmissionRequest): Denied {
  const message = `spec.ordinals.start of ${resource}/${name} in ${namespace} is no integer from 0 to ${largestOrdinal}, so that Sluice cannot tell which pods would leave: correct it`;
  return badRequest("ordinals-malformed", message, { zone: name, field: "spec.ordinals.start" });
}

function unreadable(why: string): Allowed {
  return allow("unreadable-object", { warnings: [`${why}: its size was not checked, and it goes through`] });
}

/**
 * The refusal of a review whose object could not be looked up; undefined for a fault of ours. A 404 is 404: the API server, which
 * is asked for the object next, says so as well, unless another one of that name has come meanwhile, of which nothing is known.
 */
export function refuseUnread(error: unknown, resource: string, name: string): Denied | undefined {
  const isGone = hasCode(error, 404) && error.resource === resource;
  return isGone
    ? notFound("object-gone", `there is no ${resource}/${name} any more`)
    : refuseFailure(error, `${resource}/${name}`);
}

/** A scale always has a number of replicas: 0 if it is left out. A text says why the value is no scale. */
function readScale(value: unknown): Sized | string {
  const read = readTyped(value, "autoscaling/v1", "Scale");
  return typeof read === "string" ? read : { replicas: read.replicas ?? 0, start: 0, object: undefined };
}

function readObject(resource: ScaledResource, value: unknown): Sized | string {
  const read = readTyped(value, "apps/v1", resources[resource].kind);
  if (typeof read === "string") return read;
  const { replicas, spec } = read;
  const metadata = readMetadata(read.metadata);
  if (typeof metadata === "string") return metadata;
  if (textOrNone(spec.serviceName) === undefined) return "spec.serviceName is no text";
  // Only StatefulSets have ordinals.
  const start = resource === "statefulsets" ? readStart(spec.ordinals) : 0;
  return { replicas, start, object: start === undefined ? undefined : { metadata, start } };
}

function readStart(value: unknown): number | undefined {
  const ordinals = optionalFields(value);
  const start = ordinals === undefined ? undefined : readInteger(ordinals.start);
  return start === undefined || (start ?? 0) < 0 ? undefined : (start ?? 0);
}

/** The spec and the metadata of an object of one version and kind. */
function readTyped(
  value: unknown,
  apiVersion: string,
  kind: string,
): { readonly metadata: Fields; readonly spec: Fields; readonly replicas: number | undefined } | string {
  const object = fieldsOf(value);
  if (object === undefined) return "there is none";
  if (object.apiVersion !== apiVersion || object.kind !== kind) {
    return `it is ${shown(object.apiVersion)} ${shown(object.kind)}, and not ${apiVersion} ${kind}`;
  }
  const spec = optionalFields(object.spec);
  const metadata = optionalFields(object.metadata);
  if (spec === undefined) return "its spec is no object";
  if (metadata === undefined) return "its metadata is no object";
  const replicas = readInteger(spec.replicas);
  if (replicas === undefined) return "spec.replicas is not an integer that Kubernetes accepts";
  return { spec, metadata, replicas: replicas ?? undefined };
}

/** No cluster has labels and annotations that are not texts, so that none of their keys is believed. */
function readMetadata(metadata: Fields): SizedObject["metadata"] | string {
  const [labels, annotations] = [textsOf(metadata.labels), textsOf(metadata.annotations)];
  if (labels === undefined) return "metadata.labels are not texts";
  if (annotations === undefined) return "metadata.annotations are not texts";
  const [name, namespace, uid] = [metadata.name, metadata.namespace, metadata.uid].map(textOrNone);
  const resourceVersion = textOrNone(metadata.resourceVersion);
  if ([name, namespace, uid, resourceVersion].includes(undefined)) return "metadata has a name that is no text";
  return {
    name: name ?? "",
    namespace: namespace ?? "",
    uid: uid ?? "",
    resourceVersion: resourceVersion ?? "",
    labels,
    annotations,
  };
}

/** An absent field and null are empty; undefined if it is no object. */
function optionalFields(value: unknown): Fields | undefined {
  return value === undefined || value === null ? {} : fieldsOf(value);
}

/** Null if it is absent; undefined if Kubernetes would not accept it. */
function readInteger(value: unknown): number | null | undefined {
  if (value === undefined || value === null) return null;
  const isAccepted = Number.isInteger(value) && Math.abs(Number(value)) <= largestOrdinal;
  return isAccepted ? Number(value) : undefined;
}

/** Null if it is absent; undefined if it is no text. */
function textOrNone(value: unknown): string | null | undefined {
  if (value === undefined || value === null) return null;
  return typeof value === "string" ? value : undefined;
}

function textsOf(value: unknown): Readonly<Record<string, string>> | undefined {
  const fields = optionalFields(value);
  if (fields === undefined) return undefined;
  const entries = Object.entries(fields).map(([key, text]) => [key, textOrNone(text)] as const);
  if (entries.some(([, text]) => text === undefined)) return undefined;
  return Object.fromEntries(entries.map(([key, text]) => [key, text ?? ""]));
}

function shown(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value.slice(0, longestShownField)) : "nothing that is a text";
}
