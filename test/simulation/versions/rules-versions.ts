/** The rules that let two versions of Sluice share a ledger, removed while an older or a later version runs beside this one. */
import type { Cluster, LeaseObject } from "../../../functions/shared/kubernetes/cluster.ts";
import { wrapCluster as wrapOne } from "../../../functions/shared/kubernetes/wrap-cluster.ts";
import { knownFormat } from "../../../functions/shared/ledger/contents.ts";
import type { StoredLedger } from "../../../functions/shared/ledger/reservation.ts";
import type { Plan } from "../plan.ts";
import { never, plain, type RemovedRule, wrapCluster, wrapProtocol } from "../rules.ts";
import { formatKey } from "./newer.ts";
import { besideOlder } from "./scenarios.ts";

/** A rollout beside a later version that keeps the ledger in its own format at times, and takes pods by it. */
function besideNewer(plan: Plan): Plan {
  return plain(plan, {
    recyclers: 0,
    processes: 2,
    safetyMs: 200_000,
    versions: { older: false, laterKind: false, laterFormat: true },
    every: { ...never, changeTemplate: 15_000 },
  });
}

function asKnown(lease: LeaseObject): LeaseObject {
  const annotations = { ...lease.metadata.annotations, [formatKey]: knownFormat };
  return { ...lease, metadata: { ...lease.metadata, annotations } };
}

/** Every Lease as if its format were known. */
const readingOn = (cluster: Cluster): Partial<Cluster> => ({
  get: (async (...call: Parameters<Cluster["get"]>) => {
    const object = await cluster.get(...call);
    return call[0] === "leases" ? asKnown(object as LeaseObject) : object;
  }) as Cluster["get"],
});

/** A process that cannot read a ledger decides as if it were empty, and its writes to that ledger are lost. */
const unreadableIsEmpty = wrapProtocol((protocol) => {
  const imagined = new WeakSet<StoredLedger>();
  return {
    readLedger: async (cluster, key) => {
      try {
        return await protocol.readLedger(cluster, key);
      } catch (error) {
        if (!(error instanceof Error) || error.name !== "LedgerUnreadable") throw error;
        const ledger = await protocol.readLedger(wrapOne(cluster, readingOn(cluster)), key);
        if (ledger !== undefined) imagined.add(ledger);
        return ledger;
      }
    },
    writeLedger: async (cluster, ledger, { seenThrough, membersThrough, ...change }) => {
      if (!imagined.has(ledger))
        return protocol.writeLedger(cluster, ledger, { seenThrough, membersThrough, ...change });
      const written: StoredLedger = {
        ...ledger,
        ...change,
        members: change.members ?? ledger.members,
        claims: ledger.claims,
        settledThrough: Math.max(ledger.settledThrough ?? 0, seenThrough),
        membersThrough: Math.max(ledger.membersThrough ?? 0, membersThrough),
      };
      imagined.add(written);
      return written;
    },
  };
});

export const versionRules: readonly RemovedRule[] = [
  {
    rule: "R2",
    removed: "the number of the format: a ledger of another one is read, and written over",
    breaks: ["R2"],
    aim: besideNewer,
    wrappers: wrapCluster(readingOn),
  },
  {
    rule: "R2",
    removed: "holding what a ledger of another format may have reserved: it counts as empty",
    breaks: ["R2", "Z1", "Z2"],
    aim: besideNewer,
    wrappers: unreadableIsEmpty,
  },
  {
    rule: "R18",
    removed: "counting, in an older version, a kind of claim that it has never learnt of",
    breaks: ["Z1", "Z2", "K3"],
    aim: (plan) => besideOlder(plan),
    wrappers: wrapProtocol((protocol) => {
      const settled = (ledger: StoredLedger): StoredLedger => ({
        ...ledger,
        claims: ledger.claims.filter(({ isKnown }) => isKnown),
      });
      return {
        readLedger: async (...call) => {
          const ledger = await protocol.readLedger(...call);
          return ledger && settled(ledger);
        },
        writeLedger: async (...call) => settled(await protocol.writeLedger(...call)),
      };
    }),
  },
  {
    rule: "R18",
    removed: "leaving alone, in an older version, a claim of a kind that it has never learnt of: it counts as settled",
    breaks: ["K2"],
    aim: (plan) => besideOlder(plan),
    wrappers: wrapProtocol((protocol) => ({
      writeLedger: (cluster, ledger, change) =>
        protocol.writeLedger(cluster, ledger, { ...change, claims: ledger.claims.filter(({ isKnown }) => isKnown) }),
    })),
  },
];
