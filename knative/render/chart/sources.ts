/** The inputs of the chart: the table of functions, the settings, and the CRDs of the manifests. */
import { globSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import type { Setting } from "../../../functions/shared/base/settings.ts";
import { type Definition, isStandard } from "../../../functions/shared/contract/definition.ts";
import { settingsTable } from "../../../triggers/settings/settings.ts";
import { alwaysServed, presets } from "../../../triggers/table.ts";
import { allOf, type Functions } from "../manifests.ts";
import type { ChartSources } from "./chart.ts";

const crds = join(import.meta.dirname, "../../base/crds");

/** All settings but those that only opt-in functions have: the chart installs none of these. */
function settingsFor(functions: Functions): ChartSources["settings"] {
  const all = allOf(functions);
  const ownOf = (some: readonly Definition[]) => new Set(some.flatMap(({ settings = {} }) => Object.values(settings)));
  const standard = ownOf(all.filter(isStandard));
  const others = ownOf(all).difference(standard);
  return Object.values<Setting<unknown>>(settingsTable).filter((one) => !others.has(one));
}

/** The sources of the chart for some functions. */
export function chartSources(functions: Functions): ChartSources {
  const files = globSync("*.yaml", { cwd: crds }).filter((name) => name !== "kustomization.yaml");
  const read = (name: string): [string, string] => [basename(name), readFileSync(join(crds, name), "utf8")];
  const definitions = Object.fromEntries(files.sort().map(read));
  return { functions, choices: { presets, alwaysServed }, settings: settingsFor(functions), definitions };
}
