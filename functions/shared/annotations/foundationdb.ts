/** The annotations of a FoundationDBCluster and of its pods and volume claims, and which of its removals Sluice blocks. */

import { fieldsOf, parseFields } from "../base/fields.ts";
import { parseGoBoolean, parseTime } from "../clock/durations.ts";
import { annotationOn, labelOn, nonEmptyText } from "./entry.ts";

/** A process group whose removal Sluice blocks. */
export interface HeldGroup {
  /** In milliseconds since the epoch. */
  readonly sinceMs: number;
  /** Time at which its recovery began, or a writer last undid it, in milliseconds since the epoch; absent: it is to go. */
  readonly recoveringMs?: number;
}

/** By the id of the process group. */
export type HeldGroups = Readonly<Record<string, HeldGroup>>;

function parseHeld(text: string): HeldGroups | undefined {
  const given = parseFields(text);
  if (given === undefined) return undefined;
  const groups: Record<string, HeldGroup> = {};
  for (const [id, one] of Object.entries(given)) {
    const { since, recovering } = fieldsOf(one) ?? {};
    const sinceMs = typeof since === "string" ? parseTime(since) : undefined;
    const recoveringMs = typeof recovering === "string" ? parseTime(recovering) : undefined;
    if (sinceMs === undefined || (recovering !== undefined && recoveringMs === undefined)) return undefined;
    groups[id] = { sinceMs, ...(recoveringMs === undefined ? {} : { recoveringMs }) };
  }
  return groups;
}

/** As {@link heldGroups} parses it; null where there is none. */
export function formatHeld(groups: HeldGroups): string | null {
  const time = (ms: number) => new Date(ms).toISOString();
  const entries = Object.entries(groups)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([id, { sinceMs, recoveringMs }]) => [
      id,
      { since: time(sinceMs), ...(recoveringMs === undefined ? {} : { recovering: time(recoveringMs) }) },
    ]);
  return entries.length === 0 ? null : JSON.stringify(Object.fromEntries(entries));
}

const onOwner = annotationOn("Owner");
const labelOfPvc = labelOn("PersistentVolumeClaim");

export const heldGroups = onOwner("sluice.dev/held-process-groups", parseHeld, {
  grammar: 'JSON: {"PROCESS GROUP": {"since", "recovering"}}',
  fallback: "absent: none; malformed: no block is added or lifted",
  isLong: true,
  meaning: "which ids of spec.buggify.blockRemoval are ours; every other one is a user's, and stays; written by us",
  isWrittenByUs: true,
});

export const protectVolumes = onOwner("sluice.dev/protect-volumes", parseGoBoolean, {
  grammar: "a Go boolean: 1, t, T, TRUE, true, True, 0, f, F, FALSE, false, False",
  fallback: "absent: false; malformed: no volume claim gets our finalizer, and none loses it",
  meaning:
    "true: every volume claim of the cluster has our finalizer all its life, so that no deletion is faster than we are",
});

export const clusterName = labelOfPvc("foundationdb.org/fdb-cluster-name", nonEmptyText, {
  grammar: "the name of a FoundationDBCluster",
  fallback: "absent: it is of no FoundationDBCluster",
  meaning: "whose pod or volume claim it is; written by FoundationDB's operator",
  broughtBy: "foundationdb",
});

export const processGroupId = labelOfPvc("foundationdb.org/fdb-process-group-id", nonEmptyText, {
  grammar: "the id of a process group, such as storage-1",
  fallback: "absent: it is of no process group",
  meaning: "which process group the pod or the volume claim is of; written by FoundationDB's operator",
});

export const foundationEntries = [heldGroups, protectVolumes, clusterName, processGroupId] as const;
