/** Finds groups for commands, and says which there are where one is not there. */
import { rolloutGroup } from "../../functions/shared/annotations/table.ts";
import { listStatefulSets } from "../../functions/shared/cache/listing.ts";
import type { Context } from "../../functions/shared/contract/context.ts";
import { isMember, ledgerGroupsOf } from "../../functions/shared/groups/governing.ts";
import type { Cluster, LeaseObject } from "../../functions/shared/kubernetes/cluster.ts";
import { groupKeyOfLease, listLedgerLeases } from "../../functions/shared/ledger/lease.ts";
import { budgetOfGroup, groupOfBudget } from "../../functions/shared/workloads/group-key.ts";
import type { GroupKey } from "../../functions/shared/workloads/statefulsets.ts";
import { type Inspection, isUnknown, readInspection } from "./inspection.ts";

/** The most groups that an error names. */
const mostGroupsNamed = 10;
/** The most characters of an owner's kind, API group and name together. */
const longestLedgerGroup = 1_024;

/** The user asked for something that does not exist. */
export class NotFound extends Error {}

/** Throws NotFound, ClusterError. */
export async function readOrFail(shadow: Context, key: GroupKey): Promise<Inspection> {
  const inspection = await readInspection(shadow, key);
  if (!isUnknown(inspection)) return inspection;
  throw notFound(key, (await findGroups(shadow, key.namespace)).keys);
}

/** The message about a group that is not there, with those that are. */
export function notFound(key: GroupKey, keys: readonly GroupKey[]): NotFound {
  const groups = keys.slice(0, mostGroupsNamed).map(({ group }) => JSON.stringify(group));
  const more = keys.length > mostGroupsNamed ? ", …" : "";
  const others = groups.length === 0 ? "and there is no other one" : `there are ${groups.join(", ")}${more}`;
  const budget = budgetOfGroup(key.group);
  const label = `has ${rolloutGroup.key}=${key.group}`;
  const member = budget === undefined ? label : `without ${rolloutGroup.key} is selected by a budget ${budget}`;
  const what = `no StatefulSet ${member}, and there is no ledger`;
  return new NotFound(
    `there is no group ${JSON.stringify(key.group)} in namespace ${key.namespace} (${what}): ${others}`,
  );
}

export interface FoundGroups {
  readonly keys: readonly GroupKey[];
  /** Names of Leases that have the label of a ledger, and are none. */
  readonly strays: readonly string[];
}

/** The namespaces that have a StatefulSet or a ledger, by name. Throws ClusterError. */
export async function findNamespaces(cluster: Cluster): Promise<readonly string[]> {
  const [{ items }, leases] = await Promise.all([
    cluster.list("statefulsets", { metadataOnly: true }),
    listLedgerLeases(cluster, undefined),
  ]);
  return [...new Set([...items, ...leases].map(({ metadata: { namespace = "" } }) => namespace))].sort();
}

/**
 * Groups by label, by budget (rule R1), of StatefulSets without either that need a ledger, and those with nothing but a ledger,
 * by name. Throws ClusterError.
 */
export async function findGroups({ cluster, cache }: Context, namespace: string): Promise<FoundGroups> {
  const [{ statefulSets }, budgets, leases] = await Promise.all([
    listStatefulSets(cluster, namespace),
    cache.budgets(namespace),
    listLedgerLeases(cluster, namespace),
  ]);
  const labelled = statefulSets.map(({ group }) => group);
  const ofBudgets = budgets
    .map(({ name }) => groupOfBudget(name))
    .filter((group) => statefulSets.some((one) => isMember(one, { namespace, group }, budgets)));
  const alone = statefulSets.flatMap((one) => ledgerGroupsOf(one, budgets)).map(({ group }) => group);
  const left = leases.map(ledgerGroupOf);
  const groups = [...labelled, ...ofBudgets, ...alone, ...left].filter((group) => group !== undefined);
  const strays = leases.filter((_, index) => left[index] === undefined).map(({ metadata }) => metadata.name);
  return { keys: [...new Set(groups)].sort().map((group) => ({ namespace, group })), strays: strays.sort() };
}

/** Undefined for a Lease that is no ledger of Sluice, because an account may give any Lease the label of a ledger. */
function ledgerGroupOf(lease: LeaseObject): string | undefined {
  const { group } = groupKeyOfLease(lease) ?? {};
  return group !== undefined && group.length <= longestLedgerGroup ? group : undefined;
}
