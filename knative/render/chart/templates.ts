/** The templates that come from the same definitions as the manifests. The others are written by hand beside them. */
import type { AdmissionDefinition } from "../../../functions/shared/admission/definition.ts";
import { usualSkipLabelKeys } from "../../../functions/shared/annotations/skip-labels.ts";
import { noMoreFinalizers, servedNamespaces, skipLabelKeys, type Variable } from "../fence/expressions.ts";
import { fenceOf, objectChangesOf } from "../fence/fence.ts";
import { guardOf } from "../fence/guard.ts";
import { inNamespaces } from "../fence/policy.ts";
import { placeholderKinds } from "../kinds.ts";
import { labelsOf, type Manifest, placeholderNamespace, type Workload } from "../object.ts";
import { emptySecret, webhookConfiguration } from "../webhooks.ts";
import { deployment, serviceForReviews } from "../workloads.ts";
import { valueNameOf } from "./choice.ts";
import { fileOf, forEachServed, type Lines, lines, optional, servedToken, templateOf } from "./template.ts";

interface PodContainer {
  readonly resources: object;
  readonly env: readonly object[];
  readonly securityContext: object;
  readonly [field: string]: unknown;
}

interface PodSpec {
  readonly affinity: object;
  readonly containers: readonly PodContainer[];
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
const container = soleContainer(spec.template.spec);

/** The default resource requests of a replica. */
export const usualResources = container.resources;
/** The default placement of replicas. */
export const usualAffinity = spec.template.spec.affinity;

function soleContainer({ containers }: PodSpec): PodContainer {
  const [first] = containers;
  if (first === undefined) throw new Error("the Deployment of the manifests has no container");
  return first;
}

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
    ["uninstall.yaml", uninstallTemplate()],
    ...admissionFunctions.map((definition): [string, string] => [
      `webhook-${definition.registration.webhook}.yaml`,
      webhookTemplate(definition),
    ]),
  ]);
}

function deploymentTemplate(): string {
  const { containers: _containers, affinity: _affinity, ...pod } = spec.template.spec;
  const { env: _env, resources: _resources, image: _image, ...process } = container;
  const containers = [{ ...containerFields(), ...process }];
  const template = { metadata: podMetadata(), spec: { ...pod, ...lines("scheduling"), containers } };
  const manifest = { ...workload, spec: { ...spec, replicas: '{{ include "sluice.replicas" . }}', template } };
  const args = optional("args", ".Values.extraArgs");
  return templateOf(manifest, { own: { ...linesOfPod("admission"), ...linesOfContainer(args) } });
}

/** The name of the process that checks, before an uninstall, what that would leave behind. Its pod answers no reviews. */
const checkComponent = "uninstall";
/** Longer than the check itself waits, and shorter than Helm waits for a hook unless the user says otherwise, in seconds. */
const checkDeadlineSeconds = 240;
const aDaySeconds = 86_400;

/** A hook of Helm that only runs before an uninstall, which goes on only if it ends with 0. */
function uninstallTemplate(): string {
  const { serviceAccountName, enableServiceLinks, securityContext } = spec.template.spec;
  const containers = [
    {
      ...containerFields(),
      securityContext: container.securityContext,
      // So that `kubectl describe` also shows the result.
      terminationMessagePolicy: "FallbackToLogsOnError",
    },
  ];
  const pod = { serviceAccountName, restartPolicy: "Never", enableServiceLinks, securityContext };
  const found = { containerName: account, operator: "In", values: [1, 2] };
  const job = {
    activeDeadlineSeconds: checkDeadlineSeconds,
    backoffLimit: 2,
    // A second run would find the same. A pod that is lost with its node says nothing.
    podFailurePolicy: {
      rules: [
        { action: "FailJob", onExitCodes: found },
        { action: "Ignore", onPodConditions: [{ type: "DisruptionTarget", status: "True" }] },
      ],
    },
    ttlSecondsAfterFinished: aDaySeconds,
    template: { metadata: podMetadata(), spec: { ...pod, ...lines("scheduling"), containers } },
  };
  const annotations = {
    "helm.sh/hook": "pre-delete",
    "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
    "helm.sh/hook-output-log-policy": "hook-failed",
  };
  const metadata = { name: "sluice-check-uninstall", annotations, labels: labelsOf(checkComponent) };
  const manifest = { apiVersion: "batch/v1", kind: "Job", metadata, spec: job };
  const args = ["args:", "  - --check-uninstall", ...listed(".Values.extraArgs")];
  const template = templateOf(manifest, { own: { ...linesOfPod(checkComponent), ...linesOfContainer(args) } });
  return fileOf([template], 'include "sluice.finalizerSettings" . | fromJsonArray');
}

