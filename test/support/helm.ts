/** The chart as a user has it: rendered, installed, upgraded and uninstalled by both versions of Helm. */
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { dump, load, loadAll } from "js-yaml";
import { ensureHelms, hasHelms } from "../controlplane/assets.ts";
import type { Built } from "./kubectl.ts";

const execute = promisify(execFile);

/** The folder of the chart. */
export const chart = join(import.meta.dirname, "../../knative/chart");

/** Set wherever a chart is to render, because the chart refuses the placeholder. */
export const someImage = { image: { repository: "registry.example/sluice" } };

/** Whether the suites that need Helm are skipped. In CI they fail instead. */
export async function skipWithoutHelm(): Promise<boolean> {
  if (await hasHelms()) return false;
  const how = "run `npm test -- control` once, with Go";
  if (process.env.CI === "true") throw new Error(`there is no Helm to test with: ${how}`);
  console.error(`\nSKIPPED: everything that needs Helm. To get it, ${how}.\n`);
  return true;
}

/** True if Helm creates an object only at a step of a release, and does not count it as a part of it. */
export function isHook({ metadata }: { readonly metadata: object }): boolean {
  return JSON.stringify(metadata).includes('"helm.sh/hook":');
}

/** The outcome of a command of Helm. */
export interface HelmResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RenderOptions {
  readonly chart?: string;
  readonly namespace?: string;
  readonly set?: readonly string[];
  /** More flags of the command. */
  readonly flags?: readonly string[];
}

/** One version of Helm, with its own home. */
export class Helm {
  readonly major: string;
  readonly #binary: string;
  readonly #home: string;
  readonly #kubeconfig: string | undefined;
  /** What `helm show crds` prints, by the folder of the chart: no values change it, and each command is a process. */
  readonly #definitions = new Map<string, Promise<string>>();

  constructor(major: string, binary: string, home: string, kubeconfig?: string) {
    this.major = major;
    this.#binary = binary;
    this.#home = home;
    this.#kubeconfig = kubeconfig;
  }

  /** Both versions, which it builds if they are missing. */
  static async open(kubeconfig?: string): Promise<{ readonly helms: readonly Helm[]; close(): Promise<void> }> {
    const home = await mkdtemp(join(tmpdir(), "sluice-helm-"));
    const binaries = await ensureHelms(console.error);
    const helms = Object.entries(binaries).map(([major, binary]) => new Helm(major, binary, home, kubeconfig));
    return { helms, close: () => rm(home, { recursive: true, force: true }) };
  }

  /** Resolves to the outcome of a command, also if the command fails. */
  async try(...args: readonly string[]): Promise<HelmResult> {
    const { PATH } = process.env;
    const kubeconfig = this.#kubeconfig === undefined ? {} : { KUBECONFIG: this.#kubeconfig };
    const env = { PATH, HOME: this.#home, ...kubeconfig };
    try {
      const { stdout, stderr } = await execute(this.#binary, [...args], { env, maxBuffer: 64 * 1024 * 1024 });
      return { code: 0, stdout, stderr };
    } catch (error) {
      const { code, stdout, stderr } = error as HelmResult;
      return { code, stdout, stderr };
    }
  }

  /** Resolves to what the command prints. Rejects with its error output if it fails. */
  async run(...args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await this.try(...args);
    if (code !== 0) throw new Error(`helm ${this.major} ${args.join(" ")}: ${stderr}`);
    return stdout;
  }

  /** The arguments that hand these values to a command. */
  async values(values: object): Promise<string[]> {
    const file = join(this.#home, `${crypto.randomUUID()}.yaml`);
    await writeFile(file, dump(values));
    return ["--values", file];
  }

  /** The output of `helm template` for these values. */
  async template(values: object, options: RenderOptions = {}) {
    const { set = [], flags = [], chart: folder = chart, namespace = "mimir" } = options;
    const given = [...(await this.values(values)), ...set.flatMap((one) => ["--set", one]), ...flags];
    return this.try("template", "sluice", folder, "--namespace", namespace, ...given);
  }

  /** The objects that values render, with the CRDs. Rejects if the chart refuses the values. */
  async render(values: object, options: RenderOptions = {}): Promise<Built[]> {
    const { code, stdout, stderr } = await this.template(values, options);
    if (code !== 0) throw new Error(`helm ${this.major} template: ${stderr}`);
    return [...loadAll(await this.#show(options.chart ?? chart)), ...loadAll(stdout)].filter(Boolean) as Built[];
  }

  #show(folder: string): Promise<string> {
    const shown = this.#definitions.get(folder) ?? this.run("show", "crds", folder);
    this.#definitions.set(folder, shown);
    return shown;
  }
}

/**
 * A copy of the chart in which the Service leads to this machine, and webhooks to a port of it: there is no network of Services
 * here, and pods do not run. Everything else is as it is shipped.
 */
export async function chartOfThisMachine(port: number): Promise<{ readonly folder: string; remove(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-chart-"));
  await cp(chart, folder, { recursive: true });
  await replaceIn(
    join(folder, "templates/service.yaml"),
    /^spec:\n[\s\S]*$/m,
    "spec:\n  type: ExternalName\n  externalName: localhost\n",
  );
  for (const webhook of ["pod-eviction", "zpdb-validation", "no-downscale", "prepare-downscale"])
    await replaceIn(join(folder, `templates/webhook-${webhook}.yaml`), /port: 443/, `port: ${port}`);
  return { folder, remove: () => rm(folder, { recursive: true, force: true }) };
}

/** A chart that has the shipped one as a subchart, under a condition and perhaps an alias, and budgets of its own. */
export async function parentChart(
  budgets: number,
  alias?: string,
): Promise<{ readonly folder: string; remove(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-parent-"));
  await cp(chart, join(folder, "charts/sluice"), { recursive: true });
  const { version } = load(await readFile(join(chart, "Chart.yaml"), "utf8")) as { version: string };
  const condition = `${alias ?? "sluice"}.enabled`;
  const subchart = { name: "sluice", version, repository: "", condition, ...(alias && { alias }) };
  const description = { apiVersion: "v2", name: "parent", version: "1.0.0", dependencies: [subchart] };
  await writeFile(join(folder, "Chart.yaml"), dump(description));
  const all = Array.from({ length: budgets }, (_, index) => ({
    apiVersion: "rollout-operator.grafana.com/v1",
    kind: "ZoneAwarePodDisruptionBudget",
    metadata: { name: `budget-${index}` },
    spec: { maxUnavailable: 1, selector: { matchLabels: { "rollout-group": `group-${index}` } } },
  }));
  await mkdir(join(folder, "templates"));
  await writeFile(join(folder, "templates/budgets.yaml"), all.map((one) => dump(one)).join("---\n"));
  return { folder, remove: () => rm(folder, { recursive: true, force: true }) };
}

async function replaceIn(file: string, pattern: RegExp, replacement: string): Promise<void> {
  const before = await readFile(file, "utf8");
  const after = before.replace(pattern, replacement);
  if (after === before) throw new Error(`${file} has nothing like ${pattern}`);
  await writeFile(file, after);
}
