/** The ledgers of all served groups, by one LIST for each namespace. */
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
import { createScopedLists } from "./scoped-lists.ts";
import type { UnreadableLedger } from "./snapshot.ts";

/** Each GET asks for the ledgers, so that nothing is listed while no GET comes. */
// The page is fetched every 2 s.
const listLimits = { everyMs: 2_000, waitMs: 1_000, earlyMs: 100 };
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

export function createLedgerLists(context: StatusContext, omissions: Omissions): LedgerLists {
  const { cluster } = context;
  let askedMs: number | undefined;
  const lists = createScopedLists<ReadonlyMap<string, LeaseObject>>(context, omissions, {
    part: "ledgers",
    limits: listLimits,
    async list(namespace) {
      askedMs ??= cluster.serverTimeMs();
      const leases = await listLedgerLeases(cluster, namespace);
      return new Map(leases.map((lease) => [`${lease.metadata.namespace}/${lease.metadata.name}`, lease]));
    },
    onAnswer: () => {
      askedMs = undefined;
    },
  });
  return {
    refresh: lists.refresh,
    groups: () => lists.all().flatMap((leases) => [...leases.values()].flatMap((one) => groupKeyOfLease(one) ?? [])),
    find(key) {
      const leases = lists.find(key.namespace);
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
