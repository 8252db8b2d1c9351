/**
 * How each group stands: what its ledger says, and what the watches show of its pods. This is for the metrics of processes that
 * live, and true while every function is at zero.
 *
 * A scrape lists the ledgers, and no watch follows them: a watch would bring each write of every ledger, of up to 100 KB and
 * several times a second in a storm, to each replica, scraped or not; and it wants one more right.
 */

import { limitReads } from "../../functions/shared/base/limit-reads.ts";
import type { GroupCache, GroupView } from "../../functions/shared/cache/cache.ts";
import { failingGuards } from "../../functions/shared/contract/verdict.ts";
import { surveyZone, type Zone } from "../../functions/shared/groups/zones.ts";
import type { Cluster, LeaseObject } from "../../functions/shared/kubernetes/cluster.ts";
import { parseLedger } from "../../functions/shared/ledger/contents.ts";
import { LedgerUnreadable } from "../../functions/shared/ledger/errors.ts";
import { groupKeyOfLease, listLedgerLeases } from "../../functions/shared/ledger/lease.ts";
import { ledgerName } from "../../functions/shared/ledger/lease-name.ts";
import type { Ledger } from "../../functions/shared/ledger/reservation.ts";
import { readGroup } from "../../functions/shared/workloads/group-key.ts";
import {
  type GroupKey,
  groupPathOf,
  isStatefulSet,
  type ZoneWorkload,
} from "../../functions/shared/workloads/statefulsets.ts";
import { scrapeLimits } from "./live-gauges.ts";

/** A group at one moment. All times are the API server's, in milliseconds since the epoch. */
export interface GroupStanding {
  readonly key: GroupKey;
  readonly zones: readonly Zone<ZoneWorkload>[];
  /** Undefined where there is none, or where it cannot be read. */
  readonly ledger: Ledger | undefined;
  readonly isUnreadable: boolean;
  /** Undefined for a group that is made of a budget, because no function rolls it. */
  readonly rollout: Rollout | undefined;
}

export interface Rollout {
  /** When a function last wrote into the ledger how the group stands, or when it was last seen to need none. */
  readonly reconciledMs: number;
  /** When a pod of the group last became ready at the wanted revision, or when all of them were last seen to be at it. */
  readonly progressMs: number;
}

export interface GroupReaderOptions {
  readonly cluster: Pick<Cluster, "list" | "monotonicMs" | "serverTimeMs" | "sleep">;
  readonly cache: Pick<GroupCache, "read">;
  /** Undefined: all of them. */
  readonly namespaces: readonly string[] | undefined;
  /** The groups that the watches have delivered, by `NAMESPACE/GROUP`. Those that have vanished are taken out. */
  readonly seen: Map<string, GroupKey>;
}

/** The last LIST of ledgers of one scope: a namespace, or all of them. */
interface Listed {
  readonly byPath: ReadonlyMap<string, LeaseObject>;
  readonly readMs: number;
}

/** What this process remembers about a group between two observations. */
interface Remembered {
  readonly firstMs: number;
  /** When no pod of it was last seen to have another revision than the wanted one, but where a zone is paused. */
  inOrderMs: number | undefined;
  standing: GroupStanding | undefined;
}

/**
 * Returns a function that reads the state of every group, at most ten seconds old while the API server answers. It never
 * rejects.
 */
export function createGroupReader(options: GroupReaderOptions): () => Promise<readonly GroupStanding[]> {
  const { cluster } = options;
  const listed = new Map<string, Listed>();
  const remembered = new Map<string, Remembered>();
  let known: readonly GroupStanding[] = [];
  const refresh = limitReads(cluster, scrapeLimits, async () => {
    await listLedgers(options, listed);
    known = await standingsOf(options, listed, remembered);
  });
  return () => refresh().then(() => known);
}

/** One LIST for each namespace, so that an unreadable namespace hides no other: its last LIST stays. */
async function listLedgers({ cluster, namespaces }: GroupReaderOptions, listed: Map<string, Listed>): Promise<void> {
  const scopes = namespaces ?? [""];
  await Promise.allSettled(
    scopes.map(async (scope) => {
      const readMs = cluster.serverTimeMs();
      const leases = await listLedgerLeases(cluster, scope === "" ? undefined : scope);
      const byPath = leases.map((lease) => [`${lease.metadata.namespace}/${lease.metadata.name}`, lease] as const);
      listed.set(scope, { byPath: new Map(byPath), readMs });
    }),
  );
}

