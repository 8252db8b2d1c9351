/** From a view of the product back to the stored objects behind it, because checkers trust no parser. */
import type { GroupView } from "../../functions/shared/cache/cache.ts";
import { isStatefulSet } from "../../functions/shared/workloads/statefulsets.ts";
import type { StoredStatefulSet } from "../fake-cluster/objects.ts";
import type { World } from "../fake-cluster/world.ts";
import type { BudgetPast } from "../support/checkers/budgets.ts";
import type { SeenView } from "../support/checkers/ledger-write.ts";

/** The view of each write, for processes that decide several things at the same time. */
export const decidedBy = new WeakMap<object, GroupView>();

export function seenView(view: GroupView, { store }: World, budgets: BudgetPast, namespace: string): SeenView {
  const setOf = ({ name, resourceVersion }: { name: string; resourceVersion: string }): StoredStatefulSet[] => {
    const versions = store.versionsOf("statefulsets", { namespace, name });
    const found = versions.findLast(({ revision }) => revision === Number(resourceVersion))?.object;
    return found === undefined ? [] : [found];
  };
  return {
    members: view.workloads.filter(isStatefulSet).flatMap(setOf),
    neighbours: view.neighbours.flatMap(setOf),
    budgets: view.budgets.flatMap(({ uid, generation }) => budgets.version(uid, generation) ?? []),
    pod(name) {
      const seen = view.pod(name);
      if (seen === undefined) return undefined;
      const versions = store.versionsOf("pods", { namespace, name });
      return versions.findLast(({ revision }) => revision === seen.resourceVersion)?.object;
    },
  };
}
