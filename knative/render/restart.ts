/**
 * The installation of opt-in functions of groups, beside a standard one and in its namespace: each as two replicas, or on
 * Knative. The standard installation has none of it, and stays as it is.
 */

import { type FunctionDefinition, isStandard } from "../../functions/shared/contract/definition.ts";
import { sourcesOf, watchNeed } from "./events.ts";
import { fenceOf } from "./fence/fence.ts";
import { editNeed } from "./fence/guard.ts";
import type { Manifest } from "./object.ts";
import { restartMonitors, restartRule } from "./restart-monitoring.ts";
import { rightsOf, union } from "./rights.ts";
import { functionOf } from "./triggered.ts";
import { functionDeployment } from "./workloads.ts";

/** True for a function that is installed with the overlay `restart`. */
export function concernsGroups(definition: FunctionDefinition): boolean {
  return !isStandard(definition) && definition.keyedBy === "groups";
}

/** The files of each folder below `knative/base`, without their endings; none without such functions. */
export function restartFolders(
  definitions: readonly FunctionDefinition[],
): Readonly<Record<string, Readonly<Record<string, readonly Manifest[]>>>> {
  const served = definitions.filter(concernsGroups).map(mayEditLedgers);
  if (served.length === 0) return {};
  const filesOf = (manifestsOf: (definition: FunctionDefinition) => readonly Manifest[]) =>
    Object.fromEntries(served.map((definition) => [definition.name, manifestsOf(definition)]));
  return {
    restart: filesOf(replicasOf),
    "restart-knative": filesOf((definition) => [...functionOf(definition), ...sourcesOf(definition)]),
    "restart-monitoring": { alerts: [restartRule()], scraping: restartMonitors(served.map(({ name }) => name)) },
    "restart-policy": { policies: fenceOf(served, "restart-") },
  };
}

/**
 * The guard policies of the standard installation do not know its account: by this right they let it write ledgers. To which
 * changes the account is limited then, is in `restart-policy`.
 */
function mayEditLedgers(definition: FunctionDefinition): FunctionDefinition {
  return { ...definition, needs: [...definition.needs, editNeed] };
}

/** The replicas watch themselves what triggers the function. */
function replicasOf({ name, needs, watches }: FunctionDefinition): readonly Manifest[] {
  return [...rightsOf({ name, needs: union([...needs, ...watches.map(watchNeed)]) }), ...functionDeployment(name)];
}