async function standingsOf(
  options: GroupReaderOptions,
  listed: ReadonlyMap<string, Listed>,
  remembered: Map<string, Remembered>,
): Promise<readonly GroupStanding[]> {
  const keys = new Map([...options.seen.values(), ...groupsOf(listed)].map((key) => [groupPathOf(key), key]));
  const standings: GroupStanding[] = [];
  for (const [path, key] of keys) {
    const memory = remembered.get(path) ?? {
      firstMs: options.cluster.serverTimeMs(),
      inOrderMs: undefined,
      standing: undefined,
    };
    // A group that a watch adds during this observation has come back, or did not exist when it began.
    options.seen.delete(path);
    const standing = await standingOf(options, key, listed.get(key.namespace) ?? listed.get(""), memory);
    if (standing === "vanished") {
      remembered.delete(path);
      continue;
    }
    options.seen.set(path, key);
    remembered.set(path, { ...memory, standing });
    if (standing !== undefined) standings.push(standing);
  }
  return standings;
}

/** The groups that have a ledger, whether or not the watches have delivered them. */
function groupsOf(listed: ReadonlyMap<string, Listed>): GroupKey[] {
  const leases = [...listed.values()].flatMap(({ byPath }) => [...byPath.values()]);
  return leases.flatMap((lease) => groupKeyOfLease(lease) ?? []);
}

/** "vanished": no StatefulSet is in the group any more. A group that cannot be read now keeps its last state, if it has one. */
async function standingOf(
  { cluster, cache }: GroupReaderOptions,
  key: GroupKey,
  listed: Listed | undefined,
  memory: Remembered,
): Promise<GroupStanding | "vanished" | undefined> {
  let view: GroupView;
  try {
    // A stale view is good enough, because nothing is permitted by it.
    view = await cache.read(key, { settledThrough: 0, permitSinceMs: undefined, consistent: false });
  } catch {
    return memory.standing;
  }
  if (view.workloads.length === 0) return "vanished";
  const nowMs = cluster.serverTimeMs();
  const zones = view.workloads.map((statefulSet) => surveyZone(statefulSet, view.podsOf(statefulSet), [], nowMs));
  const { ledger, isUnreadable } = parse(key, listed?.byPath.get(`${key.namespace}/${ledgerName(key.group)}`));
  const isRolled = readGroup(key.group).kind === "labelled";
  const rollout = isRolled ? rolloutOf(zones, ledger, listed?.readMs, memory) : undefined;
  return { key, zones, ledger, isUnreadable, rollout };
}

function parse(key: GroupKey, lease: LeaseObject | undefined): Pick<GroupStanding, "ledger" | "isUnreadable"> {
  if (lease === undefined) return { ledger: undefined, isUnreadable: false };
  try {
    return { ledger: parseLedger(key, lease), isUnreadable: false };
  } catch (error) {
    if (error instanceof LedgerUnreadable) return { ledger: undefined, isUnreadable: true };
    throw error;
  }
}

/**
 * While there is no work no function writes the ledger, so that the moment of this observation counts: that of its LIST,
 * because this process knows nothing newer while the API server is away.
 */
function rolloutOf(
  zones: readonly Zone<ZoneWorkload>[],
  ledger: Ledger | undefined,
  readMs: number | undefined,
  memory: Remembered,
): Rollout {
  const verdicts = Object.values(ledger?.verdicts ?? {});
  const isFailing = verdicts.some(({ guard }) => failingGuards.has(guard));
  if (readMs !== undefined && !isFailing && !zones.some(isToBeRolled)) memory.inOrderMs = readMs;
  const succeeded = verdicts.filter(({ guard }) => !failingGuards.has(guard));
  // A future time that a user has written would keep alerts silent until then.
  const written = succeeded.map(({ at }) => Math.min(at, readMs ?? at));
  const waits = verdicts.filter(({ guard }) => guard !== "done").map(({ since }) => Math.min(since, readMs ?? since));
  const inOrder = memory.inOrderMs === undefined ? [] : [memory.inOrderMs];
  return {
    reconciledMs: newest([...inOrder, ...written]) ?? memory.firstMs,
    progressMs: newest([...inOrder, ...zones.flatMap(readyTimesOf)]) ?? newest(waits) ?? memory.firstMs,
  };
}

/** A paused zone waits for its user. The last step of a zone records its revision: until then its rollout is not over. */
function isToBeRolled({ workload, outdated }: Zone<ZoneWorkload>): boolean {
  if (!isStatefulSet(workload)) return false;
  const { paused, strategy, updateRevision, currentRevision } = workload;
  // Sluice does not roll it with another strategy, so that its reconcile has failed.
  if (strategy !== "OnDelete") return true;
  if (paused) return false;
  return outdated.length > 0 || updateRevision === undefined || (currentRevision ?? updateRevision) !== updateRevision;
}

/** When the pods became ready that are ready at the wanted revision. */
function readyTimesOf({ workload: { updateRevision }, pods }: Zone<ZoneWorkload>): number[] {
  const updated = pods.filter(({ revision }) => updateRevision !== undefined && revision === updateRevision);
  return updated.flatMap(({ readySinceMs = Number.NaN }) => (Number.isFinite(readySinceMs) ? [readySinceMs] : []));
}

function newest(times: readonly number[]): number | undefined {
  return times.length === 0 ? undefined : times.reduce((one, other) => Math.max(one, other));
}
