/** Every manifest, from the table of functions and their definitions alone: `npm run render` writes what this says. */
import { dump } from "js-yaml";
import type { AdmissionDefinition } from "../../functions/shared/admission/definition.ts";
import {
  type CronDefinition,
  type FunctionDefinition,
  isStandard,
  type Need,
  type StatusDefinition,
} from "../../functions/shared/contract/definition.ts";
import { type Companion, configMapOf } from "./companions.ts";
import { dashboard } from "./dashboard.ts";
import { broker, operatorsOf, sourcesBroughtBy, sourcesOf, triggerOf, watchNeed } from "./events.ts";
import { fenceOf } from "./fence/fence.ts";
import { guardOf } from "./fence/guard.ts";
import { fencingFolders } from "./fencing/fencing.ts";
import { type ListedKinds, needsOfKinds } from "./kinds.ts";
import { prometheusRule, serviceMonitor } from "./monitoring.ts";
import {
  agentImage,
  image,
  labelsOf,
  type Manifest,
  placeholderAgentHint,
  placeholderHint,
  placeholderNamespace,
  ports,
  reviewService,
  type Workload,
} from "./object.ts";
import { operatorAccountOf } from "./operator-account.ts";
import { actsOutside, outsideOf } from "./outside.ts";
import { restartFolders } from "./restart.ts";
import { pluginNeeds, rightsOf, tlsPortNeeds, union } from "./rights.ts";
import { functionOf } from "./triggered.ts";
import { emptySecret, webhookConfiguration } from "./webhooks.ts";
import { deployment, serviceForReviews } from "./workloads.ts";

export interface Functions {
  readonly groupFunctions: readonly FunctionDefinition[];
  readonly admissionFunctions: readonly AdmissionDefinition[];
  readonly cronFunctions: readonly CronDefinition[];
  /** Absent: none. They run in the processes that stay, and in no Knative Service. */
  readonly statusFunctions?: readonly StatusDefinition[];
  /** The kinds that users may name; absent: none. */
  readonly kinds?: ListedKinds;
  /** What runs in pods of users; absent: nothing. */
  readonly companions?: readonly Companion[];
}

const header = "# Written by `npm run render`. Change the code that it comes from.\n";
const standalone = "sluice";
const admission = "sluice-admission";

/**
 * The files below `knative/base`, by their paths there, each a folder that kustomize can build. No object has a namespace: an
 * overlay gives it one. Throws Error for an admission function that is registered for a path where it does not listen.
 */
export function renderManifests(functions: Functions): ReadonlyMap<string, string> {
  const granted = installedFunctions(functions);
  const { admissionFunctions, cronFunctions, statusFunctions = [] } = granted;
  // In a namespace that is being deleted no process starts any more: a function that acts there runs outside of it, or in a
  // process that stays.
  const groupFunctions = granted.groupFunctions.filter((definition) => !actsOutside(definition));
  const triggered = [...groupFunctions, ...cronFunctions];
  const files = new Map<string, string>();
  const folder = (name: string, contents: Readonly<Record<string, readonly Manifest[]>>) => {
    for (const [file, manifests] of Object.entries(contents)) files.set(`${name}/${file}.yaml`, yaml(manifests));
    files.set(`${name}/kustomization.yaml`, kustomization(Object.keys(contents)));
  };
  folder("functions", Object.fromEntries(triggered.map((definition) => [definition.name, functionOf(definition)])));
  folder("sources", Object.fromEntries(triggered.map((definition) => [definition.name, sourcesOf(definition)])));
  for (const operator of new Set(triggered.flatMap(operatorsOf))) {
    const sources = triggered.map((definition) => [definition.name, sourcesBroughtBy(operator, definition)] as const);
    folder(`sources-${operator}`, Object.fromEntries(sources.filter(([, manifests]) => manifests.length > 0)));
  }
  folder("triggers", { broker: [brokerObject()], triggers: triggered.map(triggerOf) });
  folder("webhooks", {
    webhooks: admissionFunctions.map((definition) => webhookConfiguration(definition)),
    service: [serviceForReviews()],
    certificate: [emptySecret()],
  });
  folder("fence", { fence: fenceOf(workloadsOf(granted)), guard: guardOf(workloadsOf(granted)) });
  folder("admission", { admission: admissionOf([...admissionFunctions, ...statusFunctions]) });
  folder("standalone", { standalone: standaloneOf(granted) });
  folder("outside", { outside: outsideOf(granted.groupFunctions) });
  for (const [name, contents] of Object.entries(fencingFolders(functions.groupFunctions, functions.kinds)))
    folder(name, contents);
  for (const [name, contents] of Object.entries(restartFolders(functions.groupFunctions))) folder(name, contents);
  folder("operator-account", {
    "operator-account": operatorAccountOf(groupFunctions, [
      ...admissionFunctions,
      ...cronFunctions,
      ...statusFunctions,
    ]),
  });
  for (const companion of functions.companions ?? [])
    folder(companion.name, { [companion.name]: [configMapOf(companion)] });
  folder("monitoring", { alerts: [prometheusRule()], dashboard: [dashboard()], scraping: [serviceMonitor()] });
  return files;
}

