/**
 * PodDisruptionBudgets, as far as they would refuse an eviction after us (rule R15): what kube-apiserver checks in
 * `pkg/registry/core/pod/storage/eviction.go`, in its order.
 */

import { describeBytes, describeExcess, mostEntries } from "../annotations/bounds.ts";
import type { LabelSelector, PodDisruptionBudgetObject } from "../kubernetes/cluster.ts";
import type { Pod } from "../workloads/pods.ts";
import type { StatefulSet } from "../workloads/statefulsets.ts";

/** The labels of an object, by their keys. */
export type Labels = Readonly<Record<string, string>>;

export interface PodDisruptionBudget {
  readonly namespace: string;
  readonly name: string;
  /** Undefined: it selects no pod. */
  readonly selector: Selector | TooLarge | undefined;
  /** Its controller has not seen its last change: the API server refuses until then. */
  readonly behind: boolean;
  readonly disruptionsAllowed: number;
  /** Whether a pod that is not ready may go whatever is allowed: always, or while as many as wanted are healthy. */
  readonly spares: "unready" | "unready-while-healthy";
  readonly healthy: boolean;
  readonly minimum: Minimum;
}

/**
 * The labels that a pod must have. The selector is compiled once for each budget, because each budget is compared with every
 * pod.
 */
interface Selector {
  readonly labels: readonly (readonly [string, string])[];
  readonly expressions: readonly {
    readonly key: string;
    readonly operator: string;
    readonly values: ReadonlySet<string>;
  }[];
}

/** A selector that is too large to be read: it may select any pod. */
interface TooLarge {
  /** The end of a message. */
  readonly excess: string;
}

/** How many of the pods that it selects have to stay healthy. */
export interface Minimum {
  readonly pods: number;
  /** How many pods its controller expects: those that are wanted; or, where `isNumber`, only those that there are. */
  readonly of: number;
  /** `minAvailable` is a number, and no share: it holds for however many pods there are. */
  readonly isNumber: boolean;
}

export function parseDisruptionBudget({ metadata, spec, status }: PodDisruptionBudgetObject): PodDisruptionBudget {
  const desired = status?.desiredHealthy ?? 0;
  return {
    namespace: metadata.namespace ?? "",
    name: metadata.name,
    selector: spec?.selector && compileSelector(spec.selector),
    behind: (status?.observedGeneration ?? 0) < (metadata.generation ?? 0),
    disruptionsAllowed: status?.disruptionsAllowed ?? 0,
    spares: spec?.unhealthyPodEvictionPolicy === "AlwaysAllow" ? "unready" : "unready-while-healthy",
    healthy: desired > 0 && (status?.currentHealthy ?? 0) >= desired,
    minimum: {
      pods: typeof spec?.minAvailable === "number" ? spec.minAvailable : desired,
      of: status?.expectedPods ?? 0,
      isNumber: typeof spec?.minAvailable === "number",
    },
  };
}

/** The requirements of a selector, or what is too large about it. */
export function compileSelector({ matchLabels = {}, matchExpressions = [] }: LabelSelector): Selector | TooLarge {
  const labels = Object.entries(matchLabels);
  const lists = [matchExpressions, ...matchExpressions.slice(0, mostEntries).map(({ values }) => values ?? [])];
  const longest = Math.max(...lists.map(({ length }) => length));
  if (longest > mostEntries) return { excess: `has ${longest} entries: write at most ${mostEntries}` };
  const values = matchExpressions.flatMap((one) => (one.values ?? []).map((value) => ["", value] as const));
  const keys = matchExpressions.map(({ key }) => [key, ""] as const);
  const excess = describeExcess(labels) ?? describeBytes([...labels, ...keys, ...values]);
  if (excess !== undefined) return { excess };
  return { labels, expressions: matchExpressions.map((one) => ({ ...one, values: new Set(one.values) })) };
}

/** Why the API server would refuse to evict the pod after our allowance; undefined when it would not. */
export function refusalOf(pod: Pod, budgets: readonly PodDisruptionBudget[]): string | undefined {
  const several = severalBudgets(pod, budgets);
  if (several !== undefined) return several;
  const budget = refusingBudget(pod, budgets);
  if (budget === undefined) return refusalOfUnread(pod, budgets);
  const { name, behind } = budget;
  if (behind) return `the controller has not seen the last change of PodDisruptionBudget ${name} yet`;
  return `PodDisruptionBudget ${name} allows no disruption now`;
}

/** The refusal by a budget whose selector is too large to be read, because it may select the pod. */
function refusalOfUnread(pod: Pod, budgets: readonly PodDisruptionBudget[]): string | undefined {
  if (isEvictedAnyway(pod)) return undefined;
  for (const budget of budgets) {
    const { namespace, name, selector } = budget;
    if (namespace !== pod.namespace || selector === undefined || !("excess" in selector)) continue;
    if (!refuses(budget, pod)) continue;
    return `PodDisruptionBudget ${name} allows no disruption now and may select it: its selector ${selector.excess}`;
  }
  return undefined;
}

