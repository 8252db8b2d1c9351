/**
 * PodDisruptionBudgets, as far as they would refuse an eviction after us (rule R15): what kube-apiserver looks at in
 * `pkg/registry/core/pod/storage/eviction.go`, in its order.
 */
import type { LabelSelector, PodDisruptionBudgetObject } from "../kubernetes/cluster.ts";
import type { Pod } from "./pods.ts";

type Labels = Readonly<Record<string, string>>;

export interface PodDisruptionBudget {
  readonly namespace: string;
  readonly name: string;
  readonly selector: LabelSelector | undefined;
  /** Its controller has not seen its last change: the API server refuses until then. */
  readonly behind: boolean;
  readonly disruptionsAllowed: number;
  /** Whether a pod that is not ready may go whatever is allowed: always, or while as many as wanted are healthy. */
  readonly spares: "unready" | "unready-while-healthy";
  readonly healthy: boolean;
}

export function parseDisruptionBudget({ metadata, spec, status }: PodDisruptionBudgetObject): PodDisruptionBudget {
  const desired = status?.desiredHealthy ?? 0;
  return {
    namespace: metadata.namespace ?? "",
    name: metadata.name,
    selector: spec?.selector,
    behind: (status?.observedGeneration ?? 0) < (metadata.generation ?? 0),
    disruptionsAllowed: status?.disruptionsAllowed ?? 0,
    spares: spec?.unhealthyPodEvictionPolicy === "AlwaysAllow" ? "unready" : "unready-while-healthy",
    healthy: desired > 0 && (status?.currentHealthy ?? 0) >= desired,
  };
}

/** Why the API server would refuse to evict the pod after our allowance; undefined when it would not. */
export function refusalOf(pod: Pod, budgets: readonly PodDisruptionBudget[]): string | undefined {
  if (pod.finished || pod.pending || pod.terminating) return undefined;
  const matching = budgets.filter(({ namespace, selector }) => {
    return namespace === pod.namespace && selector !== undefined && matches(selector, pod.labels);
  });
  const [budget, second] = matching;
  if (budget === undefined) return undefined;
  if (second !== undefined) {
    const names = matching.map(({ name }) => name).join(" and ");
    return `the PodDisruptionBudgets ${names} both select it, and the API server evicts no such pod`;
  }
  const { name } = budget;
  if (pod.readySinceMs === undefined && (budget.spares === "unready" || budget.healthy)) return undefined;
  if (budget.behind) return `the controller has not seen the last change of PodDisruptionBudget ${name} yet`;
  if (budget.disruptionsAllowed > 0) return undefined;
  return `PodDisruptionBudget ${name} allows no disruption now`;
}

/** As policy/v1 has it: an empty selector matches every pod, an unknown operator none. */
function matches({ matchLabels = {}, matchExpressions = [] }: LabelSelector, labels: Labels): boolean {
  const isEqual = Object.entries(matchLabels).every(([key, value]) => labels[key] === value);
  return isEqual && matchExpressions.every((expression) => isMet(expression, labels));
}

function isMet(
  { key, operator, values = [] }: NonNullable<LabelSelector["matchExpressions"]>[number],
  labels: Labels,
): boolean {
  const value = labels[key];
  switch (operator) {
    case "In":
      return value !== undefined && values.includes(value);
    case "NotIn":
      return value === undefined || !values.includes(value);
    case "Exists":
      return value !== undefined;
    case "DoesNotExist":
      return value === undefined;
    default:
      return false;
  }
}
