/**
 * The Helm chart, from the same definitions as the manifests: `npm run render` writes it beside the files that are written by
 * hand.
 */
import { dump } from "js-yaml";
import type { Setting } from "../../../functions/shared/base/settings.ts";
import manifest from "../../../package.json" with { type: "json" };
import { dashboard } from "../dashboard.ts";
import { formatKind, placeholderKinds } from "../kinds.ts";
import { type Functions, installedFunctions, workloadsOf } from "../manifests.ts";
import { prometheusRule } from "../monitoring.ts";
import { placeholderNamespace } from "../object.ts";
import { type PackageFields, repositoryOf } from "../package-fields.ts";
import { type Choices, choiceData } from "./choice.ts";
import { policyData, templatesOf } from "./templates.ts";
import { valuesSchema, valuesYaml } from "./values.ts";

/** The files below `knative/chart` that no code writes. */
export const handWritten: readonly string[] = [
  ".helmignore",
  "README.md",
  ...[
    "NOTES.txt",
    "_choice.tpl",
    "_kinds.tpl",
    "_namespaces.tpl",
    "_values.tpl",
    "monitoring.yaml",
    "network-policy.yaml",
    "rights.yaml",
  ].map((name) => `templates/${name}`),
];

export interface ChartSources {
  readonly functions: Functions;
  readonly choices: Choices;
  readonly settings: readonly Setting<unknown>[];
  /** The CRDs of the manifests: the text of each, by the name of its file. */
  readonly definitions: Readonly<Record<string, string>>;
}

const header = "# Written by `npm run render`. Change the code that it comes from.\n";
/** Match conditions and admission policies are stable from here on. Clouds add suffixes to their versions. */
const kubeVersion = ">=1.30.0-0";

/** The files below `knative/chart` that are rendered, by their paths there. Throws Error for a right that cannot be granted. */
export function renderChart({ functions, choices, settings, definitions }: ChartSources): ReadonlyMap<string, string> {
  const { admissionFunctions, kinds = { mirrored: [], owners: [], machines: [] } } = functions;
  const granted = installedFunctions({ ...functions, kinds: placeholderKinds });
  const workloads = workloadsOf(granted);
  const [defaultPreset = ""] = Object.keys(choices.presets);
  const [mirrored, owners] = [kinds.mirrored.map(formatKind), kinds.owners.map(formatKind)];
  const values = { admissionFunctions, settings, defaultPreset, kinds: { mirrored, owners } };
  const { "sluice.json": panels = "" } = dashboard().data as Readonly<Record<string, string>>;
  return new Map([
    ["Chart.yaml", header + dump(description())],
    ["values.yaml", valuesYaml(values)],
    ["values.schema.json", valuesSchema(values)],
    ["files/functions.yaml", header + dump(choiceData(granted, choices), { noRefs: true, lineWidth: 120 })],
    ["files/policies.yaml", header + dump(policyData(workloads), { noRefs: true, lineWidth: 120 })],
    // The templates insert these as they are: their braces are those of Prometheus and Grafana.
    ["files/alerts.yaml", inRelease(dump(prometheusRule().spec, { noRefs: true, lineWidth: 120 }))],
    ["files/dashboard.json", panels],
    // `helm show crds` of Helm 3 prints them one after the other, with nothing between them.
    ...Object.entries(definitions).map(([name, text]): [string, string] => [`crds/${name}`, `---\n${text}`]),
    ...[...templatesOf(admissionFunctions, workloads)].map(([name, text]): [string, string] => [
      `templates/${name}`,
      text,
    ]),
  ]);
}

/** The template that inserts the file writes its namespace in place of the word there. */
function inRelease(rules: string): string {
  return rules.replaceAll(`namespace="${placeholderNamespace}"`, 'namespace="@NAMESPACE@"');
}

function description(): object {
  const { version, sluice }: PackageFields = manifest;
  const repository = repositoryOf(manifest);
  return {
    apiVersion: "v2",
    name: sluice.chart,
    description: "One disruption budget for the rollouts, evictions and downscales of a group of StatefulSets",
    type: "application",
    version,
    appVersion: version,
    kubeVersion,
    ...(repository === undefined ? {} : { home: repository, sources: [repository] }),
  };
}
