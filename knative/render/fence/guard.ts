/**
 * The guard policies: admission policies on the words by which other accounts have Sluice act. An account that lacks the right to
 * do a thing itself may not have Sluice do it. The API server asks its own authorizer, and no webhook.
 */

import type { Annotation } from "../../../functions/shared/annotations/entry.ts";
import { ourDomain, ours, pathsOf } from "../../../functions/shared/annotations/paths.ts";
import { skipDeadline, skipLabel, stopAll } from "../../../functions/shared/annotations/skip-labels.ts";
import {
  hold,
  recover,
  retainVolume,
  volumeHold,
  volumeProtection,
} from "../../../functions/shared/annotations/suspension.ts";
import { annotationTable, ledgerGroup, managedBy } from "../../../functions/shared/annotations/table.ts";
import type { Need } from "../../../functions/shared/contract/definition.ts";
import { resources } from "../../../functions/shared/kubernetes/cluster.ts";
import { ledgerPrefix } from "../../../functions/shared/ledger/lease-name.ts";
import { labelsOf, type Manifest, type Workload } from "../object.ts";
import { isOurs, listIn, literal, type Variable, wordless } from "./expressions.ts";
import { inServedNamespace, policyIn, ruleFor, type Validation } from "./policy.ts";

/** No object is of this resource: a right to it means that an account may correct annotations that only Sluice writes. */
export const repairNeed: Need = { group: ourDomain, resource: "words", verbs: ["repair"] };
/** Likewise: an account may make, change and delete ledgers. */
export const editNeed: Need = { group: ourDomain, resource: "ledgers", verbs: ["edit"] };

/**
 * The words of a volume claim of which "true" needs no right but that to write the claim: it keeps a volume, or brings it back.
 * To take it away again may have the volume deleted, and needs what a deletion needs.
 */
const savingAnnotations: readonly Annotation<unknown>[] = [hold, recover, retainVolume];
/** The annotations of an owner that make Sluice change labels of its pods. */
const labellingAnnotations: readonly Annotation<unknown>[] = [skipLabel, stopAll, skipDeadline];
const finalizers = [volumeHold, volumeProtection];

const entries: readonly Annotation<unknown>[] = annotationTable;
/** The keys that only Sluice writes on such objects. */
function writtenByUs(on: Annotation<unknown>["on"], kind: Annotation<unknown>["kind"]): readonly string[] {
  return entries.filter((one) => one.isWrittenByUs && one.on === on && one.kind === kind).map(({ key }) => key);
}

/**
 * The annotations of ours that a volume claim may have: those of its StatefulSet, too. A loop over the annotations of the object
 * would take the API server 20 s where an account has written 50,000 of them: the policy asks for each of these by its key.
 */
function pvcAnnotationKeys(): readonly string[] {
  const isOnClaims = ({ on }: Annotation<unknown>) => on === "PersistentVolumeClaim" || on === "StatefulSet";
  const annotations = entries.filter((one) => one.kind === "annotation" && isOnClaims(one) && one.key.startsWith(ours));
  return annotations.map(({ key }) => key);
}

/** One policy. Its conditions say which writes it validates, so that all others cost no evaluation. */
interface Policy {
  readonly name: string;
  readonly rules: readonly { readonly group: string; readonly resources: readonly string[] }[];
  readonly operations: readonly string[];
  readonly conditions: readonly { readonly name: string; readonly expression: string }[];
  readonly variables?: readonly Variable[];
  readonly validations: readonly Validation[];
}

/** In CEL: a field of metadata after a write, and before it. */
type Pair = readonly [after: string, before: string];

/** A condition may use no variable, so it spells the expressions that the validations have as variables. */
function spelled(field: keyof typeof wordless): Pair {
  const of = (when: string) =>
    `(${when} != null && has(${when}.metadata.${field}) ? ${when}.metadata.${field} : ${wordless[field]})`;
  return [of("object"), of("oldObject")];
}

/** The same by variables, and their definitions. */
const named = (field: keyof typeof wordless): Pair => [`variables.${field}After`, `variables.${field}Before`];
function variablesFor(...fields: readonly (keyof typeof wordless)[]): readonly Variable[] {
  return fields.flatMap((field) => {
    const [after, before] = spelled(field);
    return [
      { name: `${field}After`, expression: after },
      { name: `${field}Before`, expression: before },
    ];
  });
}

/** True if the key k has another value in one map than in the other one. */
function differs([after, before]: Pair): string {
  return `(k in ${after} ? !(k in ${before} && ${before}[k] == ${after}[k]) : k in ${before})`;
}

