/** An older version of Sluice, which knows claims but no kind of them: it counts and keeps what it does not know. */
import type { Claim } from "../../../functions/shared/ledger/claim.ts";
import type { Protocol } from "../../../functions/shared/ledger/protocol.ts";
import type { StoredLedger } from "../../../functions/shared/ledger/reservation.ts";
import type { Wrappers } from "../replica.ts";

/** The wrappers of a test around what the older version reads. */
export function olderWrappers(wrappers: Wrappers): Wrappers {
  return { ...wrappers, protocol: (shipped) => wrappers.protocol?.(unknowing(shipped)) ?? unknowing(shipped) };
}

function unknowing(protocol: Protocol): Protocol {
  return {
    ...protocol,
    readLedger: async (...call) => {
      const ledger = await protocol.readLedger(...call);
      return ledger && foreign(ledger);
    },
    writeLedger: async (...call) => foreign(await protocol.writeLedger(...call)),
  };
}

function foreign(ledger: StoredLedger): StoredLedger {
  const claims = ledger.claims.map(
    ({ id, zone, line, kind, by }): Claim => ({ isKnown: false, id, zone, line, kind, by }),
  );
  return { ...ledger, claims };
}
