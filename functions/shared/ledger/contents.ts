/** The annotations of a ledger, as text and as values (rule R2). */

import { namedConfigs } from "../annotations/restart-files.ts";
import { knownTriggers } from "../annotations/restart-trigger.ts";
import * as keys from "../annotations/table.ts";
import { longestObjectName } from "../base/dns-names.ts";
import { escapeControls } from "../base/escape-control.ts";
import { isTime, parseFields } from "../base/fields.ts";
import { cut } from "../base/truncate.ts";
import type { LeaseObject } from "../kubernetes/cluster.ts";
import { parseOrdinal, podNameOf } from "../workloads/pods.ts";
import type { GroupKey } from "../workloads/statefulsets.ts";
import { countRanges, parseClaims } from "./claim.ts";
import { LedgerUnreadable } from "./errors.ts";
import {
  type Ledger,
  type LedgerTimes,
  maxReservations,
  type RecordedVerdict,
  type Refusal,
  type Reservation,
  type StoredLedger,
} from "./reservation.ts";
import { annotationBytes } from "./size.ts";

/** The format that this version writes, and the only one that it reads. */
export const knownFormat = "1";

/** The annotations that a write replaces: all but the group, which never changes. */
const replaced = [...keys.ledgerEntries, keys.claims, keys.verdicts];
const written = new Set(replaced.filter((entry) => entry !== keys.ledgerGroup).map(({ key }) => key));

/**
 * Reads a Lease as a ledger. Throws {@link LedgerUnreadable} for a malformed value, which must not count as empty, and for a
 * later version's format.
 */
export function parseLedger(key: GroupKey, lease: LeaseObject): StoredLedger {
  const { metadata } = lease;
  const unreadable = (why: string) => new LedgerUnreadable(metadata.name, why);
  const group = keys.read(keys.ledgerGroup, metadata);
  if (group !== key.group) {
    throw unreadable(
      `annotation ${keys.ledgerGroup.key} says ${JSON.stringify(group)}, not ${JSON.stringify(key.group)}`,
    );
  }
  // A ledger from before formats had a number is of the first format. The next write says so.
  const format = keys.read(keys.ledgerFormat, metadata) ?? knownFormat;
  if (format !== knownFormat) throw foreign(metadata.name, format);
  const malformed: keys.Malformed[] = [];
  const settledThrough = keys.read(keys.settledThrough, metadata, malformed);
  const membersThrough = keys.read(keys.membersThrough, metadata, malformed);
  if (malformed[0] !== undefined) throw unreadable(malformed[0].message);
  const reservations = parseReservations(metadata.annotations?.[keys.reservations.key] ?? "{}", unreadable);
  const claims = parseClaims(metadata.annotations?.[keys.claims.key] ?? "", unreadable);
  const count = reservations.length + countRanges(claims);
  if (count > maxReservations)
    throw unreadable(`it holds ${count} reservations and ranges of claims, and ${maxReservations} at most are ours`);
  return {
    kind: "stored",
    key,
    name: metadata.name,
    uid: metadata.uid,
    resourceVersion: metadata.resourceVersion,
    createdMs: Date.parse(metadata.creationTimestamp ?? ""),
    othersBytes: annotationBytes(
      Object.fromEntries(Object.entries(metadata.annotations ?? {}).filter(([name]) => !written.has(name))),
    ),
    settledThrough,
    membersThrough,
    members: keys.read(keys.members, metadata),
    ...readTimes(metadata),
    reservations,
    claims,
    refusals: parseRefusals(metadata.annotations?.[keys.refusals.key] ?? "{}"),
    verdicts: parseVerdicts(metadata.annotations?.[keys.verdicts.key] ?? "{}"),
  };
}

/** Only downscales and removals depend on the times, so that a malformed one holds up nothing else. */
function readTimes(metadata: LeaseObject["metadata"]): LedgerTimes & Pick<Ledger, "hasMalformedTimes"> {
  const malformed: keys.Malformed[] = [];
  const lastDownscales = keys.read(keys.lastDownscales, metadata, malformed);
  const hasMalformedTimes = malformed.length > 0;
  const looks = keys.read(keys.looks, metadata);
  const hasLastRemoval = metadata.annotations?.[keys.lastRemoval.key] !== undefined;
  // A malformed time may be of this moment: like a time in the future it counts as now, and is written again.
  const lastRemovalMs = keys.read(keys.lastRemoval, metadata) ?? Number.MAX_SAFE_INTEGER;
  const lastRestartMs = keys.read(keys.lastRestart, metadata);
  const configs = keys.read(namedConfigs, metadata);
  const triggers = keys.read(knownTriggers, metadata);
  return {
    ...(configs === undefined ? {} : { namedConfigs: configs }),
    ...(triggers === undefined ? {} : { knownTriggers: triggers }),
    ...(lastRestartMs === undefined ? {} : { lastRestartMs }),
    ...(lastDownscales === undefined ? {} : { lastDownscales }),
    ...(hasMalformedTimes ? { hasMalformedTimes } : {}),
    ...(looks === undefined ? {} : { looks }),
    ...(hasLastRemoval ? { lastRemovalMs } : {}),
  };
}

