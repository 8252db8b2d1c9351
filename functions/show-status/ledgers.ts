/** The ledgers of all served groups, by one LIST for each namespace. */
import { limitReads } from "../shared/base/limit-reads.ts";
import type { StatusContext } from "../shared/contract/definition.ts";
import type { LeaseObject } from "../shared/kubernetes/cluster.ts";
import { parseLedger } from "../shared/ledger/contents.ts";
import { LedgerUnreadable } from "../shared/ledger/errors.ts";
import { groupKeyOfLease, listLedgerLeases } from "../shared/ledger/lease.ts";
import { ledgerName } from "../shared/ledger/lease-name.ts";
import type { Ledger } from "../shared/ledger/reservation.ts";
import { mendStamps } from "../shared/ledger/stamps.ts";
import type { GroupKey } from "../shared/workloads/statefulsets.ts";
import type { Omissions } from "./omissions.ts";
import type { UnreadableLedger } from "./snapshot.ts";

/** Each GET asks for the ledgers, so that nothing is listed while no GET comes. */
const listLimits = { everyMs: 2_000, waitMs: 1_000 };
/** A LIST that takes as long as this counts as not answered. */
const unansweredAfterMs = 5_000;

export interface LedgerLists {
  /** Resolves when the ledgers are at most two seconds old, or within a second. */
  refresh(): Promise<void>;
  /** The groups that have a ledger. */
  groups(): readonly GroupKey[];
  /** The ledger of a group by the last LIST. `unlisted`: its namespace has not been listed yet. */
  find(key: GroupKey): Ledger | UnreadableLedger | "absent" | "unlisted";
  /** Since when the API server has not answered, in milliseconds since the epoch; undefined while it does. */
  unansweredSinceMs(): number | undefined;
}

export function createLedgerLists({ cluster, answeredBy }: StatusContext, omissions: Omissions): LedgerLists {
  /** By namespace, and by name there. One LIST of all namespaces has the namespace "". */
  const listed = new Map<string, ReadonlyMap<string, LeaseObject>>();
  let askedMs: number | undefined;
  const list = async (scope: string): Promise<void> => {
    const part = scope === "" ? "ledgers" : `ledgers of ${scope}`;
    try {
      const leases = await listLedgerLeases(cluster, scope === "" ? undefined : scope);
      listed.set(scope, new Map(leases.map((lease) => [`${lease.metadata.namespace}/${lease.metadata.name}`, lease])));
      omissions.end(part);
      askedMs = undefined;
    } catch (error) {
      // The API server has answered, if only that it refuses.
      if (omissions.note(part, error).isAnswer) askedMs = undefined;
    }
  };
  return {
    refresh: limitReads(cluster, listLimits, () => {
      askedMs ??= cluster.serverTimeMs();
      return Promise.all((answeredBy.namespaces ?? [""]).map(list));
    }),
    groups: () =>
      [...listed.values()].flatMap((leases) => [...leases.values()].flatMap((one) => groupKeyOfLease(one) ?? [])),
    find(key) {
      const leases = listed.get(key.namespace) ?? listed.get("");
      if (leases === undefined) return "unlisted";
      const lease = leases.get(`${key.namespace}/${ledgerName(key.group)}`);
      return lease === undefined ? "absent" : parse(key, lease, cluster.serverTimeMs());
    },
    unansweredSinceMs() {
      const isLate = askedMs !== undefined && cluster.serverTimeMs() - askedMs >= unansweredAfterMs;
      return isLate ? askedMs : undefined;
    },
  };
}

function parse(key: GroupKey, lease: LeaseObject, nowMs: number): Ledger | UnreadableLedger {
  try {
    return mendStamps(parseLedger(key, lease), nowMs);
  } catch (error) {
    if (!(error instanceof LedgerUnreadable)) throw error;
    return { kind: "unreadable", lease: lease.metadata.name, message: error.message };
  }
}
