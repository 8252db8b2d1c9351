/** One run of one test or of one seed: how it ended, and how long it took. */
import type { DeclaredTest } from "./registry.ts";

export interface Trial {
  /** Undefined if it passed. */
  readonly failure: string | undefined;
  readonly isHang: boolean;
  readonly ms: number;
  /** True if the error came from outside of the test: it may be a late one of the test before. */
  readonly isStray: boolean;
}

type After = () => unknown;

// Tests may mock the global timers.
const { setTimeout: setTimer, clearTimeout: clearTimer } = globalThis;

let strayed: ((error: unknown) => void) | undefined;

/** Makes an error that no caller waits for fail the current trial. */
export function catchStrays(): void {
  process.on("unhandledRejection", (error) => strayed?.(error));
  process.on("uncaughtException", (error) => strayed?.(error));
}

/** Runs until the end, the first error or the limit, whichever is first. */
export async function attempt(run: () => unknown, limitMs: number): Promise<Trial> {
  const startedMs = performance.now();
  let timer: NodeJS.Timeout | undefined;
  let isHang = false;
  let isStray = false;
  const stray = new Promise((_, reject) => {
    strayed = (error) => {
      isStray = true;
      reject(error);
    };
  });
  const hang = new Promise((_, reject) => {
    timer = setTimer(() => {
      isHang = true;
      reject(new Error(`no end within ${limitMs} ms`));
    }, limitMs);
  });
  stray.catch(() => undefined);
  hang.catch(() => undefined);
  let failure: string | undefined;
  try {
    await Promise.race([(async () => run())(), stray, hang]);
  } catch (error) {
    failure = (error instanceof Error ? error.message : String(error)).split("\n", 1)[0] || "it failed";
  }
  clearTimer(timer);
  strayed = undefined;
  return { failure, isHang, ms: performance.now() - startedMs, isStray };
}

/** The body of a test with all hooks of its suites. */
export async function runTest({ name, body, hooks }: DeclaredTest): Promise<void> {
  const cleanups: After[] = [];
  const { mock } = process.getBuiltinModule("node:test");
  const context = {
    name,
    mock,
    after: (cleanup: After) => cleanups.push(cleanup),
    diagnostic: () => undefined,
    test: async (_: string, inner: (context: unknown) => unknown) => inner(context),
  };
  try {
    for (const { before } of hooks) for (const hook of before) await hook(context);
    await body(context);
  } finally {
    mock.reset();
    for (const cleanup of cleanups.reverse()) await cleanup();
    for (const { after } of [...hooks].reverse()) for (const hook of after) await hook(context);
  }
}
