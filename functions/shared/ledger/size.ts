/** How large a ledger may become, and what is dropped from it before it becomes larger. Sizes are bytes of UTF-8. */

import { escapeControls } from "../base/escape-control.ts";
import type { Metadata } from "../kubernetes/cluster.ts";
import type { Ledger, LedgerChange, RecordedVerdict } from "./reservation.ts";

/** The API server takes 262,144 bytes of annotations on one object, keys and values of all writers; we stay far below. */
export const maxLedgerBytes = 192 * 1024;

/** The size of a set of annotations for the API server. */
export function annotationBytes(annotations: Metadata["annotations"]): number {
  return Object.entries(annotations ?? {}).reduce((sum, [key, value]) => sum + bytesOf(key) + bytesOf(value), 0);
}

/** For the names of the annotations, and other texts that are as long in every ledger. */
const fixedBytes = 4096;
/**
 * More bytes than JSON takes for a name, for a reservation with three names, and for a refusal or verdict with four names and a
 * message that was cut. JSON may make six bytes of a character.
 */
const [mostNameBytes, mostReservationBytes, mostInformingBytes] = [2_048, 5_120, 13_312];

/**
 * True if a ledger is so far below its bound that a change need not be measured. Each reconcile asks, and most ledgers are a
 * thousandth of the bound. False says nothing: it is also false if there are claims, because one of a later version may be of
 * any length.
 */
export function isFarBelowBound(
  ledger: Pick<Ledger, "othersBytes" | "members" | "claims">,
  change: Omit<LedgerChange, "seenThrough" | "membersThrough">,
): boolean {
  if (ledger.claims.length > 0 || (change.claims?.length ?? 0) > 0) return false;
  const names = Math.max(ledger.members?.length ?? 0, change.members?.length ?? 0);
  const informing = change.refusals.length + Object.keys(change.verdicts).length;
  const reserved = mostReservationBytes * change.reservations.length;
  const bytes = mostNameBytes * names + reserved + mostInformingBytes * informing;
  return ledger.othersBytes + fixedBytes + bytes < maxLedgerBytes;
}

/** The part of a ledger that only informs. It permits nothing, so that it may be dropped. */
export type Informing = Pick<LedgerChange, "refusals" | "verdicts">;

/**
 * As much of it as fits into `roomBytes` of JSON. Refusals go first, then the messages of verdicts, then the verdicts, each time
 * the oldest first. To shed the result again changes nothing.
 */
export function shed({ refusals, verdicts }: Informing, roomBytes: number): Informing {
  const entries = Object.entries(verdicts).sort(([, one], [, other]) => one.at - other.at);
  let left = roomBytes - entries.reduce((sum, entry) => sum + bytesOfEntry(entry), 0);
  const newestFirst = refusals.toSorted((one, other) => other.stampMs - one.stampMs);
  const tooMany = newestFirst.findIndex((refusal) => {
    left -= bytesOfEntry([refusal.uid, refusal]);
    return left < 0;
  });
  const kept = new Set(tooMany < 0 ? newestFirst : newestFirst.slice(0, tooMany));
  return { refusals: refusals.filter((refusal) => kept.has(refusal)), verdicts: shedVerdicts(entries, roomBytes) };
}

function shedVerdicts(
  oldestFirst: readonly (readonly [string, RecordedVerdict])[],
  roomBytes: number,
): Readonly<Record<string, RecordedVerdict>> {
  let bytes = oldestFirst.reduce((sum, entry) => sum + bytesOfEntry(entry), 0);
  const shorter = oldestFirst.map(([by, verdict]): readonly [string, RecordedVerdict] => {
    if (bytes <= roomBytes) return [by, verdict];
    const silent = { ...verdict, sentence: "" };
    bytes -= bytesOfEntry([by, verdict]) - bytesOfEntry([by, silent]);
    return [by, silent];
  });
  const kept = shorter.filter((entry) => {
    if (bytes <= roomBytes) return true;
    bytes -= bytesOfEntry(entry);
    return false;
  });
  return Object.fromEntries(kept);
}

/** The size of one entry of a JSON object, with its comma. A refusal is written with fewer names than are counted. */
function bytesOfEntry([key, value]: readonly [string, object]): number {
  return bytesOf(escapeControls(JSON.stringify(key))) + bytesOf(escapeControls(JSON.stringify(value))) + 2;
}

function bytesOf(text: string): number {
  return Buffer.byteLength(text);
}
