/** How many members go at one time, and when the next ones may (spec suspend-before-delete 3.3). Pure. */
import { removalMode, waitBetweenRemovals } from "../annotations/suspension.ts";
import type { Member } from "../volumes/members.ts";
import { type Clocks, earlierMs, whyClocksUnsure } from "./clocks.ts";

/** The members that may go now, all of one zone; or why none may. */
export type RemovalTurn =
  | { readonly kind: "now"; readonly members: readonly Member[] }
  | { readonly kind: "wait"; readonly guard: string; readonly message: string; readonly requeueAfterMs?: number };

/**
 * Chooses among the due members those whose turn it is. `lastMs`: time at which a pod or a volume of the group last went;
 * undefined if none has. `current`: the zone of a removal that is under way; no other zone begins before it has ended.
 *
 * Every process chooses the same zone to begin: the one with the most due members, and of several the first by name.
 */
export function chooseTurn(
  due: readonly Member[],
  lastMs: number | undefined,
  current: string | undefined,
  now: Clocks,
): RemovalTurn {
  const permitted = due.filter((member) => whyFrozen(member) === undefined);
  const [frozen] = permitted.length === 0 ? due.flatMap((member) => whyFrozen(member) ?? []) : [];
  if (frozen !== undefined) return { kind: "wait", ...frozen };
  const zone = current ?? busiestZone(permitted);
  const inZone = permitted.filter(({ set }) => set.name === zone);
  const [next] = inZone;
  if (next === undefined) {
    const names = permitted.map(({ name }) => name).join(", ");
    return { kind: "wait", guard: "zone-busy", message: `${names}: something of ${zone} goes first` };
  }
  const { mode, waitMs } = next.set.policy;
  const blocked = mode === "All" ? undefined : blockedByWait(next, lastMs, waitMs, now);
  return blocked ?? { kind: "now", members: mode === "Group" ? [next] : inZone };
}

/** Why the mode lets neither a member's pod nor its volumes go; undefined if it does. */
export function whyFrozen({ name, set: { name: of, policy } }: Member) {
  if (policy.mode !== "None") return undefined;
  const why = policy.frozenBecause ?? `${removalMode.key} of ${of} is None, or malformed`;
  return { guard: "mode-none", message: `${name} waits: ${why}` } as const;
}

function blockedByWait({ name, set }: Member, lastMs: number | undefined, waitMs: number | undefined, now: Clocks) {
  if (waitMs === undefined) {
    const message = `${name} waits: Sluice cannot read ${waitBetweenRemovals.key} of ${set.name}`;
    return { kind: "wait", guard: "wait-malformed", message } as const;
  }
  if (lastMs === undefined || waitMs <= 0) return undefined;
  const unsure = whyClocksUnsure(now);
  if (unsure !== undefined)
    return { kind: "wait", guard: unsure.guard, message: `${name} waits: ${unsure.message}` } as const;
  const agoMs = earlierMs(now) - lastMs;
  const remainingMs = waitMs - agoMs;
  if (remainingMs <= 0) return undefined;
  const message = `${name} waits: something of the group went ${Math.round(Math.max(0, agoMs) / 1000)} s ago, and ${waitMs / 1000} s are to pass`;
  return { kind: "wait", guard: "wait-between-removals", message, requeueAfterMs: remainingMs } as const;
}

/** The zone with the most members; of several such zones the first by name. */
function busiestZone(members: readonly Member[]): string | undefined {
  const counts = new Map<string, number>();
  for (const { set } of members) counts.set(set.name, (counts.get(set.name) ?? 0) + 1);
  const zones = [...counts].sort(([name, count], [other, otherCount]) =>
    count === otherCount ? (name < other ? -1 : 1) : otherCount - count,
  );
  return zones[0]?.[0];
}
