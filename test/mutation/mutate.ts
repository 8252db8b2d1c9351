/** A whole run: records which mutants each test would notice, tries each mutant on these tests, and reports the survivors. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Cache, type Finding } from "./cache.ts";
import type { Mutant } from "./mutants.ts";
import type { Options } from "./options.ts";
import { changedSince, hashOf, type Project, readSources, type Sources } from "./project.ts";
import { type Recording, record } from "./recording.ts";
import { describeMutant, isGood, markdownOf, type Report, type Result, survivorsOf, textOf } from "./report.ts";
import { loadSimulation } from "./simulated.ts";
import { filesOf, seedsOf } from "./steps.ts";
import { readSurvivors } from "./survivors.ts";
import { Trying } from "./trying.ts";

type Log = (line: string) => void;

/** Runs as the options say. Resolves to the exit code. `log` receives the output, line by line. */
export async function mutate(project: Project, options: Options, log: Log): Promise<number> {
  const startedMs = performance.now();
  const sources = readSources(project);
  const accepted = readSurvivors(project.root, project.survivors);
  const chosen = choose(project, sources, options);
  if ("mistake" in chosen) {
    log(chosen.mistake);
    return 2;
  }
  const { mutants, files } = chosen;
  if (options.list) {
    for (const mutant of mutants) log(describeMutant(mutant));
    log(`${mutants.length} mutants`);
    return 0;
  }
  const cache = new Cache(join(project.root, project.cache));
  const run = new Run(project, sources, options, cache, log);
  await run.byTests(mutants);
  const living = mutants.filter((mutant) => run.resultOf(mutant).by === undefined);
  if (project.simulation !== undefined && options.seeds > 0) {
    await run.bySeeds(living.filter(({ id }) => !accepted.has(id)));
  }
  const ids = new Set(sources.mutants.map(({ id }) => id));
  const gone =
    options.only === undefined
      ? [...accepted.values()].filter(
          ({ id, file }) => !ids.has(id) && (files.has(file) || options.files === undefined),
        )
      : [];
  const results = mutants.map((mutant) => run.resultOf(mutant));
  const report: Report = { results, accepted, gone, seconds: (performance.now() - startedMs) / 1_000 };
  for (const line of textOf(report)) log(line);
  if (options.out !== undefined) writeReport(options.out, report);
  return isGood(report) ? 0 : 1;
}

/** The mutants that the options select. */
function choose(
  project: Project,
  { files, mutants }: Sources,
  options: Options,
): { readonly mutants: readonly Mutant[]; readonly files: ReadonlySet<string> } | { readonly mistake: string } {
  let names = files.map(({ file }) => file);
  for (const wanted of options.files ?? []) {
    if (!names.some((file) => isNamed(file, wanted)))
      return { mistake: `--files: ${wanted} is not among the mutated files` };
  }
  names = names.filter((file) => options.files?.some((wanted) => isNamed(file, wanted)) ?? true);
  if (options.changedSince !== undefined) {
    const changed = changedSince(project.root, options.changedSince);
    names = names.filter((file) => changed.has(file));
  }
  const within = new Set(names);
  const ofFiles = mutants.filter(({ file }) => within.has(file));
  const unknown = options.only?.find((start) => !ofFiles.some(({ id }) => id.startsWith(start)));
  if (unknown !== undefined) return { mistake: `--only: no mutant has an id that begins with ${unknown}` };
  const isAsked = ({ id }: Mutant) => options.only?.some((start) => id.startsWith(start)) ?? true;
  return { mutants: ofFiles.filter(isAsked), files: within };
}

function isNamed(file: string, wanted: string): boolean {
  return [file, file.replace(/\.ts$/, "")].some((path) => path === wanted || path.endsWith(`/${wanted}`));
}

function writeReport(path: string, report: Report): void {
  const { results, seconds } = report;
  const json = { mutants: results.length, killed: results.length - survivorsOf(results).length, seconds, results };
  writeFileSync(path, path.endsWith(".md") ? markdownOf(report) : `${JSON.stringify(json, undefined, 2)}\n`);
}

