/** The values of the chart, and their schema. A value that rollout-operator's chart has as well has its name here. */
import { dump } from "js-yaml";
import type { AdmissionDefinition } from "../../../functions/shared/admission/definition.ts";
import type { Setting } from "../../../functions/shared/base/settings.ts";
import type { KindList } from "../../../functions/shared/contract/definition.ts";
import { listedKind } from "../kinds.ts";
import { placeholderImage } from "../object.ts";
import { valueNameOf } from "./choice.ts";
import { settingsSchema } from "./settings-schema.ts";
import { usualAffinity, usualResources } from "./templates.ts";

type Schema = Readonly<Record<string, unknown>>;

/** One value: its default, its meaning, and its schema. */
interface Value {
  readonly usual: unknown;
  readonly meaning: string;
  readonly schema: Schema;
  /** True where `null` is refused, because there is no meaning of nothing. */
  readonly isNeeded?: true;
}

type Values = Readonly<Record<string, Value>>;

const list = { type: ["array", "null"] };
const map = { type: ["object", "null"] };
const text = { type: ["string", "null"] };
const flag = { type: "boolean" };
const strings = { type: ["array", "null"], items: { type: "string" } };
const texts = { type: ["object", "null"], additionalProperties: { type: "string" } };
const namespaceNames = {
  type: ["array", "null"],
  uniqueItems: true,
  items: { type: "string", maxLength: 63, pattern: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" },
};
const kindNames = { type: ["array", "null"], items: { type: "string", pattern: listedKind.source } };
const policies = ["Fail", "Ignore"];

/** A value with keys of its own, and no others. */
function section(meaning: string, values: Values): Value {
  const usual = Object.fromEntries(Object.entries(values).map(([key, value]) => [key, value.usual]));
  return { usual, meaning, schema: objectSchema(values), isNeeded: true };
}

function objectSchema(values: Values): Schema {
  const entries = Object.entries(values);
  const required = entries.filter(([, { isNeeded }]) => isNeeded).map(([key]) => key);
  const properties = entries.map(([key, { meaning, schema }]) => [key, { description: meaning, ...schema }]);
  const own = { type: "object", additionalProperties: false, properties: Object.fromEntries(properties) };
  return required.length === 0 ? own : { ...own, required };
}

export interface ValueSources {
  readonly admissionFunctions: readonly AdmissionDefinition[];
  readonly settings: readonly Setting<unknown>[];
  readonly defaultPreset: string;
  /** What the lists of kinds have unless the user says otherwise. */
  readonly kinds: Readonly<Record<Exclude<KindList, "machines">, readonly string[]>>;
}

function valuesOf({ admissionFunctions, settings, defaultPreset, kinds }: ValueSources): Values {
  return {
    ...identity(defaultPreset),
    kinds: section("Kinds that annotations may name, PLURAL.GROUP each, as `kubectl get crd` lists them", {
      mirrored: { usual: kinds.mirrored, meaning: "Kinds whose size StatefulSets may mirror", schema: kindNames },
      owners: {
        usual: kinds.owners,
        meaning: "Kinds whose objects may ask for skip labels: name them in SKIP_LABEL_KINDS of the settings as well",
        schema: kindNames,
      },
    }),
    settings: {
      usual: {},
      meaning: "Sluice's settings, by the names of their environment variables: `npm start -- --help` lists them",
      schema: settingsSchema(settings),
    },
    uninstall: section("What comes before `helm uninstall`", {
      prepare: {
        usual: false,
        meaning: "Have Sluice take its finalizers off all objects, and keep none on: set it, and upgrade, first",
        schema: flag,
        isNeeded: true,
      },
    }),
    ...process,
    ...placement,
    webhooks: webhooksOf(admissionFunctions),
    networkPolicy: section("Who may reach the replicas", {
      enabled: { usual: true, meaning: "Make a NetworkPolicy", schema: flag, isNeeded: true },
      reviewsFrom: {
        usual: [],
        meaning: "NetworkPolicyPeers that may reach the webhooks; empty: all, because an API server is no pod",
        schema: list,
      },
      metricsNamespaces: {
        usual: ["knative-eventing", "monitoring"],
        meaning: "Namespaces that may reach metrics and health, besides the release's own",
        schema: strings,
      },
    }),
    serviceMonitor: serviceMonitorValues,
    monitoring: section("What else watches Sluice", {
      alerts: { usual: false, meaning: "Make a PrometheusRule with the alerts", schema: flag, isNeeded: true },
      dashboard: { usual: false, meaning: "Make the ConfigMap of a Grafana dashboard", schema: flag, isNeeded: true },
      labels: { usual: {}, meaning: "Labels of the PrometheusRule, by which a Prometheus selects it", schema: texts },
    }),
    global: {
      usual: { commonLabels: {} },
      meaning: "Helm hands these values to each subchart; the chart reads `commonLabels`, which all objects get",
      schema: { type: ["object", "null"], properties: { commonLabels: texts } },
    },
  };
}

function identity(defaultPreset: string): Values {
  return {
    image: section("The image that you build", {
      repository: {
        usual: placeholderImage,
        meaning: "Your registry and name: no registry has the default",
        schema: text,
      },
      tag: { usual: "", meaning: "Empty: the version of the chart", schema: { type: ["string", "null"] } },
      pullPolicy: {
        usual: "IfNotPresent",
        meaning: "When nodes pull it",
        schema: { enum: ["Always", "IfNotPresent", "Never", "", null] },
      },
    }),
    imagePullSecrets: { usual: [], meaning: "Secrets for the registry, as a pod has them", schema: list },
    replicas: {
      usual: 2,
      meaning: "Replicas, all of which answer: with one, evictions fail while it restarts",
      schema: { type: "integer" },
      isNeeded: true,
    },
    functions: {
      usual: [defaultPreset],
      meaning: "Presets and names of functions: README.md of the chart lists them, with their rights",
      schema: { type: "array", items: { type: "string" } },
      isNeeded: true,
    },
    namespaces: {
      usual: [],
      meaning: "Namespaces that Sluice serves: exactly these; empty: the release's own",
      schema: namespaceNames,
    },
  };
}

const process: Values = {
  extraArgs: { usual: [], meaning: "rollout-operator's flags, such as -reconcile.interval=10s", schema: strings },
  extraEnv: {
    usual: [],
    meaning: "More environment variables, as a container has them",
    schema: { type: ["array", "null"], items: { type: "object", required: ["name"] } },
  },
  resources: { usual: usualResources, meaning: "What a replica asks for, and its limits", schema: map },
  podLabels: { usual: {}, meaning: "More labels of the pods", schema: texts },
  podAnnotations: { usual: {}, meaning: "Annotations of the pods", schema: texts },
};

const placement: Values = {
  nodeSelector: { usual: {}, meaning: "Labels of the nodes for the pods", schema: texts },
  tolerations: { usual: [], meaning: "Taints that the pods tolerate", schema: list },
  affinity: { usual: usualAffinity, meaning: "Two replicas prefer two nodes, and two zones", schema: map },
  topologySpreadConstraints: { usual: [], meaning: "How the pods spread, as a pod has it", schema: list },
  priorityClassName: { usual: "", meaning: "The PriorityClass of the pods", schema: text },
};

const serviceMonitorValues = section("What prometheus-operator scrapes", {
  enabled: {
    usual: false,
    meaning: "Make a ServiceMonitor; it needs prometheus-operator's CRDs",
    schema: flag,
    isNeeded: true,
  },
  namespace: { usual: null, meaning: "Its namespace; null: the release's", schema: text },
  namespaceSelector: { usual: {}, meaning: "As a ServiceMonitor has it", schema: map },
  annotations: { usual: {}, meaning: "Its annotations", schema: texts },
  labels: { usual: {}, meaning: "More labels, by which a Prometheus selects it", schema: texts },
  interval: { usual: null, meaning: "How often; null: each 30 s", schema: text },
  scrapeTimeout: { usual: null, meaning: "As a ServiceMonitor has it", schema: text },
  relabelings: { usual: [], meaning: "As a ServiceMonitor has them", schema: list },
});

function webhooksOf(definitions: readonly AdmissionDefinition[]): Value {
  const own = definitions.map((definition): [string, Value] => {
    const { webhook, failurePolicy } = definition.registration;
    const usual = failurePolicy === "Fail" ? "" : failurePolicy;
    const meaning = `That of ${webhook}; empty: failurePolicy`;
    return [valueNameOf(definition), { usual, meaning, schema: { enum: [...policies, "", null] } }];
  });
  return section("What the API server asks Sluice", {
    enabled: {
      usual: true,
      meaning: "Make the webhook configurations of the chosen functions",
      schema: flag,
      isNeeded: true,
    },
    failurePolicy: {
      usual: "Fail",
      meaning: "While no replica answers, Fail denies what it would have decided, and Ignore lets it happen",
      schema: { enum: policies },
      isNeeded: true,
    },
    failurePolicies: section("The same for one webhook", Object.fromEntries(own)),
  });
}

/** The file `values.yaml`, in which each value is explained. */
export function valuesYaml(sources: ValueSources): string {
  const blocks = Object.entries(valuesOf(sources)).map(([key, value]) => block(key, value, ""));
  return `# Written by \`npm run render\`. Change the code that it comes from.\n${blocks.join("\n")}`;
}

function block(key: string, { usual, meaning, schema }: Value, indent: string): string {
  const { additionalProperties, properties } = schema as { additionalProperties?: unknown; properties?: Schema };
  const comment = `${indent}# ${meaning}\n`;
  if (properties === undefined || additionalProperties !== false || Object.keys(usual as object).length === 0)
    return comment + indented(dump({ [key]: usual }, { noRefs: true, lineWidth: 120 }), indent);
  const inner = Object.entries(properties).map(([name, one]) => {
    const { description, ...rest } = one as Schema & { description: string };
    return block(name, { usual: (usual as Schema)[name], meaning: description, schema: rest }, `${indent}  `);
  });
  return `${comment}${indent}${key}:\n${inner.join("")}`;
}

function indented(yaml: string, indent: string): string {
  return yaml.replace(/^(?=.)/gm, indent);
}

/** The file `values.schema.json`. It takes the key `enabled`, because Helm hands a condition to the subchart that it is for. */
export function valuesSchema(sources: ValueSources): string {
  const { properties, ...own } = objectSchema(valuesOf(sources)) as { properties: Schema };
  const enabled = { description: "Of a chart that has this one as a subchart: Sluice does not read it" };
  const schema = {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "Values of the chart of Sluice",
    ...own,
    properties: { ...properties, enabled },
  };
  return `${JSON.stringify(schema, undefined, 2)}\n`;
}
