/** Reads the annotations of volume claims and StatefulSets about suspension, without the product's code. */
import type { StoredObject, StoredPod, StoredStatefulSet } from "../../fake-cluster/objects.ts";

export const ourFinalizer = "sluice.dev/volume-hold";
const prefix = "sluice.dev/";
/** Names of the volume claim templates. A StatefulSet has the first one, or both. */
export const templates = ["data", "journal"] as const;

export function key(name: string): string {
  return `${prefix}${name}`;
}

export function annotationOf({ metadata }: Pick<StoredObject, "metadata">, name: string): string | undefined {
  return metadata.annotations?.[key(name)];
}

export function hasOurFinalizer({ metadata }: StoredObject): boolean {
  return metadata.finalizers?.includes(ourFinalizer) ?? false;
}

export function isDeleted({ metadata }: StoredObject): boolean {
  return metadata.deletionTimestamp !== undefined;
}

/** Name of the pod that a volume claim belongs to. */
export function podOf({ metadata }: StoredObject): string {
  return metadata.name.slice(metadata.name.indexOf("-") + 1);
}

/** True also for a value that is neither true nor false. */
export function isOnHold(object: StoredObject): boolean {
  const text = annotationOf(object, "hold");
  return text !== undefined && text !== "false";
}

const usualWaitMs = 60_000;
const unitsMs: Readonly<Record<string, number>> = { "": 1_000, s: 1_000, m: 60_000, h: 3_600_000 };

/**
 * Time for which a volume is kept, in milliseconds: the longer one of the claim's and the StatefulSet's. Undefined if the
 * StatefulSet has none, or if Sluice cannot read one of them.
 */
export function durationMs(claim: StoredObject, set: StoredObject | undefined): number | undefined {
  const leastMs = readMs(set === undefined ? "" : (annotationOf(set, "suspend-duration") ?? ""));
  const own = annotationOf(claim, "suspend-duration");
  const ownMs = own === undefined ? 0 : readMs(own);
  return leastMs === undefined || ownMs === undefined ? undefined : Math.max(leastMs, ownMs);
}

function readMs(text: string): number | undefined {
  const [, number, unit = ""] = /^(\d+)([smh]?)$/.exec(text) ?? [];
  const unitMs = unitsMs[unit];
  return number === undefined || unitMs === undefined ? undefined : Number(number) * unitMs;
}

/** True if the volume claim states that it is drained, with a time that is not in the future. */
export function isDrained(claim: StoredObject, nowMs: number): boolean {
  const text = annotationOf(claim, "drained-at") ?? "";
  const atMs = /^\d{4}-\d\d-\d\dT/.test(text) ? Date.parse(text) : Number.NaN;
  return atMs <= nowMs;
}

/** Returns `None` also for a mode that Sluice cannot read. */
export function modeOf(set: StoredObject): string {
  const text = annotationOf(set, "removal-mode") ?? "Zone";
  return ["All", "Zone", "Group"].includes(text) ? text : "None";
}

/** Names of the volume claims that a pod mounts. */
export function mountsOf({ spec }: StoredPod): readonly string[] {
  return (spec.volumes ?? []).flatMap(({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName ?? []);
}

export function isWanted(set: StoredStatefulSet, ordinal: number): boolean {
  return ordinal >= firstOf(set) && ordinal < firstOf(set) + set.spec.replicas;
}

export function firstOf({ spec }: StoredStatefulSet): number {
  return spec.ordinals?.start ?? 0;
}

/** Wait between two removals, in milliseconds; undefined if Sluice cannot read it. A negative one counts as the default. */
export function waitMs(set: StoredObject): number | undefined {
  const text = annotationOf(set, "wait-between-removals");
  if (text === undefined) return usualWaitMs;
  return text.startsWith("-") && readMs(text.slice(1)) !== undefined ? usualWaitMs : readMs(text);
}
