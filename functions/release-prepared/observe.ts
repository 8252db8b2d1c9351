/** Which ledgers hold claims of downscales that were prepared, and where the objects are that such a claim names. */

import { lastDownscales, read } from "../shared/annotations/table.ts";
import { fieldsOf } from "../shared/base/fields.ts";
import { parseBoolean, setting, valuesOf } from "../shared/base/settings.ts";
import { parseTime } from "../shared/clock/durations.ts";
import type { Context } from "../shared/contract/context.ts";
import type { KnownClaim } from "../shared/ledger/claim.ts";
import { isPrepared } from "../shared/scaling/prepared.ts";
import { readClaimedObjects } from "../shared/transaction/claimed-objects.ts";
import { listClaimed, openTransaction } from "../shared/transaction/claims.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import type { GroupKey } from "../shared/workloads/statefulsets.ts";
import type { PreparedSnapshot } from "./decide.ts";

export const name = "release-prepared";
export const settings = {
  writesLastDownscale: setting<boolean>({
    name: "WRITE_LAST_DOWNSCALE",
    fallback: "false",
    meaning:
      "true: the annotation last-downscale is written to StatefulSets for those who read it, a minute after their last change",
    grammar: "true or false",
    parse: parseBoolean,
  }),
};

/**
 * The groups whose ledgers hold a claim of any kind, or times that the setting asks to write; in a namespace or in all. A user
 * may set it long after the last claim has ended, and no event names the group then. Throws ClusterError.
 */
export const listKeys = listClaimed(
  () => true,
  ({ settings: given }, { metadata }) =>
    valuesOf(settings, given).writesLastDownscale && read(lastDownscales, metadata) !== undefined,
);

/** Those whose ledgers hold a claim that this function ends. Throws ClusterError. */
export const listDue = listClaimed(isPrepared);

/** The claims of a group that a review made, by its ledger as it is now. Throws LedgerUnreadable, ClusterError. */
export async function readPrepared({ protocol, cluster }: Context, key: GroupKey): Promise<readonly KnownClaim[]> {
  const ledger = await protocol.readLedger(cluster, key);
  return ledger === undefined ? [] : ledger.claims.filter(isPrepared);
}

/**
 * Time of the last change of an object but for its status, in milliseconds since the epoch; undefined if its managed fields tell
 * none.
 */
export function changedAt({ metadata }: { readonly metadata: object }): number | undefined {
  const { managedFields } = fieldsOf(metadata) ?? {};
  const managed: readonly unknown[] = Array.isArray(managedFields) ? managedFields : [];
  const times = managed.flatMap((one) => {
    const { time, subresource } = fieldsOf(one) ?? {};
    const ms = typeof time === "string" && subresource !== "status" ? parseTime(time) : undefined;
    return ms === undefined ? [] : [ms];
  });
  return times.length === 0 ? undefined : Math.max(...times);
}

/** A claim as it stands, and the group with the ledger that holds it. */
export interface ObservedClaim extends PreparedSnapshot {
  readonly observed: GroupObservation;
}

/** The claim of that id; undefined if it is gone, or if Sluice may not write the ledger yet. */
export async function observe(context: Context, key: GroupKey, id: string): Promise<ObservedClaim | undefined> {
  const transaction = await openTransaction(context, key);
  const claim = transaction?.observed.ledger.claims.filter(isPrepared).find((one) => one.id === id);
  if (transaction === undefined || transaction.tooNew !== undefined || claim === undefined) return undefined;
  // Rule R21: by GETs after the ledger was read.
  const where = await readClaimedObjects(context.cluster, key.namespace, claim);
  return { observed: transaction.observed, claim, where, nowMs: context.cluster.serverTimeMs() };
}
