/** Reads and writes a group's ledger for one process. Each reconcile and each review uses it. */

import { ourAnnotations, pathsOf } from "../annotations/paths.ts";
import { managedBy } from "../annotations/table.ts";
import { cut } from "../base/truncate.ts";
import type { Context } from "../contract/context.ts";
import type { Need } from "../contract/definition.ts";
import type { GroupMemory } from "../contract/memory.ts";
import { refusedRequeueMs, type Wait, wait } from "../contract/verdict.ts";
import { type ClusterError, hasCode, isRightMissing } from "../kubernetes/cluster.ts";
import { LedgerFull, LedgerUnreadable, LedgerUnwritable } from "../ledger/errors.ts";
import { ledgerName } from "../ledger/lease-name.ts";
import type { ImaginedLedger, Ledger, LedgerChange, Reservation, StoredLedger } from "../ledger/reservation.ts";
import { noteKnown } from "../ledger/settling.ts";
import type { GroupKey } from "../workloads/statefulsets.ts";
import { noteLedger } from "./ledger-age.ts";
import type { GroupObservation } from "./observe-group.ts";

/** A right to Leases, and what is written into those that are ledgers. */
export function leasesNeed(...verbs: readonly string[]): Need {
  return { group: "coordination.k8s.io", resource: "leases", verbs, changes: [ourAnnotations, ...pathsOf(managedBy)] };
}

/** The rights of a function that decides by a ledger, and reports in Events what blocks a group. */
export const ledgerNeeds: readonly Need[] = [
  leasesNeed("get", "create", "patch"),
  { group: "", resource: "events", verbs: ["create"] },
];

/** Rule R3: another client has written the ledger meanwhile. */
export class Conflict extends Error {}

/** The API server refuses to write a ledger: its message, and what to do. */
class LedgerRefused extends Error {
  constructor(name: string, { verb, code, message }: ClusterError) {
    super(
      `the API server refused to ${verb} Lease ${name} with ${code}: ${cut(message)}. Nothing can be reserved without it: find what refuses (a webhook, a policy, a quota), or remove what others have written there.`,
    );
    this.name = "LedgerRefused";
  }
}

/** The wait after a ledger that cannot be used; undefined for an error of another kind. */
export function waitForLedger(error: unknown): Wait | undefined {
  const again = { requeueAfterMs: refusedRequeueMs };
  if (error instanceof LedgerUnreadable) return wait("ledger-unreadable", error.message, again);
  if (error instanceof LedgerRefused) return wait("ledger-refused", error.message, again);
  if (error instanceof LedgerUnwritable) return wait("ledger-unwritable", error.message, again);
  if (error instanceof LedgerFull) return wait("ledger-full", error.message, again);
  return undefined;
}

/**
 * Rule R3: a ledger that was written (409), that is gone (404), or that was recreated: 422, and the error names the uid. Any
 * other 422 means that the written content is invalid, and would be so for ever.
 */
export function isConflict(error: unknown): boolean {
  return hasCode(error, 404, 409) || (hasCode(error, 422) && error.message.includes("metadata.uid: "));
}

/** A refusal of the ledger itself. The reconcile, or the answer to a review, names a right that is missing. */
function explained(name: string, error: unknown): unknown {
  const isRefused = hasCode(error, 400, 403, 413, 422) && !isRightMissing(error);
  return isRefused ? new LedgerRefused(name, error) : error;
}

/** A function that waits for a claim writes nothing, and no event reports the claim's end: a copy with one serves so long. */
const claimsServeMs = 5_000;
/**
 * Nor does one report a reservation that was renewed: a copy that holds one serves no longer than a function that waits takes
 * to reconcile again. It would be known late as it stands, and dropped late (rule R10).
 */
const reservationsServeMs = 20_000;

/**
 * The ledger as this process knows it, without a request; undefined where it is to be read. What another function of the process
 * has put there was decided by StatefulSets that it has read: to permit, this one reads them after that (rule R5).
 */
export function knownLedger({ cluster }: Pick<Context, "cluster">, memory: GroupMemory): Ledger | undefined {
  const { ledger, from, atMs } = memory.copy;
  if (ledger !== undefined && cluster.monotonicMs() - atMs >= servesForMs(ledger)) return undefined;
  if (from !== memory) memory.ledgerReadMs = Math.max(memory.ledgerReadMs, atMs);
  return ledger;
}

function servesForMs({ claims, reservations }: Ledger): number {
  if (claims.length > 0) return claimsServeMs;
  return reservations.length > 0 ? reservationsServeMs : Number.POSITIVE_INFINITY;
}

/**
 * Makes the next use read the ledger again. With a given ledger, only if that is still the copy, because others may have
 * written on from it.
 */
export function forgetLedger({ copy }: GroupMemory, ledger: Ledger | undefined = copy.ledger): void {
  if (copy.ledger === ledger) copy.ledger = undefined;
}

/** A sweep reads the ledger, and repeats a write that was refused for good. */
export function forgetForSweep(memory: GroupMemory): void {
  forgetLedger(memory);
  memory.ledgerRefused = undefined;
}

