/** The ledger as a Lease: read, made, and written on condition that no other process wrote it (rules R1, R3, R4 and R8). */

import { formatNamedConfigs, namedConfigs } from "../annotations/restart-files.ts";
import { formatKnownTriggers, knownTriggers } from "../annotations/restart-trigger.ts";
import * as keys from "../annotations/table.ts";
import { escapeControls } from "../base/escape-control.ts";
import { type Cluster, hasCode, type LeaseObject } from "../kubernetes/cluster.ts";
import { find } from "../kubernetes/find.ts";
import type { GroupKey } from "../workloads/statefulsets.ts";
import { formatClaims } from "./claim.ts";
import { formatRefusals, formatReservations, knownFormat, parseLedger } from "./contents.ts";
import { LedgerFull, LedgerUnreadable, LedgerUnwritable } from "./errors.ts";
import { ledgerName } from "./lease-name.ts";
import type { Ledger, LedgerChange, LedgerTimes, StoredLedger } from "./reservation.ts";
import { annotationBytes, type Informing, isFarBelowBound, maxLedgerBytes, shed } from "./size.ts";

/** The group's ledger, always current; undefined where it does not exist. Throws {@link LedgerUnreadable}, ClusterError. */
export async function readLedger(cluster: Cluster, key: GroupKey): Promise<StoredLedger | undefined> {
  const lease = await find(cluster, "leases", { namespace: key.namespace, name: ledgerName(key.group) });
  return lease && parseLedger(key, lease);
}

/** The Leases of a namespace, or of all, that have the label of ledgers. Any account may write that: throws ClusterError. */
export async function listLedgerLeases(
  cluster: Pick<Cluster, "list">,
  namespace: string | undefined,
): Promise<readonly LeaseObject[]> {
  const labelSelector = `${keys.managedBy.key}=sluice`;
  const { items } = await cluster.list("leases", { ...(namespace === undefined ? {} : { namespace }), labelSelector });
  return items;
}

/** The group whose ledger a Lease is; undefined if it lacks the annotation or the ledger's name (rule R1). */
export function groupKeyOfLease({ metadata }: LeaseObject): GroupKey | undefined {
  const group = keys.read(keys.ledgerGroup, metadata);
  const { namespace = "", name } = metadata;
  return group === undefined || ledgerName(group) !== name ? undefined : { namespace, group };
}

