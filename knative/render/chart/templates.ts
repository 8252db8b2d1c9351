/** The templates that come from the same definitions as the manifests. The others are written by hand beside them. */
import type { AdmissionDefinition } from "../../../functions/shared/admission/definition.ts";
import { usualSkipLabelKeys } from "../../../functions/shared/annotations/skip-labels.ts";
import { servedNamespaces, skipLabelKeys, type Variable } from "../fence/expressions.ts";
import { fenceOf, objectChangesOf } from "../fence/fence.ts";
import { guardOf } from "../fence/guard.ts";
import { inNamespaces } from "../fence/policy.ts";
import { placeholderKinds } from "../kinds.ts";
import { type Manifest, placeholderNamespace, type Workload } from "../object.ts";
import { emptySecret, webhookConfiguration } from "../webhooks.ts";
import { deployment, serviceForReviews } from "../workloads.ts";
import { valueNameOf } from "./choice.ts";
import { fileOf, forEachServed, type Lines, lines, optional, servedToken, templateOf } from "./template.ts";

interface PodSpec {
  readonly affinity: object;
  readonly containers: readonly (Readonly<Record<string, unknown>> & { readonly resources: object })[];
  readonly [field: string]: unknown;
}

interface DeploymentSpec {
  readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
  readonly template: { readonly metadata: { readonly labels: object }; readonly spec: PodSpec };
  readonly [field: string]: unknown;
}

const account = "sluice";
/** The template writes its own: FUNCTION first, then the user's settings. */
const [workload, disruptionBudget] = deployment(account, {}) as unknown as readonly [
  Manifest & { readonly spec: DeploymentSpec },
  Manifest,
];
const { spec } = workload;
const [container] = spec.template.spec.containers;
if (container === undefined) throw new Error("the Deployment of the manifests has no container");

/** What a replica asks for unless the user says otherwise. */
export const usualResources = container.resources;
/** Where replicas run unless the user says otherwise. */
export const usualAffinity = spec.template.spec.affinity;

/** The files below `templates` that are rendered, by their names. */
export function templatesOf(
  admissionFunctions: readonly AdmissionDefinition[],
  workloads: readonly Workload[],
): ReadonlyMap<string, string> {
  const policies = [...fenceOf(workloads), ...guardOf(workloads)];
  return new Map([
    ["deployment.yaml", fileOf([deploymentTemplate()])],
    ["disruption-budget.yaml", fileOf([templateOf(disruptionBudget)], "gt (int .Values.replicas) 1")],
    ["service.yaml", fileOf([templateOf(serviceForReviews())])],
    ["certificate.yaml", fileOf([templateOf(emptySecret())])],
    ["policies.yaml", fileOf(policies.map(policyTemplate))],
    ...admissionFunctions.map((definition): [string, string] => [
      `webhook-${definition.registration.webhook}.yaml`,
      webhookTemplate(definition),
    ]),
  ]);
}

function deploymentTemplate(): string {
  const { containers: _containers, affinity: _affinity, ...pod } = spec.template.spec;
  const { env, resources: _resources, image: _image, ...process } = container as Record<string, unknown>;
  const own = {
    name: account,
    image: '{{ include "sluice.image" . }}',
    ...lines("pull-policy"),
    ...lines("arguments"),
  };
  const metadata = { ...lines("pod-annotations"), labels: lines("pod-labels") };
  const template = {
    metadata,
    spec: {
      ...pod,
      ...lines("scheduling"),
      containers: [{ ...own, env: [...(env as object[]), lines("settings")], ...lines("resources"), ...process }],
    },
  };
  const manifest = { ...workload, spec: { ...spec, replicas: '{{ include "sluice.replicas" . }}', template } };
  return templateOf(manifest, { own: { ...linesOfPod(), ...linesOfContainer() } });
}

function linesOfPod(): Lines {
  return {
    "pod-annotations": optional("annotations", ".Values.podAnnotations"),
    "pod-labels": ['{{- include "sluice.podLabels" . | nindent COLUMN }}'],
    scheduling: [
      ...optional("imagePullSecrets", ".Values.imagePullSecrets"),
      ...["{{- with .Values.priorityClassName }}", "priorityClassName: {{ . }}", "{{- end }}"],
      ...["nodeSelector", "affinity", "tolerations", "topologySpreadConstraints"].flatMap((field) =>
        optional(field, `.Values.${field}`),
      ),
    ],
  };
}

function linesOfContainer(): Lines {
  return {
    "pull-policy": ["{{- with .Values.image.pullPolicy }}", "imagePullPolicy: {{ . }}", "{{- end }}"],
    arguments: optional("args", ".Values.extraArgs"),
    settings: ['{{- include "sluice.environment" . | nindent COLUMN }}'],
    resources: optional("resources", ".Values.resources"),
  };
}

