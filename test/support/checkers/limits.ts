/** How many pods may be taken under a budget, stated again without the product's code. */
import type { StoredStatefulSet } from "../../fake-cluster/objects.ts";
import type { Governance } from "./budgets.ts";
import { type Budget, budgetLimit, evictionLimit, has, type Labels, partitionOf, rolloutLimit } from "./raw.ts";

/**
 * The limits that apply to a function that takes pods. A rollout obeys the limit of its zone and the budget; an eviction obeys
 * the budget alone, which for a partition covers all zones.
 */
export type Terms = "rollout" | "eviction";

/** A pod that was Ready when it was taken. */
export interface Taken {
  readonly uid: string;
  readonly pod: string;
  readonly set: string;
  readonly labels: Labels;
  /** The group whose ledger held its reservation. */
  readonly group: string | undefined;
  readonly ordinal: number;
  readonly atMs: number;
  readonly by: Terms;
  /** When the ledger first held its reservation; minus infinity if none was seen. */
  readonly reservedMs: number;
  /** Since when the replacement has been ready. */
  readonly readyMs: number | undefined;
}

export interface Situation {
  readonly entry: Taken;
  /** Pods that were taken before and are not back. */
  readonly earlier: readonly Taken[];
  readonly takenNow: ReadonlyMap<string, Taken>;
  readonly returned: readonly Taken[];
  /** Pods of the group, by StatefulSet, that have been down for longer than any view may be behind, whatever the cause. */
  readonly longDown: ReadonlyMap<string, readonly string[]>;
  /** The states of its StatefulSet that the process may have read. */
  readonly states: readonly StoredStatefulSet[];
  /** True if a StatefulSet has been in the group for longer than any view may be behind. */
  readonly isOfGroup: (set: string) => boolean;
  readonly skewMs: number;
}

interface Broken {
  readonly invariant: "Z1" | "Z2" | "E1";
  readonly message: string;
}

/** The invariant that taking the pod broke under this budget; undefined if it was right. */
export function isWithinBudget(governance: Governance, situation: Situation): Broken | undefined {
  const { entry } = situation;
  if (governance === "ungovernable") {
    const invariant = entry.by === "eviction" ? "E1" : "Z2";
    return { invariant, message: "no budget could be kept for it" };
  }
  const budget = governance === "none" ? undefined : governance;
  if (budget?.partitions !== undefined) {
    const broken = countPartition(situation, budget);
    if (broken !== undefined || entry.by === "eviction") return broken;
  }
  return countZones(situation, budget);
}

/** True if another pod counts: same ledger, a StatefulSet that has joined the group, or same budget. */
function isSibling({ entry, isOfGroup }: Situation, other: Taken, budget: Budget | undefined): boolean {
  if (other.group === entry.group || isOfGroup(other.set)) return true;
  return budget !== undefined && has(other.labels, budget.selected);
}

function countZones(situation: Situation, budget: Budget | undefined): Broken | undefined {
  const { entry, earlier, longDown, states } = situation;
  const siblings = earlier.filter((other) => isSibling(situation, other, budget));
  const others = siblings.filter(({ set }) => set !== entry.set).map(({ pod }) => pod);
  if (others.length > 0)
    return { invariant: "Z1", message: `${others.join(", ")} in another zone was taken and is not back` };
  const broken = [...longDown].filter(([set]) => set !== entry.set).flatMap(([, pods]) => pods);
  if (broken.length > 0) {
    return {
      invariant: "Z1",
      message: `${broken.join(", ")} in another zone has been down for longer than views are behind`,
    };
  }
  const isPartitioned = budget?.partitions !== undefined;
  const allowed = most(
    states.map((state) => {
      const allowance = budget === undefined || isPartitioned ? 0 : budgetLimit(budget, state);
      if (entry.by === "eviction")
        return isPartitioned || budget === undefined ? 0 : evictionLimit(budget, state, entry.ordinal);
      // An allowance of 0 applies to evictions only: a rollout then obeys its own limit, as in rollout-operator.
      return allowance === 0 ? rolloutLimit(state) : Math.min(rolloutLimit(state), allowance);
    }),
  );
  const own = new Set([...siblings.map(({ pod }) => pod), ...(longDown.get(entry.set) ?? [])]);
  own.delete(entry.pod);
  if (own.size + 1 <= allowed) return undefined;
  const message = `${[...own].join(", ")} are down, ${allowed} may be with it`;
  return { invariant: entry.by === "eviction" ? "E1" : "Z2", message };
}

/** Invariant E1 for a partition: counts over all zones, and includes pods that have not been ready for the delay. */
function countPartition(situation: Situation, budget: Budget): Broken | undefined {
  const { entry, earlier, returned, skewMs, takenNow, longDown, states } = situation;
  const partition = partitionOf(budget, entry.pod);
  if (partition === undefined) return { invariant: "E1", message: "it has no partition" };
  const limit = most(states.map((state) => evictionLimit(budget, state, entry.ordinal)));
  const allowed = entry.by === "rollout" ? Math.max(1, limit) : limit;
  const isNear = (pod: string) => pod !== entry.pod && partitionOf(budget, pod) === partition;
  const taken = earlier.filter((other) => isNear(other.pod) && isSibling(situation, other, budget));
  const down = new Set([...taken.map(({ pod }) => pod), ...[...longDown.values()].flat().filter(isNear)]);
  for (const back of returned) {
    if (!isNear(back.pod) || back.set === entry.set || takenNow.has(back.pod) || back.group !== entry.group) continue;
    // Clocks differ, and times have whole seconds.
    if (entry.atMs - (back.readyMs ?? 0) < budget.delayMs - 2 * skewMs - 2_000) down.add(back.pod);
  }
  if (down.size + 1 <= allowed) return undefined;
  const message = `${[...down].join(", ")} of partition ${partition} are down or only just back, ${allowed} may be with it`;
  return { invariant: "E1", message };
}

function most(counts: readonly number[]): number {
  return Math.max(0, ...counts);
}