/** True if the text k is in one list and not in the other one. */
function isMoved([after, before]: Pair): string {
  return `(k in ${after}) != (k in ${before})`;
}

/** True if the writing account has the right; `name` is an expression. */
function mayDo(group: string, resource: string, verb: string, name?: string): string {
  const named = name === undefined ? "" : `.name(${name})`;
  const asked = `authorizer.group(${literal(group)}).resource(${literal(resource)}).namespace(request.namespace)`;
  return `${asked}${named}.check(${literal(verb)}).allowed()`;
}

/** True if the account has this right of the guard's own. */
function mayBy({ group, resource, verbs }: Need): string {
  return verbs.map((verb) => mayDo(group, resource, verb)).join(" && ");
}

/** Controllers of Kubernetes that delete what has no owner or no namespace any more. */
const collectors = ["generic-garbage-collector", "namespace-controller"].map(controller);
function controller(name: string): string {
  return `system:serviceaccount:kube-system:${name}`;
}

const correcting = "only Sluice writes this; an account that corrects it needs the verb repair on words.sluice.dev";

/** True if the list in a variable is empty, or the account has the right. The refusal names the list's items. */
function unless(list: string, right: string, message: string): Validation {
  const listed = `variables.${list}`;
  return {
    expression: `size(${listed}) == 0 ||\n${right}`,
    message,
    messageExpression: `${listed}.join(', ') + ${literal(`: ${message}`)}`,
  };
}

/**
 * A claim that the StatefulSet controller makes of a template passes: a pod would wait for it without an end. RabbitMQ's operator
 * copies the annotations of its own object into the template. The author of a StatefulSet decides on its volumes anyway.
 */
function claimsPolicy(): Policy {
  const on = "PersistentVolumeClaim";
  const marks = writtenByUs(on, "label");
  const controllers = literal(controller("statefulset-controller"));
  return {
    name: "claims",
    // Annotations of a type of Kubernetes itself may also be changed by way of its status.
    rules: [{ group: "", resources: ["persistentvolumeclaims", "persistentvolumeclaims/status"] }],
    operations: ["CREATE", "UPDATE"],
    conditions: [
      {
        name: "not-of-a-template",
        expression: `!(request.operation == 'CREATE' && request.userInfo.username == ${controllers})`,
      },
      {
        name: "a-word-of-ours-differs",
        expression:
          `${listIn(marks)}.exists(k, ${differs(spelled("labels"))}) ||\n` +
          `${listIn(finalizers)}.exists(k, ${isMoved(spelled("finalizers"))}) ||\n` +
          `${listIn(pvcAnnotationKeys())}.exists(k, ${differs(spelled("annotations"))})`,
      },
    ],
    variables: [
      { name: "writtenByUs", expression: listIn(writtenByUs(on, "annotation")) },
      { name: "saving", expression: listIn(savingAnnotations.map(({ key }) => key)) },
      ...variablesFor("annotations", "labels", "finalizers"),
      { name: "changed", expression: `${listIn(pvcAnnotationKeys())}.filter(k, ${differs(named("annotations"))})` },
      {
        name: "ofOurs",
        expression:
          `variables.changed.filter(k, k in variables.writtenByUs) +\n` +
          `${listIn(marks)}.filter(k, ${differs(named("labels"))})`,
      },
      {
        name: "removing",
        expression:
          "variables.changed.filter(k, !(k in variables.writtenByUs || " +
          "k in variables.saving && k in variables.annotationsAfter && variables.annotationsAfter[k] == 'true'))",
      },
      { name: "keeping", expression: `${listIn(finalizers)}.filter(k, ${isMoved(named("finalizers"))})` },
      { name: "mayRepair", expression: mayBy(repairNeed) },
      { name: "mayDelete", expression: mayDo("", "persistentvolumeclaims", "delete", "object.metadata.name") },
    ],
    validations: [
      unless("ofOurs", "variables.mayRepair", correcting),
      unless(
        "removing",
        `variables.mayDelete && ${mayDo("", "pods", "delete")}`,
        "Sluice may delete pods and the volume claim by this; an account that writes it needs the verb delete on the claim and on pods",
      ),
      unless(
        "keeping",
        "variables.mayDelete || variables.mayRepair",
        "Sluice keeps a volume by this; an account that adds or removes it needs the verb delete on the volume claim",
      ),
    ],
  };
}