/**
 * Why the API server would not evict all of these pods at once; undefined if it would. A budget counts each of them that is not
 * exempt from it.
 */
export function refusalOfAll(leaving: readonly Pod[], budgets: readonly PodDisruptionBudget[]): string | undefined {
  for (const pod of leaving) {
    const why = refusalOf(pod, budgets);
    if (why !== undefined) return `${pod.name}: ${why}`;
  }
  const short = budgets.find((budget) => {
    const counted = leaving.filter((pod) => budgetsOn(pod, [budget]).length > 0 && !isSpared(budget, pod));
    return counted.length > budget.disruptionsAllowed;
  });
  if (short === undefined) return undefined;
  const { name, disruptionsAllowed: allowed } = short;
  return `PodDisruptionBudget ${name} allows ${allowed} disruption${allowed === 1 ? "" : "s"} now, and ${leaving.length} pods are to go`;
}

/** A budget, recounted by the pods of its namespace: its controller may not have counted those that have just gone. */
export function asOfNow(budget: PodDisruptionBudget, pods: readonly Pod[]): PodDisruptionBudget {
  const ready = pods.filter((pod) => pod.readySinceMs !== undefined && budgetsOn(pod, [budget]).length > 0);
  const most = Math.max(0, ready.length - budget.minimum.pods);
  return { ...budget, disruptionsAllowed: Math.min(budget.disruptionsAllowed, most) };
}

/** Why the API server never evicts a pod: several budgets select it. Undefined if they do not. */
export function severalBudgets(pod: Pod, budgets: readonly PodDisruptionBudget[]): string | undefined {
  const selecting = budgetsOn(pod, budgets);
  if (selecting.length < 2) return undefined;
  const names = selecting.map(({ name }) => name).join(" and ");
  return `the PodDisruptionBudgets ${names} both select it, and the API server evicts no such pod: change the selector of one of them`;
}

/** The budget over the pod that refuses to let it go now; undefined if none does. */
export function refusingBudget(pod: Pod, budgets: readonly PodDisruptionBudget[]): PodDisruptionBudget | undefined {
  return budgetsOn(pod, budgets).find((budget) => refuses(budget, pod));
}

function refuses(budget: PodDisruptionBudget, pod: Pod): boolean {
  return !isSpared(budget, pod) && (budget.behind || budget.disruptionsAllowed <= 0);
}

/** A pod that is not ready may go whatever the budget allows. */
function isSpared({ spares, healthy }: PodDisruptionBudget, pod: Pod): boolean {
  return pod.readySinceMs === undefined && (spares === "unready" || healthy);
}

function isEvictedAnyway({ finished, pending, terminating }: Pod): boolean {
  return finished || pending || terminating;
}

/** The budgets that select a pod; none for a pod that the API server evicts whatever they say. */
function budgetsOn(pod: Pod, budgets: readonly PodDisruptionBudget[]): readonly PodDisruptionBudget[] {
  if (isEvictedAnyway(pod)) return [];
  return budgets.filter((budget) => budget.namespace === pod.namespace && selectsLabels(budget, pod.labels));
}

function selectsLabels({ selector }: PodDisruptionBudget, labels: Labels): boolean {
  return selector !== undefined && "labels" in selector && matches(selector, labels);
}

/**
 * Rule R25: why a budget never allows a disruption, however healthy its pods are: it wants all of them healthy that there can
 * be. Undefined where it may; and while its controller has not seen its last change, because the numbers are older than it.
 * `statefulSets`: those of its namespace.
 */
export function neverAllows(budget: PodDisruptionBudget, statefulSets: readonly StatefulSet[]): string | undefined {
  const { name, behind, minimum } = budget;
  if (behind) return undefined;
  const selected = statefulSets.filter(({ podLabels }) => selectsLabels(budget, podLabels));
  const wanted = selected.reduce((sum, { replicas }) => sum + replicas, 0);
  // With a number, its controller counts no pod that is away: such pods come back, and then one may go.
  const most = minimum.isNumber ? Math.max(minimum.of, wanted) : minimum.of;
  if (most === 0 || minimum.pods < most) return undefined;
  return `PodDisruptionBudget ${name} wants ${minimum.pods} of its ${most} pods healthy, so it never lets one be evicted: write a smaller minAvailable or a larger maxUnavailable, or add replicas`;
}

/** As policy/v1 has it: an empty selector matches every pod, an unknown operator none. */
function matches({ labels: wanted, expressions }: Selector, labels: Labels): boolean {
  const isEqual = wanted.every(([key, value]) => labels[key] === value);
  return isEqual && expressions.every((expression) => isMet(expression, labels));
}

function isMet({ key, operator, values }: Selector["expressions"][number], labels: Labels): boolean {
  const value = labels[key];
  switch (operator) {
    case "In":
      return value !== undefined && values.has(value);
    case "NotIn":
      return value === undefined || !values.has(value);
    case "Exists":
      return value !== undefined;
    case "DoesNotExist":
      return value === undefined;
    default:
      return false;
  }
}
