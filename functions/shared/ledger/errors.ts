/** Why a ledger cannot be read or written. */

import { cut } from "../base/truncate.ts";
import type { Ledger } from "./reservation.ts";
import { maxLedgerBytes } from "./size.ts";

const correct = "Correct it, or delete it: it is made again empty after 10 s.";

/** A ledger that cannot be read, so that nothing may be permitted on it: the guard `ledger-unreadable`. */
export class LedgerUnreadable extends Error {
  readonly why: string;

  /** `remedy`: what to do about it, as a message. */
  constructor(name: string, why: string, remedy = correct) {
    super(`Lease ${name} cannot be read as a ledger: ${cut(why)}. ${remedy}`);
    this.name = "LedgerUnreadable";
    this.why = why;
  }
}

/** A write would make the ledger too large, although everything that only informs has been dropped: the guard `ledger-full`. */
export class LedgerFull extends Error {
  constructor({ name, othersBytes }: Ledger, reservedBytes: number) {
    super(
      `Lease ${name} has room for ${maxLedgerBytes} bytes of annotations: the reservations and claims need ${reservedBytes}, and other annotations take ${othersBytes}. Remove what others have written there.`,
    );
    this.name = "LedgerFull";
  }
}

/** A write could not be read back, and was not sent: the guard `ledger-unwritable`. */
export class LedgerUnwritable extends Error {
  constructor(name: string, why: string) {
    super(`Lease ${name} stays as it is, because what would be written into it could not be read again: ${cut(why)}`);
    this.name = "LedgerUnwritable";
  }
}
