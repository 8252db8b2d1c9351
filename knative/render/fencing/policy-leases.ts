/** The policy on Leases: which of them an account of fencing writes, and which annotations of each. */

import { agentEntries, fenceArmed, recordEntries } from "../../../functions/shared/annotations/fencing.ts";
import { agentName, recordName, slotsName } from "../../../functions/shared/annotations/fencing-leases.ts";
import { agentPeersProposed } from "../../../functions/shared/annotations/fencing-peers.ts";
import { fenceSlots } from "../../../functions/shared/annotations/fencing-slots.ts";
import { pathsOf } from "../../../functions/shared/annotations/paths.ts";
import { ledgerFormat } from "../../../functions/shared/annotations/table.ts";
import type { Need } from "../../../functions/shared/contract/definition.ts";
import { resources } from "../../../functions/shared/kubernetes/cluster.ts";
import { ledgerPrefix } from "../../../functions/shared/ledger/lease-name.ts";
import { literal, type Table, type Variable, variablesOf } from "../fence/expressions.ts";
import { ledgersAlone, onlyListedChanges } from "../fence/fence.ts";
import { ruleFor, type Validation } from "../fence/policy.ts";
import type { Manifest } from "../object.ts";
import { agentAccount, functionAccount } from "./names.ts";
import { everyWrite, fencingPolicy, isByAgent, isWrittenByAccount } from "./policy-accounts.ts";

const { group } = resources.leases;
/** The sorts of Leases, as the table and refusals name them. */
const ofAgent = "an agent";
const ofFence = "a fence";
const ofSlots = "the slots";
const ofGroup = "a group";

const rowOf = (sort: string) => `leases.${group} of ${sort}`;
const isOf = (sort: string) => `variables.sort == ${literal(sort)}`;
const isDeleted = "request.operation == 'DELETE'";

/** What the functions write into each Lease of their own namespace, as far as their definition says that they do. */
const byFunctions: Readonly<Record<string, readonly string[]>> = {
  [ofAgent]: pathsOf(fenceArmed, agentPeersProposed),
  [ofFence]: pathsOf(ledgerFormat, ...recordEntries),
  [ofSlots]: pathsOf(ledgerFormat, fenceSlots),
};

function tableOf(needs: readonly Need[]): Table {
  const ofLeases = needs.filter((need) => need.group === group && need.resource === "leases");
  const changed = (some: readonly Need[]) => [...new Set(some.flatMap(({ changes = [] }) => changes))].sort();
  const own = changed(ofLeases.filter(({ scope }) => scope === undefined));
  const taken = new Set(Object.values(byFunctions).flat());
  const lost = own.filter((path) => !taken.has(path));
  if (lost.length > 0) throw new Error(`no Lease of fencing takes ${lost.join(", ")}: say which does`);
  const rows = Object.entries(byFunctions).map(([sort, paths]): [string, readonly string[]] => [
    rowOf(sort),
    own.filter((path) => paths.includes(path)),
  ]);
  const ledgers = changed(ofLeases.filter(({ scope }) => scope === "every-namespace"));
  return {
    [agentAccount]: { [rowOf(ofAgent)]: ["spec.holderIdentity", ...pathsOf(...agentEntries)].sort() },
    [functionAccount]: { ...Object.fromEntries(rows), [rowOf(ofGroup)]: ledgers },
  };
}

/** The key by which the API server shows the node in the token of an account. */
const nodeKey = literal("authentication.kubernetes.io/node-name");
const extra = "request.userInfo.extra";
const begins = (named: (node: string) => string) => `variables.name.startsWith(${literal(named(""))})`;

const variables: readonly Variable[] = [
  { name: "name", expression: "oldObject == null ? object.metadata.name : oldObject.metadata.name" },
  { name: "ownNamespace", expression: "request.userInfo.username.split(':')[2]" },
  // Empty for a token of no pod: no Lease is called so.
  { name: "node", expression: `has(${extra}) && ${nodeKey} in ${extra} ? ${extra}[${nodeKey}][0] : ''` },
  {
    name: "sort",
    expression:
      `variables.name.startsWith(${literal(ledgerPrefix)}) ? ${literal(ofGroup)} :\n` +
      `request.namespace != variables.ownNamespace ? 'another namespace' :\n` +
      `variables.name == ${literal(slotsName)} ? ${literal(ofSlots)} :\n` +
      `${begins(recordName)} ? ${literal(ofFence)} :\n` +
      `${begins(agentName)} ? ${literal(ofAgent)} : 'no such name'`,
  },
];

/** The holder of a Lease as one state of it names it, in a list; an empty one where it names none. */
const holders = (when: string) =>
  `('spec' in variables.${when} && 'holderIdentity' in variables.${when}.spec ? [variables.${when}.spec.holderIdentity] : [])`;

const validations: readonly Validation[] = [
  isWrittenByAccount,
  {
    expression:
      `!(${isByAgent}) ||\n!(${isDeleted}) && variables.node != '' &&\n` +
      `variables.name == ${literal(agentName(""))} + variables.node`,
    message: "an agent writes the Lease of the node in its token alone, and deletes none",
  },
  {
    expression: `!(${isByAgent}) || ${holders("after")} == ${holders("before")} || ${holders("after")} == [variables.node]`,
    message: "the holder of the Lease of an agent is its node",
  },
  {
    expression: `${isByAgent} || !(${isOf(ofAgent)}) || request.operation == 'UPDATE'`,
    message: "the functions make and delete no Lease of an agent",
  },
  {
    expression: `!(${isDeleted}) || ${isOf(ofFence)}`,
    message: "the functions delete no Lease but the record of a fence",
  },
  { ...ledgersAlone, expression: `!(${isOf(ofGroup)}) ||\n${ledgersAlone.expression}` },
];

/** Of every namespace, because groups are: a ledger is written where its pods are. */
export function leasesPolicy(needs: readonly Need[]): readonly Manifest[] {
  const table = tableOf(needs);
  return fencingPolicy("leases", {
    matchConstraints: { resourceRules: [ruleFor(group, everyWrite, ["leases"])] },
    variables: [...variables, ...variablesOf(table, { sort: "' of ' + variables.sort" })],
    validations: [...validations, ...onlyListedChanges(table, { isDeleted: true })],
  });
}
