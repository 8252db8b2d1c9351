/** What is read of owners and of their pods, from the JSON that the API server has, apart from the product. */
import type { StoredObject, StoredPod } from "../../fake-cluster/objects.ts";

export const ourFinalizer = "sluice.dev/release-prestop";
export const annotation = (name: string) => `sluice.dev/${name}`;

/** A StatefulSet that asks for a label of its own, and what it asks for. */
export const quorum = "quorum";
export const quorumLabel = "sluice.dev/stop=now";
/** A StatefulSet that asks for nothing, whose pods have the labels of the first cluster's. */
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

/** The label that its pods are to get, as KEY or KEY=VALUE; undefined for one that asks for none. */
export function askedLabel(owner: StoredObject): string | undefined {
  const asked = annotationOf(owner, "skip-label");
  return asked === "none" ? undefined : asked;
}

export function hasAsked(owner: StoredObject, { metadata: { labels } }: StoredPod): boolean {
  const [key = "", value] = (askedLabel(owner) ?? "").split("=");
  const text = labels?.[key] ?? "";
  return value === undefined ? text !== "" : text === value;
}

/** How long after its deletion an owner may be let go though its pods have no label, in milliseconds. */
export function deadlineMs(owner: StoredObject): number {
  const [, seconds] = /^(\d+)s$/.exec(annotationOf(owner, "skip-deadline") ?? "") ?? [];
  return seconds === undefined ? 300_000 : Number(seconds) * 1_000;
}
