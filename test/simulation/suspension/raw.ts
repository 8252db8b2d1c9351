/** What volume claims and StatefulSets say of suspension, read once more and apart from the product. */
import type { StoredObject, StoredPod, StoredStatefulSet } from "../../fake-cluster/objects.ts";

export const ourFinalizer = "sluice.dev/volume-hold";
const prefix = "sluice.dev/";
/** The names of the volume claim templates of a StatefulSet: of the first so many. */
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

/** The pod that a volume claim is made for. */
export function podOf({ metadata }: StoredObject): string {
  return metadata.name.slice(metadata.name.indexOf("-") + 1);
}

/** What is neither true nor false holds, too. */
export function isOnHold(object: StoredObject): boolean {
  const text = annotationOf(object, "hold");
  return text !== undefined && text !== "false";
}

const usualWaitMs = 60_000;
const unitsMs: Readonly<Record<string, number>> = { "": 1_000, s: 1_000, m: 60_000, h: 3_600_000 };

/**
 * In milliseconds; undefined where its StatefulSet does not say how long, or where Sluice cannot read what one of both says. A
 * volume claim lengthens the time of its StatefulSet, and never shortens it.
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

/** True where the volume claim says that it is drained, since a time that has come. */
export function isDrained(claim: StoredObject, nowMs: number): boolean {
  const text = annotationOf(claim, "drained-at") ?? "";
  const atMs = /^\d{4}-\d\d-\d\dT/.test(text) ? Date.parse(text) : Number.NaN;
  return atMs <= nowMs;
}

/** `None` also where Sluice cannot read the mode. */
export function modeOf(set: StoredObject): string {
  const text = annotationOf(set, "removal-mode") ?? "Zone";
  return ["All", "Zone", "Group"].includes(text) ? text : "None";
}

/** The names of the volume claims that a pod mounts. */
export function mountsOf({ spec }: StoredPod): readonly string[] {
  return (spec.volumes ?? []).flatMap(({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName ?? []);
}

export function isWanted(set: StoredStatefulSet, ordinal: number): boolean {
  return ordinal >= firstOf(set) && ordinal < firstOf(set) + set.spec.replicas;
}

export function firstOf({ spec }: StoredStatefulSet): number {
  return spec.ordinals?.start ?? 0;
}

/** Wait between two removals, in milliseconds; undefined if Sluice cannot read it. A negative one counts as the usual one. */
export function waitMs(set: StoredObject): number | undefined {
  const text = annotationOf(set, "wait-between-removals");
  if (text === undefined) return usualWaitMs;
  return text.startsWith("-") && readMs(text.slice(1)) !== undefined ? usualWaitMs : readMs(text);
}
