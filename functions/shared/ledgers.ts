/** What a sweep does to the ledgers themselves (rule R4): made ahead of need, and taken away once nobody needs them. */
import { hasCode, type LeaseObject } from "./cluster.ts";
import type { Context } from "./definition.ts";
import { LedgerUnreadable, ledgerName, parseLedger } from "./reservation.ts";
import type { GroupKey } from "./statefulsets.ts";
import { ledgerGroup, managedBy, read } from "./vocabulary.ts";

/**
 * Creates the ledgers that the groups lack, so that a rollout need not wait for a new one to age, and removes empty ledgers
 * of groups that have vanished, by uid and resourceVersion. `settle` runs a pass over a vanished group whose ledger still
 * holds reservations. Writes nothing in shadow mode (rule R16). Throws ClusterError.
 */
export async function sweepLedgers(
  context: Context,
  groups: readonly GroupKey[],
  settle: (key: GroupKey) => Promise<unknown>,
): Promise<void> {
  if (context.mode === "shadow") return;
  const scopes = context.namespaces?.map((namespace) => ({ namespace })) ?? [{}];
  const labelSelector = `${managedBy.key}=sluice`;
  const lists = await Promise.all(scopes.map((scope) => context.cluster.list("leases", { ...scope, labelSelector })));
  const leases = lists.flatMap((list) => list.items);

  const present = new Set(leases.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`));
  for (const key of groups) {
    if (present.has(`${key.namespace}/${ledgerName(key.group)}`)) continue;
    await context.protocol.createLedger(context.cluster, key);
  }
  const living = new Set(groups.map(({ namespace, group }) => `${namespace}/${group}`));
  for (const lease of leases) {
    const group = read(ledgerGroup, lease.metadata);
    if (group === undefined || living.has(`${lease.metadata.namespace}/${group}`)) continue;
    await removeLedger(context, { namespace: lease.metadata.namespace ?? "", group }, lease, settle);
  }
}

async function removeLedger(
  context: Context,
  key: GroupKey,
  lease: LeaseObject,
  settle: (key: GroupKey) => Promise<unknown>,
): Promise<void> {
  const { name, uid, resourceVersion } = lease.metadata;
  try {
    if (parseLedger(key, lease).reservations.length > 0) {
      await settle(key);
      return;
    }
    await context.cluster.delete("leases", { namespace: key.namespace, name }, { uid, resourceVersion });
  } catch (error) {
    // Written, removed or made anew meanwhile: somebody needs it, or nobody does any more.
    if (error instanceof LedgerUnreadable || hasCode(error, 404, 409)) return;
    throw error;
  }
}
