/** Admission policies of the fence and of the guard. */
import { webhookNamespace } from "../../../functions/shared/annotations/table.ts";
import { labelsOf, type Manifest, placeholderNamespace } from "../object.ts";

export interface Validation {
  readonly expression: string;
  readonly message: string;
  readonly messageExpression?: string;
}

/** Matches writes in these namespaces, and in no other. */
export function inNamespaces(values: readonly unknown[]) {
  const matchExpressions = [{ key: "kubernetes.io/metadata.name", operator: "In", values }];
  return { namespaceSelector: { matchExpressions } };
}

/** Matches writes in the namespace that is served, and in no other. */
export const inServedNamespace = inNamespaces([placeholderNamespace]);

/** Matches such writes of these resources, in every version of their API group. */
export function ruleFor(group: string, operations: readonly string[], resources: readonly string[]): object {
  return { apiGroups: [group], apiVersions: ["*"], operations, resources };
}

/**
 * A policy of the namespace that is served. By its component the folder `knative/namespace` knows what to write the namespace
 * into: the kustomize of kubectl 1.30 selects by labels, and by no pattern of names.
 */
export function policyIn(
  kind: "fence" | "guard",
  about: string,
  spec: object,
  component: string = kind,
): readonly Manifest[] {
  const name = `sluice-${kind}-${about}.${placeholderNamespace}`;
  return policyOf({ name, labels: { ...labelsOf(component), [webhookNamespace.key]: placeholderNamespace } }, spec);
}

/** A policy, with the binding by which the API server denies writes that it finds invalid, or cannot evaluate. */
export function policyOf(metadata: Manifest["metadata"], spec: object): readonly Manifest[] {
  const apiVersion = "admissionregistration.k8s.io/v1";
  const binding = { policyName: metadata.name, validationActions: ["Deny"] };
  return [
    { apiVersion, kind: "ValidatingAdmissionPolicy", metadata, spec: { failurePolicy: "Fail", ...spec } },
    { apiVersion, kind: "ValidatingAdmissionPolicyBinding", metadata, spec: binding },
  ];
}
