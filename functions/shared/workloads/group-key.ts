/**
 * Whose ledger (rule R1): the text that names a group of each kind. It is decided here and nowhere else.
 *
 * Pods share the ledger of their StatefulSet's `rollout-group`; without one, that of the budget which governs them; without a
 * budget, that of their StatefulSet; without a StatefulSet, that of what owns them.
 */
import type { WorkloadOwner } from "../annotations/suspension.ts";
import { type GroupKey, groupPathOf, type StatefulSet } from "./statefulsets.ts";

type LedgerGroup =
  | { readonly kind: "labelled" | "budget" | "statefulset"; readonly name: string }
  | ({ readonly kind: "owner"; readonly ownerKind: string } & Omit<WorkloadOwner, "kind">);

const budgetPrefix = "budget:";
const statefulSetPrefix = "statefulset:";
const ownerPrefix = "owner:";

/** The group of the StatefulSets without a `rollout-group` that a budget selects. No label value holds a colon. */
export function groupOfBudget(budget: string): string {
  return `${budgetPrefix}${budget}`;
}

/** The group of one StatefulSet that has neither a `rollout-group` nor a budget. */
export function groupOfLoneStatefulSet(name: string): string {
  return `${statefulSetPrefix}${name}`;
}

/** Of whose pods only so many are asked at once: the group by what the StatefulSet says itself, as no budget is read for it. */
export function askedGroupOf({ group, name }: Pick<StatefulSet, "group" | "name">): string {
  return group ?? groupOfLoneStatefulSet(name);
}

/** The group of the pods of one owner that is no StatefulSet: `owner:Deployment.apps/web`, `owner:ReplicationController/web`. */
export function groupOfOwner({ kind, apiGroup, name }: WorkloadOwner): string {
  return `${ownerPrefix}${kind}${apiGroup === "" ? "" : `.${apiGroup}`}/${name}`;
}

/** The origin of a group. Any text without a known beginning is a `rollout-group`. */
export function readGroup(group: string): LedgerGroup {
  if (group.startsWith(budgetPrefix)) return { kind: "budget", name: group.slice(budgetPrefix.length) };
  if (group.startsWith(statefulSetPrefix)) return { kind: "statefulset", name: group.slice(statefulSetPrefix.length) };
  if (!group.startsWith(ownerPrefix)) return { kind: "labelled", name: group };
  // No kind holds a dot, and no group of an API a slash.
  const [, ownerKind, apiGroup = "", name] =
    /^([^./]+)(?:\.([^/]+))?\/(.+)$/.exec(group.slice(ownerPrefix.length)) ?? [];
  if (ownerKind === undefined || name === undefined) return { kind: "labelled", name: group };
  return { kind: "owner", ownerKind, apiGroup, name };
}

/** The FoundationDBCluster whose process groups a group is made of; undefined for a group of another kind. */
export function foundationClusterOf(group: string): string | undefined {
  const parsed = readGroup(group);
  const isOne = parsed.kind === "owner" && parsed.ownerKind === "FoundationDBCluster";
  return isOne && parsed.apiGroup === "apps.foundationdb.org" ? parsed.name : undefined;
}

/** The name of the budget that a group is made of; undefined for a group of another kind. */
export function budgetOfGroup(group: string): string | undefined {
  const parsed = readGroup(group);
  return parsed.kind === "budget" ? parsed.name : undefined;
}

/** The group whose ledger keeps a StatefulSet's reservations; `budget` names the one that governs its pods, if any does. */
export function groupKeyOf({ namespace, group, name }: StatefulSet, budget?: string): GroupKey {
  return { namespace, group: group ?? (budget === undefined ? groupOfLoneStatefulSet(name) : groupOfBudget(budget)) };
}

/**
 * Rule R23: where a fence announces itself next; undefined once every ledger of these groups holds it. Only then does it act.
 *
 * Each process announces in one order, of NAMESPACE/GROUP by code units, so that a ledger that holds it says the same of all
 * before it, and another process goes on where one was killed. Each is a write of its own, and none waits for another: half
 * announced, it makes others wait, and nothing more. `holds`: whether the group's ledger, read after the fence's Lease, has it.
 */
export function nextToAnnounce(keys: readonly GroupKey[], hasClaim: (key: GroupKey) => boolean): GroupKey | undefined {
  const inOrder = keys.toSorted((one, other) => (groupPathOf(one) < groupPathOf(other) ? -1 : 1));
  return inOrder.find((key) => !hasClaim(key));
}

export function isOwnerGroup(group: string): boolean {
  return readGroup(group).kind === "owner";
}
