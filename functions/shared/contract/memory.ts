import { BoundedMap, BoundedSet } from "../base/bounded-map.ts";
import type { Refusal, Reservation, StoredLedger } from "../ledger/reservation.ts";
import { type Key, pathOf } from "./keys.ts";

/**
 * A group's ledger as one process knows it: one copy for all its functions, or each write of one would make the copies of the
 * others stale, and their next write would only be a conflict.
 */
export interface LedgerCopy {
  /** As our own last write left it, or as last read. */
  ledger: StoredLedger | undefined;
  /** Whose write or read that was. */
  from: GroupMemory | undefined;
  /** When its answer came, by the monotonic clock. */
  atMs: number;
}

/**
 * A fence that a process of `fence-node` knows to be armed. Times are of a clock that counts nothing that only the wall clock
 * has shown.
 */
export interface KnownArmed {
  /** The fence, its record, and the version of the agent's Lease that was noted before arming. */
  readonly identity: string;
  /** The end of the first observation that showed it armed. Every later one has shown it as well. */
  readonly sinceMs: number;
  /** How much only the wall clock had shown at the last observation. */
  readonly skippedMs: number;
  /** When each began, and the renewals of each peer, the oldest first. */
  readonly observations: readonly { readonly beganMs: number; readonly renewals: ReadonlyMap<string, number> }[];
}

/** What one function remembers of a group, or of another key, between reconciles. Losing it costs requests, never safety. */
export interface GroupMemory {
  /** To be read and changed through `ledger-copy.ts`. */
  readonly copy: LedgerCopy;
  /**
   * Monotonic time at which a ledger that another writer may have written was last taken over. Another function of this
   * process is another writer: what it decided by may be newer than what this one has read of StatefulSets (rule R5).
   */
  ledgerReadMs: number;
  /** When this function last wrote it, by the monotonic clock. A storm of reviews beside it must not keep a verdict untold. */
  ledgerWrittenMs: number;
  /** How a write of it was refused for good, and until when no other is tried, by the monotonic clock. */
  ledgerRefused?: { readonly error: Error; readonly untilMs: number } | undefined;
  /** The verdict that holds now, whether written to the ledger or not. */
  waiting: { readonly guard: string; readonly zone: string; readonly sinceMs: number } | undefined;
  readonly refusals: Map<string, Refusal>;
  /** Reservations whose only attempt the API server refused, by pod uid: the next write takes them out. */
  readonly refusedOnce: Map<string, Reservation>;
  /** Ids of claims under which nothing is under way, because the only attempt was refused: losing one costs time (R10a, R20). */
  readonly withdrawnClaims: Set<string>;
  /** What the API server has not let a zone do of late, by StatefulSet uid, and until when by the monotonic clock. */
  readonly refusedSizes: Map<string, { readonly message: string; readonly untilMs: number }>;
  /** Since when this process has known each reservation as it stands, by pod uid, function and stamp, by the monotonic clock. */
  readonly knownSince: Map<string, number>;
  /** Since when this process has known zones that have joined, by name and uid, by the monotonic clock. */
  readonly joinedSince: Map<string, number>;
  /** The fence of a node, as long as it is armed; absent: this process begins to count. */
  knownArmed?: KnownArmed | undefined;
  /** Identities of the Events that this process has sent. */
  readonly sentEvents: Set<string>;
}

/**
 * For one group: refusals of an API server, of which a ledger has fewer, and a forgotten one is tried once more; and identities
 * of Events, of which a forgotten one is sent again, and increases the count of the existing Event.
 */
const remembered = 1_000;

/** The copies of ledgers that the functions of one process share. They must share their connection and their cache as well. */
export function createLedgerCopies(capacity = 10_000): (key: Key) => LedgerCopy {
  return remembering(capacity, () => ({ ledger: undefined, from: undefined, atMs: Number.NEGATIVE_INFINITY }));
}

/** A memory that forgets the key that was least recently asked for once it holds `capacity` of them. */
export function createMemory(
  copyOf: (key: Key) => LedgerCopy = createLedgerCopies(),
  capacity = 10_000,
): (key: Key) => GroupMemory {
  return remembering(capacity, (key) => ({
    copy: copyOf(key),
    ledgerReadMs: Number.NEGATIVE_INFINITY,
    ledgerWrittenMs: Number.NEGATIVE_INFINITY,
    waiting: undefined,
    refusals: new BoundedMap(remembered),
    refusedOnce: new BoundedMap(remembered),
    withdrawnClaims: new Set(),
    refusedSizes: new Map(),
    knownSince: new Map(),
    joinedSince: new Map(),
    sentEvents: new BoundedSet(remembered),
  }));
}

function remembering<Known>(capacity: number, create: (key: Key) => Known): (key: Key) => Known {
  const keys = new BoundedMap<string, Known>(capacity);
  return (key) => {
    const name = pathOf(key);
    const known = keys.get(name) ?? create(key);
    keys.delete(name);
    keys.set(name, known);
    return known;
  };
}
