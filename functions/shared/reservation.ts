/**
 * The reservation protocol: how any number of stateless functions share one disruption budget.
 *
 * One Lease per group is its ledger. The rules R1 to R16 are those of `specs/reservation-protocol.md`; their ids stand
 * where they are kept.
 */
import { createHash } from "node:crypto";
import { type Cluster, hasCode, type LeaseObject } from "./cluster.ts";
import { annotationBytes, cut, type Informing, maxLedgerBytes, shed } from "./ledger-size.ts";
import { parseOrdinal } from "./pods.ts";
import type { GroupKey } from "./statefulsets.ts";
import * as vocabulary from "./vocabulary.ts";
import { isSettled } from "./zones.ts";

/** Rule R2: one pod that may be taken down, or has been and is not back. At most one per ordinal. */
export interface Reservation {
  /** Names, not uids: a StatefulSet that is deleted and made again keeps its reservations. */
  readonly statefulSet: string;
  readonly ordinal: number;
  readonly uid: string;
  /** The function that made it: the only one that finishes it (rule R10). */
  readonly by: string;
  /** When it was made or renewed, by the API server's clock in milliseconds since the epoch. */
  readonly stampMs: number;
  /** Since when it has stood without a break, by the same clock, where it was renewed since; absent: since its stamp. */
  readonly sinceMs?: number;
}

/** A pod that stays for now: its deletion was refused for good, or its evictions were allowed and never carried out. */
export interface Refusal {
  readonly uid: string;
  readonly pod: string;
  readonly sentence: string;
  readonly stampMs: number;
  /** The function whose reservation was given up, which alone keeps to it; absent: a deletion that a rollout sent. */
  readonly by?: string;
}

/** What a function last said of the group. */
export interface RecordedVerdict {
  readonly guard: string;
  readonly zone: string;
  readonly sentence: string;
  /** Since when the guard has held, and when this was written: API server's clock, milliseconds since the epoch. */
  readonly since: number;
  readonly at: number;
}

export interface Ledger {
  readonly key: GroupKey;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly createdMs: number;
  /** Of the annotations that no write of ours replaces, keys and values: what others put there, and the group. */
  readonly othersBytes: number;
  /** Undefined in a ledger that has never been decided on (rule R4: its first decision uses a consistent LIST). */
  readonly settledThrough: number | undefined;
  /** The StatefulSet revision from which on all zones that it counted are known; undefined where nobody has said so yet. */
  readonly membersThrough: number | undefined;
  /** The zones that its last decision counted; undefined where nobody has said so yet. */
  readonly members?: readonly string[] | undefined;
  /** What it says was written in another cluster, or at another time of this one: it is aged and begun anew (rule R4). */
  readonly isElsewhere?: boolean;
  readonly reservations: readonly Reservation[];
  readonly refusals: readonly Refusal[];
  readonly verdicts: Readonly<Record<string, RecordedVerdict>>;
}

/** What one conditional write makes of a ledger. */
export interface LedgerChange {
  readonly reservations: readonly Reservation[];
  /** The largest resourceVersion of any pod in the view that was used (rule R8). */
  readonly seenThrough: number;
  /** The StatefulSet revision from which on all members of that view are known (rule R5). */
  readonly membersThrough: number;
  /** The zones that are counted from now on; absent: as they are. */
  readonly members?: readonly string[];
  readonly refusals: readonly Refusal[];
  readonly verdicts: Readonly<Record<string, RecordedVerdict>>;
}

/** Rule R2: no ledger holds more reservations; the cap keeps their annotation at half of {@link maxLedgerBytes}. */
export const maxReservations = 1000;
/** The longest name that the API server gives any object: no reservation holds a longer text. */
const longestName = 253;
/** Rule R4: a ledger younger than this permits nothing: whoever acted on a lost one has finished by then (rule R9). */
export const ledgerNewMs = 10_000;
/** How far the clocks of two API servers may differ (rule R10). */
export const clockSkewMs = 30_000;
/** Rule R9: nobody acts later than this after sending the write that stamped the reservation. */
export const actWithinMs = 5_000;
/** Rule R10: a reservation whose pod still stands is finished by its function once its writer must have given up. */
export const finishAfterMs = 7_000;
/** Rule R10: two minutes, and 30 s more for clocks that differ, after which a reservation whose pod still stands is dropped. */
export const dropAfterMs = 120_000 + clockSkewMs;
/**
 * Rule R10: whoever lives on has known a reservation as it stands for this long before it drops it, by its own clock. The clocks
 * of API servers may be set, and then every stamp looks old.
 */
