/** Reads owners and their pods from the JSON of the API server, without the product's code. */
import type { StoredObject, StoredPod } from "../../fake-cluster/objects.ts";

export const ourFinalizer = "sluice.dev/release-prestop";
export const annotation = (name: string) => `sluice.dev/${name}`;

/** Name of a StatefulSet that itself asks for a label, and the label. */
export const quorum = "quorum";
export const quorumLabel = "sluice.dev/leave=now";
/** Name of a StatefulSet that asks for nothing, although its pods have the same labels as those of the first cluster. */
export const foreign = "foreign";
export const rabbitLabel = "skipPreStopChecks";
export const appLabel = "app.kubernetes.io/name";

export function clusterName(index: number): string {
  return `rabbit-${index}`;
}

export function controllerUid({ metadata }: StoredObject): string | undefined {
  return metadata.ownerReferences?.find(({ controller }) => controller === true)?.uid;
}

export function annotationOf({ metadata }: StoredObject, name: string): string | undefined {
  return metadata.annotations?.[annotation(name)];
}

export function hasOurFinalizer({ metadata }: StoredObject): boolean {
  return metadata.finalizers?.includes(ourFinalizer) ?? false;
}

export function isDeleted({ metadata }: StoredObject): boolean {
  return metadata.deletionTimestamp !== undefined;
}

/** The label that the owner's pods must get, as KEY or KEY=VALUE; undefined if the owner asks for none. */
export function askedLabel(owner: StoredObject): string | undefined {
  const asked = annotationOf(owner, "skip-label");
  return asked === "none" ? undefined : asked;
}

export function hasAsked(owner: StoredObject, { metadata: { labels } }: StoredPod): boolean {
  const [key = "", value] = (askedLabel(owner) ?? "").split("=");
  const text = labels?.[key] ?? "";
  return value === undefined ? text !== "" : text === value;
}

/** Time after its deletion at which an owner may be released although its pods have no label, in milliseconds. */
export function deadlineMs(owner: StoredObject): number {
  const [, seconds] = /^(\d+)s$/.exec(annotationOf(owner, "skip-deadline") ?? "") ?? [];
  return seconds === undefined ? 300_000 : Number(seconds) * 1_000;
}
