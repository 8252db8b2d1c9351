/** Runs test files, each in a process of its own, and says what came of each. */
import { cpus } from "node:os";
import { relative } from "node:path";
import { run } from "node:test";
import type { TestEvent } from "node:test/reporters";
import type { Outcome } from "./outcome.ts";
import type { Queue } from "./queue.ts";

/** A file that has ended: what a reporter is told of it, and what came of it. */
export interface Ended {
  readonly outcome: Outcome;
  readonly events: readonly TestEvent[];
}

/** Yields each file of a queue when it has ended. @param root of the repository, with a slash at its end */
export async function* runQueue(root: string, queue: Queue, concurrency: number): AsyncGenerator<Ended> {
  const running = new Map<string, Promise<Ended>>();
  for (;;) {
    while (running.size < concurrency) {
      const file = queue.next(running.keys());
      if (file === undefined) break;
      running.set(file, runFile(root, file));
    }
    if (running.size === 0) return;
    const ended = await Promise.race(running.values());
    running.delete(ended.outcome.file);
    yield ended;
  }
}

async function runFile(root: string, file: string): Promise<Ended> {
  const startedMs = performance.now();
  const execArgv = ["--import", `${root}test/ending.ts`];
  const events: TestEvent[] = [];
  for await (const event of run({ files: [`${root}${file}`], concurrency: 1, cwd: root, execArgv })) {
    if (!isOfRun(event)) events.push(event);
  }
  return { events, outcome: outcomeOf(root, file, events, performance.now() - startedMs) };
}

/** How many tests a run had and how long it took: that is said of all files together. */
function isOfRun({ type, data }: TestEvent): boolean {
  if (type === "test:summary") return true;
  return type === "test:diagnostic" && data.nesting === 0 && data.file === undefined;
}

function outcomeOf(root: string, file: string, events: readonly TestEvent[], tookMs: number): Outcome {
  const failures: string[] = [];
  let [passed, skipped, real, suite] = [0, 0, 0, ""];
  for (const event of events) {
    if (event.type === "test:start" && event.data.nesting === 0) suite = event.data.name;
    if (event.type === "test:pass" && event.data.details.type !== "suite") {
      if (event.data.skip !== undefined) skipped++;
      else {
        passed++;
        if (isReal(relative(root, event.data.file ?? ""), suite)) real++;
      }
    }
    if (event.type === "test:fail" && event.data.details.type !== "suite") failures.push(event.data.name);
  }
  return { file, passed, skipped, real, failures, tookMs };
}

/** True for cases that talk to a real kube-apiserver: by their file, or by the suite that they stand in. */
function isReal(file: string, suite: string): boolean {
  return (
    /^test\/(controlplane|e2e|image)\//.test(file) ||
    file === "test/contract/real-server.test.ts" ||
    /real API server/.test(suite)
  );
}

/** What part of the machine's time goes by unused, from now until the answer is asked for: 0 to 1. */
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
