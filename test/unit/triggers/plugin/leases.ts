/** Leases that another account has put into the namespace of a group, with the label of a ledger. */
import { ledgerName } from "../../../../functions/shared/ledger/lease-name.ts";
import { namespace, type Passes } from "../../shared/reconcile/passes.ts";

/** Adds a Lease with the label of a ledger. */
export function addLease(passes: Passes, name: string, annotations: Readonly<Record<string, string>>): void {
  const labels = { "app.kubernetes.io/managed-by": "sluice" };
  const body = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { name, labels, annotations } };
  passes.world.store.create("leases", namespace, body);
}

/** Adds the ledger of a group, whatever its name is. */
export function addLedger(passes: Passes, group: string, more: Readonly<Record<string, string>> = {}): void {
  addLease(passes, ledgerName(group), { "sluice.dev/group": group, ...more });
}
