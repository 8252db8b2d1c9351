/** The marks of removals are read beside the ledger that has to hold them. */

import type { Context } from "../contract/context.ts";
import type { Ledger } from "../ledger/reservation.ts";
import { Conflict } from "../transaction/ledger-copy.ts";
import type { Member } from "../volumes/members.ts";
import { isMarkFalse, withoutFalseMarks } from "./marks.ts";

/**
 * The members, without the marks of removals that no claim of the ledger holds. A claim is written before its mark. So where a
 * mark looks false, the ledger is read once more, after the mark was: another process may have written it since. Throws
 * Conflict where it has, and ClusterError.
 */
export async function withTrueMarks(
  { cluster, protocol }: Pick<Context, "cluster" | "protocol">,
  { key, claims }: Pick<Ledger, "key" | "claims">,
  members: readonly Member[],
): Promise<readonly Member[]> {
  const doubtful = members.flatMap((member) => member.pvcs.filter((one) => isMarkFalse(one, claims)));
  if (doubtful.length === 0) return members;
  const now = (await protocol.readLedger(cluster, key))?.claims ?? [];
  if (doubtful.some((one) => !isMarkFalse(one, now))) throw new Conflict();
  return withoutFalseMarks(members, now);
}
