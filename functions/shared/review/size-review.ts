/** What a review says of the size of an object: from how many replicas it goes to how many. Nothing of a review is trusted. */
import type { StatefulSetObject } from "../kubernetes/cluster.ts";
import { resources } from "../kubernetes/resources.ts";
import { type Fields, fieldsOf } from "../objects/fields.ts";
import type { AdmissionRequest, Allowed } from "../pass/definition.ts";
import { allow } from "./answers.ts";

/** The types whose sizes are judged: each says it in `spec.replicas`, and has a scale subresource. */
export const scaledResources = ["statefulsets", "deployments", "replicasets"] as const;
export type ScaledResource = (typeof scaledResources)[number];

/** An object as a review brings it, and of it only what decisions read of the sizes of objects, whatever its type. */
export type SizedObject = StatefulSetObject;

/** A review that makes an object smaller. */
export interface Downscale {
  readonly resource: ScaledResource;
  readonly namespace: string;
  readonly name: string;
  readonly dryRun: boolean;
  /** It was asked for at the scale subresource: neither object is in the review then, and the old one must be looked up. */
  readonly isScale: boolean;
  /** Replicas; `to` is always less. */
  readonly from: number;
  readonly to: number;
  /** As it is stored, and as it is to be; undefined where `isScale`. */
  readonly old: SizedObject | undefined;
  readonly object: SizedObject | undefined;
}

/**
 * In CEL, a review that may be of a downscale: where it is not, nobody need be asked, and where nobody answers, no more than
 * downscales wait. A scale of 0 has no replicas.
 */
export const mayBeDownscale = [
  ...["object.spec", "oldObject.spec", "object.spec.replicas", "oldObject.spec.replicas"].map(
    (part) => `!has(${part})`,
  ),
  "object.spec.replicas < oldObject.spec.replicas",
].join(" || ");

interface Sized {
  readonly replicas: number | undefined;
  readonly object: SizedObject | undefined;
}

const largestReplicas = 2 ** 31 - 1;
const shownCharacters = 80;

/**
 * The downscale that a review asks for, or the answer to one that asks for none (as rollout-operator has it): nobody is held
 * back by what cannot be read.
 */
export function readDownscale(request: AdmissionRequest): Downscale | Allowed {
  const { resource, subresource, namespace, name, dryRun } = request;
  const scaled = scaledResources.find((one) => one === resource.resource && resource.group === resources[one].group);
  if (scaled === undefined) return unreadable(`nothing is known of the size of ${shown(resource.resource)}`);
  const isScale = subresource === "scale";
  const read = isScale ? readScale : (object: unknown) => readObject(scaled, object);
  const old = read(request.oldObject);
  if (typeof old === "string") return unreadable(`the old object of ${scaled}/${name} cannot be read: ${old}`);
  const now = read(request.object);
  if (typeof now === "string") return unreadable(`the new object of ${scaled}/${name} cannot be read: ${now}`);
  const [from, to] = [old.replicas, now.replicas];
  if (from === undefined && to === undefined) return allow("not-a-downscale");
  if (from === undefined || to === undefined) {
    const which = from === undefined ? "old" : "new";
    const sentence = `only the ${which} object of ${scaled}/${name} has no replicas: whether it becomes smaller is not known, and it goes through`;
    return allow("replicas-unclear", { warnings: [sentence] });
  }
  if (to >= from) return allow("not-a-downscale");
  return { resource: scaled, namespace, name, dryRun, isScale, from, to, old: old.object, object: now.object };
}

function unreadable(why: string): Allowed {
  return allow("unreadable-object", { warnings: [`${why}: its size was not judged, and it goes through`] });
}

/** A scale always has a number: one that is left out is 0. The sentence says why it is none. */
function readScale(value: unknown): Sized | string {
  const read = readTyped(value, "autoscaling/v1", "Scale");
  return typeof read === "string" ? read : { replicas: read.replicas ?? 0, object: undefined };
}

function readObject(resource: ScaledResource, value: unknown): Sized | string {
  const read = readTyped(value, "apps/v1", resources[resource].kind);
  if (typeof read === "string") return read;
  const { replicas, spec } = read;
  const metadata = readMetadata(read.metadata);
  if (typeof metadata === "string") return metadata;
  const serviceName = textOrNone(spec.serviceName);
  if (serviceName === undefined) return "spec.serviceName is no text";
  const ordinals = optionalFields(spec.ordinals);
  const start = ordinals === undefined ? undefined : readInteger(ordinals.start);
  if (ordinals === undefined || start === undefined) return "spec.ordinals cannot be read";
  const object = {
    metadata,
    spec: {
      ...(replicas === undefined ? {} : { replicas }),
      ...(serviceName === null ? {} : { serviceName }),
      ...(start === null ? {} : { ordinals: { start } }),
    },
  };
  return { replicas, object };
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

/** Labels and annotations that are not texts are in no cluster: no key of theirs is to be believed. */
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

/** What is left out, and null, is empty; undefined where it is no object. */
function optionalFields(value: unknown): Fields | undefined {
  return value === undefined || value === null ? {} : fieldsOf(value);
}

/** Null where it is left out; undefined where Kubernetes would not accept it. */
function readInteger(value: unknown): number | null | undefined {
  if (value === undefined || value === null) return null;
  const isAccepted = Number.isInteger(value) && Math.abs(Number(value)) <= largestReplicas;
  return isAccepted ? Number(value) : undefined;
}

/** Null where it is left out; undefined where it is no text. */
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
  return typeof value === "string" ? JSON.stringify(value.slice(0, shownCharacters)) : "nothing that is a text";
}
