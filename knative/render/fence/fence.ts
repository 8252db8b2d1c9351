/**
 * The fence: admission policies that hold each account of Sluice to what its functions do. RBAC knows objects and verbs, and no
 * fields: with a right to patch a StatefulSet goes the right to run anything in it. The API server evaluates the policies itself.
 */

import { usualSkipLabelKeys } from "../../../functions/shared/annotations/skip-labels.ts";
import { ledgerGroup, reviewKey } from "../../../functions/shared/annotations/table.ts";
import type { Need } from "../../../functions/shared/contract/definition.ts";
import { resources } from "../../../functions/shared/kubernetes/cluster.ts";
import { ledgerPrefix } from "../../../functions/shared/ledger/lease-name.ts";
import { type Manifest, placeholderNamespace, type Workload } from "../object.ts";
import {
  isOurs,
  listIn,
  literal,
  mayKey,
  onlyBundlesAndKeys,
  onlyChanges,
  onlyOurFinalizers,
  onlyOurLabels,
  servedNamespaces,
  skipLabelKeys,
  type Table,
  type Variable,
  variablesOf,
} from "./expressions.ts";
import { inServedNamespace, policyIn, ruleFor, type Validation } from "./policy.ts";

const writing = ["create", "update", "patch"];
const everyWrite = ["CREATE", "UPDATE", "DELETE"];
/** No function decides by an Event, so accounts may write any. */
const free = "events";

/** One policy: its written resources, and its additional validations. */
interface Part {
  readonly name: string;
  covers(need: Need): boolean;
  /** Absent: all writes, also those that no account may make. */
  readonly operations?: (needs: readonly Need[]) => readonly string[];
  readonly variables?: readonly Variable[];
  /** Variables of its own that are made of those that all policies have, and so come after them. */
  readonly moreVariables?: readonly Variable[];
  /** The accounts may delete such objects, those of which `validations` say so; absent: none. */
  readonly isDeleted?: true;
  /** Fields that `validations` are about. */
  readonly besides?: readonly string[];
  readonly validations?: readonly Validation[];
}

const isOf =
  (...among: readonly (keyof typeof resources)[]) =>
  (need: Need) =>
    among.some((resource) => need.resource === resource && need.group === resources[resource].group);
const isWebhook = isOf("mutatingwebhookconfigurations", "validatingwebhookconfigurations");
const isVolume = isOf("persistentvolumes");
const isLease = isOf("leases");
const hasNamespace = (need: Need) => !isWebhook(need) && !isVolume(need) && !isLease(need);

const group = literal(ledgerGroup.key);
/** In CEL: an object whose name and annotation may be a ledger's, or none. */
const isLedger = (when: string) =>
  `(variables.${when.toLowerCase()} == {'metadata': {}} || ` +
  `variables.${when.toLowerCase()}.metadata.name.startsWith(${literal(ledgerPrefix)}) && ${group} in variables.annotations${when})`;

/** Holds an account to Leases that are ledgers. It needs the variables that all policies have. */
export const ledgersAlone: Validation = {
  expression:
    `${isLedger("Before")} &&\n${isLedger("After")} &&\n` +
    `(request.operation != 'UPDATE' || variables.annotationsAfter[${group}] == variables.annotationsBefore[${group}])`,
  message: "Sluice writes no Lease but those that are ledgers, and each stays the ledger of its group",
};

const parts: readonly Part[] = [
  {
    name: "webhooks",
    covers: isWebhook,
    moreVariables: [mayKey("webhooks[*].clientConfig.service.path", reviewKey.key)],
    besides: ["webhooks"],
    validations: [
      {
        expression: `request.operation == 'UPDATE' &&\n(${onlyBundlesAndKeys("webhooks[*].clientConfig.caBundle")})`,
        message:
          "of a webhook configuration Sluice changes nothing but each caBundle, and the review key before a path",
      },
    ],
  },
  {
    name: "volumes",
    covers: isVolume,
    variables: [{ name: servedNamespaces, expression: listIn([placeholderNamespace]) }],
    validations: [
      {
        expression:
          "request.operation == 'UPDATE' && has(oldObject.spec.claimRef) &&\n" +
          "oldObject.spec.claimRef.namespace in variables.namespaces &&\n" +
          "object.spec.persistentVolumeReclaimPolicy == 'Retain'",
        message: "Sluice sets the reclaim policy of volumes of the namespace that it serves, and to Retain alone",
      },
    ],
  },
  {
    name: "objects",
    covers: hasNamespace,
    operations: (needs) => [...(needs.some(({ verbs }) => verbs.includes("create")) ? ["CREATE"] : []), "UPDATE"],
    variables: [{ name: skipLabelKeys, expression: listIn(usualSkipLabelKeys) }],
  },
  {
    name: "leases",
    covers: isLease,
    isDeleted: true,
    validations: [ledgersAlone],
  },
];