export const knownForMs = dropAfterMs - clockSkewMs;
/** Rule R3: how often a conflicting pass starts again before it is left to the sweep. */
export const maxConflicts = 5;

/** A ledger that cannot be read, so that nothing may be permitted on it: the guard `ledger-unreadable`. */
export class LedgerUnreadable extends Error {
  readonly why: string;

  constructor(name: string, why: string) {
    super(
      `Lease ${name} cannot be read as a ledger: ${cut(why)}. Correct it, or delete it: it is made again empty after 10 s.`,
    );
    this.name = "LedgerUnreadable";
    this.why = why;
  }
}

/** A reservation that would make the ledger too large, though all that only informs has gone: the guard `ledger-full`. */
export class LedgerFull extends Error {
  constructor({ name, othersBytes }: Ledger, reservationsBytes: number) {
    super(
      `Lease ${name} has room for ${maxLedgerBytes} bytes of annotations: the reservations need ${reservationsBytes}, and other annotations take ${othersBytes}. Remove what others have written there.`,
    );
    this.name = "LedgerFull";
  }
}

/** What would be written could not be read again, and nothing was written: the guard `ledger-unwritable`. */
export class LedgerUnwritable extends Error {
  constructor(name: string, why: string) {
    super(`Lease ${name} stays as it is, because what would be written into it could not be read again: ${cut(why)}`);
    this.name = "LedgerUnwritable";
  }
}

/** Rule R1: `sluice-GROUP` where that is a valid object name, otherwise 16 hex digits of the group's SHA-256. */
export function ledgerName(group: string): string {
  const plain = `sluice-${group}`;
  if (plain.length <= 253 && /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(plain))
    return plain;
  return `sluice-${createHash("sha256").update(group).digest("hex").slice(0, 16)}`;
}

/** The group's ledger, always current; undefined where it does not exist. Throws {@link LedgerUnreadable}, ClusterError. */
export async function readLedger(cluster: Cluster, key: GroupKey): Promise<Ledger | undefined> {
  try {
    return parseLedger(key, await cluster.get("leases", { namespace: key.namespace, name: ledgerName(key.group) }));
  } catch (error) {
    if (hasCode(error, 404)) return undefined;
    throw error;
  }
}

/** Creates the group's ledger, empty. Rule R4: no owner references. One that exists meanwhile is as good: it is read. */
export async function createLedger(cluster: Cluster, key: GroupKey): Promise<Ledger | undefined> {
  const body = {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: {
      name: ledgerName(key.group),
      labels: { [vocabulary.managedBy.key]: "sluice" },
      annotations: { [vocabulary.ledgerGroup.key]: key.group },
    },
  };
  try {
    return parseLedger(key, await cluster.create("leases", key.namespace, body));
  } catch (error) {
    if (hasCode(error, 409)) return readLedger(cluster, key);
    throw error;
  }
}

/**
 * Rules R3 and R8: replaces the ledger's contents, on condition that nobody wrote it or made it anew since it was read.
 *
 * `settled-through` and `members-through` never go back. What is written is read first: throws {@link LedgerUnwritable}, with
 * nothing sent, where it could not be read again. Throws {@link LedgerFull}; ClusterError: 409 (or 404, 422 for a ledger
 * that is gone or another one) means that the world is to be read again; code 0 that the write may or may not have happened.
 */
export async function writeLedger(cluster: Cluster, ledger: Ledger, change: LedgerChange): Promise<Ledger> {
  const { refusals, verdicts } = fitting(ledger, change);
  const annotations = {
    [vocabulary.settledThrough.key]: String(Math.max(ledger.settledThrough ?? 0, change.seenThrough)),
    [vocabulary.membersThrough.key]: String(Math.max(ledger.membersThrough ?? 0, change.membersThrough)),
    ...(change.members === undefined ? {} : { [vocabulary.members.key]: JSON.stringify(change.members) }),
    [vocabulary.reservations.key]: formatReservations(change.reservations),
    [vocabulary.refusals.key]: formatRefusals(refusals),
    [vocabulary.verdicts.key]: JSON.stringify(verdicts),
  };
  readFirst(ledger, change, annotations);
  const body = { metadata: { uid: ledger.uid, resourceVersion: ledger.resourceVersion, annotations } };
  const written = await cluster.patch("leases", { namespace: ledger.key.namespace, name: ledger.name }, body);
  return parseLedger(ledger.key, written);
}