/** Creates the group's ledger, empty. Rule R4: no owner references. One that exists meanwhile is as good: it is read. */
export async function createLedger(cluster: Cluster, key: GroupKey): Promise<StoredLedger | undefined> {
  const body = {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: {
      name: ledgerName(key.group),
      labels: { [keys.managedBy.key]: "sluice" },
      annotations: { [keys.ledgerGroup.key]: key.group, [keys.ledgerFormat.key]: knownFormat },
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
 * Rules R3 and R8: replaces the ledger's contents, on condition that no process wrote it or made it anew since it was read.
 *
 * `settled-through` and `members-through` never go back. What is written is read first: throws {@link LedgerUnwritable}, with
 * nothing sent, where it could not be read again. Throws {@link LedgerFull}; ClusterError: 409 (or 404, 422 for a ledger
 * that is gone or another one) means that the world is to be read again; code 0 that the write may or may not have happened.
 */
export async function writeLedger(cluster: Cluster, ledger: StoredLedger, change: LedgerChange): Promise<StoredLedger> {
  const annotations = annotationsToWrite(ledger, change);
  const body = { metadata: { uid: ledger.uid, resourceVersion: ledger.resourceVersion, annotations } };
  const written = await cluster.patch("leases", { namespace: ledger.key.namespace, name: ledger.name }, body);
  return parseLedger(ledger.key, written);
}

/** What such a write sends. Throws {@link LedgerUnwritable} and {@link LedgerFull} as it does. */
export function annotationsToWrite(ledger: Ledger, change: LedgerChange): Readonly<Record<string, string>> {
  const { refusals, verdicts } = isFarBelowBound(ledger, change) ? change : fitting(ledger, change);
  const annotations = {
    [keys.ledgerFormat.key]: knownFormat,
    [keys.settledThrough.key]: String(Math.max(ledger.settledThrough ?? 0, change.seenThrough)),
    [keys.membersThrough.key]: String(Math.max(ledger.membersThrough ?? 0, change.membersThrough)),
    ...(change.members === undefined ? {} : { [keys.members.key]: JSON.stringify(change.members) }),
    [keys.reservations.key]: formatReservations(change.reservations),
    // A merge patch leaves alone what it does not name: a function that has changed no claim keeps them to the byte.
    ...(change.claims === undefined ? {} : { [keys.claims.key]: formatClaims(change.claims) }),
    ...timesOf(change),
    [keys.refusals.key]: formatRefusals(refusals),
    [keys.verdicts.key]: escapeControls(JSON.stringify(verdicts)),
  };
  readFirst(ledger, change, annotations);
  return annotations;
}

function timesOf(times: LedgerTimes): Readonly<Record<string, string>> {
  const { lastDownscales, looks, lastRemovalMs, lastRestartMs, namedConfigs: configs, knownTriggers: triggers } = times;
  return {
    ...(configs === undefined ? {} : { [namedConfigs.key]: formatNamedConfigs(configs) }),
    ...(triggers === undefined ? {} : { [knownTriggers.key]: formatKnownTriggers(triggers) }),
    ...(lastRestartMs === undefined ? {} : { [keys.lastRestart.key]: String(lastRestartMs) }),
    ...(lastDownscales === undefined ? {} : { [keys.lastDownscales.key]: JSON.stringify(lastDownscales) }),
    ...(looks === undefined ? {} : { [keys.looks.key]: keys.formatLooks(looks) }),
    ...(lastRemovalMs === undefined ? {} : { [keys.lastRemoval.key]: String(lastRemovalMs) }),
  };
}

/** Reads what is about to be written: a ledger that cannot be read holds its group until a user corrects it by hand. */
function readFirst(
  { key, name, uid, resourceVersion, claims }: Ledger,
  change: LedgerChange,
  annotations: Readonly<Record<string, string>>,
): void {
  const unwritable = (why: string) => new LedgerUnwritable(name, why);
  const besides = { [keys.ledgerGroup.key]: key.group, [keys.claims.key]: formatClaims(claims) };
  let read: Ledger;
  try {
    read = parseLedger(key, { metadata: { name, uid, resourceVersion, annotations: { ...besides, ...annotations } } });
  } catch (error) {
    throw unwritable(error instanceof LedgerUnreadable ? error.why : String(error));
  }
  // Two reservations of one ordinal would be written as one, and the other forgotten.
  const { reservations } = change;
  const lost = reservations.length - read.reservations.length;
  if (lost !== 0) throw unwritable(`${lost} of ${reservations.length} reservations would be lost`);
  const wanted = change.claims ?? claims;
  const isWhole =
    wanted.length === read.claims.length && wanted.every(({ id }, index) => read.claims[index]?.id === id);
  if (!isWhole) throw unwritable(`of ${wanted.length} claims ${read.claims.length} would be read`);
}

/**
 * What a write keeps of refusals and verdicts, so that all annotations of the Lease stay below {@link maxLedgerBytes}. It keeps
 * every reservation and claim. Throws {@link LedgerFull} if they alone would be too large, unless they take no more than before:
 * otherwise nothing could ever settle.
 */
export function fitting(ledger: Ledger, change: LedgerChange): Informing {
  const largest = String(Number.MAX_SAFE_INTEGER);
  const fixedBytes = annotationBytes({
    [keys.ledgerFormat.key]: knownFormat,
    [keys.settledThrough.key]: largest,
    [keys.membersThrough.key]: largest,
    [keys.members.key]: JSON.stringify(change.members ?? ledger.members ?? []),
    // The times that it holds count among the annotations of others, and once more if they are written: the bound comes sooner.
    ...timesOf(change),
    [keys.refusals.key]: "{}",
    [keys.verdicts.key]: "{}",
  });
  const reservedBytes = bytesReserved(change.reservations, change.claims ?? ledger.claims);
  const roomBytes = maxLedgerBytes - ledger.othersBytes - fixedBytes - reservedBytes;
  if (roomBytes < 0 && reservedBytes > bytesReserved(ledger.reservations, ledger.claims))
    throw new LedgerFull(ledger, reservedBytes);
  return shed(change, roomBytes);
}

/** What is never shed. */
function bytesReserved(reservations: Ledger["reservations"], claims: Ledger["claims"]): number {
  return annotationBytes({
    [keys.reservations.key]: formatReservations(reservations),
    ...(claims.length === 0 ? {} : { [keys.claims.key]: formatClaims(claims) }),
  });
}