/**
 * The policies for these accounts. Throws Error for a right to change objects that names no path.
 *
 * @param prefix what the names of policies begin with that stand beside those of the standard installation
 */
export function fenceOf(workloads: readonly Workload[], prefix = ""): readonly Manifest[] {
  const written = workloads.flatMap(({ name, needs }) => needs.filter((need) => isWritten(name, need)));
  return parts.flatMap((part) => {
    const needs = written.filter((need) => part.covers(need));
    return needs.length === 0 ? [] : policyOfPart(part, workloads, needs, prefix);
  });
}

function isWritten(account: string, { verbs, resource, changes }: Need): boolean {
  const isWriting = verbs.some((verb) => writing.includes(verb)) && resource !== free;
  if (isWriting && changes === undefined)
    throw new Error(`${account} may write ${resource}, and does not say what of it: name the paths in \`changes\``);
  return isWriting;
}

function policyOfPart(
  part: Part,
  workloads: readonly Workload[],
  needs: readonly Need[],
  prefix: string,
): readonly Manifest[] {
  const { variables = [], moreVariables = [], validations = [] } = part;
  const accounts = workloads.map((workload) => workload.name);
  const table = tableOf(part, workloads);
  // Whatever matches is converted before the account is asked for: writes in all other namespaces are spared that. What is of no
  // namespace knows no such selector.
  const isAnywhere = part.name === "webhooks" || part.name === "volumes";
  const spec = {
    matchConstraints: { ...(isAnywhere ? {} : inServedNamespace), resourceRules: rulesOf(part, needs) },
    matchConditions: [{ name: "by-an-account-of-sluice", expression: isOurs(accounts) }],
    variables: [...variables, ...variablesOf(table), ...moreVariables],
    validations: [...validations, ...onlyListedChanges(table, part)],
  };
  return policyIn("fence", `${prefix}${part.name}`, spec, isAnywhere ? `fence-${part.name}` : "fence");
}

/** The validations that hold an account to its row of the table, whatever the objects are. */
export function onlyListedChanges(
  table: Table,
  { besides = [], variables = [], isDeleted }: Pick<Part, "besides" | "variables" | "isDeleted">,
): readonly Validation[] {
  const unlessDeleted = (expression: string) =>
    isDeleted ? `request.operation == 'DELETE' ||\n${expression}` : expression;
  return [
    {
      expression: unlessDeleted(onlyChanges(table, besides)),
      message: "a field is changed that this account may not change",
      messageExpression: mayChange("field"),
    },
    {
      expression: unlessDeleted(onlyOurLabels(variables)),
      message: "a label or an annotation is changed that this account may not change",
      messageExpression: mayChange("label or annotation"),
    },
    {
      expression: unlessDeleted(onlyOurFinalizers()),
      message: "owners or a finalizer are changed that this account may not change",
      messageExpression: mayChange("owner or finalizer"),
    },
  ];
}

/** The message of a refusal: the account, and everything that it may change. */
function mayChange(what: string): string {
  return (
    `'no other ${what} of ' + variables.resource + ' may be changed by ' + variables.account + ` +
    "' than [' + variables.changes.join(', ') + ']'"
  );
}

/** One rule for each API group: every version of its resources. */
function rulesOf({ operations = () => everyWrite }: Part, needs: readonly Need[]): readonly object[] {
  const byGroup = [...Map.groupBy(needs, (need) => need.group)].sort(([one], [other]) => (one < other ? -1 : 1));
  return byGroup.map(([apiGroup, ofGroup]) =>
    ruleFor(apiGroup, operations(ofGroup), [...new Set(ofGroup.map(({ resource }) => resource))].sort()),
  );
}

/** The name in the expressions: `statefulsets.apps/status`. */
function nameOf({ group: apiGroup, resource }: Need): string {
  const [plural = "", ...subresource] = resource.split("/");
  return [apiGroup === "" ? plural : `${plural}.${apiGroup}`, ...subresource].join("/");
}

/** The paths that each account may change, by the policy on objects of a namespace. */
export function objectChangesOf(workloads: readonly Workload[]): Table {
  return tableOf({ covers: hasNamespace }, workloads);
}

/** Accounts with nothing to change are left out, and may change nothing, whatever their Roles say. */
export function tableOf({ covers }: Pick<Part, "covers">, workloads: readonly Workload[]): Table {
  const rows = workloads.map(({ name, needs }): [string, Table[string]] => {
    const written = needs.filter((need) => covers(need) && isWritten(name, need));
    const byResource = Map.groupBy(written, nameOf);
    const changes = [...byResource].map(([resource, some]): [string, readonly string[]] => [
      resource,
      [...new Set(some.flatMap((need) => need.changes ?? []))].sort(),
    ]);
    return [name, Object.fromEntries(changes.sort())];
  });
  return Object.fromEntries(rows.filter(([, changes]) => Object.keys(changes).length > 0));
}