/** One for each served namespace, if its function is chosen, with the failure policy that the user gives it. */
function webhookTemplate(definition: AdmissionDefinition): string {
  const manifest = webhookConfiguration(definition, servedToken) as Manifest & { readonly webhooks: readonly object[] };
  const policy = `{{ include "sluice.failurePolicy" (list . "${valueNameOf(definition)}") }}`;
  const webhooks = manifest.webhooks.map((webhook) => ({ ...webhook, failurePolicy: policy }));
  const isChosen = `and .Values.webhooks.enabled (has "${definition.name}" (include "sluice.functions" . | fromJsonArray))`;
  return fileOf([forEachServed(templateOf({ ...manifest, webhooks }, { isOfCluster: true }))], isChosen);
}

interface PolicyManifest extends Manifest {
  readonly spec: {
    readonly matchConstraints: { readonly resourceRules: readonly ResourceRule[]; readonly namespaceSelector?: object };
    readonly variables?: readonly Variable[];
  };
}

interface ResourceRule {
  readonly apiGroups: readonly string[];
}

/** What policies say of the kinds that users list, as data for the templates: {@link placeholderKinds} stand for these. */
export function policyData(workloads: readonly Workload[]): object {
  const policies = [...fenceOf(workloads), ...guardOf(workloads)].filter(isAboutKinds);
  const rules = policies.map((policy) => [keyOf(policy), policy.spec.matchConstraints.resourceRules]);
  const changes = Object.entries(objectChangesOf(workloads)).map(([account, own]) => ({ account, changes: own }));
  return { changes, resourceRules: Object.fromEntries(rules) };
}

const groupOfKinds = placeholderKinds.mirrored[0]?.group ?? "";

function isPolicy(manifest: Manifest): manifest is PolicyManifest {
  return manifest.kind === "ValidatingAdmissionPolicy";
}

function isAboutKinds(manifest: Manifest): manifest is PolicyManifest {
  if (!isPolicy(manifest)) return false;
  return manifest.spec.matchConstraints.resourceRules.some(({ apiGroups }) => apiGroups.includes(groupOfKinds));
}

/** The name of a policy without the namespace. */
function keyOf({ metadata: { name } }: Manifest): string {
  return name.replace(/\..*$/, "");
}

/** A policy, its binding, or the role for what the guard asks of people. */
function policyTemplate(manifest: Manifest): string {
  const { kind, metadata } = manifest;
  if (isPolicy(manifest)) return templateOfPolicy(manifest);
  // A role that is the same for all namespaces would be of several releases.
  const name = kind === "ClusterRole" ? `${metadata.name}:${placeholderNamespace}` : metadata.name;
  return templateOf({ ...manifest, metadata: { ...metadata, name } }, { isOfCluster: true });
}

/** A policy that matches the namespaces and the kinds that users list. */
function templateOfPolicy(manifest: PolicyManifest): string {
  const { matchConstraints, variables } = manifest.spec;
  const { resourceRules, namespaceSelector } = matchConstraints;
  const changed = {
    ...(namespaceSelector && inNamespaces([lines("namespaces")])),
    ...(isAboutKinds(manifest) ? lines("resource-rules") : { resourceRules }),
  };
  // The fence is also about what an account writes in its own namespace.
  const places = keyOf(manifest).startsWith("sluice-fence-") ? "writtenNamespaces" : "namespaces";
  const own = {
    namespaces: [`{{- include "sluice.${places}" . | fromJsonArray | toYaml | nindent COLUMN }}`],
    "resource-rules": [
      "resourceRules:",
      `  {{- include "sluice.resourceRules" (list . "${keyOf(manifest)}") | nindent COLUMN }}`,
    ],
  };
  const ours = variables?.map((variable) => ({ ...variable, expression: expressionOf(manifest, variable) }));
  const spec = { ...manifest.spec, matchConstraints: changed, ...(ours && { variables: ours }) };
  return templateOf({ ...manifest, spec }, { isOfCluster: true, own });
}

/** No policy names a label that a user has not allowed: where the manifests list the usual ones, the setting counts. */
function expressionOf(manifest: PolicyManifest, { name, expression }: Variable): string {
  if (name === skipLabelKeys) return quoted(`include "sluice.skipLabelKeys" (list . "${usualSkipLabelKeys.join()}")`);
  if (name === servedNamespaces) return quoted('include "sluice.namespaceList" .');
  return name === "table" && isAboutKinds(manifest) ? quoted('include "sluice.changes" .') : expression;
}

function quoted(action: string): string {
  return `{{ ${action} | quote }}`;
}
