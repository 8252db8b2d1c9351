/** The reports of a verdict, and when they are made: the ledger's record, the Kubernetes Event on a change, the metric. */

import { cut } from "../base/truncate.ts";
import type { Context } from "../contract/context.ts";
import type { ReconcileResult } from "../contract/definition.ts";
import type { Key } from "../contract/keys.ts";
import type { GroupMemory } from "../contract/memory.ts";
import type { ReconcileReport } from "../contract/reporter.ts";
import type { Verdict } from "../contract/verdict.ts";
import { eventReasons } from "../events/reasons.ts";
import { isNewEvent, recordEvent, recordOnce } from "../events/recorder.ts";
import { fitting } from "../ledger/lease.ts";
import type { LedgerChange, RecordedVerdict } from "../ledger/reservation.ts";
import { isFarBelowBound } from "../ledger/size.ts";
import { mendStamp } from "../ledger/stamps.ts";
import { changeOf } from "../transaction/claims.ts";
import { writeChange } from "../transaction/ledger-copy.ts";
import type { GroupObservation } from "../transaction/observe-group.ts";
import { isOwnerGroup } from "../workloads/group-key.ts";
import { type GroupKey, isLeftOut, type StatefulSet } from "../workloads/statefulsets.ts";

/** A verdict is written alone at most this often: each write makes other replicas conflict. */
export const recordEveryMs = 5_000;
/** A message in which only numbers differ is worth a write of its own this often. */
const rewordEveryMs = 30_000;
/**
 * A wait that goes on is written again this often, although nothing changed, because alerts see by it that a process still
 * reconciles.
 */
const reaffirmEveryMs = 240_000;
/** A guard that every healthy rollout meets becomes an Event when it has held for this long. */
const quietForMs = 60_000;
/** No part of any function: every ledger is new once. */
const alwaysQuiet: ReadonlySet<string> = new Set(["ledger-new"]);

/** A function's texts about its verdicts, in the ledger and in Events. */
export interface EventPolicy {
  /** The name under which a verdict is recorded and counted that takes something, such as `rolling`. */
  readonly taking: string;
  /** The reasons of the Events when it begins to take, when it waits, and when it is done. */
  readonly reasons: { readonly begins: string; readonly waits: string; readonly ends: string };
  /** The guards that it meets when all is well. One becomes an Event only when it has held for a minute. */
  readonly quietGuards: ReadonlySet<string>;
}

/** The function's name. */
export interface EventSource {
  readonly name: string;
  readonly eventPolicy: EventPolicy;
}

/** The ledger's record of a verdict, and the write that stores it and reserves nothing new. */
export interface VerdictRecord {
  readonly record: RecordedVerdict;
  readonly change: LedgerChange;
}

/** Begins to record a verdict, and warns about malformed values of the group's StatefulSets. */
export function recordVerdict(
  context: Context,
  source: EventSource,
  observed: GroupObservation,
  verdict: Verdict<unknown>,
): VerdictRecord {
  const { key, zones, view } = observed;
  const beside = view.neighbours.filter((one) => isLeftOut(one, key));
  for (const one of [...zones.map(({ workload }) => workload), ...beside])
    warnOfMalformed(context, source.name, key, key, one, one.malformed);
  const record = recordOf(context.memoryOf(key), source, observed, verdict);
  return { record, change: changeToRecord(observed, source.name, record) };
}

function changeToRecord(observed: GroupObservation, by: string, record: RecordedVerdict): LedgerChange {
  return changeOf(observed, { verdicts: { ...observed.ledger.verdicts, [by]: record } });
}

/** The record of a verdict; `since` goes on while the same guard holds in the same zone. */
export function recordOf(
  memory: GroupMemory,
  { name: by, eventPolicy }: EventSource,
  observed: GroupObservation,
  verdict: Verdict<unknown>,
): RecordedVerdict {
  const guard = guardOf(verdict, eventPolicy.taking);
  const zone = verdict.zone;
  const message = cut(verdict.message);
  const written = observed.ledger.verdicts[by];
  const isSame = (other: { guard: string; zone: string } | undefined) => other?.guard === guard && other.zone === zone;
  const firstMs =
    (isSame(memory.waiting) ? memory.waiting?.sinceMs : undefined) ??
    (isSame(written) ? written?.since : undefined) ??
    observed.nowMs;
  const since = mendStamp(firstMs, observed.nowMs);
  memory.waiting = { guard, zone, sinceMs: since };
  return { guard, zone, sentence: message, since, at: observed.nowMs };
}

/** The name under which a verdict is recorded and counted: its guard, or `taking` if it takes pods, or `done`. */
export function guardOf(verdict: Verdict<unknown>, taking: string): string {
  if (verdict.kind === "wait") return verdict.guard;
  return verdict.targets.length > 0 ? taking : "done";
}

