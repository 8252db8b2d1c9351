/** The rendered alerts, decided by Prometheus's own code on what was scraped. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { load } from "js-yaml";
import { ensureBuilt, type Log } from "../controlplane/build.ts";

const monitoring = join(import.meta.dirname, "../../knative/base/monitoring");
const { spec: rules } = load(readFileSync(join(monitoring, "alerts.yaml"), "utf8")) as { readonly spec: object };

/** One answer of `/metrics`, with the labels that Prometheus gives to whom it asked. */
export interface Scrape {
  readonly atMs: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly text: string;
}

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

/** The alerts that are active after the last scrape. Throws where a rule, a template or a scrape is none. */
export async function activeAlerts(program: string, scrapes: readonly Scrape[]): Promise<readonly ActiveAlert[]> {
  return JSON.parse(await ask(program, { rules, scrapes })) as ActiveAlert[];
}

/** The queries of the rendered dashboard as Grafana sends them, parsed. Throws where one does not; resolves to how many. */
export async function parseDashboard(program: string): Promise<number> {
  const manifest = load(readFileSync(join(monitoring, "dashboard.yaml"), "utf8")) as { data: Record<string, string> };
  const { panels } = JSON.parse(manifest.data["sluice.json"] ?? "") as { panels: { targets?: { expr: string }[] }[] };
  const queries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
  const expressions = queries.map((query) => query.replaceAll("$__rate_interval", "2m").replaceAll("$namespace", ".*"));
  await ask(program, { rules, expressions });
  return expressions.length;
}

async function ask(program: string, input: object): Promise<string> {
  const asked = promisify(execFile)(program, { timeout: 60_000, maxBuffer: 16 * 1024 * 1024 });
  asked.child.stdin?.end(JSON.stringify(input));
  return (await asked).stdout;
}
