/** Leases that another account has put into the namespace of a group, with the label of a ledger. */
import { ledgerName } from "../../../../functions/shared/ledger/lease-name.ts";
import { type Harness, namespace } from "../../shared/reconcile/harness.ts";

/** Adds a Lease with the label of a ledger. */
export function addLease(harness: Harness, name: string, annotations: Readonly<Record<string, string>>): void {
  const labels = { "app.kubernetes.io/managed-by": "sluice" };
  const body = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { name, labels, annotations } };
  harness.world.store.create("leases", namespace, body);
}

/** Adds the ledger of a group, whatever its name is. */
export function addLedger(harness: Harness, group: string, more: Readonly<Record<string, string>> = {}): void {
  addLease(harness, ledgerName(group), { "sluice.dev/group": group, ...more });
}
