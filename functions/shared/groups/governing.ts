/** Which ZoneAwarePodDisruptionBudget governs a pod, what it allows, and whose ledger keeps it (rule R1). */

import { mostEntries } from "../annotations/bounds.ts";
import { rolloutGroup } from "../annotations/table.ts";
import { fieldsOf } from "../base/fields.ts";
import type { ZoneBudgetObject } from "../kubernetes/cluster.ts";
import { budgetOfGroup, groupKeyOf, readGroup } from "../workloads/group-key.ts";
import type { Pod } from "../workloads/pods.ts";
import type { GroupKey, StatefulSet, ZoneWorkload } from "../workloads/statefulsets.ts";
import type { Labels } from "./pod-disruption-budget.ts";
import { type InvalidBudget, parseZoneBudget, type ZoneBudget } from "./zone-budget.ts";

/** A budget as the API server has it, valid or invalid. */
export interface StoredBudget {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly generation: number;
  readonly parsed: { readonly budget: ZoneBudget } | InvalidBudget;
  /** What it selects by. Of an invalid one, what can be read of its selector: if that is nothing, it selects every pod. */
  readonly matchLabels: ReadonlyMap<string, string>;
}

export type Governed =
  | { readonly kind: "none" }
  | { readonly kind: "one"; readonly name: string; readonly budget: ZoneBudget }
  /** No decision about the pod is possible until a user corrects a budget or the labels. */
  | {
      readonly kind: "ungovernable";
      readonly guard: "several-budgets" | "invalid-budget" | "budget-spans-groups";
      readonly message: string;
      readonly field: string;
    };

export function parseStoredBudget(object: ZoneBudgetObject): StoredBudget {
  const { namespace = "", name, uid, generation = 0 } = object.metadata;
  // Items of a LIST do not say their kind; they are of the type that was asked for.
  const parsed = parseZoneBudget({ kind: "ZoneAwarePodDisruptionBudget", ...object });
  const matchLabels = "budget" in parsed ? parsed.budget.matchLabels : readableLabels(object.spec);
  return { namespace, name, uid, generation, parsed, matchLabels };
}

function readableLabels(spec: unknown): ReadonlyMap<string, string> {
  const labels = fieldsOf(fieldsOf(fieldsOf(spec)?.selector)?.matchLabels) ?? {};
  // Fewer labels select more pods, as they should: an invalid budget blocks every pod that it may govern.
  const entries = Object.entries(labels).slice(0, mostEntries);
  return new Map(entries.filter((entry): entry is [string, string] => typeof entry[1] === "string"));
}

export function selects({ matchLabels }: Pick<StoredBudget, "matchLabels">, labels: Labels): boolean {
  for (const [key, value] of matchLabels) if (labels[key] !== value) return false;
  return true;
}

/** Whether a budget selects a pod that a StatefulSet has now: pods may have other labels than its template gives by now. */
export type HasPods = (statefulSet: StatefulSet, budget: StoredBudget) => boolean;

/** The workloads of a view's group, and all other StatefulSets of its namespace. */
export interface Surroundings<W extends ZoneWorkload = StatefulSet> {
  readonly workloads: readonly W[];
  readonly neighbours: readonly StatefulSet[];
  readonly budgets: readonly StoredBudget[];
  /** Absent where no pods are known but those of the members. */
  readonly hasPods?: HasPods | undefined;
}

/**
 * Which budget of the namespace governs a pod (as rollout-operator has it). An invalid one that may select it, a second one,
 * or one whose StatefulSets belong to several ledgers (rule R1) makes it ungovernable: nothing healthy is permitted until then.
 */
