/** How a function that makes claims finds their groups, reads a ledger, writes claims, and ends each by its kind's row. */

import { claims, read } from "../annotations/table.ts";
import type { Context } from "../contract/context.ts";
import type { Need, Schedule } from "../contract/definition.ts";
import type { Wait } from "../contract/verdict.ts";
import type { LeaseObject } from "../kubernetes/cluster.ts";
import { type Claim, changeClaim, type KnownClaim, madeBy, type OrdinalRange, parseClaims } from "../ledger/claim.ts";
import { type ClaimedObjects, kinds } from "../ledger/claim-kinds.ts";
import { annotationsToWrite, groupKeyOfLease, listLedgerLeases } from "../ledger/lease.ts";
import { actWithinMs, type LedgerChange, type LedgerTimes, type Refusal } from "../ledger/reservation.ts";
import { readGroup } from "../workloads/group-key.ts";
import type { GroupKey, ZoneWorkload } from "../workloads/statefulsets.ts";
import { readClaimedObjects } from "./claimed-objects.ts";
import { isLongKnown, refuseNewLedger } from "./ledger-age.ts";
import { Conflict, forgetLedger, getLedger, knownLedger, waitForLedger, writeChange } from "./ledger-copy.ts";
import { type GroupObservation, observeGroup } from "./observe-group.ts";

/** One observation of a group by its ledger, and what keeps the ledger from permitting anything yet (rule R4). */
export interface Transaction {
  readonly observed: GroupObservation;
  readonly tooNew: Wait | undefined;
}

/**
 * A group by its ledger, as new as may permit something (rule R5). Undefined where no StatefulSet of it is left. Throws
 * ClusterError, Conflict, and what `waitForLedger` explains.
 */
export async function openTransaction(context: Context, key: GroupKey): Promise<Transaction | undefined> {
  const ledger = await getLedger(context, key);
  if (ledger === undefined) return undefined;
  const permitSinceMs = context.memoryOf(key).ledgerReadMs;
  const observed = await observeGroup(context, ledger, { permitSinceMs, consistent: false });
  return { observed, tooNew: refuseNewLedger(context, observed) };
}

/**
 * The workload of a zone. Throws Conflict if the group has none of that name: the other reads are newer than the view, and
 * everything is read once more.
 */
export function workloadNamed({ zones }: Pick<GroupObservation, "zones">, name: string): ZoneWorkload {
  const zone = zones.find(({ workload }) => workload.name === name);
  if (zone === undefined) throw new Conflict();
  return zone.workload;
}

/**
 * True if the ledger of a group holds such a claim, as this process knows it, or in a sweep as it is. A ledger that cannot be
 * used counts as holding none, because the functions that decide by it report the reason. No ledger is created. Throws
 * ClusterError.
 */
export async function hasClaim(
  context: Context,
  key: GroupKey,
  sweep: boolean,
  isSought: (claim: Claim) => boolean,
): Promise<boolean> {
  try {
    const known = knownLedger(context, context.memoryOf(key));
    const ledger = known ?? (sweep ? await context.protocol.readLedger(context.cluster, key) : undefined);
    return ledger?.claims.some(isSought) ?? false;
  } catch (error) {
    if (waitForLedger(error) !== undefined) return false;
    throw error;
  }
}

/** The claims that a write removes and adds, and its times; an absent field stays. */
interface ClaimChange extends LedgerTimes {
  readonly out: readonly KnownClaim[];
  readonly into: readonly KnownClaim[];
}

/**
 * Changes claims by one conditional write. Resolves to the moment of the monotonic clock until which a function may act on it
 * (rule R9). Throws as `writeChange` does.
 */
export async function writeClaims(context: Context, observed: GroupObservation, change: ClaimChange): Promise<number> {
  const sentMs = context.cluster.monotonicMs();
  await writeChange(context, observed, changeOfClaims(observed, change));
  return sentMs + actWithinMs;
}

/** Throws LedgerFull or LedgerUnwritable where {@link writeClaims} would, and sends nothing. */
export function checkClaims(observed: GroupObservation, change: ClaimChange): void {
  annotationsToWrite(observed.ledger, changeOfClaims(observed, change));
}

function changeOfClaims(observed: GroupObservation, { out, into, ...times }: ClaimChange): LedgerChange {
  const others = observed.ledger.claims.filter((claim) => !out.some(({ id }) => id === claim.id));
  return changeOf(observed, { claims: [...others, ...into], ...times });
}

/**
 * What a ledger says of last downscales once these scale-downs, which have come to pass, are taken out of it: their pods were let
 * go at their last stamps. While they stand, they hold the other zones back themselves. Only zones of a named group wait for it.
 */
