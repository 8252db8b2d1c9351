/** Runs test files, each job in a process of its own, and reports the outcome of each file. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join, relative } from "node:path";
import { run } from "node:test";
import type { TestEvent } from "node:test/reporters";
import { setTimeout as delay } from "node:timers/promises";
import type { Outcome } from "./outcome.ts";
import type { Queue } from "./queue.ts";
import type { Usage } from "./usage.ts";

/** What one process runs: a file, or a batch of quick files. */
export interface Job {
  /** Of a single file, its outcome has this name: the same file may run with several environments. */
  readonly name: string;
  readonly files: readonly string[];
  /** Flags for Node. */
  readonly flags?: readonly string[];
  /** Variables of its environment, besides those of this process. */
  readonly env?: Readonly<Record<string, string>>;
}

/** An ended job: the events for a reporter, and the outcome of each of its files. */
export interface Ended {
  readonly job: Job;
  readonly outcomes: readonly Outcome[];
  readonly events: readonly TestEvent[];
}

/** How often the use of the processors is measured while files run. */
const measureMs = 1_000;

/**
 * Yields each job of a queue when it has ended.
 *
 * @param root of the repository, with a slash at its end
 * @param usage where it shows that the running files use less than their shares, one more begins; undefined: shares count
 */
export async function* runQueue(
  root: string,
  queue: Queue,
  jobs: ReadonlyMap<string, Job>,
  usage?: Pick<Usage, "begin" | "used">,
): AsyncGenerator<Ended> {
  const running = new Map<string, Promise<Ended>>();
  for (;;) {
    for (;;) {
      const name = queue.next(running.keys(), usage?.used());
      if (name === undefined) break;
      running.set(name, runJob(root, jobs.get(name) ?? { name, files: [name] }));
      usage?.begin();
    }
    if (running.size === 0) return;
    const ended = await firstOf(running.values(), usage === undefined ? undefined : measureMs);
    if (ended === undefined) continue;
    running.delete(ended.job.name);
    yield ended;
  }
}

/** The job that ends first; undefined if none has ended after `waitMs`. */
async function firstOf(running: Iterable<Promise<Ended>>, waitMs: number | undefined): Promise<Ended | undefined> {
  if (waitMs === undefined) return Promise.race(running);
  const waiting = new AbortController();
  const later = delay(waitMs, undefined, { signal: waiting.signal }).catch(() => undefined);
  return Promise.race([...running, later]).finally(() => waiting.abort());
}

const batchScript = "test/runner/batch.ts";

async function runJob(root: string, job: Job): Promise<Ended> {
  const startedMs = performance.now();
  const spent = mkdtempSync(join(tmpdir(), "sluice-test-cost-"));
  const paths = job.files.map((file) => `${root}${file}`);
  const isBatch = paths.length > 1;
  const events: TestEvent[] = [];
  try {
    for await (const event of run({
      files: isBatch ? [`${root}${batchScript}`] : paths,
      argv: isBatch ? paths : [],
      concurrency: 1,
      cwd: root,
      execArgv: [...(job.flags ?? []), "--import", `${root}test/ending.ts`],
      env: { ...process.env, ...job.env, SLUICE_TEST_COST: spent },
    })) {
      if (isOfRun(event)) continue;
      events.push(event, ...reasonOf(event));
    }
    const tookMs = performance.now() - startedMs;
    return { job, events, outcomes: outcomesOf(root, job, events, tookMs, cpuMsIn(spent)) };
  } finally {
    rmSync(spent, { recursive: true, force: true });
  }
}

/** The first line of a failed test's error, to be printed below its name: the whole error comes at the end of the run alone. */
function reasonOf(event: TestEvent): readonly TestEvent[] {
  if (event.type !== "test:fail" || event.data.details.type === "suite") return [];
  const { nesting, file, details } = event.data;
  const { cause = details.error } = details.error;
  const message = cause instanceof Error ? cause.message : String(cause);
  const [line = ""] = message.trim().split("\n");
  return [{ type: "test:diagnostic", data: { nesting, file, message: line, level: "error" } } as TestEvent];
}

/** Processor time of a test file's process and its children, which the process wrote at its end (`test/ending.ts`). */
function cpuMsIn(folder: string): number | undefined {
  const written = readdirSync(folder).map((name) => Number(readFileSync(join(folder, name), "utf8")));
  return written.length === 0 ? undefined : written.reduce((sum, ms) => sum + ms, 0);
}

/** True for counts and times of a whole run, which the runner itself reports for all jobs together. */
function isOfRun({ type, data }: TestEvent): boolean {
  if (type === "test:summary") return true;
  return type === "test:diagnostic" && data.nesting === 0 && data.file === undefined;
}

/**
 * One outcome for each file. An error outside of a batch's files, such as a file that cannot be loaded, belongs to the batch.
 */
function outcomesOf(
  root: string,
  { name, files }: Job,
  events: readonly TestEvent[],
  tookMs: number,
  cpuMs: number | undefined,
): readonly Outcome[] {
  if (files.length === 1) return [{ ...outcomeOf(root, name, events), tookMs, cpuMs }];
  const byFile = Map.groupBy(events, ({ data }) => {
    const path = data !== undefined && "file" in data ? data.file : undefined;
    return path === undefined ? name : relative(root, path);
  });
  const strays = [...byFile.keys()].filter((file) => !files.includes(file)).flatMap((file) => byFile.get(file) ?? []);
  const outcomes = files.map((file) => outcomeOf(root, file, byFile.get(file) ?? []));
  const stray = outcomeOf(root, name, strays);
  return stray.failures.length > 0 ? [...outcomes, stray] : outcomes;
}

function outcomeOf(root: string, file: string, events: readonly TestEvent[]): Outcome {
  const failures: string[] = [];
  let [passed, skipped, real, tookMs, suite] = [0, 0, 0, 0, ""];
  for (const event of events) {
    if (event.type === "test:start" && event.data.nesting === 0) suite = event.data.name;
    if (event.type !== "test:pass" && event.type !== "test:fail") continue;
    if (event.data.nesting === 0) tookMs += event.data.details.duration_ms;
    if (event.data.details.type === "suite") continue;
    if (event.type === "test:fail") failures.push(event.data.name);
    else if (event.data.skip !== undefined) skipped++;
    else {
      passed++;
      if (isReal(relative(root, event.data.file ?? ""), suite)) real++;
    }
  }
  return { file, passed, skipped, real, failures, tookMs, cpuMs: undefined };
}

/** True for cases that use a real kube-apiserver, by their file or by their suite. */
function isReal(file: string, suite: string): boolean {
  return (
    /^test\/(controlplane|e2e|image|chart)\//.test(file) ||
    file === "test/contract/real-server.test.ts" ||
    /real API server/.test(suite)
  );
}

/** Measures the idle share of the machine, from now until the returned function is called: 0 to 1. */
export function watchIdle(): () => number {
  const spent = () => {
    const times = cpus().map((cpu) => cpu.times);
    const all = times.reduce((sum, { user, nice, sys, idle, irq }) => sum + user + nice + sys + idle + irq, 0);
    return { all, idle: times.reduce((sum, { idle }) => sum + idle, 0) };
  };
  const before = spent();
  return () => {
    const now = spent();
    return (now.idle - before.idle) / Math.max(1, now.all - before.all);
  };
}
