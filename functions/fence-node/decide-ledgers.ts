/**
 * What the ledgers of groups show of a fence, and what the fence does about them. A group with pods on the node gets claims
 * before anything happens to the node (rule R23). They leave its ledger as they settle, and before the record goes. Pure.
 */

import { changeClaim, type KnownClaim, makeClaim, type OrdinalRange } from "../shared/ledger/claim.ts";
import { podNameOf } from "../shared/workloads/pods.ts";
import { groupPathOf } from "../shared/workloads/statefulsets.ts";
import { isBack } from "./decide-evidence.ts";
import type { ClaimSeen } from "./ledgers-seen.ts";
import type { FenceSnapshot, FenceVerdict, RecordSeen } from "./snapshot.ts";
import { onRecord, wait } from "./verdicts.ts";

/** The pods of one StatefulSet that are bound to a node. */
export interface ZoneOnNode {
  readonly zone: string;
  readonly pods: readonly PodOnNode[];
}

export interface PodOnNode {
  readonly ordinal: number;
  readonly uid: string;
  /** As `containerIdsOf` gives them. */
  readonly containers: readonly string[];
}

/** How often a fence is reconciled whose claims have to settle, in milliseconds: no event reports that. */
const settlingRequeueMs = 3_000;
/** After this time claims go that have not settled, in milliseconds: what is still down counts as down by itself. */
const settleWithinMs = 600_000;

/** The texts that each claim of a fence has, and the time of its stamp. */
type Making = Pick<KnownClaim, "by" | "stampMs" | "anchor"> & { readonly fenceId: string };

/** The id of the claim of a fence for one StatefulSet: an anchor that names the fence names the claim. */
export const claimIdOf = (fenceId: string, zone: string): string => `${fenceId}/${zone}`;

const isOf = ({ id }: Pick<ClaimSeen, "id">, fenceId: string): boolean => id.startsWith(`${fenceId}/`);

/**
 * The claims that a ledger lacks of a fence, given those that it has: new ones, and changed ones where another pod was bound to
 * the node since.
 */
export function lackingClaims(
  zones: readonly ZoneOnNode[],
  known: readonly KnownClaim[],
  { fenceId, ...common }: Making,
): readonly KnownClaim[] {
  return zones.flatMap(({ zone, pods }): readonly KnownClaim[] => {
    const id = claimIdOf(fenceId, zone);
    const before = known.find((claim) => claim.id === id);
    const named = pods.map((pod) => [podNameOf({ statefulSet: zone, ordinal: pod.ordinal }), pod] as const);
    if (before !== undefined && named.every(([name, { uid }]) => before.uids?.[name] === uid)) return [];
    const uids = { ...before?.uids, ...Object.fromEntries(named.map(([name, { uid }]) => [name, uid])) };
    const ids = named.map(([name, pod]) => [name, pod.containers]);
    const containers = { ...before?.containers, ...Object.fromEntries(ids) };
    const members = rangesOf([...ordinalsOf(before?.members ?? []), ...pods.map(({ ordinal }) => ordinal)]);
    const content = { members, uids, containers };
    if (before !== undefined) return [changeClaim(before, content)];
    const stated = { id, kind: "node", zone, phase: "announced", terms: "announced" } as const;
    return [makeClaim({ ...stated, ...content, ...common })];
  });
}

function ordinalsOf(ranges: readonly OrdinalRange[]): readonly number[] {
  return ranges.flatMap(({ first, last }) => Array.from({ length: last - first + 1 }, (_, at) => first + at));
}

/** Neighbours are one range, which counts once against the cap of a ledger. */
function rangesOf(ordinals: readonly number[]): readonly OrdinalRange[] {
  const ascending = [...new Set(ordinals)].sort((one, other) => one - other);
  const firsts = ascending.filter((ordinal, at) => ascending[at - 1] !== ordinal - 1);
  const lasts = ascending.filter((ordinal, at) => ascending[at + 1] !== ordinal + 1);
  return firsts.map((first, at) => ({ first, last: lasts[at] ?? first }));
}

