/** One process of `hold-process-groups` in a fake cluster in virtual time: a FoundationDBCluster with one process group. */
import { holdProcessGroups } from "../../../../functions/hold-process-groups/function.ts";
import { type ClusterObject, type GroupStatus, labels } from "../../../support/foundationdb.ts";
import { Harness, namespace, played } from "../../shared/reconcile/harness.ts";

export const resource = "foundationdbclusters";
export const claims = "persistentvolumeclaims";
export const key = { resource, namespace, name: "orders" } as const;
export const id = "storage-1";
export const claim = { namespace, name: `orders-${id}-data` };

/** A cluster with one process group, which has a volume claim and a pod. */
export class FoundationHarness extends Harness {
  constructor(annotations: Readonly<Record<string, string>> = { "sluice.dev/suspend-duration": "1h" }) {
    super({ zones: ["a"], replicas: 1 });
    const { store } = this.world;
    store.create(resource, namespace, { metadata: { name: key.name, annotations }, spec: {} } as never);
    this.status({ processGroupID: id, faultDomain: "zone-1", addresses: ["10.1.0.1:4501"] });
    const marks = { [labels.cluster]: key.name, [labels.id]: id };
    const { uid } = this.foundation.metadata;
    const owner = { apiVersion: "apps.foundationdb.org/v1beta2", kind: "FoundationDBCluster", name: key.name, uid };
    const metadata = { name: claim.name, labels: marks, ownerReferences: [owner] };
    store.create(claims, namespace, { metadata } as never);
    store.create("pods", namespace, {
      metadata: { name: `orders-${id}`, labels: marks },
      spec: { containers: [{ name: "fdb", image: "fdb:1" }] },
    } as never);
  }

  status(...processGroups: readonly GroupStatus[]): void {
    this.world.store.patch(resource, key, { status: { processGroups } } as never, "status");
  }

  change(spec: object): void {
    this.world.store.patch(resource, key, { spec } as never);
  }

  async reconcile(): Promise<number | undefined> {
    return (await played(this.timeline, holdProcessGroups.reconcile(this.context, key, { sweep: false })))
      .requeueAfterMs;
  }

  keys(): Promise<readonly { readonly name: string }[]> {
    return played(this.timeline, holdProcessGroups.listKeys(this.context, undefined));
  }

  get foundation(): ClusterObject {
    return this.world.store.get(resource, key) as unknown as ClusterObject;
  }

  written(name: string): string | undefined {
    return this.world.store.get(claims, claim).metadata.annotations?.[`sluice.dev/${name}`];
  }

  get writes(): readonly string[] {
    return this.requests.filter((word) => /^(patch|delete)/.test(word));
  }

  sent(reason: string): readonly string[] {
    const { items } = this.world.store.list("events");
    return items.flatMap((one) => (one.reason === reason ? [String(one.message)] : []));
  }
}
