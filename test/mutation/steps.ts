/** The steps of a run: the test files, and the seeds of the simulation. */
import { globSync } from "node:fs";
import type { Project } from "./project.ts";
import type { Limits, Step } from "./worker.ts";

/** Longer than any test or seed takes, on any machine. */
const limits: Limits = { limitMs: 120_000, mostTurns: 1_000_000_000 };

export function filesOf({ root, tests }: Project): Step[] {
  const files = tests.flatMap((pattern) => globSync(pattern, { cwd: root })).sort();
  return files.map((file) => ({ kind: "file", file, ...limits }));
}

/** `seeds` seeds of the default plan. All aimed scenarios together have as many, one after the other. */
export function seedsOf(seeds: number, rules: readonly string[]): Step[] {
  const of = (scenario: number, rule: string, count: number): Step[] =>
    Array.from({ length: count }, (_, index) => ({
      kind: "seed",
      scenario,
      rule,
      seed: index + 1,
      ...limits,
    }));
  const each = Math.ceil(seeds / Math.max(1, rules.length));
  return [...of(0, "", seeds), ...rules.flatMap((rule, index) => of(index + 1, rule, each))];
}
