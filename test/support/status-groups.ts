/** Groups that no `rollout-group` makes, on the fake cluster: of another owner, and of a StatefulSet whose processes restart. */
import { ledgerName } from "../../functions/shared/ledger/lease-name.ts";
import type { World } from "../fake-cluster/world.ts";
import { Owned, group as ownerGroup } from "./owned.ts";

const phaseKey = "elasticsearch.k8s.elastic.co/restart-phase";

/** A ledger of this group with these annotations besides. */
export function createLedgerOf(
  { store }: Pick<World, "store">,
  namespace: string,
  group: string,
  annotations: Readonly<Record<string, string>> = {},
): void {
  const labels = { "app.kubernetes.io/managed-by": "sluice" };
  const own = { "sluice.dev/group": group, "sluice.dev/format": "1", ...annotations };
  store.create("leases", namespace, { metadata: { name: ledgerName(group), labels, annotations: own }, spec: {} });
}

/**
 * The pods and volume claims of a FoundationDBCluster, `ZONE-N`, and a ledger. The kubelet brings the pods up within seconds.
 * Returns the uid of each pod by its name.
 */
export function createOwnedGroup(
  world: Pick<World, "store">,
  namespace: string,
  zones: readonly string[],
  size: number,
): ReadonlyMap<string, string> {
  const owned = Owned.of(zones, size);
  for (const { metadata } of owned.claims.values()) {
    const { name, annotations } = metadata;
    world.store.create("persistentvolumeclaims", namespace, { metadata: { name, annotations } } as never);
  }
  for (const { metadata, spec } of owned.pods.values()) {
    // The fake cluster has no object of the owner, and collects the pods of an owner that is gone: volume claims name it.
    const containers = [{ name: "db", image: "db:1" }];
    const { name } = metadata;
    world.store.create("pods", namespace, { metadata: { name }, spec: { ...spec, containers } } as never);
  }
  createLedgerOf(world, namespace, ownerGroup);
  return new Map(
    [...owned.pods.keys()].map((name) => [name, world.store.get("pods", { namespace, name }).metadata.uid]),
  );
}

/** A StatefulSet `alone` of three pods that names a process manager, and has no `rollout-group`. */
export function createLoneRestart(world: World, namespace: string): void {
  world.addGroup({ namespace, group: "alone", zones: ["x"], replicas: 3 });
  world.settle();
  const annotations = { "sluice.dev/restart-manager": "http://:9844", "sluice.dev/restart-manager-secret": "token" };
  const metadata = { labels: { "rollout-group": null }, annotations };
  world.store.patch("statefulsets", { namespace, name: "alone-x" }, { metadata } as never);
}

export const loneGroup = "statefulset:alone-x";

/** What a person writes on a pod of it, or what the function shows there. */
export function writePhase(world: World, namespace: string, pod: string, phase: string): void {
  world.annotate({ namespace, name: pod }, { [phaseKey]: phase }, "pods");
}