/** How long until the record is worth a write of its own: 0 for now, undefined for not at all. */
export function writeAloneInMs(
  context: Context,
  memory: GroupMemory,
  by: string,
  observed: GroupObservation,
  record: RecordedVerdict,
): number | undefined {
  const written = observed.ledger.verdicts[by];
  const fresh = written === undefined && record.guard === "done";
  const settled = observed.ledger.reservations.length - observed.open.length;
  const changed = !fresh && (written?.guard !== record.guard || written.zone !== record.zone);
  const finished = record.guard === "done" && settled > 0;
  // Entries that a write would drop again are not new, because they would be written for ever.
  const change = changeToRecord(observed, by, record);
  const kept = isFarBelowBound(observed.ledger, change) ? change : fitting(observed.ledger, change);
  const newRefusals = kept.refusals.some(
    ({ uid, by: whose, stampMs }) =>
      !observed.ledger.refusals.some((known) => known.uid === uid && known.by === whose && known.stampMs === stampMs),
  );
  // Rule R4: the first decision under a ledger is always written, because until then each observation is a consistent LIST.
  if (
    observed.notes?.isDue ||
    observed.abandoned > 0 ||
    observed.isMended ||
    observed.ledger.settledThrough === undefined
  )
    return 0;
  if (changed || finished || newRefusals) {
    const quietMs = Math.min(
      context.cluster.monotonicMs() - memory.ledgerWrittenMs,
      Math.abs(observed.nowMs - (written?.at ?? 0)),
    );
    return Math.max(0, recordEveryMs - quietMs);
  }
  // Only a group that never had any work has no record.
  if (written === undefined) return undefined;
  if (record.guard !== "done" && observed.nowMs - written.at >= reaffirmEveryMs) return 0;
  if (written.sentence !== kept.verdicts[by]?.sentence) {
    return Math.max(0, rewordEveryMs - Math.abs(observed.nowMs - written.at));
  }
  return undefined;
}

/** A verdict that takes nothing: written to the ledger when it has changed, and at most every 5 s. */
export async function recordAlone(
  context: Context,
  source: EventSource,
  observed: GroupObservation,
  verdict: Verdict<unknown>,
  { record, change }: VerdictRecord,
): Promise<ReconcileResult> {
  const memory = context.memoryOf(observed.key);
  const inMs = writeAloneInMs(context, memory, source.name, observed, record);
  let recording: Promise<undefined> | undefined;
  if (inMs === 0) await writeChange(context, observed, change);
  if (inMs === 0 || inMs === undefined)
    recording = recordVerdictEvent(context, source, observed, record).then(() => undefined);
  const requeues = [verdict.requeueAfterMs, inMs].filter((ms) => ms !== undefined && ms > 0) as number[];
  return { requeueAfterMs: requeues.length > 0 ? Math.min(...requeues) : undefined, pendingActs: recording };
}

/**
 * The Kubernetes Event that a recorded verdict deserves, if any: a zone that starts, a group that is done, a guard that is
 * no part of a healthy rollout, or one that is but has held for a minute. Resolves, never rejects.
 */
export async function recordVerdictEvent(
  context: Context,
  { name: by, eventPolicy }: EventSource,
  observed: GroupObservation,
  record: RecordedVerdict,
): Promise<void> {
  const before = observed.ledger.verdicts[by];
  const kind = eventOf(eventPolicy, before, record);
  const zone = observed.zones.find(({ workload }) => workload.name === record.zone) ?? observed.zones[0];
  // A zone of an owner is no object that could have an Event; its volume claims get the message.
  if (kind === undefined || zone === undefined || isOwnerGroup(observed.key.group)) return;
  const identity = `${record.guard} ${record.zone} ${record.since}`;
  const message = kind.reason === eventPolicy.reasons.waits ? `${record.guard}: ${record.sentence}` : record.sentence;
  const about = { resource: "statefulsets" as const, ...zone.workload };
  await recordOnce(context, by, observed.key, { about, ...kind, message, identity });
}

function eventOf(
  { taking, reasons, quietGuards }: EventPolicy,
  before: RecordedVerdict | undefined,
  now: RecordedVerdict,
): { type: "Normal" | "Warning"; reason: string } | undefined {
  const isQuiet = (guard: string) => guard === taking || quietGuards.has(guard) || alwaysQuiet.has(guard);
  const changed = before === undefined || before.guard !== now.guard || before.zone !== now.zone;
  if (now.guard === "done")
    return before !== undefined && changed ? { type: "Normal", reason: reasons.ends } : undefined;
  if (now.guard === taking) {
    const goesOn = before !== undefined && before.zone === now.zone && isQuiet(before.guard);
    return goesOn ? undefined : { type: "Normal", reason: reasons.begins };
  }
  if (isQuiet(now.guard)) {
    return now.at - now.since >= quietForMs ? { type: "Normal", reason: reasons.waits } : undefined;
  }
  return changed ? { type: "Warning", reason: reasons.waits } : undefined;
}

/** Reports a verdict, and remembers since when its guard holds. Shadow mode alone would take what `wouldTake` names. */
export function reportVerdict(
  context: Context,
  by: string,
  key: Key,
  { guard, zone, message, wouldTake }: Pick<ReconcileReport, "guard" | "zone" | "message" | "wouldTake">,
): void {
  const memory = context.memoryOf(key);
  const sinceMs = memory.waiting?.guard === guard ? memory.waiting.sinceMs : context.cluster.serverTimeMs();
  memory.waiting = { guard, zone, sinceMs };
  const shadow = context.mode === "shadow";
  const taken = shadow && wouldTake !== undefined ? { wouldTake } : {};
  context.reporter.verdict({ key, function: by, guard, zone, message, sinceMs, shadow, ...taken });
}

/** A malformed value causes one warning on its object while it stays as it is; the safe value already counts. */
export function warnOfMalformed(
  context: Context,
  by: string,
  key: Key,
  group: GroupKey,
  statefulSet: Pick<StatefulSet, "namespace" | "name" | "uid">,
  malformed: StatefulSet["malformed"],
): void {
  for (const { key: annotation, message, misplaced } of malformed) {
    const identity = `${statefulSet.uid} ${annotation} ${message}`;
    if (!isNewEvent(context, key, identity)) continue;
    context.reporter.malformed(group, statefulSet.name, annotation, message);
    if (context.mode === "shadow") continue;
    const about = { resource: "statefulsets", ...statefulSet } as const;
    const reason = misplaced === undefined ? eventReasons.malformed : eventReasons.misplaced;
    void recordEvent(context, by, key, { about, type: "Warning", reason, message, identity });
  }
}
