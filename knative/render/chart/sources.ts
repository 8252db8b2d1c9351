/** The inputs of the chart: the table of functions, the settings, and the CRDs of the manifests. */
import { globSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { settingsTable } from "../../../triggers/settings/settings.ts";
import { alwaysServed, presets } from "../../../triggers/table.ts";
import type { Functions } from "../manifests.ts";
import type { ChartSources } from "./chart.ts";

const crds = join(import.meta.dirname, "../../base/crds");

/** The sources of the chart for some functions. */
export function chartSources(functions: Functions): ChartSources {
  const files = globSync("*.yaml", { cwd: crds }).filter((name) => name !== "kustomization.yaml");
  const read = (name: string): [string, string] => [basename(name), readFileSync(join(crds, name), "utf8")];
  const definitions = Object.fromEntries(files.sort().map(read));
  return { functions, choices: { presets, alwaysServed }, settings: Object.values(settingsTable), definitions };
}
