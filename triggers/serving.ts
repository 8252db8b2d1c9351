/** What a process serves, by its settings: which functions, and in which namespaces. */
import { hostname } from "node:os";
import { suspended } from "../functions/shared/annotations/suspension.ts";
import { type CronDefinition, type Definition, isStandard } from "../functions/shared/contract/definition.ts";
import type { KubernetesCluster } from "../functions/shared/kubernetes/client.ts";
import manifest from "../package.json" with { type: "json" };
import type { Settings } from "./settings/settings.ts";
import type { StatusSource } from "./standalone.ts";
import { cronFunctions, guardsByFunction, statusFunctions, table } from "./table.ts";

type Served = Pick<Definition, "name" | "isOptIn">;

/** What this process is, for logs and for the API server: its functions, or `all`, which a bundle of one is not. */
export function servingOf({ functions }: Pick<Settings, "functions">, definitions: readonly Served[] = table): string {
  const all = definitions.filter(isStandard);
  const isAll = functions.length === all.length && all.every(({ name }) => functions.includes(name));
  return definitions.length > 1 && isAll ? "all" : functions.join(",");
}

export function servedBy({ functions }: Settings): (definition: { readonly name: string }) => boolean {
  return ({ name }) => functions.includes(name);
}

/** A process with a certificate file, or without a TLS port, renews none; a function that the settings name runs anyway. */
export function cronsOf(settings: Settings): readonly CronDefinition[] {
  const isRenewed = settings.tlsPort !== "off" && settings.tlsCertFile === "";
  return isRenewed || servingOf(settings) !== "all" ? cronFunctions.filter(servedBy(settings)) : [];
}

export function namespacesOf(settings: Settings, cluster: KubernetesCluster): readonly string[] | undefined {
  if (settings.namespaces === "all") return undefined;
  return settings.namespaces === "own" ? [cluster.namespace] : settings.namespaces;
}

/** What shows the status, and what it shows of this process; undefined where the settings ask for none. */
export function statusOf(
  settings: Settings,
  namespaces: readonly string[] | undefined,
  certificate: StatusSource["certificate"],
): StatusSource | undefined {
  const [definition] = statusFunctions.filter(servedBy(settings));
  if (definition === undefined || settings.statusListen === "off") return undefined;
  const { version } = manifest;
  // In a pod the name of the machine is that of the pod.
  const answeredBy = { replica: hostname(), version, mode: settings.mode, namespaces: namespaces ?? null };
  const suspendsVolumes = table.filter(servedBy(settings)).some(({ writes }) => writes.includes(suspended));
  return { definition, answeredBy, guards: guardsByFunction, suspendsVolumes, ...(certificate && { certificate }) };
}