class Run {
  readonly #project: Project;
  readonly #sources: Sources;
  readonly #options: Options;
  readonly #cache: Cache;
  readonly #log: Log;
  readonly #keys: Readonly<Record<Finding["part"], string>>;

  constructor(project: Project, sources: Sources, options: Options, cache: Cache, log: Log) {
    this.#project = project;
    this.#sources = sources;
    this.#options = options;
    this.#cache = cache;
    this.#log = log;
    const { root, code, testCode, simulationCode } = project;
    const codeHash = hashOf(root, code);
    this.#keys = {
      tests: `${codeHash} ${hashOf(root, testCode)}`,
      seeds: `${codeHash} ${hashOf(root, simulationCode)} ${options.seeds}`,
    };
  }

  /** Hash of what a finding depends on: the sources, and the time that tests were given. */
  #keyOf(part: Finding["part"]): string {
    return part === "tests" ? `${this.#keys.tests} ${this.#options.testSeconds}` : this.#keys.seeds;
  }

  resultOf(mutant: Mutant): Result {
    const found = (["seeds", "tests"] as const).map((part) => this.#cache.find(mutant.id, part, this.#keyOf(part)));
    const killed = found.find((finding) => finding?.by !== undefined);
    return { mutant, by: killed?.by, felt: found.some((finding) => finding?.felt) };
  }

  async byTests(mutants: readonly Mutant[]): Promise<void> {
    await this.#try("tests", mutants, () => Promise.resolve(filesOf(this.#project)));
  }

  async bySeeds(mutants: readonly Mutant[]): Promise<void> {
    await this.#try("seeds", mutants, async () => {
      const { rules } = await loadSimulation(this.#project.root, this.#project.simulation ?? "");
      return seedsOf(this.#options.seeds, rules);
    });
  }

  /** Tries the mutants whose result is not known. */
  async #try(
    part: Finding["part"],
    mutants: readonly Mutant[],
    steps: () => Promise<Parameters<typeof record>[2]>,
  ): Promise<void> {
    const key = this.#keyOf(part);
    const pending = mutants.filter(({ id }) => this.#cache.find(id, part, key) === undefined);
    if (pending.length === 0) return;
    const recording = await this.#record(part, await steps());
    const trying = new Trying(
      this.#project,
      this.#sources,
      recording,
      (mutant) => this.#cache.last(mutant.id, part)?.by,
      part === "tests" ? this.#options.testSeconds : 0,
    );
    let done = 0;
    let killed = 0;
    let reportedMs = performance.now();
    const work = async () => {
      for (let mutant = pending.shift(); mutant !== undefined; mutant = pending.shift()) {
        const outcome = await trying.tryMutant(mutant).catch((error: unknown) => {
          // A mutant that cannot be tried stops the whole run.
          pending.length = 0;
          throw error;
        });
        this.#cache.add({ id: mutant.id, part, key, ...outcome });
        done++;
        if (outcome.by !== undefined) killed++;
        if (performance.now() - reportedMs < 10_000) continue;
        reportedMs = performance.now();
        this.#log(`${part}: ${done} mutants tried, ${killed} killed, ${pending.length} to go`);
      }
    };
    const startedMs = performance.now();
    const all = await Promise.allSettled(Array.from({ length: this.#options.workers }, work));
    await trying.end();
    for (const one of all) if (one.status === "rejected") throw one.reason;
    const seconds = (performance.now() - startedMs) / 1_000;
    this.#log(`${part}: ${killed} of ${done} killed in ${seconds.toFixed(1)} s`);
  }

  async #record(part: Finding["part"], steps: Parameters<typeof record>[2]): Promise<Recording> {
    const startedMs = performance.now();
    const recording = await this.#cache.remember(part, this.#keys[part], () =>
      record(this.#project, this.#sources, steps, this.#options.workers),
    );
    const seconds = (performance.now() - startedMs) / 1_000;
    this.#log(`${part}: ${recording.runs.length} recorded in ${seconds.toFixed(1)} s`);
    for (const message of recording.broken) this.#log(`fails without any mutant, and is left out: ${message}`);
    return recording;
  }
}
