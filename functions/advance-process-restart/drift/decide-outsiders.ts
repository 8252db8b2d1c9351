/** Decides whether some pods of a group may restart together while others run on. Pure. */

import type { Blocked } from "../../shared/ledger/claim-kinds.ts";
import { togetherGuard } from "../decide-files.ts";
import type { DriftZone } from "./decide-drift.ts";
import { changedKey, type FilesBefore, whyApart } from "./decide-settings.ts";

interface OutsiderConflict {
  readonly name: string;
  readonly key: string | undefined;
}

/**
 * What keeps the pods with these uids from a restart together: another one of the group runs with another setting than its files
 * have now, so that they could not join it. `unusable`: what processes run with whose files cannot be read or written.
 */
export function blockedByOutsiders(
  known: readonly DriftZone[],
  members: ReadonlySet<string>,
  unusable: readonly FilesBefore[],
): Blocked | undefined {
  if (members.size === 0) return undefined;
  const conflicts = known.flatMap((one) => (one.mode === "rolling" ? [] : conflictsIn(one, members, unusable)));
  const [why] = conflicts.flatMap(({ name, key }) => (key === undefined ? [] : [whyApart(name, key)]));
  if (why === undefined) return undefined;
  const message = `${why}: write schedule-coordinated on all pods of the group`;
  return { guard: togetherGuard, message };
}

function conflictsIn(
  { zone: { workload, pods }, expected, running, down, ...before }: DriftZone,
  members: ReadonlySet<string>,
  unusable: readonly FilesBefore[],
): readonly OutsiderConflict[] {
  const outside = pods.filter(({ uid }) => !members.has(uid) && down?.has(uid) !== true);
  const own = outside.flatMap(({ uid, name }): readonly OutsiderConflict[] => {
    const sum = running.get(uid);
    if (sum === undefined) return [];
    return [{ name, key: changedKey(expected, [{ ...before, started: [sum] }]) }];
  });
  const isIn = pods.some(({ uid }) => members.has(uid));
  return isIn ? [...own, { name: `a pod besides ${workload.name}`, key: changedKey(expected, unusable) }] : own;
}
