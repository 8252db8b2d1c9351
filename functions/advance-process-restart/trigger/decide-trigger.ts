/** Decides which pods restart because a trigger has a new value. Pure. */

import { restartManager } from "../../shared/annotations/restart.ts";
import { type KnownTrigger, type RestartTrigger, restartTrigger } from "../../shared/annotations/restart-trigger.ts";
import type { Zone } from "../../shared/groups/zones.ts";
import type { Blocked } from "../../shared/ledger/claim-kinds.ts";
import type { Pod } from "../../shared/workloads/pods.ts";
import type { StatefulSet } from "../../shared/workloads/statefulsets.ts";
import { isWaitingForFiles, type MarkTarget, triggerReason } from "../decide-mark.ts";

/** By the name of a StatefulSet the trigger for which its processes were last asked to restart. */
export type KnownTriggers = ReadonlyMap<string, KnownTrigger>;

export interface TriggerDecision {
  readonly targets: readonly MarkTarget[];
  readonly blocked: Blocked | undefined;
  /** What the ledger is to remember from now on; absent: what it remembers is right. */
  readonly known?: KnownTriggers;
}

/** A StatefulSet whose trigger has a new value, and the pods that are not asked yet. */
interface NewTrigger {
  readonly zone: Zone<StatefulSet>;
  readonly blocked: Blocked | undefined;
  readonly targets: readonly MarkTarget[];
}

/**
 * The ledger remembers a value only when all pods are asked, so that a process that takes over asks the others. A trigger of
 * which nothing is remembered restarts nothing: its pods are as new as the StatefulSet, or Sluice is.
 */
export function decideTriggers(all: readonly Zone<StatefulSet>[], known: KnownTriggers): TriggerDecision {
  const zones = all.filter(({ workload }) => !workload.deleting);
  const changed = zones
    .flatMap((zone) => newTriggerIn(zones, zone, known) ?? [])
    .sort((one, other) => rankOf(one) - rankOf(other));
  const unasked = changed.find(({ blocked, targets }) => blocked === undefined && targets.length > 0);
  const asked = changed.filter(({ blocked, targets }) => blocked === undefined && targets.length === 0);
  const next = new Map(zones.flatMap((zone) => entryOf(zone, known, asked)));
  const blocked = changed.find((one) => one.blocked !== undefined)?.blocked;
  return { targets: unasked?.targets ?? [], blocked, ...(isSame(known, next) ? {} : { known: next }) };
}

/** A pod that restarts together with the others is not asked for its turn as well. */
function rankOf({ zone }: NewTrigger): number {
  return zone.workload.restart?.trigger?.isCoordinated ? 0 : 1;
}

function newTriggerIn(
  zones: readonly Zone<StatefulSet>[],
  zone: Zone<StatefulSet>,
  known: KnownTriggers,
): NewTrigger | undefined {
  const { name, uid, restart } = zone.workload;
  const before = known.get(name);
  const { trigger } = restart ?? {};
  if (before?.uid !== uid || trigger === undefined || trigger.text === before.text) return undefined;
  const concerned = trigger.isCoordinated ? zones : [zone];
  const unmanaged = concerned.find(({ workload }) => workload.restart?.manager === undefined);
  const blocked = unmanaged && blockedByManager(zone, unmanaged);
  return { zone, blocked, targets: concerned.flatMap((one) => mark(one, trigger)) };
}

function blockedByManager({ workload }: Zone<StatefulSet>, { workload: unmanaged }: Zone<StatefulSet>): Blocked {
  const why = unmanaged.restart?.malformed[0]?.message ?? `it names no port: write ${restartManager.key}`;
  const message = `${restartTrigger.key} of ${workload.name} restarts no pod of ${unmanaged.name} in place: ${why}`;
  return { guard: "restart-manager-missing", message };
}

function mark({ workload: statefulSet, pods }: Zone<StatefulSet>, trigger: RestartTrigger): readonly MarkTarget[] {
  const reason = `${triggerReason}${trigger.text}`;
  const unasked = pods.filter((pod) => !pod.terminating && pod.restartReason !== reason);
  const byPhase = Map.groupBy(unasked, (pod) => phaseFor(pod, trigger));
  return [...byPhase].flatMap(([phase, some]): MarkTarget[] =>
    phase === undefined ? [] : [{ kind: "mark", statefulSet, pods: some, phase, reason }],
  );
}

/** Undefined for a pod that needs none: it restarts in any case, or has failed and waits for a person. */
function phaseFor(pod: Pod, { isCoordinated }: RestartTrigger): string | undefined {
  const { text } = pod.restart ?? {};
  if (text === undefined) return isCoordinated ? "schedule-coordinated" : "schedule-rolling";
  if (isCoordinated && (text === "schedule" || text === "schedule-rolling")) return "schedule-coordinated";
  // Its phase is taken off when the files are as they were.
  return isWaitingForFiles(pod) ? text : undefined;
}

function entryOf(
  { workload }: Zone<StatefulSet>,
  known: KnownTriggers,
  asked: readonly NewTrigger[],
): readonly (readonly [string, KnownTrigger])[] {
  const { name, uid, restart } = workload;
  if (restart === undefined) return [];
  const before = known.get(name);
  const isNew = before?.uid !== uid || asked.some(({ zone }) => zone.workload.uid === uid);
  return [[name, isNew ? { uid, text: restart.trigger?.text ?? "" } : before]];
}

function isSame(one: KnownTriggers, other: KnownTriggers): boolean {
  const isKept = ([name, { uid, text }]: readonly [string, KnownTrigger]) =>
    other.get(name)?.uid === uid && other.get(name)?.text === text;
  return one.size === other.size && [...one].every(isKept);
}