function ownersPolicy(rules: Policy["rules"]): Policy {
  const written = writtenByUs("Owner", "annotation");
  const labelling = labellingAnnotations.map(({ key }) => key);
  return {
    name: "owners",
    rules,
    operations: ["CREATE", "UPDATE"],
    conditions: [
      {
        name: "a-word-of-ours-differs",
        expression: `${listIn([...written, ...labelling])}.exists(k, ${differs(spelled("annotations"))})`,
      },
    ],
    variables: [
      ...variablesFor("annotations"),
      { name: "ofOurs", expression: `${listIn(written)}.filter(k, ${differs(named("annotations"))})` },
      { name: "labelling", expression: `${listIn(labelling)}.filter(k, ${differs(named("annotations"))})` },
    ],
    validations: [
      unless("ofOurs", mayBy(repairNeed), correcting),
      unless(
        "labelling",
        mayDo("", "pods", "patch"),
        "Sluice changes labels of pods by this; an account that writes it needs the verb patch on pods",
      ),
    ],
  };
}

/**
 * A Lease counts by its name alone, because a group whose name is taken by another Lease has no ledger, and waits. It also counts
 * by its label, by which functions list ledgers, and by its annotation. What it was before the write counts as well.
 */
function ledgersPolicy(): Policy {
  const has = (field: string, key: string) => `has(o.metadata.${field}) && ${literal(key)} in o.metadata.${field}`;
  const isLedger = [
    `o.metadata.name.startsWith(${literal(ledgerPrefix)})`,
    `${has("labels", managedBy.key)} && o.metadata.labels[${literal(managedBy.key)}] == 'sluice'`,
    has("annotations", ledgerGroup.key),
  ];
  return {
    name: "ledgers",
    rules: [{ group: "coordination.k8s.io", resources: ["leases"] }],
    operations: ["CREATE", "UPDATE", "DELETE"],
    conditions: [
      {
        name: "not-collected",
        expression: `!(request.operation == 'DELETE' && request.userInfo.username in ${listIn(collectors)})`,
      },
      { name: "of-a-ledger", expression: `[object, oldObject].exists(o, o != null && (${isLedger.join(" ||\n")}))` },
    ],
    validations: [
      {
        expression: mayBy(editNeed),
        message:
          "Sluice permits by its ledgers that pods go: an account that makes, changes or deletes one needs the verb edit on ledgers.sluice.dev",
      },
    ],
  };
}

/**
 * The kinds on which Sluice writes such annotations, by what functions say that they change. StatefulSets are none of them: an
 * account that may change one may run anything in its pods, and RabbitMQ's operator copies annotations of its own object to it.
 */
function ownersOf(workloads: readonly Workload[]): Policy["rules"] {
  const paths = new Set(pathsOf(...entries.filter(({ isWrittenByUs, on }) => isWrittenByUs && on === "Owner")));
  const needs = workloads
    .flatMap((workload) => workload.needs)
    .filter(
      ({ changes = [], group }) => group !== resources.statefulsets.group && changes.some((path) => paths.has(path)),
    );
  const byGroup = [...Map.groupBy(needs, ({ group }) => group)].sort(([one], [other]) => (one < other ? -1 : 1));
  return byGroup.map(([group, some]) => ({
    group,
    resources: [...new Set(some.map(({ resource }) => resource))].sort(),
  }));
}

/** The policies on the writes of accounts other than these, and the role that has the guard's own rights. */
export function guardOf(workloads: readonly Workload[]): readonly Manifest[] {
  const accounts = workloads.map(({ name }) => name);
  const owners = ownersOf(workloads);
  const policies = [claimsPolicy(), ...(owners.length === 0 ? [] : [ownersPolicy(owners)]), ledgersPolicy()];
  return [...policies.flatMap((policy) => manifestsOf(policy, accounts)), operatorRole()];
}

/** The name of an account has four parts: a user of another kind may have a name that only begins so. */
const isAccount = "size(request.userInfo.username.split(':')) == 4";

function manifestsOf(policy: Policy, accounts: readonly string[]): readonly Manifest[] {
  const resourceRules = policy.rules.map(({ group, resources }) => ruleFor(group, policy.operations, resources));
  return policyIn("guard", policy.name, {
    matchConstraints: { ...inServedNamespace, resourceRules },
    matchConditions: [
      { name: "by-another-account", expression: `!(${isOurs(accounts)} && ${isAccount})` },
      ...policy.conditions,
    ],
    ...(policy.variables && { variables: policy.variables }),
    validations: policy.validations.map((one) => ({ ...one, reason: "Forbidden" })),
  });
}

/** For people, and for what restores backups: one binding in a namespace gives both rights there. */
function operatorRole(): Manifest {
  const rules = [repairNeed, editNeed].map(({ group, resource, verbs }) => ({
    apiGroups: [group],
    resources: [resource],
    verbs,
  }));
  return {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRole",
    metadata: { name: "sluice-operator", labels: labelsOf("operator") },
    rules,
  };
}
