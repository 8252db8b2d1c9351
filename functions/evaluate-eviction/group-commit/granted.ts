/** Reservations that a group commit has made, and how one is undone whose review was refused after all. */
import type { Ledger, Reservation } from "../../shared/ledger/reservation.ts";

/** What was written for a review, and what stood in the ledger at that ordinal before. */
export interface GrantedReservation {
  readonly reservation: Reservation;
  readonly before: Reservation | undefined;
}

/** The ledger without what was withdrawn. What that had renewed stands again. */
export function without(ledger: Ledger, withdrawn: readonly GrantedReservation[]): Ledger {
  const reservations = ledger.reservations.flatMap((reservation) => {
    const undone = withdrawn.find(({ reservation: { uid, by, stampMs } }) => {
      return uid === reservation.uid && by === reservation.by && stampMs === reservation.stampMs;
    });
    if (undone === undefined) return [reservation];
    return undone.before === undefined ? [] : [undone.before];
  });
  return { ...ledger, reservations };
}