/** A ledger that cannot be read holds its group until somebody mends it by hand: none of ours may come to that. */
function readFirst(
  { key, name, uid, resourceVersion }: Ledger,
  { reservations }: LedgerChange,
  annotations: Readonly<Record<string, string>>,
): void {
  const unwritable = (why: string) => new LedgerUnwritable(name, why);
  const besides = { [vocabulary.ledgerGroup.key]: key.group };
  let read: Ledger;
  try {
    read = parseLedger(key, { metadata: { name, uid, resourceVersion, annotations: { ...besides, ...annotations } } });
  } catch (error) {
    throw unwritable(error instanceof LedgerUnreadable ? error.why : String(error));
  }
  // Two at one place would be written as one, and the other forgotten.
  const lost = reservations.length - read.reservations.length;
  if (lost !== 0) throw unwritable(`${lost} of ${reservations.length} reservations would be lost`);
}

/**
 * What a write keeps of refusals and verdicts, so that all annotations of the Lease stay below {@link maxLedgerBytes}. No
 * reservation is ever shed. Throws {@link LedgerFull} where they alone would be too large; one that grows no longer than it is
 * may always be written, or nothing could ever settle.
 */
export function fitting(ledger: Ledger, change: LedgerChange): Informing {
  const reservations = formatReservations(change.reservations);
  const largest = String(Number.MAX_SAFE_INTEGER);
  const revisions = { [vocabulary.settledThrough.key]: largest, [vocabulary.membersThrough.key]: largest };
  const members = { [vocabulary.members.key]: JSON.stringify(change.members ?? ledger.members ?? []) };
  const besides = { ...revisions, ...members, ...emptyInformation };
  const fixedBytes = ledger.othersBytes + annotationBytes(besides);
  const reservationsBytes = annotationBytes({ [vocabulary.reservations.key]: reservations });
  const roomBytes = maxLedgerBytes - fixedBytes - reservationsBytes;
  if (roomBytes < 0 && reservations.length > formatReservations(ledger.reservations).length)
    throw new LedgerFull(ledger, reservationsBytes);
  return shed(change, roomBytes);
}

const emptyInformation = { [vocabulary.refusals.key]: "{}", [vocabulary.verdicts.key]: "{}" };
/** The annotations that a write replaces. */
const written = new Set(
  [
    vocabulary.settledThrough,
    vocabulary.membersThrough,
    vocabulary.members,
    vocabulary.reservations,
    vocabulary.refusals,
    vocabulary.verdicts,
  ].map(({ key }) => key),
);

/**
 * Rule R10: the reservations that nobody can still act on and whose pod still stands, seen by a direct GET and not by a
 * view. Any function may drop these with its next write.
 */
export async function findAbandoned(
  cluster: Cluster,
  namespace: string,
  open: readonly Reservation[],
): Promise<Set<Reservation>> {
  const isOverdue = ({ stampMs }: Reservation) => cluster.serverTimeMs() - stampMs >= dropAfterMs;
  const abandoned = new Set<Reservation>();
  for (const reservation of open) {
    if (!isOverdue(reservation)) continue;
    try {
      const pod = await cluster.get("pods", { namespace, name: `${reservation.statefulSet}-${reservation.ordinal}` });
      const isUnharmed = pod.metadata.uid === reservation.uid && pod.metadata.deletionTimestamp === undefined;
      // Asked again: the answer has told the API server's time, of which a wall clock that was set had told otherwise.
      if (isUnharmed && isOverdue(reservation)) abandoned.add(reservation);
    } catch (error) {
      if (!hasCode(error, 404)) throw error;
    }
  }
  return abandoned;
}

/** The protocol's verbs as one value, so that a test can wrap one of them and see what breaks. */
export const protocol = { readLedger, createLedger, writeLedger, findAbandoned, isSettled };
export type Protocol = typeof protocol;

