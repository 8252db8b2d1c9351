/** Which groups have a claim in their ledgers. One LIST of Leases says it, and no group is looked at. */

import { claims, read } from "../annotations/table.ts";
import type { Need, Schedule } from "../contract/definition.ts";
import { type Claim, parseClaims } from "../ledger/claim.ts";
import { groupKeyOfLease, listLedgerLeases } from "../ledger/lease.ts";
import type { GroupKey } from "../workloads/statefulsets.ts";
import { madeBy } from "./claims.ts";
import { forgetLedger } from "./ledger-copy.ts";

/**
 * Lists the groups whose ledgers hold such a claim, in a namespace or in all. A ledger whose claims cannot be read is one of
 * them, because a pass over it says what is wrong. The list throws ClusterError.
 */
export function listClaimed(isSought: (claim: Claim) => boolean): Schedule<GroupKey>["listDue"] {
  return async ({ cluster, memoryOf }, namespace) => {
    const leases = await listLedgerLeases(cluster, namespace);
    const holding = leases.filter(({ metadata }) => holds(read(claims, metadata) ?? "", isSought));
    const keys = holding.flatMap((lease) => groupKeyOfLease(lease) ?? []);
    // A copy of the ledger may be from before the claim, and no event tells of a ledger that another process writes.
    for (const key of keys) forgetLedger(memoryOf(key));
    return keys;
  };
}

/**
 * The schedule of a function whose scale-downs are over after 90 s if no process carries them out (rule R20): a process that
 * was killed leaves its claim, which holds the group, and no event tells of that.
 */
export function scheduleOfClaims(by: string): Schedule<GroupKey> {
  return { everySeconds: 30, listDue: listClaimed(madeBy(by)) };
}

/** The right that such lists need. */
export const claimedNeed: Need = { group: "coordination.k8s.io", resource: "leases", verbs: ["list"] };

function holds(text: string, isSought: (claim: Claim) => boolean): boolean {
  if (text === "") return false;
  try {
    return parseClaims(text, (why) => new Error(why)).some(isSought);
  } catch {
    return true;
  }
}
