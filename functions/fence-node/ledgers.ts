/** The ledgers of the groups with pods on a node: read, and written by one conditional write for each step. */

import { listBudgets } from "../shared/cache/cache.ts";
import { createListReader, getStatefulSet } from "../shared/cache/listing.ts";
import type { Context } from "../shared/contract/context.ts";
import { ledgerGroupsOf, parseStoredBudget } from "../shared/groups/governing.ts";
import { ClusterError, type LeaseObject } from "../shared/kubernetes/cluster.ts";
import { type KnownClaim, madeBy } from "../shared/ledger/claim.ts";
import { kinds, returnedPhase } from "../shared/ledger/claim-kinds.ts";
import { parseLedger } from "../shared/ledger/contents.ts";
import { LedgerUnreadable } from "../shared/ledger/errors.ts";
import { groupKeyOfLease, listLedgerLeases } from "../shared/ledger/lease.ts";
import { readClaimedObjects } from "../shared/transaction/claimed-objects.ts";
import { checkClaims, openTransaction } from "../shared/transaction/claims.ts";
import { Conflict, forgetLedger, waitForLedger } from "../shared/transaction/ledger-copy.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import { nextToAnnounce } from "../shared/workloads/group-key.ts";
import { containerIdsOf, parsePod, statefulSetNameOf } from "../shared/workloads/pods.ts";
import { type GroupKey, groupPathOf } from "../shared/workloads/statefulsets.ts";
import { lackingClaims, needsLedgers, needsSettled, type ZoneOnNode } from "./decide-ledgers.ts";
import type { ClaimSeen, LedgerAwaited, LedgersSeen } from "./ledgers-seen.ts";
import type { FenceSnapshot, RecordSeen } from "./snapshot.ts";

/** The claims of one node: which function makes them, and the record that is their anchor. */
export interface ClaimsOfNode {
  readonly by: string;
  readonly node: string;
  readonly anchor: NonNullable<KnownClaim["anchor"]>;
}

/** A ledger as it was read, and what the next write puts into it. */
export interface ClaimWrite {
  readonly observed: GroupObservation;
  readonly claims: readonly KnownClaim[];
  /** Monotonic time before it was read. */
  readonly readMs: number;
}

/** The ledgers as a decision sees them, and the write that announces the fence in the next one. */
export interface FenceLedgers {
  readonly seen: LedgersSeen;
  readonly nextWrite: ClaimWrite | undefined;
}

/** How soon to try again what could not be read, in milliseconds. */
const awayRequeueMs = 3_000;

/** A claim in the ledger that holds it. */
interface ClaimInLedger {
  readonly key: GroupKey;
  readonly claim: KnownClaim;
}

/** Undefined where the ledgers need not be known. Throws ClusterError. */
export async function readLedgers(
  context: Context,
  of: ClaimsOfNode,
  seen: Pick<FenceSnapshot, "record" | "node">,
): Promise<FenceLedgers | undefined> {
  if (!needsLedgers(seen)) return undefined;
  const { record } = seen;
  const leases = await listLedgerLeases(context.cluster, undefined);
  const own = leases.flatMap((lease) => claimsIn(lease, of));
  const claims = await Promise.all(own.map((one) => claimSeen(context, one, needsSettled(seen))));
  const isClaimed = typeof record === "object" && record.phase === "claimed";
  const next = isClaimed ? await findNext(context, of, record, own) : { awaited: undefined, passed: [] };
  return { seen: { claims, awaited: next.awaited, passed: next.passed }, nextWrite: next.nextWrite };
}

/** True for a claim of any fence of the node. */
function isOfNode(claim: KnownClaim, { anchor: wanted }: Pick<ClaimsOfNode, "anchor">): boolean {
  const { kind, anchor } = claim;
  const isAnchored = anchor?.resource === wanted.resource && anchor.namespace === wanted.namespace;
  return kind === "node" && isAnchored && anchor.name === wanted.name;
}

/** A ledger that cannot be read permits nothing, and what it holds cannot be changed: it counts as holding none. */
function claimsIn(lease: LeaseObject, of: ClaimsOfNode): readonly ClaimInLedger[] {
  const key = groupKeyOfLease(lease);
  if (key === undefined) return [];
  try {
    const { claims } = parseLedger(key, lease);
    return claims
      .filter(madeBy(of.by))
      .filter((claim) => isOfNode(claim, of))
      .map((claim) => ({ key, claim }));
  } catch (error) {
    if (error instanceof LedgerUnreadable) return [];
    throw error;
  }
}

/** Its objects are read after its ledger (rule R21). */
async function claimSeen({ cluster }: Context, { key, claim }: ClaimInLedger, isAsked: boolean): Promise<ClaimSeen> {
  const where = isAsked ? await readClaimedObjects(cluster, key.namespace, claim) : undefined;
  const isSettled = where !== undefined && kinds.node.isSettled(claim, where, cluster.serverTimeMs());
  return { key, id: claim.id, isReturned: claim.phase === returnedPhase, isSettled };
}

interface NextLedger {
  readonly awaited: LedgerAwaited | undefined;
  readonly passed: readonly string[];
  readonly nextWrite?: ClaimWrite;
}