/** Reads a Lease as a ledger. Throws {@link LedgerUnreadable} rather than take a malformed value for an empty one. */
export function parseLedger(key: GroupKey, lease: LeaseObject): Ledger {
  const { metadata } = lease;
  const unreadable = (why: string) => new LedgerUnreadable(metadata.name, why);
  const group = vocabulary.read(vocabulary.ledgerGroup, metadata);
  if (group !== key.group) {
    throw unreadable(
      `annotation ${vocabulary.ledgerGroup.key} says ${JSON.stringify(group)}, not ${JSON.stringify(key.group)}`,
    );
  }
  const malformed: vocabulary.Malformed[] = [];
  const settledThrough = vocabulary.read(vocabulary.settledThrough, metadata, malformed);
  const membersThrough = vocabulary.read(vocabulary.membersThrough, metadata, malformed);
  if (malformed[0] !== undefined) throw unreadable(malformed[0].sentence);
  return {
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
    members: vocabulary.read(vocabulary.members, metadata),
    reservations: parseReservations(metadata.annotations?.[vocabulary.reservations.key] ?? "{}", unreadable),
    refusals: parseRefusals(metadata.annotations?.[vocabulary.refusals.key] ?? "{}"),
    verdicts: parseVerdicts(metadata.annotations?.[vocabulary.verdicts.key] ?? "{}"),
  };
}

function formatReservations(list: readonly Reservation[]): string {
  // Grouped in a Map: a plain object already has something called `constructor`, which is a valid StatefulSet name.
  const byStatefulSet = Map.groupBy(list, ({ statefulSet }) => statefulSet);
  const table = [...byStatefulSet].map(([statefulSet, zone]) => {
    const ordinals = zone.map(({ ordinal, uid, by, stampMs, sinceMs = stampMs }) => {
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
      // What a later version may add to an entry is not for this one to judge: nothing is permitted by it.
      const [uid, by, stampMs, sinceMs] = Array.isArray(entry) ? entry : [];
      if (
        parseOrdinal(ordinal) < 0 ||
        ![statefulSet, uid, by].every((text) => typeof text === "string" && text.length <= longestName) ||
        !Number.isSafeInteger(stampMs)
      ) {
        throw unreadable(`the reservation of ${statefulSet}-${ordinal} is malformed`);
      }
      const renewed = Number.isSafeInteger(sinceMs) && sinceMs < stampMs ? { sinceMs } : {};
      list.push({ statefulSet, ordinal: Number(ordinal), uid, by, stampMs, ...renewed });
    }
  }
  if (list.length > maxReservations)
    throw unreadable(`it holds ${list.length} reservations, and ${maxReservations} at most are ours`);
  return list;
}

/** The entries of a JSON object; undefined for a text that is none. */
function entriesOf(text: string): [string, unknown][] | undefined {
  try {
    const table: unknown = JSON.parse(text);
    return typeof table === "object" && table !== null && !Array.isArray(table) ? Object.entries(table) : undefined;
  } catch {
    return undefined;
  }
}

/** Two functions may each have one of the same pod: the key of all but a rollout's names the function, too. */
function formatRefusals(list: readonly Refusal[]): string {
  const entries = list.map(({ uid, pod, sentence, stampMs, by }) => {
    return by === undefined ? [uid, [pod, sentence, stampMs]] : [`${uid}/${by}`, [pod, sentence, stampMs, by]];
  });
  return JSON.stringify(Object.fromEntries(entries));
}

/** Refusals and verdicts only inform: what is malformed of them is dropped, for nothing is permitted by it. */
function parseRefusals(text: string): Refusal[] {
  return (entriesOf(text) ?? []).flatMap(([name, entry]): Refusal[] => {
    const [pod, sentence, stampMs, by] = Array.isArray(entry) ? entry : [];
    const valid = typeof pod === "string" && typeof sentence === "string" && Number.isSafeInteger(stampMs);
    if (!valid || pod.length > longestName) return [];
    const refusal = { pod, sentence: cut(sentence), stampMs };
    if (typeof by !== "string" || !name.endsWith(`/${by}`)) return [{ uid: name, ...refusal }];
    return [{ uid: name.slice(0, -by.length - 1), ...refusal, by }];
  });
}

function parseVerdicts(text: string): Record<string, RecordedVerdict> {
  const valid = (entriesOf(text) ?? []).filter((entry): entry is [string, RecordedVerdict] => {
    const { guard, zone, sentence, since, at } = (entry[1] ?? {}) as Partial<RecordedVerdict>;
    const names = [guard, zone].every((name) => typeof name === "string" && name.length <= longestName);
    return names && typeof sentence === "string" && Number.isSafeInteger(since) && Number.isSafeInteger(at);
  });
  return Object.fromEntries(valid.map(([by, verdict]) => [by, { ...verdict, sentence: cut(verdict.sentence) }]));
}
