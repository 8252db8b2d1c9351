/** `kubectl sluice why`: prints one group, or all of a namespace or of the cluster. */
import { managedBy } from "../../functions/shared/annotations/table.ts";
import { escapeLines, escapeTexts } from "../../functions/shared/base/escape-control.ts";
import { mapLimit } from "../../functions/shared/base/map-limit.ts";
import type { Context } from "../../functions/shared/contract/context.ts";
import type { Cluster } from "../../functions/shared/kubernetes/cluster.ts";
import type { GroupKey } from "../../functions/shared/workloads/statefulsets.ts";
import type { ShowArguments } from "./commands.ts";
import { type FoundGroups, findGroups, findNamespaces, NotFound, readOrFail } from "./groups.ts";
import { createShadow, type GroupInspection, inspect, isUnknown, readInspection } from "./inspection.ts";
import type { ExitCode, Terminal } from "./terminal.ts";
import { formatGroup, formatGroups } from "./text.ts";

/** All groups of one namespace are read at once, and these many namespaces. */
const mostNamespacesAtOnce = 4;

/** 1 if the named group has nothing but a ledger that cannot be read. Throws NotFound, ClusterError. */
export async function printWhy(
  cluster: Cluster,
  namespace: string,
  command: ShowArguments,
  terminal: Terminal,
): Promise<ExitCode> {
  const { name: group, output, isEverywhere } = command;
  if (isEverywhere) return printWhyEverywhere(cluster, command, terminal);
  const shadow = createShadow(cluster, namespace);
  if (group === undefined) return printWhyAll(shadow, namespace, output, terminal);
  const inspection = await inspectOrFail(shadow, { namespace, group });
  if (output === "json") printJson(inspection, terminal);
  else terminal.out(formatGroup(escapeTexts(inspection), terminal.emphasize));
  const { unreadable } = inspection.ledger;
  if (unreadable === null || inspection.zones.length > 0) return 0;
  terminal.err(unreadable);
  return 1;
}

async function printWhyAll(shadow: Context, namespace: string, output: string, terminal: Terminal): Promise<ExitCode> {
  const { groups, strays } = await inspectAll(shadow, namespace);
  if (output === "json") printJson({ namespace, groups }, terminal);
  else if (groups.length > 0) terminal.out(formatGroups(escapeTexts(groups), terminal.emphasize));
  else terminal.err(`there is no group in namespace ${namespace}`);
  reportStrays(strays, terminal);
  return 0;
}

/** Of all namespaces a line for each group; with a name the groups that have it, each as a whole. */
async function printWhyEverywhere(
  cluster: Cluster,
  { name, output }: ShowArguments,
  terminal: Terminal,
): Promise<ExitCode> {
  const found = await mapLimit(await findNamespaces(cluster), mostNamespacesAtOnce, (namespace) =>
    inspectAll(createShadow(cluster, namespace), namespace, name),
  );
  const groups = found.flatMap((one) => one.groups);
  if (name !== undefined && groups.length === 0)
    throw new NotFound(`there is no group ${JSON.stringify(name)} in any namespace`);
  const { emphasize } = terminal;
  if (output === "json") printJson({ namespace: null, groups }, terminal);
  else if (name !== undefined) terminal.out(groups.map((one) => formatGroup(escapeTexts(one), emphasize)).join("\n"));
  else if (groups.length > 0) terminal.out(formatGroups(escapeTexts(groups), emphasize, true));
  else terminal.err("there is no group in any namespace");
  if (name === undefined)
    reportStrays(
      found.flatMap(({ strays }) => strays),
      terminal,
    );
  return 0;
}

function printJson(data: object, { out }: Terminal): void {
  out(`${escapeLines(JSON.stringify(data, undefined, 2))}\n`);
}

/**
 * A Lease that is no ledger, and a group that vanishes meanwhile, keep no other group from being shown.
 *
 * @param only the group to inspect; undefined: all
 */
async function inspectAll(
  shadow: Context,
  namespace: string,
  only?: string,
): Promise<{ readonly groups: readonly GroupInspection[] } & Pick<FoundGroups, "strays">> {
  const { keys, strays } = await findGroups(shadow, namespace);
  const wanted = keys.filter(({ group }) => only === undefined || group === only);
  const found = await Promise.all(wanted.map((key) => readInspection(shadow, key)));
  const groups = await Promise.all(found.filter((inspection) => !isUnknown(inspection)).map(inspect));
  return { groups, strays };
}

function reportStrays(strays: FoundGroups["strays"], { err }: Terminal): void {
  const [stray] = strays;
  const label = `${managedBy.key}=sluice`;
  if (strays.length === 1) err(`Lease ${stray} has the label ${label}, is no ledger, and is left out`);
  if (strays.length > 1)
    err(`${strays.length} Leases have the label ${label}, are no ledgers, and are left out; the first is ${stray}`);
}

/** Throws NotFound, ClusterError. */
export async function inspectOrFail(shadow: Context, key: GroupKey): Promise<GroupInspection> {
  return inspect(await readOrFail(shadow, key));
}