export function timesAfter(
  { ledger }: GroupObservation,
  over: readonly KnownClaim[],
): Pick<ClaimChange, "lastDownscales"> {
  const { group } = ledger.key;
  const isNamed = group !== "" && readGroup(group).kind === "labelled";
  if (over.length === 0 || !isNamed || ledger.hasMalformedTimes) return {};
  const times: Record<string, number> = { ...ledger.lastDownscales };
  for (const { zone, stampMs } of over) times[zone] = Math.max(times[zone] ?? 0, stampMs);
  return { lastDownscales: times };
}

/** The claim as it stands from `stampMs` on, in its next phase, with the age of its first stamp. */
export function renewClaim(claim: KnownClaim, stampMs: number, phase = claim.phase): KnownClaim {
  return changeClaim(claim, { phase, stampMs, sinceMs: claim.sinceMs ?? claim.stampMs });
}

/** The decision about a claim: it stands, it is over, or no function carries it out and these members must be told to stay. */
export type ClaimEnd =
  | { readonly kind: "stands"; readonly where: ClaimedObjects }
  | { readonly kind: "settled" }
  | { readonly kind: "abandoned"; readonly where: ClaimedObjects; readonly undoes: readonly OrdinalRange[] };

/** By the row of its kind, over what GETs show now: the ledger must have been read before (rule R21). Throws ClusterError. */
export async function findEnd(context: Context, key: GroupKey, claim: KnownClaim): Promise<ClaimEnd> {
  const { cluster } = context;
  const isKnown = isLongKnown(context, key, claim);
  const where = await readClaimedObjects(cluster, key.namespace, claim);
  const row = kinds[claim.kind];
  const nowMs = cluster.serverTimeMs();
  if (row.isSettled(claim, where, nowMs)) return { kind: "settled" };
  if (!isKnown || !row.isAbandoned(claim, where, nowMs)) return { kind: "stands", where };
  return { kind: "abandoned", where, undoes: row.undoes(claim, where) };
}

/** Remembers that nothing is under way under a claim, because its only attempt was refused. */
export function noteWithdrawn(context: Context, key: GroupKey, id: string): void {
  context.memoryOf(key).withdrawnClaims.add(id);
}

/**
 * True for a claim under which nothing is under way, as this process knows. One that was renewed since is none: an attempt of
 * before may still arrive, and the change of a review that has joined it may be another's (rule R19).
 */
export function isWithdrawn(context: Context, key: GroupKey, { id, sinceMs }: KnownClaim): boolean {
  return sinceMs === undefined && context.memoryOf(key).withdrawnClaims.has(id);
}

/**
 * What a write makes of the ledger that was observed: the settled and abandoned reservations go, and the write says how new the
 * view was (rule R8). What is in `changes` stands instead.
 */
export function changeOf(observed: GroupObservation, changes: Partial<LedgerChange>): LedgerChange {
  return {
    reservations: observed.open,
    seenThrough: observed.view.seenThrough,
    membersThrough: observed.view.membersThrough,
    members: observed.joining.members,
    refusals: keptRefusals(observed),
    verdicts: observed.ledger.verdicts,
    ...observed.notes?.change,
    ...changes,
  };
}

/** The newest of the refusals that still hold: an annotation is no place for thousands. */
export function keptRefusals({ refusals, givenUp }: GroupObservation): Refusal[] {
  return [...refusals.values(), ...givenUp.values()].sort((one, other) => one.stampMs - other.stampMs).slice(-100);
}

/**
 * Lists the groups whose ledgers hold such a claim, in a namespace or in all, by one LIST of Leases. A ledger whose claims cannot
 * be read is one of them, because a reconcile of it says what is wrong. `isBesides`: which other ledgers are listed as well.
 * The list throws ClusterError.
 */
export function listClaimed(
  isSought: (claim: Claim) => boolean,
  isBesides: (context: Context, lease: LeaseObject) => boolean = () => false,
): Schedule<GroupKey>["listDue"] {
  return async (context, namespace) => {
    const { cluster, memoryOf } = context;
    const leases = await listLedgerLeases(cluster, namespace);
    const holding = leases.filter(
      (lease) => holds(read(claims, lease.metadata) ?? "", isSought) || isBesides(context, lease),
    );
    const keys = holding.flatMap((lease) => groupKeyOfLease(lease) ?? []);
    // A copy of the ledger may be from before the claim, and no event reports a ledger that another process writes.
    for (const key of keys) forgetLedger(memoryOf(key));
    return keys;
  };
}

/**
 * The schedule of a function whose scale-downs are over after 90 s if no process carries them out (rule R20): a process that
 * was killed leaves its claim, which holds the group, and no event reports that.
 */
export function scheduleOfClaims(by: string): Schedule<GroupKey> {
  return { everySeconds: 30, listDue: listClaimed(madeBy(by)) };
}

/** The right that such lists need. */
export const claimedNeed: Need = { group: "coordination.k8s.io", resource: "leases", verbs: ["list"] };

function holds(text: string, isSought: (claim: Claim) => boolean): boolean {
  try {
    return parseClaims(text, (why) => new Error(why)).some(isSought);
  } catch {
    return true;
  }
}
