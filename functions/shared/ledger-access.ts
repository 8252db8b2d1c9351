/** How one process comes by a group's ledger, judges its age, and writes it: how every pass and every review begins and ends. */
import { type Cluster, hasCode } from "./cluster.ts";
import type { Context, GroupMemory } from "./definition.ts";
import type { Observed } from "./observation.ts";
import { clockSkewMs, type Ledger, type LedgerChange, ledgerName, ledgerNewMs } from "./reservation.ts";
import type { GroupKey } from "./statefulsets.ts";
import { type Wait, wait } from "./verdict.ts";

/** Rule R3: the ledger was written by somebody else meanwhile. */
export class Conflict extends Error {}

/**
 * Rule R4: ten seconds by our own monotonic clock since we first saw this ledger. Its creation time tells only where the
 * clocks of two API servers, which may differ by 30 s, leave no doubt; it is cut to whole seconds, too.
 */
export function refuseNewLedger(
  { cluster }: Pick<Context, "cluster">,
  { ledger, nowMs }: Pick<Observed, "ledger" | "nowMs">,
): Wait | undefined {
  if (ledger.isElsewhere === true) return refuseElsewhere(cluster, ledger);
  const oldEnoughMs = ledger.createdMs + 1_000 + ledgerNewMs + clockSkewMs - nowMs;
  const seenMs = known.get(cluster)?.get(ledger.uid) ?? cluster.monotonicMs();
  const seenLongMs = seenMs + ledgerNewMs - cluster.monotonicMs();
  const remainingMs = Number.isNaN(oldEnoughMs) ? seenLongMs : Math.min(oldEnoughMs, seenLongMs);
  if (remainingMs <= 0) return undefined;
  const sentence = `the ledger ${ledger.name} is new, and known here for less than ${ledgerNewMs / 1000} s; whoever used a lost one may still be acting`;
  return wait("ledger-new", sentence, { recheckMs: remainingMs });
}

/** What it held before somebody wrote the other one over it is lost, as with a new one: whoever used it may still be acting. */
function refuseElsewhere(cluster: Cluster, { name, uid }: Ledger): Wait | undefined {
  const identity = elsewhereOf(uid);
  noteLedger(cluster, identity);
  const remainingMs = (known.get(cluster)?.get(identity) ?? 0) + ledgerNewMs - cluster.monotonicMs();
  if (remainingMs <= 0) return undefined;
  const sentence = `the ledger ${name} tells of revisions that this cluster has not got to: it is from another one, or from a backup; what it reserves counts, and in ${Math.ceil(remainingMs / 1000)} s it is begun anew`;
  return wait("ledger-elsewhere", sentence, { recheckMs: remainingMs });
}

/** Under what it is remembered since when a ledger has been one from elsewhere. */
function elsewhereOf(uid: string): string {
  return `${uid} from elsewhere`;
}

/**
 * The ledger as this process knows it, without a request; undefined where it is to be read. What another function of the process
 * has put there was decided by StatefulSets that it has read: to permit, this one reads them after that (rule R5).
 */
export function knownLedger(memory: GroupMemory): Ledger | undefined {
  const { ledger, from, atMs } = memory.copy;
  if (ledger !== undefined && from !== memory) memory.ledgerReadMs = Math.max(memory.ledgerReadMs, atMs);
  return ledger;
}

/** Has the ledger read again; where one is given, only if that is still the copy: others may have written on from it. */
export function forgetLedger({ copy }: GroupMemory, ledger = copy.ledger): void {
  if (copy.ledger === ledger) copy.ledger = undefined;
}

/** Answers overtake each other: a copy never goes back to an older state of the same Lease. */
function keepLedger({ cluster }: Context, memory: GroupMemory, ledger: Ledger): void {
  const { copy } = memory;
  const { ledger: known } = copy;
  if (known?.uid === ledger.uid && Number(known.resourceVersion) > Number(ledger.resourceVersion)) return;
  copy.ledger = ledger;
  copy.from = memory;
  copy.atMs = cluster.monotonicMs();
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
    if ((await context.views.read(key, need)).statefulSets.length === 0) return undefined;
    ledger = await context.protocol.createLedger(context.cluster, key);
    if (ledger === undefined) throw new Conflict();
  }
  keepLedger(context, memory, ledger);
  memory.ledgerReadMs = context.cluster.monotonicMs();
  noteLedger(context.cluster, ledger.uid);
  return knownLedger(memory);
}

/** When each ledger was first seen over a connection, by its uid: what one function has seen has aged for all of them. */
const known = new WeakMap<Cluster, Map<string, number>>();
const rememberedLedgers = 10_000;

/** Notes that a ledger is there, and has been for so long: from then on it ages in this process (rule R4). */
export function noteLedger(cluster: Cluster, uid: string, knownForMs = 0): void {
  const seen = known.get(cluster) ?? new Map<string, number>();
  known.set(cluster, seen);
  if (seen.has(uid)) return;
  const [oldest] = seen.keys();
  if (seen.size >= rememberedLedgers && oldest !== undefined) seen.delete(oldest);
  seen.set(uid, cluster.monotonicMs() - knownForMs);
}

function imaginedLedger(key: GroupKey): Ledger {
  return {
    key,
    name: ledgerName(key.group),
    uid: "",
    resourceVersion: "",
    createdMs: 0,
    settledThrough: undefined,
    membersThrough: undefined,
    reservations: [],
    refusals: [],
    verdicts: {},
  };
}

/** Writes the ledger and keeps what was written. Throws {@link Conflict}, ClusterError. */
export async function writeChange(context: Context, observed: Observed, change: LedgerChange): Promise<void> {
  const memory = context.memoryOf(observed.key);
  try {
    keepLedger(context, memory, await context.protocol.writeLedger(context.cluster, observed.ledger, change));
    memory.ledgerWrittenMs = context.cluster.monotonicMs();
    if (observed.ledger.isElsewhere === true) known.get(context.cluster)?.delete(elsewhereOf(observed.ledger.uid));
  } catch (error) {
    // A ledger that is gone (404) or was made anew (409, or 422 for its uid) is a conflict like any other.
    if (hasCode(error, 404, 409, 422)) throw new Conflict();
    forgetWithdrawn(memory, observed.ledger);
    throw error;
  }
  forgetWithdrawn(memory, observed.ledger);
}

/**
 * What a write has left out, or may have where no answer came, is never withdrawn again: the same pod may be reserved anew within
 * one tick of the clock, by anybody, and its stamp then looks the same.
 */
function forgetWithdrawn({ refusedOnce }: GroupMemory, { reservations }: Ledger): void {
  for (const [uid, { by, stampMs }] of refusedOnce) {
    const isKept = reservations.some((kept) => kept.uid === uid && kept.by === by && kept.stampMs === stampMs);
    if (!isKept) refusedOnce.delete(uid);
  }
}
