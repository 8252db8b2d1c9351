/**
 * Rule R25: what arithmetic can never allow. No function waits for it: each reports it at once, with the numbers and a remedy.
 */
import type { ClaimContent } from "../ledger/claim.ts";
import { kinds, wantedMembers } from "../ledger/claim-kinds.ts";
import type { Pod } from "../workloads/pods.ts";
import type { StatefulSet, ZoneWorkload } from "../workloads/statefulsets.ts";
import { neverAllows, type PodDisruptionBudget, refusingBudget, severalBudgets } from "./pod-disruption-budget.ts";
import type { ZoneBudget } from "./zone-budget.ts";

/**
 * Why a budget never lets a pod be evicted: it allows none, and nothing but its author changes that. Undefined where it may.
 *
 * It is for evictions alone: a rollout goes on beside such a budget, under a limit of its own, which is at least one pod.
 */
export function neverByBudget(name: string, { allowance }: Pick<ZoneBudget, "allowance">): string | undefined {
  const limit = "pods" in allowance ? allowance.pods : allowance.percent;
  if (limit > 0) return undefined;
  const field = "pods" in allowance ? "maxUnavailable" : "maxUnavailablePercentage";
  return `the budget ${name} has ${field} 0, so it never lets a pod be evicted: raise it when pods may go`;
}

/**
 * Why the API server never evicts a pod after our allowance: its PodDisruptionBudget wants as many pods healthy as there can be.
 * Or two of them select it, and the API server answers each eviction with 500.
 * `statefulSets`: all of the namespace; they say how many pods are wanted, while some of them are away. Undefined where it may.
 */
export function neverByDisruptionBudget(
  pod: Pod,
  budgets: readonly PodDisruptionBudget[],
  statefulSets: readonly StatefulSet[],
): string | undefined {
  const several = severalBudgets(pod, budgets);
  if (several !== undefined) return several;
  const budget = refusingBudget(pod, budgets);
  return budget && neverAllows(budget, statefulSets);
}

/**
 * Why a claim can never be made: its wanted members alone are more than may be down, each of them whole or not. Undefined where
 * it may, some day. `limit`: how many pods of its zone may be down with it.
 */
export function neverWithin(
  limit: number,
  content: Pick<ClaimContent, "members" | "kind">,
  workload: ZoneWorkload,
): string | undefined {
  if (kinds[content.kind].countsAs !== "members-down") return undefined;
  const wanted = wantedMembers(content, workload).reduce((sum, { first, last }) => sum + last - first + 1, 0);
  if (wanted <= limit) return undefined;
  return `${wanted} pods of ${workload.name} are to be down at once, and ${limit} may ever be: ask for no more than that, or raise the limit`;
}