/** Answers overtake each other: a copy never goes back to an older state of the same Lease. */
function keepLedger({ cluster }: Context, memory: GroupMemory, ledger: StoredLedger): void {
  const { copy } = memory;
  const { ledger: known } = copy;
  if (known?.uid === ledger.uid && Number(known.resourceVersion) > Number(ledger.resourceVersion)) return;
  copy.ledger = ledger;
  copy.from = memory;
  copy.atMs = cluster.monotonicMs();
  noteKnown(memory.knownSince, ledger.reservations, copy.atMs);
}

/**
 * The ledger as it is now. Rule R4: created when missing, unless the group has vanished, which has none; rule R16: where
 * nothing may be left behind, in shadow mode or by a dry run, a missing one is only imagined.
 */
export async function loadLedger(
  context: Context,
  key: GroupKey,
  memory: GroupMemory,
  isTraceless = context.mode === "shadow",
): Promise<Ledger | undefined> {
  let ledger = await context.protocol.readLedger(context.cluster, key);
  if (ledger === undefined) {
    if (isTraceless) return imaginedLedger(key);
    const need = { settledThrough: undefined, permitSinceMs: undefined, consistent: false };
    if ((await context.cache.read(key, need)).workloads.length === 0) return undefined;
    ledger = await createLedger(context, key);
    if (ledger === undefined) throw new Conflict();
  }
  keepLedger(context, memory, ledger);
  memory.ledgerReadMs = context.cluster.monotonicMs();
  noteLedger(context.cluster, ledger.uid);
  return memory.copy.ledger;
}

/** The ledger as this process knows it, or else as it is now. Throws as {@link loadLedger} does. */
export async function getLedger(context: Context, key: GroupKey): Promise<Ledger | undefined> {
  const memory = context.memoryOf(key);
  return knownLedger(context, memory) ?? (await loadLedger(context, key, memory));
}

async function createLedger({ protocol, cluster }: Context, key: GroupKey): Promise<StoredLedger | undefined> {
  try {
    return await protocol.createLedger(cluster, key);
  } catch (error) {
    throw explained(ledgerName(key.group), error);
  }
}

function imaginedLedger(key: GroupKey): ImaginedLedger {
  return {
    kind: "imagined",
    key,
    name: ledgerName(key.group),
    uid: "",
    resourceVersion: "",
    createdMs: 0,
    othersBytes: 0,
    settledThrough: undefined,
    membersThrough: undefined,
    reservations: [],
    claims: [],
    refusals: [],
    verdicts: {},
  };
}

/**
 * Writes the ledger and keeps what was written. Throws {@link Conflict}, ClusterError, and what {@link waitForLedger} explains: a
 * write that was refused is not sent again before {@link refusedRequeueMs}, whatever event comes.
 */
export async function writeChange(context: Context, observed: GroupObservation, change: LedgerChange): Promise<void> {
  const memory = context.memoryOf(observed.key);
  const nowMs = context.cluster.monotonicMs();
  const { ledgerRefused } = memory;
  const { ledger } = observed;
  // Shadow mode and dry runs end before this: it is here for the compiler, and for a fault of ours (rule R16).
  if (ledger.kind === "imagined") throw new Error(`the ledger ${ledger.name} is imagined, and is never written`);
  if (ledgerRefused !== undefined && nowMs < ledgerRefused.untilMs) throw ledgerRefused.error;
  try {
    keepLedger(context, memory, await context.protocol.writeLedger(context.cluster, ledger, change));
    memory.ledgerWrittenMs = context.cluster.monotonicMs();
  } catch (error) {
    if (isConflict(error)) throw new Conflict();
    forgetWithdrawn(memory, observed.ledger);
    const why = explained(observed.ledger.name, error);
    if (why instanceof LedgerRefused) memory.ledgerRefused = { error: why, untilMs: nowMs + refusedRequeueMs };
    throw why;
  }
  forgetWithdrawn(memory, observed.ledger);
}

/**
 * What a write has left out, or may have where no answer came, is never withdrawn again: any process may reserve the same pod
 * anew within one tick of the clock, and its stamp then looks the same.
 */
function forgetWithdrawn({ refusedOnce }: GroupMemory, { reservations }: Ledger): void {
  for (const [uid, { by, stampMs }] of refusedOnce) {
    const isKept = reservations.some((kept) => kept.uid === uid && kept.by === by && kept.stampMs === stampMs);
    if (!isKept) refusedOnce.delete(uid);
  }
}

/**
 * The ledger without the reservations whose only attempt was refused: nothing of them is under way, and the next write leaves
 * them out. Any other stays until rule R10 drops it, for an attempt whose answer was lost may still arrive.
 */
function withoutRefused(memory: GroupMemory, ledger: Ledger): Ledger {
  const { refusedOnce } = memory;
  if (refusedOnce.size === 0) return ledger;
  forgetWithdrawn(memory, ledger);
  const isRefused = ({ uid, by, stampMs }: Reservation) => {
    const refused = refusedOnce.get(uid);
    return refused?.by === by && refused.stampMs === stampMs;
  };
  return { ...ledger, reservations: ledger.reservations.filter((reservation) => !isRefused(reservation)) };
}

/** The ledger to decide on, and the copy that it comes from. Undefined and throws as {@link getLedger}. */
export async function takeLedger(
  context: Context,
  key: GroupKey,
): Promise<{ readonly ledger: Ledger; readonly copy: Ledger } | undefined> {
  const copy = await getLedger(context, key);
  return copy && { ledger: withoutRefused(context.memoryOf(key), copy), copy };
}
