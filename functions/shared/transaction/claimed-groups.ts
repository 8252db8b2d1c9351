/** Which groups have a claim in their ledgers. One LIST of Leases says it, and no group is looked at. */

import { claims, ledgerGroup, managedBy, read } from "../annotations/table.ts";
import type { Need, Schedule } from "../contract/definition.ts";
import type { LeaseObject } from "../kubernetes/cluster.ts";
import { type Claim, parseClaims } from "../ledger/claim.ts";
import { ledgerName } from "../ledger/lease-name.ts";
import type { GroupKey } from "../workloads/statefulsets.ts";
import { forgetLedger } from "./ledger-copy.ts";

/**
 * Lists the groups whose ledgers hold such a claim, in a namespace or in all. A ledger whose claims cannot be read is one of
 * them, because a pass over it says what is wrong. The list throws ClusterError.
 */
export function listClaimed(isSought: (claim: Claim) => boolean): Schedule<GroupKey>["listDue"] {
  return async ({ cluster, memoryOf }, namespace) => {
    const labelSelector = `${managedBy.key}=sluice`;
    const { items } = await cluster.list("leases", {
      ...(namespace === undefined ? {} : { namespace }),
      labelSelector,
    });
    const keys = items.flatMap((lease) => keyOf(lease, isSought));
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
  return { everySeconds: 30, listDue: listClaimed((claim) => claim.isKnown && claim.by === by) };
}

/** The right that such lists need. */
export const claimedNeed: Need = { group: "coordination.k8s.io", resource: "leases", verbs: ["list"] };

function keyOf({ metadata }: LeaseObject, isSought: (claim: Claim) => boolean): GroupKey[] {
  const group = read(ledgerGroup, metadata);
  const text = read(claims, metadata) ?? "";
  if (group === undefined || ledgerName(group) !== metadata.name || !holds(text, isSought)) return [];
  return [{ namespace: metadata.namespace ?? "", group }];
}

function holds(text: string, isSought: (claim: Claim) => boolean): boolean {
  if (text === "") return false;
  try {
    return parseClaims(text, (why) => new Error(why)).some(isSought);
  } catch {
    return true;
  }
}
