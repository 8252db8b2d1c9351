/** The rendered alerts, decided by Prometheus's own code on what was scraped. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { load } from "js-yaml";
import { placeholderNamespace } from "../../knative/render/object.ts";
import { ensureBuilt, type Log } from "../controlplane/build.ts";

const monitoring = join(import.meta.dirname, "../../knative/base/monitoring");
const { spec: rules } = load(readFileSync(join(monitoring, "alerts.yaml"), "utf8")) as {
  readonly spec: { readonly groups: readonly { readonly rules: readonly { readonly alert: string }[] }[] };
};

type Rules = typeof rules;
const alertNames = ({ groups }: Rules) => groups.flatMap((group) => group.rules.map(({ alert }) => alert));

/** Names of the rendered alerts. */
export const shippedAlerts = alertNames(rules);

const fencingFile = join(monitoring, "../fencing-monitoring/alerts.yaml");
const { spec: fencingRules } = load(readFileSync(fencingFile, "utf8")) as { readonly spec: Rules };

/** Names of the rendered alerts of fencing. */
export const shippedFencingAlerts = alertNames(fencingRules);

/** One answer of `/metrics`, with the labels that Prometheus gives to whom it asked. */
export interface Scrape {
  readonly atMs: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly text: string;
}

const restartFile = join(monitoring, "../restart-monitoring/alerts.yaml");

export interface ActiveAlert {
  readonly name: string;
  readonly state: "pending" | "firing";
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** Resolves to the path of the program, built first when it is missing. Throws when there is no go command. */
export async function ensureAlerting(log: Log): Promise<string> {
  const folder = await ensureBuilt(
    {
      name: "alerting",
      builds: [{ module: "../knative/alerting", packages: ["."], ldflags: "-s -w" }],
      files: ["alerting"],
      expectation: "this happens once and takes about a minute on 2 cores",
    },
    log,
  );
  return join(folder, "alerting");
}

/** An alert that began to fire at that time. */
export interface FiredAlert extends Pick<ActiveAlert, "name" | "labels"> {
  readonly atMs: number;
}

/** By which labels a part of an expression groups its series; all others if `without` is true. */
export interface Grouping {
  readonly what: string;
  readonly labels: readonly string[];
  readonly without: boolean;
}

interface Output {
  readonly alerts: readonly ActiveAlert[];
  readonly fired: readonly FiredAlert[];
  readonly groupings: readonly (readonly Grouping[])[];
  readonly answers: readonly (readonly Readonly<Record<string, string>>[])[];
}

/**
 * The alerts that are active after the last scrape, and those that have fired until then, by the rules of that namespace. Throws
 * where a rule, a template or a scrape is none.
 */
export function alertsAfter(
  program: string,
  scrapes: readonly Scrape[],
  namespace: string,
): Promise<Pick<Output, "alerts" | "fired">> {
  return ask(program, { rules: rulesOf(namespace), scrapes });
}

/** The same by the rules of fencing, which has one namespace. */
export function fencingAlertsAfter(
  program: string,
  scrapes: readonly Scrape[],
): Promise<Pick<Output, "alerts" | "fired">> {
  return ask(program, { rules: fencingRules, scrapes });
}

/** The same by the rule of restarts. */
export function restartAlertsAfter(
  program: string,
  scrapes: readonly Scrape[],
): Promise<Pick<Output, "alerts" | "fired">> {
  const { spec } = load(readFileSync(restartFile, "utf8")) as { readonly spec: Rules };
  return ask(program, { rules: spec, scrapes });
}

export async function activeAlerts(
  program: string,
  scrapes: readonly Scrape[],
  namespace: string,
): Promise<readonly ActiveAlert[]> {
  return (await alertsAfter(program, scrapes, namespace)).alerts;
}

/** The queries of the rendered dashboard as Grafana sends them. */
export function queriesOfDashboard(): readonly string[] {
  const manifest = load(readFileSync(join(monitoring, "dashboard.yaml"), "utf8")) as { data: Record<string, string> };
  const { panels } = JSON.parse(manifest.data["sluice.json"] ?? "") as { panels: { targets?: { expr: string }[] }[] };
  const queries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
  const given = { $__rate_interval: "2m", $namespace: ".*", $group: ".*" };
  return queries.map((query) =>
    Object.entries(given).reduce((text, [name, value]) => text.replaceAll(name, value), query),
  );
}

/** By which labels each expression groups. Throws where one does not parse. */
export async function groupingsOf(program: string, expressions: readonly string[]): Promise<Output["groupings"]> {
  return (await ask(program, { rules, expressions })).groupings;
}

/** The labels of the series that each query gives at the time of the last scrape. */
export async function answersTo(
  program: string,
  scrapes: readonly Scrape[],
  queries: readonly string[],
): Promise<Output["answers"]> {
  return (await ask(program, { rules, scrapes, queries })).answers;
}

/** The rules as kustomize writes them for a namespace. */
function rulesOf(namespace: string): object {
  const text = JSON.stringify(rules);
  const [before, after] = [placeholderNamespace, namespace].map((name) => JSON.stringify(`namespace="${name}"`));
  return JSON.parse(text.replaceAll(before?.slice(1, -1) ?? "", after?.slice(1, -1) ?? "")) as object;
}

async function ask(program: string, input: object): Promise<Output> {
  const asked = promisify(execFile)(program, { timeout: 60_000, maxBuffer: 16 * 1024 * 1024 });
  asked.child.stdin?.end(JSON.stringify(input));
  return JSON.parse((await asked).stdout) as Output;
}