/** The common settings of both, so that neither accepts one that the other refuses. */
function containerFields(): object {
  return {
    name: account,
    image: '{{ include "sluice.image" . }}',
    ...lines("pull-policy"),
    ...lines("arguments"),
    env: [...container.env, lines("settings")],
    ...lines("resources"),
  };
}

function podMetadata(): object {
  return { ...lines("pod-annotations"), labels: lines("pod-labels") };
}

/** More items of a list, if the user sets that value. */
function listed(value: string): readonly string[] {
  return [`{{- with ${value} }}`, "  {{- toYaml . | nindent COLUMN }}", "{{- end }}"];
}

function linesOfPod(component: string): Lines {
  return {
    "pod-annotations": optional("annotations", ".Values.podAnnotations"),
    "pod-labels": [`{{- include "sluice.podLabels" (list . "${component}") | nindent COLUMN }}`],
    scheduling: [
      ...optional("imagePullSecrets", ".Values.imagePullSecrets"),
      ...["{{- with .Values.priorityClassName }}", "priorityClassName: {{ . }}", "{{- end }}"],
      ...["nodeSelector", "affinity", "tolerations", "topologySpreadConstraints"].flatMap((field) =>
        optional(field, `.Values.${field}`),
      ),
    ],
  };
}

function linesOfContainer(args: readonly string[]): Lines {
  return {
    "pull-policy": ["{{- with .Values.image.pullPolicy }}", "imagePullPolicy: {{ . }}", "{{- end }}"],
    arguments: args,
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
    readonly validations: readonly object[];
  };
}

interface ResourceRule {
  readonly apiGroups: readonly string[];
}

/**
 * The parts of policies about the kinds that users list, as data for the templates: {@link placeholderKinds} mark their places.
 */
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

/** A policy, its binding, or the role for rights that the guard requires of people. */
function policyTemplate(manifest: Manifest): string {
  const { kind, metadata } = manifest;
  if (isPolicy(manifest)) return templateOfPolicy(manifest);
  // A role that is the same for all namespaces would belong to several releases.
  const name = kind === "ClusterRole" ? `${metadata.name}:${placeholderNamespace}` : metadata.name;
  return templateOf({ ...manifest, metadata: { ...metadata, name } }, { isOfCluster: true });
}

/** A policy that matches the namespaces and the kinds that users list. */
function templateOfPolicy(manifest: PolicyManifest): string {
  const { matchConstraints, variables, validations } = manifest.spec;
  const { resourceRules, namespaceSelector } = matchConstraints;
  const changed = {
    ...(namespaceSelector && inNamespaces([lines("namespaces")])),
    ...(isAboutKinds(manifest) ? lines("resource-rules") : { resourceRules }),
  };
  // The fence also limits an account's writes in its own namespace.
  const places = keyOf(manifest).startsWith("sluice-fence-") ? "writtenNamespaces" : "namespaces";
  const own = {
    namespaces: [`{{- include "sluice.${places}" . | fromJsonArray | toYaml | nindent COLUMN }}`],
    "resource-rules": [
      "resourceRules:",
      `  {{- include "sluice.resourceRules" (list . "${keyOf(manifest)}") | nindent COLUMN }}`,
    ],
    leaving: leavingLines,
  };
  const isAboutObjects = keyOf(manifest) === "sluice-fence-objects";
  const ours = variables?.map((variable) => ({ ...variable, expression: expressionOf(manifest, variable) }));
  const all = { validations: [...validations, ...(isAboutObjects ? [lines("leaving")] : [])] };
  const spec = { ...manifest.spec, matchConstraints: changed, ...(ours && { variables: ours }), ...all };
  return templateOf({ ...manifest, spec }, { isOfCluster: true, own });
}

/**
 * A replica that does not know yet that Sluice leaves must not add a finalizer after the check has found none: no process would
 * take that off.
 */
const leavingLines = [
  "{{- if .Values.uninstall.prepare }}",
  `- expression: ${noMoreFinalizers()}`,
  "  message: uninstall.prepare is true, so that Sluice adds no finalizer",
  "{{- end }}",
];

/** No policy names a label that a user has not allowed: where the manifests list the usual ones, the setting counts. */
function expressionOf(manifest: PolicyManifest, { name, expression }: Variable): string {
  if (name === skipLabelKeys) return quoted(`include "sluice.skipLabelKeys" (list . "${usualSkipLabelKeys.join()}")`);
  if (name === servedNamespaces) return quoted('include "sluice.namespaceList" .');
  return name === "table" && isAboutKinds(manifest) ? quoted('include "sluice.changes" .') : expression;
}

function quoted(action: string): string {
  return `{{ ${action} | quote }}`;
}