/** Every writing account of a served namespace, with all needs of its functions. */
export function workloadsOf(functions: Functions): readonly Workload[] {
  const { groupFunctions, admissionFunctions, cronFunctions, statusFunctions = [] } = functions;
  const needsOf = (definitions: readonly { readonly needs: readonly Need[] }[]) =>
    definitions.flatMap((definition) => definition.needs);
  const triggered = [...groupFunctions.filter((definition) => !actsOutside(definition)), ...cronFunctions];
  return [
    ...triggered.map(({ name, needs }) => ({ name, needs })),
    { name: admission, needs: needsOf([...admissionFunctions, ...statusFunctions]) },
    { name: standalone, needs: needsOf(allOf(functions)) },
  ];
}

/** The functions of a standard installation, each with the rights that it needs to the kinds that users may name. */
export function installedFunctions(functions: Functions): Functions {
  const { groupFunctions, admissionFunctions, cronFunctions, statusFunctions = [], kinds } = functions;
  const grant = <D extends AnyDefinition>(definition: D): D => ({
    ...definition,
    needs: [...definition.needs, ...(kinds === undefined ? [] : needsOfKinds(definition.kindNeeds ?? [], kinds))],
  });
  return {
    groupFunctions: groupFunctions.filter(isStandard).map(grant),
    admissionFunctions: admissionFunctions.filter(isStandard).map(grant),
    cronFunctions: cronFunctions.filter(isStandard).map(grant),
    statusFunctions: statusFunctions.filter(isStandard).map(grant),
  };
}

type AnyDefinition = FunctionDefinition | AdmissionDefinition | CronDefinition | StatusDefinition;

/** All of them, in the order of the table. */
export function allOf(functions: Functions): readonly AnyDefinition[] {
  const { groupFunctions, admissionFunctions, cronFunctions, statusFunctions = [] } = functions;
  return [...groupFunctions, ...admissionFunctions, ...cronFunctions, ...statusFunctions];
}

/** Clients inside the pod alone reach it, such as `kubectl port-forward`. */
export const statusSettings = { STATUS_LISTEN: `127.0.0.1:${ports.status}` };

function admissionOf(definitions: readonly (AdmissionDefinition | StatusDefinition)[]): readonly Manifest[] {
  const needs = union([...definitions.flatMap((definition) => definition.needs), ...tlsPortNeeds]);
  const settings = { FUNCTION: definitions.map(({ name }) => name).join(","), ...statusSettings };
  return [...rightsOf({ name: admission, needs }), ...deployment(admission, settings)];
}

function standaloneOf(functions: Functions): readonly Manifest[] {
  const { groupFunctions } = functions;
  // The process itself watches what triggers a function, and not a source's account.
  const watches = groupFunctions.flatMap(({ watches }) => watches.map(watchNeed));
  const needs = union([
    ...allOf(functions).flatMap((definition) => definition.needs),
    ...watches,
    ...tlsPortNeeds,
    ...pluginNeeds,
  ]);
  return [...rightsOf({ name: standalone, needs }), ...deployment(standalone, { FUNCTION: "all", ...statusSettings })];
}

/**
 * Retries for a minute, which is longer than a function takes to start. What is lost all the same, the next tick finds:
 * a dead letter need not be kept. The replicas that answer reviews are there to count it.
 */
function brokerObject(): Manifest {
  const deadLetterSink = { uri: `http://${reviewService}.${placeholderNamespace}.svc:${ports.plain}/events` };
  const delivery = { retry: 6, backoffPolicy: "exponential", backoffDelay: "PT0.5S", timeout: "PT30S", deadLetterSink };
  return {
    apiVersion: "eventing.knative.dev/v1",
    kind: "Broker",
    metadata: { name: broker, labels: labelsOf("broker") },
    spec: { delivery },
  };
}

function kustomization(files: readonly string[]): string {
  const resources = files.map((file) => `${file}.yaml`);
  return header + dump({ apiVersion: "kustomize.config.k8s.io/v1beta1", kind: "Kustomization", resources });
}

function yaml(manifests: readonly Manifest[]): string {
  const text = manifests.map((one) => dump(one, { noRefs: true, lineWidth: 120 })).join("---\n");
  const hints = [
    ...(text.includes(image) ? [placeholderHint] : []),
    ...(text.includes(agentImage) ? [placeholderAgentHint] : []),
  ];
  return header + hints.map((hint) => `# ${hint}.\n`).join("") + text;
}
