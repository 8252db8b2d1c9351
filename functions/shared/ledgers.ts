/** What a sweep does to the ledgers themselves (rule R4): made ahead of need, and taken away once nobody needs them. */
import { hasCode, type LeaseObject } from "./cluster.ts";
import type { Context } from "./definition.ts";
import { groupKeyOf, parseStoredBudget, selects } from "./governing.ts";
import { noteLedger } from "./ledger-access.ts";
import { observeGroup } from "./observation.ts";
import { type Ledger, LedgerUnreadable, ledgerName, parseLedger } from "./reservation.ts";
import { budgetOfGroup, type GroupKey, parseStatefulSet } from "./statefulsets.ts";
import { listBudgets } from "./views.ts";
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
  const leases = await listLedgers(context);
  await createMissing(context, groups, leases);
  for (const { key, lease } of vanished(groups, leases)) {
    // What is a budget's is for those who judge evictions to remove.
    if (budgetOfGroup(key.group) !== undefined) continue;
    await removeLedger(context, key, lease, async ({ reservations }) => {
      if (reservations.length > 0) await settle(key);
      return reservations.length === 0;
    });
  }
}

/**
 * The same for whoever judges evictions: the ledgers of all StatefulSets that a budget selects are made ahead of need, and those
 * made of a budget (rule R1) removed once it selects nothing any more and every pod that was reserved is gone or back.
 */
export async function sweepBudgetLedgers(context: Context): Promise<void> {
  if (context.mode === "shadow") return;
  // A namespace that may not be read holds up no other.
  const scopes = context.namespaces?.map((namespace) => ({ ...context, namespaces: [namespace] })) ?? [context];
  const swept = await Promise.allSettled(scopes.map(sweepScope));
  const failed = swept.find((one) => one.status === "rejected");
  if (failed !== undefined) throw failed.reason;
}

async function sweepScope(context: Context): Promise<void> {
  const groups = await listGovernedGroups(context);
  const leases = await listLedgers(context);
  await createMissing(context, groups, leases);
  for (const { key, lease } of vanished(groups, leases)) {
    if (budgetOfGroup(key.group) === undefined) continue;
    await removeLedger(context, key, lease, async (ledger) => {
      const { open, zones } = await observeGroup(context, ledger, { permitSinceMs: undefined, consistent: true });
      // A StatefulSet whose template the budget does not select may have pods that it does.
      return open.length === 0 && zones.length === 0;
    });
  }
}

/** The groups whose ledgers keep the budgets that there are. */
async function listGovernedGroups({ cluster, namespaces }: Context): Promise<GroupKey[]> {
  const groups = new Map<string, GroupKey>();
  for (const namespace of namespaces ?? [undefined]) {
    const [budgets, statefulSets] = await Promise.all([
      listBudgets(cluster, namespace),
      cluster.list("statefulsets", namespace === undefined ? {} : { namespace }),
    ]);
    const stored = budgets.map(parseStoredBudget);
    for (const statefulSet of statefulSets.items.map(parseStatefulSet)) {
      for (const budget of stored) {
        if (budget.namespace !== statefulSet.namespace || !selects(budget, statefulSet.podLabels)) continue;
        const key = groupKeyOf(statefulSet, budget.name);
        groups.set(`${key.namespace}/${key.group}`, key);
      }
    }
  }
  return [...groups.values()];
}

async function listLedgers({ cluster, namespaces }: Context): Promise<LeaseObject[]> {
  const scopes = namespaces?.map((namespace) => ({ namespace })) ?? [{}];
  const labelSelector = `${managedBy.key}=sluice`;
  const lists = await Promise.all(scopes.map((scope) => cluster.list("leases", { ...scope, labelSelector })));
  return lists.flatMap((list) => list.items);
}

async function createMissing(
  context: Context,
  groups: readonly GroupKey[],
  leases: readonly LeaseObject[],
): Promise<void> {
  const present = new Map(leases.map(({ metadata }) => [`${metadata.namespace}/${metadata.name}`, metadata.uid]));
  for (const key of groups) {
    const known = present.get(`${key.namespace}/${ledgerName(key.group)}`);
    const uid = known ?? (await context.protocol.createLedger(context.cluster, key))?.uid;
    // Known from now on, it is no longer new by the time that it is needed.
    if (uid !== undefined) noteLedger(context.cluster, uid);
  }
}

function vanished(
  groups: readonly GroupKey[],
  leases: readonly LeaseObject[],
): { readonly key: GroupKey; readonly lease: LeaseObject }[] {
  const living = new Set(groups.map(({ namespace, group }) => `${namespace}/${group}`));
  return leases.flatMap((lease) => {
    const group = read(ledgerGroup, lease.metadata);
    const { namespace = "" } = lease.metadata;
    return group === undefined || living.has(`${namespace}/${group}`) ? [] : [{ key: { namespace, group }, lease }];
  });
}

/** `mayGo` says whether nobody needs the ledger any more. */
async function removeLedger(
  context: Context,
  key: GroupKey,
  lease: LeaseObject,
  mayGo: (ledger: Ledger) => Promise<boolean>,
): Promise<void> {
  const { name, uid, resourceVersion } = lease.metadata;
  try {
    if (!(await mayGo(parseLedger(key, lease)))) return;
    await context.cluster.delete("leases", { namespace: key.namespace, name }, { uid, resourceVersion });
  } catch (error) {
    // Written, removed or made anew meanwhile: somebody needs it, or nobody does any more.
    if (error instanceof LedgerUnreadable || hasCode(error, 404, 409)) return;
    throw error;
  }
}