/** Goes through the ledgers in the order of rule R23, up to the first that lacks claims of the fence and is not passed by. */
async function findNext(
  context: Context,
  of: ClaimsOfNode,
  { fenceId }: RecordSeen,
  own: readonly ClaimInLedger[],
): Promise<NextLedger> {
  const { by, anchor, node } = of;
  const zones = await listZones(context, node);
  const keys = [...new Map(zones.map(({ key }) => [groupPathOf(key), key])).values()];
  const lackingIn = (key: GroupKey, known: readonly KnownClaim[]) => {
    const here = zones.filter((one) => groupPathOf(one.key) === groupPathOf(key));
    return lackingClaims(here, known, { by, anchor, fenceId, stampMs: context.cluster.serverTimeMs() });
  };
  const ownIn = (key: GroupKey) => own.filter((one) => groupPathOf(one.key) === groupPathOf(key));
  const known = (key: GroupKey) => ownIn(key).map(({ claim }) => claim);
  const done = new Set(keys.filter((key) => lackingIn(key, known(key)).length === 0).map(groupPathOf));
  const passed: string[] = [];
  for (;;) {
    const key = nextToAnnounce(keys, (one) => done.has(groupPathOf(one)));
    if (key === undefined) return { awaited: undefined, passed };
    done.add(groupPathOf(key));
    const reached = await reach(context, key, (observed) =>
      lackingIn(key, observed.ledger.claims.filter(madeBy(of.by))),
    );
    if (reached.kind === "passed") passed.push(`the ledger of ${groupPathOf(key)} is passed by: ${reached.why}`);
    else if (reached.kind === "away") return { awaited: { key, away: reached }, passed };
    else if (reached.claims.length > 0) return { awaited: { key, away: undefined }, passed, nextWrite: reached };
  }
}

type Reached =
  | ({ readonly kind: "open" } & ClaimWrite)
  | { readonly kind: "away"; readonly why: string; readonly requeueAfterMs: number }
  | { readonly kind: "passed"; readonly why: string };

/** What the API server refuses to write may be written in a moment, or by another account: such a ledger is waited for. */
const passedGuards: readonly string[] = ["ledger-unreadable", "ledger-full", "ledger-unwritable"];
/** The API server makes no ledger in a namespace that ends. Its last pods may be those on the node: waiting would never end. */
const isOfEndingNamespace = /because it is being terminated/;

/** Opens a ledger, and sees whether it takes the claims that it lacks. Throws what is no answer of the API server. */
async function reach(
  context: Context,
  key: GroupKey,
  lackingIn: (observed: GroupObservation) => readonly KnownClaim[],
): Promise<Reached> {
  const readMs = context.cluster.monotonicMs();
  try {
    const transaction = await open(context, key);
    if (transaction === undefined) return { kind: "passed", why: "its group is gone" };
    const { observed, tooNew } = transaction;
    const claims = lackingIn(observed);
    if (tooNew !== undefined && claims.length > 0) {
      const requeueAfterMs = Math.min(awayRequeueMs, tooNew.requeueAfterMs ?? awayRequeueMs);
      return { kind: "away", why: tooNew.message, requeueAfterMs };
    }
    checkClaims(observed, { out: claims, into: claims });
    return refusedOf(context, key) ?? { kind: "open", observed, claims, readMs };
  } catch (error) {
    return whyNot(error);
  }
}

/** Throws what is no answer of the API server. */
function whyNot(error: unknown): Reached {
  const unusable = waitForLedger(error);
  const away = { kind: "away", requeueAfterMs: awayRequeueMs } as const;
  if (unusable !== undefined) {
    const { guard, message: why } = unusable;
    const isPassed = passedGuards.includes(guard) || isOfEndingNamespace.test(why);
    return isPassed ? { kind: "passed", why } : { ...away, why };
  }
  if (error instanceof Conflict) return { ...away, why: "other clients are writing it" };
  if (error instanceof ClusterError) return { ...away, why: error.message };
  throw error;
}

/** A write of it that the API server has refused a moment ago. */
function refusedOf({ cluster, memoryOf }: Context, key: GroupKey): Reached | undefined {
  const { ledgerRefused } = memoryOf(key);
  if (ledgerRefused === undefined || cluster.monotonicMs() >= ledgerRefused.untilMs) return undefined;
  return { kind: "away", why: ledgerRefused.error.message, requeueAfterMs: awayRequeueMs };
}

/**
 * The group by its ledger as it is now. By lists, because this process may have no memory of a group, and the node may have pods
 * in any namespace. Throws as `openTransaction` does.
 */
export function open(context: Context, key: GroupKey) {
  forgetLedger(context.memoryOf(key));
  return openTransaction({ ...context, cache: createListReader(context.cluster, undefined) }, key);
}

/**
 * The StatefulSets with pods on a node, with each group that they are in. Those of no group have no ledger. Throws
 * ClusterError.
 */
async function listZones(
  { cluster }: Context,
  node: string,
): Promise<readonly (ZoneOnNode & { readonly key: GroupKey })[]> {
  const { items } = await cluster.list("pods", { nodeName: node });
  const pods = items
    .map((object) => ({ ...parsePod(object), containers: containerIdsOf(object) }))
    .filter(({ name, ordinal, ownerName }) => ordinal >= 0 && statefulSetNameOf(name) === ownerName);
  const owned = Map.groupBy(pods, ({ namespace, ownerUid = "" }) => `${namespace}/${ownerUid}`);
  const zones = await Promise.all(
    [...owned.values()].map(async (some) => {
      const [first] = some;
      if (first?.ownerUid === undefined || first.ownerName === undefined) return [];
      const { namespace, ownerName: zone, ownerUid } = first;
      const [set, budgets] = await Promise.all([
        getStatefulSet(cluster, { namespace, name: zone }),
        listBudgets(cluster, namespace),
      ]);
      if (set?.uid !== ownerUid) return [];
      return ledgerGroupsOf(set, budgets.map(parseStoredBudget)).map((key) => ({ key, zone, pods: some }));
    }),
  );
  return zones.flat();
}
