/**
 * The reservation protocol: how any number of stateless functions share one disruption budget.
 *
 * One Lease per group is its ledger. The rules R1 to R25 are in README.md beside this file; their ids stand where they are kept.
 */

import type { NamedConfig } from "../annotations/restart-files.ts";
import type { KnownTrigger } from "../annotations/restart-trigger.ts";
import type { Looks } from "../annotations/table.ts";
import { clockSkewMs } from "../clock/skew.ts";
import type { GroupKey } from "../workloads/statefulsets.ts";
import type { Claim } from "./claim.ts";

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
  /** Time at which a process that comes and goes saw it overdue, by the same clock as the stamp (rule R10). */
  readonly overdueSeenMs?: number;
}

/** A pod that stays for now: its deletion was refused for good, or its evictions were allowed and never carried out. */
export interface Refusal {
  readonly uid: string;
  readonly pod: string;
  readonly message: string;
  readonly stampMs: number;
  /** The function whose reservation was given up, which alone keeps to it; absent: a deletion that a rollout sent. */
  readonly by?: string;
}

/** The last verdict of a function about the group. */
export interface RecordedVerdict {
  readonly guard: string;
  readonly zone: string;
  readonly sentence: string;
  /** Since when the guard has held, and when this was written: API server's clock, milliseconds since the epoch. */
  readonly since: number;
  readonly at: number;
}

/** The times in a ledger: a write names those that change. By the API server's clock, since the epoch. */
export interface LedgerTimes {
  /** When each StatefulSet was last made smaller, by name; absent: no function said it, or it is malformed. */
  readonly lastDownscales?: Readonly<Record<string, number>> | undefined;
  /** When the suspended volumes of the group were observed without a gap; absent: no function said it, or it is malformed. */
  readonly looks?: Looks | undefined;
  /** End of the last removal of a pod or of a volume; absent: no function said it. A malformed one is of the far future. */
  readonly lastRemovalMs?: number | undefined;
  /** End of the last restart of a process; absent: no function said it, or it is malformed. */
  readonly lastRestartMs?: number | undefined;
  /** By name, the Secrets with expected files that the group has named; absent: none is known, or it is malformed. */
  readonly namedConfigs?: ReadonlyMap<string, NamedConfig> | undefined;
  /** By name, what is known of the StatefulSets' triggers; absent: nothing is, or it is malformed. */
  readonly knownTriggers?: ReadonlyMap<string, KnownTrigger> | undefined;
}

/** A ledger that the API server has, or an empty one in its place if no trace may be left (rule R16). */
export type Ledger = StoredLedger | ImaginedLedger;

/** Only a stored ledger can be written. */
export interface StoredLedger extends LedgerContents {
  readonly kind: "stored";
  readonly uid: string;
  readonly resourceVersion: string;
  readonly createdMs: number;
}

/** It has no identity on which a write could be conditional. It counts as old, so that it blocks no decision (rule R4). */
export interface ImaginedLedger extends LedgerContents {
  readonly kind: "imagined";
  readonly uid: "";
  readonly resourceVersion: "";
  readonly createdMs: 0;
}

/** The parsed contents of a ledger. */
export interface LedgerContents extends LedgerTimes {
  readonly key: GroupKey;
  readonly name: string;
  /** Of the annotations that no write of ours replaces, keys and values: what others put there, and the group. */
  readonly othersBytes: number;
  /** Undefined in a ledger that has never been decided on (rule R4: its first decision uses a consistent LIST). */
  readonly settledThrough: number | undefined;
  /** The StatefulSet revision from which on all zones that it counted are known; undefined until a function says so. */
  readonly membersThrough: number | undefined;
  /** The zones that its last decision counted; undefined until a function says so. */
  readonly members?: readonly string[] | undefined;
  /** What it says was written in another cluster, or at another time of this one: it is aged and begun anew (rule R4). */
  readonly isElsewhere?: boolean;
  readonly reservations: readonly Reservation[];
  /** What is reserved besides pods that go (rule R18). */
  readonly claims: readonly Claim[];
  readonly refusals: readonly Refusal[];
  readonly verdicts: Readonly<Record<string, RecordedVerdict>>;
  /** What it says of last downscales cannot be read: no spacing can be told by it. */
  readonly hasMalformedTimes?: boolean;
}

/** The changes of one conditional write to a ledger. */
export interface LedgerChange extends LedgerTimes {
  readonly reservations: readonly Reservation[];
  /** The largest resourceVersion of any pod in the view that was used (rule R8). */
  readonly seenThrough: number;
  /** The StatefulSet revision from which on all members of that view are known (rule R5). */
  readonly membersThrough: number;
  /** The zones that are counted from now on; absent: as they are. */
  readonly members?: readonly string[] | undefined;
  /** The claims from now on, by a function that has changed its own; absent: as they are. */
  readonly claims?: readonly Claim[];
  readonly refusals: readonly Refusal[];
  readonly verdicts: Readonly<Record<string, RecordedVerdict>>;
}

/** Rule R2: no ledger holds more reservations and ranges of claims; the cap keeps them far below `maxLedgerBytes`. */
export const maxReservations = 1000;
/** Rule R4: a newer ledger permits nothing: a function that acted on a lost one has finished by then (rule R9). */
export const ledgerNewMs = 10_000;
/** Rule R9: no function acts later than this after sending the write that stamped the reservation. */
export const actWithinMs = 5_000;
/** Rule R10: a reservation whose pod still stands is finished by its function once its writer must have given up. */
export const finishAfterMs = 7_000;
/** Rule R10: two minutes, and 30 s more for clocks that differ, after which a reservation whose pod still stands is dropped. */
export const dropAfterMs = 120_000 + clockSkewMs;
/**
 * Rule R10: for this long a process must have known a reservation as it stands before it drops it, by its own clock. The clocks
 * of API servers may be set, and then every stamp looks old.
 */
export const knownForMs = dropAfterMs - clockSkewMs;
/** Rule R3: how often a conflicting reconcile starts again before it is left to the sweep. */
export const maxConflicts = 5;