export function governing(pod: Pod, surroundings: Surroundings<ZoneWorkload>, key: GroupKey): Governed {
  const found = surroundings.budgets.filter((stored) => selects(stored, pod.labels));
  // Sluice does not know which pods an invalid budget would select, so that a user must correct it first.
  const stored = found.find(({ parsed }) => !("budget" in parsed)) ?? found[0];
  if (stored === undefined) return { kind: "none" };
  const { name, parsed } = stored;
  if (!("budget" in parsed)) {
    const message = `the budget ${name}, which may govern pod ${pod.name}, is invalid: ${parsed.message}`;
    return { kind: "ungovernable", guard: "invalid-budget", field: parsed.field, message };
  }
  if (found.length > 1) {
    const names = found.map((one) => one.name).join(" and ");
    const message = `the budgets ${names} all select pod ${pod.name}, and only one may: change the selector of one of them`;
    return { kind: "ungovernable", guard: "several-budgets", field: "spec.selector", message };
  }
  const { hasPods } = surroundings;
  const elsewhere = surroundings.neighbours.find((one) => selects(stored, one.podLabels) || hasPods?.(one, stored));
  if (elsewhere !== undefined) {
    const named = (group: string | undefined) =>
      group === undefined ? `without a ${rolloutGroup.key}` : `of ${rolloutGroup.key} ${JSON.stringify(group)}`;
    const here = named(budgetOfGroup(key.group) === undefined ? key.group : undefined);
    const message = `the budget ${name} selects StatefulSets ${here} and ${elsewhere.name} ${named(elsewhere.group)}, and one budget cannot be kept over several groups: write a budget for each`;
    return { kind: "ungovernable", guard: "budget-spans-groups", field: "spec.selector", message };
  }
  return { kind: "one", name, budget: parsed.budget };
}

/**
 * How many pods of a zone, or of a partition, may be down (as rollout-operator has it): 0 means none at all. A percentage is
 * of the StatefulSet that owns the pod, of the smaller of its wanted and its counted replicas, rounded down, at least 1.
 */
export function allowanceOf({ allowance }: ZoneBudget, { replicas, countedReplicas }: StatefulSet): number {
  if ("pods" in allowance) return allowance.pods;
  const counted = Math.min(replicas, countedReplicas);
  if (allowance.percent === 0 || counted === 0) return 0;
  return Math.max(1, Math.floor((allowance.percent * counted) / 100));
}

/**
 * True for the members of a group: by label, by the selector of the budget that the group is made of, or by name where neither
 * says anything. A budget selects pods: what counts are the labels of the StatefulSet's template and of the pods that it has, and
 * not its own. Pods of another owner are of no StatefulSet.
 */
export function isMember(
  statefulSet: StatefulSet,
  key: GroupKey,
  budgets: readonly StoredBudget[],
  hasPods?: HasPods,
): boolean {
  if (statefulSet.namespace !== key.namespace) return false;
  const group = readGroup(key.group);
  if (group.kind === "labelled") return statefulSet.group === group.name;
  if (group.kind === "owner" || statefulSet.group !== undefined) return false;
  const isGovernedBy = (stored: StoredBudget) =>
    stored.namespace === key.namespace &&
    (selects(stored, statefulSet.podLabels) || hasPods?.(statefulSet, stored) === true);
  if (group.kind === "statefulset") return statefulSet.name === group.name && !budgets.some(isGovernedBy);
  return budgets.some((stored) => stored.name === group.name && isGovernedBy(stored));
}

/**
 * The groups whose ledgers are about a StatefulSet. One that is alone needs a ledger where its size is kept, its pods are
 * asked, or their processes are restarted.
 */
export function ledgerGroupsOf(statefulSet: StatefulSet, budgets: readonly StoredBudget[]): readonly GroupKey[] {
  const { namespace, group, podLabels, scaling, question, restart } = statefulSet;
  const selecting = budgets.filter((budget) => budget.namespace === namespace && selects(budget, podLabels));
  const isKept = scaling?.preparesDownscale || question !== undefined || restart !== undefined;
  if (group !== undefined) return [{ namespace, group }];
  if (selecting.length === 0) return isKept ? [groupKeyOf(statefulSet)] : [];
  return selecting.map(({ name }) => groupKeyOf(statefulSet, name));
}

/** The StatefulSets of a namespace, as a view of one group has them. */
export function surroundingsOf(
  all: Iterable<StatefulSet>,
  key: GroupKey,
  budgets: readonly StoredBudget[],
  hasPods?: HasPods,
): Surroundings {
  const here = [...all].filter(({ namespace }) => namespace === key.namespace);
  const { own = [], other = [] } = Object.groupBy(here, (one) =>
    isMember(one, key, budgets, hasPods) ? "own" : "other",
  );
  return { workloads: own, neighbours: other, budgets, hasPods };
}
