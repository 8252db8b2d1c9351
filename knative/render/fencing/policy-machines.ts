/** The policy on Machines: the functions take a mark off, and write nothing else of them. */

import type { Need } from "../../../functions/shared/contract/definition.ts";
import { resources } from "../../../functions/shared/kubernetes/cluster.ts";
import { variablesOf } from "../fence/expressions.ts";
import { onlyListedChanges, tableOf } from "../fence/fence.ts";
import { ruleFor, type Validation } from "../fence/policy.ts";
import type { Manifest } from "../object.ts";
import { functionAccount } from "./names.ts";
import { everyWrite, fencingPolicy, isWrittenByAccount, mark, markPath } from "./policy-accounts.ts";

const others = [`nodes.${resources.nodes.group}`, `leases.${resources.leases.group}`];
/** Nodes and Leases have policies of their own. */
const isMachine = ({ group, resource, verbs }: Need) =>
  verbs.includes("patch") && !others.includes(`${resource}.${group}`);

const patchedAlone: Validation = {
  expression: "request.operation == 'UPDATE'",
  message: "the functions make and delete no Machine",
};

/** None where no kind is listed, because no account has a right to one then. */
export function machinesPolicy(needs: readonly Need[]): readonly Manifest[] {
  const machines = needs.filter(isMachine);
  if (machines.length === 0) return [];
  const table = tableOf({ covers: isMachine }, [{ name: functionAccount, needs }]);
  const groups = Map.groupBy(machines, ({ group }) => group);
  const resourceRules = [...groups].map(([group, some]) => {
    const plurals = [...new Set(some.map(({ resource }) => resource))];
    return ruleFor(
      group,
      everyWrite,
      plurals.flatMap((plural) => [plural, `${plural}/*`]),
    );
  });
  return fencingPolicy("machines", {
    matchConstraints: { resourceRules },
    variables: [mark, ...variablesOf(table, { free: markPath })],
    validations: [isWrittenByAccount, patchedAlone, ...onlyListedChanges(table, {})],
  });
}
