/** The command line of `npm run mutate`. */
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";

export interface Options {
  /** Files to mutate, by their path or its end; undefined: all. */
  readonly files: readonly string[] | undefined;
  /** Only files that differ from this commit. */
  readonly changedSince: string | undefined;
  readonly workers: number;
  /** Number of seeds of the default plan. The aimed scenarios share as many. */
  readonly seeds: number;
  /** Time for the tests of one mutant, by their duration without it; 0: no bound. */
  readonly testSeconds: number;
  readonly list: boolean;
  /** Prefixes of the ids of mutants. */
  readonly only: readonly string[] | undefined;
  readonly out: string | undefined;
}

export type Reading =
  | { readonly kind: "run"; readonly options: Options }
  | { readonly kind: "help" }
  | { readonly kind: "wrong"; readonly mistakes: readonly string[] };

export const help = `npm run mutate -- [--files LIST] [--changed [REV]] [--workers N] [--seeds N] [--test-seconds N] [--list] [--only LIST] [--out FILE]

Changes one operator, condition, number or call at a time and asks whether a test or a seed of the simulation notices.

  --files LIST     mutate these files alone: paths or their ends, such as zones.ts, with commas between them
  --changed [REV]  mutate only files that differ from a commit (default: HEAD); new files count
  --workers N      how many threads share the work (default: one for each processor)
  --seeds N        seeds of the default plan for what the tests let live, and as many again for all aimed scenarios together;
                   0 for none (default: 2000); accepted survivors get none
  --test-seconds N the likeliest tests of a mutant, as many as take N seconds in all; one that these let live counts as alive;
                   0 for all of them (default: 20)
  --list           print the mutants and run nothing
  --only LIST      try only the mutants whose ids begin like this, with commas between them
  --out FILE       write the score and the survivors to FILE: a table where its name ends in .md, otherwise JSON
  --help           this text

Nothing on disk is changed, but for tmp/mutation, where what was found is kept for the next run. Exit code 0: 95 of 100 or
more are killed, and each survivor is accepted in test/mutation/survivors.json; 1: they are not; 2: an option is wrong.`;

const flags = {
  files: { type: "string" },
  changed: { type: "string" },
  workers: { type: "string" },
  seeds: { type: "string" },
  "test-seconds": { type: "string" },
  list: { type: "boolean" },
  only: { type: "string" },
  out: { type: "string" },
  help: { type: "boolean" },
} as const;

/** Reads the command line. Each mistake is a line. */
export function readOptions(argv: readonly string[]): Reading {
  let values: ReturnType<typeof parse>;
  try {
    values = parse(argv);
  } catch (error) {
    return { kind: "wrong", mistakes: [`${(error as Error).message}; see --help`] };
  }
  if (values.help) return { kind: "help" };
  const mistakes: string[] = [];
  const options = {
    files: readList("files", values.files, mistakes),
    changedSince: values.changed,
    workers: readWhole("workers", values.workers, 1, availableParallelism(), mistakes),
    seeds: readWhole("seeds", values.seeds, 0, 2_000, mistakes),
    testSeconds: readWhole("test-seconds", values["test-seconds"], 0, 20, mistakes),
    list: values.list ?? false,
    only: readList("only", values.only, mistakes),
    out: values.out,
  };
  if (values.out === "") mistakes.push("--out is empty; write a path");
  return mistakes.length > 0 ? { kind: "wrong", mistakes } : { kind: "run", options };
}

function parse(argv: readonly string[]) {
  // The only flag whose value is optional.
  const args = argv.map((word, index) => {
    const next = argv[index + 1];
    return word === "--changed" && (next === undefined || next.startsWith("--")) ? "--changed=HEAD" : word;
  });
  return parseArgs({ args, options: flags }).values;
}

function readWhole(
  flag: string,
  text: string | undefined,
  least: number,
  fallback: number,
  mistakes: string[],
): number {
  if (text === undefined) return fallback;
  const value = /^\d{1,7}$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= least)) mistakes.push(`--${flag} is ${JSON.stringify(text)}; write a whole number from ${least} on`);
  return value;
}

function readList(flag: string, text: string | undefined, mistakes: string[]): readonly string[] | undefined {
  if (text === undefined) return undefined;
  const list = text.split(",").map((one) => one.trim());
  if (list.includes("")) mistakes.push(`--${flag} is ${JSON.stringify(text)}; write names with commas between them`);
  return list;
}
