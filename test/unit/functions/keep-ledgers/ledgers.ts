/** A process that keeps the ledgers of a fake cluster: its groups, and a sweep over them. */
import { keepLedgers } from "../../../../functions/keep-ledgers/function.ts";
import { type GroupKey, groupPathOf } from "../../../../functions/shared/workloads/statefulsets.ts";
import { type Harness, played } from "../../shared/reconcile/harness.ts";

/** Makes these groups exist, and no others. Each new group has one StatefulSet without pods. */
export function populate({ world }: Harness, groups: readonly GroupKey[]): void {
  const wanted = new Map(groups.map((key) => [groupPathOf(key), key]));
  for (const { metadata } of world.store.list("statefulsets").items) {
    const group = metadata.labels?.["rollout-group"] ?? "";
    const path = groupPathOf({ namespace: metadata.namespace, group });
    if (!wanted.delete(path)) world.removeStatefulSet(metadata);
  }
  for (const { namespace, group } of wanted.values()) {
    const labels = { "rollout-group": group };
    world.addGroup({ namespace, group: group.toLowerCase().replaceAll("_", "-"), zones: ["a"], replicas: 0, labels });
  }
  world.settle();
}

/** One sweep over the groups of the fake cluster. */
export async function sweep(harness: Harness): Promise<void> {
  await played(harness.timeline, keepLedgers.sweep?.(harness.context, []) ?? Promise.reject(new Error("no sweep")));
}

/** One sweep over these groups. Resolves to the error that it threw. */
export async function sweepOver(harness: Harness, groups: readonly GroupKey[]): Promise<unknown> {
  populate(harness, groups);
  return sweep(harness).then(
    () => undefined,
    (error: unknown) => error,
  );
}

/** The existing Leases as `NAMESPACE/NAME`. */
export function leasesOf({ world }: Harness): string[] {
  return world.store
    .list("leases")
    .items.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`)
    .sort();
}