function foreign(name: string, format: string): LedgerUnreadable {
  const why = `its format is ${JSON.stringify(format.slice(0, 60))}, and this version of Sluice knows ${knownFormat} alone`;
  // A user who deletes it deletes a later version's reservations.
  const remedy = "A later version of Sluice wrote it: run that version, and leave the Lease as it is.";
  return new LedgerUnreadable(name, why, remedy);
}

export function formatReservations(list: readonly Reservation[]): string {
  // Grouped in a Map: a plain object already has something called `constructor`, which is a valid StatefulSet name.
  const byStatefulSet = Map.groupBy(list, ({ statefulSet }) => statefulSet);
  const table = [...byStatefulSet].map(([statefulSet, zone]) => {
    const ordinals = zone.map(({ ordinal, uid, by, stampMs, sinceMs = stampMs, overdueSeenMs }) => {
      if (overdueSeenMs !== undefined) return [ordinal, [uid, by, stampMs, sinceMs, overdueSeenMs]];
      return [ordinal, sinceMs === stampMs ? [uid, by, stampMs] : [uid, by, stampMs, sinceMs]];
    });
    return [statefulSet, Object.fromEntries(ordinals)];
  });
  return JSON.stringify(Object.fromEntries(table));
}

function parseReservations(text: string, unreadable: (why: string) => LedgerUnreadable): Reservation[] {
  const entries = entriesOf(text);
  if (entries === undefined) throw unreadable("its reservations are no JSON object");
  const list: Reservation[] = [];
  for (const [statefulSet, zone] of entries) {
    if (typeof zone !== "object" || zone === null) throw unreadable(`the reservations of ${statefulSet} are no object`);
    for (const [ordinal, entry] of Object.entries(zone)) {
      const reservation = parseReservation(statefulSet, ordinal, entry);
      if (reservation === undefined)
        throw unreadable(`the reservation of ${podNameOf({ statefulSet, ordinal })} is malformed`);
      list.push(reservation);
    }
  }
  return list;
}

/** One entry; undefined if it is malformed. Additions of a later version are ignored, because they permit nothing. */
function parseReservation(statefulSet: string, ordinal: string, entry: unknown): Reservation | undefined {
  const [uid, by, stampMs, sinceMs, overdueSeenMs] = Array.isArray(entry) ? entry : [];
  if (parseOrdinal(ordinal) < 0 || ![statefulSet, uid, by].every(isBoundedText) || !isTime(stampMs)) return undefined;
  const renewed = Number.isSafeInteger(sinceMs) && sinceMs < stampMs ? { sinceMs } : {};
  const overdueSeen = isTime(overdueSeenMs) && overdueSeenMs > stampMs ? { overdueSeenMs } : {};
  return { statefulSet, ordinal: Number(ordinal), uid, by, stampMs, ...renewed, ...overdueSeen };
}

/** No entry holds a longer text, except messages. */
function isBoundedText(text: unknown): text is string {
  return typeof text === "string" && text.length <= longestObjectName;
}

/** The entries of a JSON object; undefined for any other text. */
function entriesOf(text: string): [string, unknown][] | undefined {
  const table = parseFields(text);
  return table && Object.entries(table);
}

/** Two functions may each have a refusal of one pod, so that the key also names the function, unless that is a rollout. */
export function formatRefusals(list: readonly Refusal[]): string {
  const entries = list.map(({ uid, pod, message, stampMs, by }) => {
    return by === undefined ? [uid, [pod, message, stampMs]] : [`${uid}/${by}`, [pod, message, stampMs, by]];
  });
  return escapeControls(JSON.stringify(Object.fromEntries(entries)));
}

/** Refusals and verdicts only inform: Sluice drops malformed ones, because nothing is permitted by them. */
function parseRefusals(text: string): Refusal[] {
  return (entriesOf(text) ?? []).flatMap(([name, entry]): Refusal[] => {
    const [pod, message, stampMs, by] = Array.isArray(entry) ? entry : [];
    const valid = isBoundedText(pod) && typeof message === "string" && isTime(stampMs);
    const isOfOne = typeof by === "string" && name.endsWith(`/${by}`);
    const uid = isOfOne ? name.slice(0, -by.length - 1) : name;
    if (!valid || !isBoundedText(uid) || (isOfOne && !isBoundedText(by))) return [];
    return [{ uid, pod, message: cut(message), stampMs, ...(isOfOne ? { by } : {}) }];
  });
}

function parseVerdicts(text: string): Record<string, RecordedVerdict> {
  const valid = (entriesOf(text) ?? []).filter((entry): entry is [string, RecordedVerdict] => {
    const { guard, zone, sentence: message, since, at } = (entry[1] ?? {}) as Partial<RecordedVerdict>;
    const names = [entry[0], guard, zone].every(isBoundedText);
    return names && typeof message === "string" && isTime(since) && isTime(at);
  });
  // No other field is kept, so that each entry is as short as its size is counted.
  const verdicts = valid.map(([by, { guard, zone, sentence: message, since, at }]) => {
    return [by, { guard, zone, sentence: cut(message), since, at }];
  });
  return Object.fromEntries(verdicts);
}
