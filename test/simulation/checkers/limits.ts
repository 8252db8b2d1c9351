/** How many pods may be taken, stated once more and apart from the product: under a budget as it was at one time. */
import { allowanceOf } from "../../../functions/shared/governing.ts";
import type { StatefulSet } from "../../../functions/shared/statefulsets.ts";
import type { Governance } from "./budgets.ts";

export type Taker = "rollout" | "eviction";

/** A pod that was Ready when it was taken. */
export interface Taken {
  readonly uid: string;
  readonly pod: string;
  readonly statefulSet: string;
  readonly ordinal: number;
  readonly atMs: number;
  readonly by: Taker;
  /** When the ledger first held its reservation; before everything where none was seen. */
  readonly reservedMs: number;
  /** Since when the pod that came instead has been ready. */
  readonly readyMs: number | undefined;
}

export interface Situation {
  readonly entry: Taken;
  /** What was taken before it and is not back. */
  readonly earlier: readonly Taken[];
  readonly takenNow: ReadonlyMap<string, Taken>;
  readonly returned: readonly Taken[];
  /** What its StatefulSet was at the times that count. */
  readonly states: readonly StatefulSet[];
  readonly skewMs: number;
}

interface Broken {
  readonly invariant: "Z1" | "Z2" | "E1";
  readonly sentence: string;
}

/** Which invariant the taking broke, if the budget was as given; undefined when it was right. */
export function isWithinBudget(governance: Governance, situation: Situation): Broken | undefined {
  const { entry } = situation;
  if (governance === "ungovernable") {
    const invariant = entry.by === "eviction" ? "E1" : "Z2";
    return { invariant, sentence: "no budget could be kept for it" };
  }
  const budget = governance === "none" ? undefined : governance;
  if (budget?.partitions !== undefined) {
    const broken = countPartitionTaken(situation, budget.partitions.partitionOf(entry.pod), {
      partitionOf: (pod) => budget.partitions?.partitionOf(pod),
      delayMs: budget.crossZoneEvictionDelayMs,
      allowed: most(situation.states.map((state) => allowanceOf(budget, state))),
    });
    if (broken !== undefined || entry.by === "eviction") return broken;
  }
  const isPartitioned = budget?.partitions !== undefined;
  const others = situation.earlier.filter((other) => other.statefulSet !== entry.statefulSet);
  if (others.length > 0) {
    const sentence = `${others.map(({ pod }) => pod).join(", ")} in another zone was taken and is not back`;
    return { invariant: "Z1", sentence };
  }
  const own = situation.earlier.filter((other) => other.statefulSet === entry.statefulSet && other.pod !== entry.pod);
  const allowed = most(
    situation.states.map((state) => {
      const allowance = budget === undefined || isPartitioned ? 0 : allowanceOf(budget, state);
      if (entry.by === "eviction") return allowance;
      // An allowance of 0 is for evictions: a rollout then goes by its own limit (rollout-operator section 2.4).
      return allowance === 0 ? state.maxUnavailable : Math.min(state.maxUnavailable, allowance);
    }),
  );
  if (own.length + 1 <= allowed) return undefined;
  const sentence = `${own.map(({ pod }) => pod).join(", ")} are down, ${allowed} may be with it`;
  return { invariant: entry.by === "eviction" ? "E1" : "Z2", sentence };
}

/** Invariant E1 of a partition: over all zones, and with those that have not been ready for the delay. */
function countPartitionTaken(
  { entry, earlier, returned, skewMs, takenNow }: Situation,
  partition: string | undefined,
  budget: { partitionOf(pod: string): string | undefined; readonly delayMs: number; readonly allowed: number },
): Broken | undefined {
  if (partition === undefined) return { invariant: "E1", sentence: "it has no partition" };
  const allowed = entry.by === "rollout" ? Math.max(1, budget.allowed) : budget.allowed;
  const isSibling = ({ pod }: Taken) => pod !== entry.pod && budget.partitionOf(pod) === partition;
  const down = new Set(earlier.filter(isSibling).map(({ pod }) => pod));
  for (const back of returned) {
    if (!isSibling(back) || back.statefulSet === entry.statefulSet || takenNow.has(back.pod)) continue;
    // Clocks are cut to seconds and differ.
    if (entry.atMs - (back.readyMs ?? 0) < budget.delayMs - 2 * skewMs - 2_000) down.add(back.pod);
  }
  if (down.size + 1 <= allowed) return undefined;
  const sentence = `${[...down].join(", ")} of partition ${partition} are down or only just back, ${allowed} may be with it`;
  return { invariant: "E1", sentence };
}

function most(counts: readonly number[]): number {
  return Math.max(0, ...counts);
}
