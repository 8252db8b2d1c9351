/** What the status is decided by: objects as watches remember them, ledgers, and Events of Sluice. */
import type { Guards } from "../shared/base/guards.ts";
import type { ParkedEviction, PresentedCertificate } from "../shared/contract/definition.ts";
import type { AnsweringProcess } from "../shared/contract/status.ts";
import type { Zone } from "../shared/groups/zones.ts";
import type { LedgerContents, Reservation } from "../shared/ledger/reservation.ts";
import type { SuspendedVolume } from "../shared/suspension/suspended-volumes.ts";
import type { GroupKey, ZoneWorkload } from "../shared/workloads/statefulsets.ts";

export interface StatusSnapshot {
  /** The API server's clock, in milliseconds since the epoch. */
  readonly nowMs: number;
  /** The guards of each function, by its name. */
  readonly guards: Readonly<Record<string, Guards>>;
  readonly groups: readonly GroupSnapshot[];
  /** Events of Sluice, newest first; undefined if they could not be listed. */
  readonly events: readonly SeenEvent[] | undefined;
  /** In the memory of this process, by group and place; absent: none. */
  readonly parked?: readonly SeenParked[];
  /** Absent: they could not be listed, or no function for them is served. */
  readonly volumes?: readonly SuspendedVolume[] | undefined;
  /** Absent: this process presents none. */
  readonly certificate?: PresentedCertificate | undefined;
  readonly leftOut: readonly LeftOut[];
  readonly answeredBy: AnsweringProcess;
  /** Since when the API server has not answered, if it has not for some seconds. */
  readonly unansweredSinceMs: number | undefined;
}

export interface GroupSnapshot {
  readonly key: GroupKey;
  /** The zones by name, with the open reservations and the claims of the ledger. */
  readonly zones: readonly Zone<ZoneWorkload>[];
  readonly ledger: GroupLedger;
  /** Since when this process has seen pods that only another revision mends, by uid, in milliseconds since the epoch. */
  readonly stuckSinceMs: ReadonlyMap<string, number>;
}

/** `absent`: nothing is reserved. `unlisted`: the Leases could not be listed, so that nothing shows what is reserved. */
export type GroupLedger = ReadLedger | UnreadableLedger | { readonly kind: "absent" | "unlisted" };

export interface ReadLedger extends Pick<LedgerContents, "claims" | "verdicts"> {
  readonly kind: "read";
  /** The reservations that have not settled, also those of zones that have left the group. */
  readonly open: readonly Reservation[];
}

export interface UnreadableLedger {
  readonly kind: "unreadable";
  readonly lease: string;
  readonly message: string;
}

export interface SeenEvent {
  readonly namespace: string;
  /** The name of the object that the Event is about. */
  readonly object: string;
  readonly reason: string;
  /** Of evictions it begins with the guard and a colon. */
  readonly message: string;
  readonly atMs: number;
}

export interface SeenParked extends Pick<ParkedEviction, "pod" | "place" | "guard" | "message"> {
  readonly key: GroupKey;
  readonly node: string | undefined;
  /** In milliseconds since the epoch. */
  readonly sinceMs: number;
}

/** A part of the status that could not be read. */
export interface LeftOut {
  readonly part: string;
  readonly why: string;
  readonly sinceMs: number;
}