/** True where the claims of the fences of the node have to be known. */
export function needsLedgers({ record, node }: Pick<FenceSnapshot, "record" | "node">): boolean {
  if (record === undefined) return node?.hasFenceTaint === true || node?.shown.fenceId !== undefined;
  return record !== "unreadable" && record.phase !== "armed" && record.phase !== "stopped";
}

/** True where it has to be known which of them have settled. */
export function needsSettled({ record }: Pick<FenceSnapshot, "record">): boolean {
  return typeof record === "object" && ["evacuating", "fenced", "recovering"].includes(record.phase);
}

/** Before the taint: claims of an older fence go, then each ledger gets those of this one. Undefined where all is announced. */
export function decideAnnouncing({ name, ledgers }: FenceSnapshot, { fenceId }: RecordSeen): FenceVerdict | undefined {
  if (ledgers === undefined) return undefined;
  const older = takingOut(ledgers.claims.filter((claim) => !isOf(claim, fenceId)));
  if (older !== undefined)
    return { ...older, guard: "announcing", message: `claims of an older fence of ${name} leave ${older.where}` };
  const { awaited } = ledgers;
  if (awaited === undefined) return undefined;
  const where = `the ledger of ${groupPathOf(awaited.key)}`;
  if (awaited.away !== undefined) {
    const { why, requeueAfterMs } = awaited.away;
    const message = `${where} cannot be written, and has to name the pods on ${name} before the node stops: ${why}`;
    return onRecord(wait("ledger", message, requeueAfterMs));
  }
  const message = `${where} names the pods on ${name} as going down`;
  return { guard: "announcing", message, step: { kind: "announce", key: awaited.key }, requeueAfterMs: undefined };
}

/** All claims go, whatever they are about: the fence is taken back, or has no record any more. */
export function decideWithdrawing({ name, ledgers }: Pick<FenceSnapshot, "name" | "ledgers">) {
  const out = takingOut(ledgers?.claims ?? []);
  return out && { step: out.step, message: `the claims of the fence of ${name} leave ${out.where}` };
}

/** The node reports another boot: what its claims name may be back as the same pods. */
export function decideReturning({ name, node, ledgers }: FenceSnapshot, record: RecordSeen): FenceVerdict | undefined {
  if (!isBack(node, record)) return undefined;
  const next = firstLedger((ledgers?.claims ?? []).filter(({ isReturned }) => !isReturned));
  if (next === undefined) return undefined;
  const message = `${next.where} notes that ${name} is back with its pods`;
  const step = { kind: "return-claims", key: next.key, ids: next.ids } as const;
  return { guard: "recovering", message, step, requeueAfterMs: undefined };
}

/**
 * Claims go as they settle, and all of them some time after `sinceMs`; undefined: that has not begun. `waits` while some stand.
 * Undefined where none do.
 */
export function decideSettling(
  { name, nowMs, ledgers }: FenceSnapshot,
  sinceMs: number | undefined,
): FenceVerdict | undefined {
  const claims = ledgers?.claims ?? [];
  const isOver = sinceMs !== undefined && nowMs >= sinceMs + settleWithinMs;
  const out = takingOut(claims.filter(({ isSettled }) => isSettled || isOver));
  if (out !== undefined)
    return { ...out, guard: "settling", message: `claims of the fence of ${name} leave ${out.where}` };
  const next = firstLedger(claims);
  if (next === undefined) return undefined;
  const message = `the pods of ${name} have to be ready again in ${next.where}, for ${settleWithinMs / 60_000} minutes at most`;
  return wait("settling", message, settlingRequeueMs);
}

/** The claims of the first ledger, by its path; undefined for none. */
function firstLedger(claims: readonly ClaimSeen[]) {
  const paths = claims.map(({ key }) => groupPathOf(key)).sort();
  const own = claims.filter(({ key }) => groupPathOf(key) === paths[0]);
  const [first] = own;
  return first && { key: first.key, where: `the ledger of ${groupPathOf(first.key)}`, ids: own.map(({ id }) => id) };
}

function takingOut(claims: readonly ClaimSeen[]) {
  const next = firstLedger(claims);
  if (next === undefined) return undefined;
  const step = { kind: "take-claims", key: next.key, ids: next.ids } as const;
  return { where: next.where, step, requeueAfterMs: undefined };
}
