/** Corrects stamps of a clock that was ahead of the API server's. */

import { clockSkewMs } from "../clock/skew.ts";
import { dropAfterMs, type Ledger, type RecordedVerdict, type Reservation } from "./reservation.ts";

/**
 * The stamp, or now if the stamp is further ahead than clocks may differ: it would otherwise count for as long as that clock was
 * ahead. By the API server's clock, in milliseconds since the epoch.
 */
export function mendStamp(stampMs: number, nowMs: number): number {
  return stampMs > nowMs + clockSkewMs ? nowMs : stampMs;
}

/**
 * Rule R10: records that the reservation is seen overdue now. No process that comes and goes knows a reservation for two minutes.
 * The record tells the next process that it was overdue before, whatever was done to the API servers' clocks.
 */
export function noteOverdue(reservation: Reservation, nowMs: number): Reservation {
  return { ...reservation, overdueSeenMs: nowMs };
}

/** True if it was seen overdue so long ago that no act can rest on it any more. */
export function isOverdueSeenLongAgo(
  { overdueSeenMs = Number.POSITIVE_INFINITY }: Reservation,
  nowMs: number,
): boolean {
  return nowMs - overdueSeenMs >= dropAfterMs;
}

/** The ledger with such stamps set to now; the very same ledger if it has none. The next write stores them. */
export function mendStamps(ledger: Ledger, nowMs: number): Ledger {
  const isAhead = (stampMs: number) => mendStamp(stampMs, nowMs) !== stampMs;
  const verdicts = Object.entries(ledger.verdicts);
  const isMended =
    ledger.reservations.some(({ stampMs, overdueSeenMs = stampMs }) => isAhead(stampMs) || isAhead(overdueSeenMs)) ||
    ledger.refusals.some(({ stampMs }) => isAhead(stampMs)) ||
    verdicts.some(([, { since, at }]) => isAhead(since) || isAhead(at));
  if (!isMended) return ledger;
  return {
    ...ledger,
    reservations: ledger.reservations.map((reservation) => mendReservation(reservation, nowMs)),
    refusals: ledger.refusals.map((refusal) => ({ ...refusal, stampMs: mendStamp(refusal.stampMs, nowMs) })),
    verdicts: Object.fromEntries(verdicts.map(([by, verdict]) => [by, mendVerdict(verdict, nowMs)])),
  };
}

function mendReservation(reservation: Reservation, nowMs: number): Reservation {
  const stampMs = mendStamp(reservation.stampMs, nowMs);
  const { sinceMs = stampMs, overdueSeenMs, ...rest } = reservation;
  const since = sinceMs < stampMs ? { sinceMs } : {};
  // A clock that has gone back since saw it overdue: only by that clock it was so old.
  const isOverdueSeen =
    overdueSeenMs !== undefined && ![reservation.stampMs, overdueSeenMs].some((ms) => mendStamp(ms, nowMs) !== ms);
  const overdueSeen = isOverdueSeen ? { overdueSeenMs } : {};
  return { ...rest, stampMs, ...since, ...overdueSeen };
}

function mendVerdict(verdict: RecordedVerdict, nowMs: number): RecordedVerdict {
  return { ...verdict, since: mendStamp(verdict.since, nowMs), at: mendStamp(verdict.at, nowMs) };
}
