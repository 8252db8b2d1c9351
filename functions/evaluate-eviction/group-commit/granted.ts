/** Reservations that a group commit has made, and how one is removed if its review was refused afterwards. */
import type { Ledger, Reservation } from "../../shared/ledger/reservation.ts";

/** A review's reservation, and the earlier reservation of the ledger at that ordinal. */
export interface GrantedReservation {
  readonly reservation: Reservation;
  readonly before: Reservation | undefined;
}

/** The ledger without the withdrawn reservations. The reservations that those had renewed are restored. */
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
