/** The sources to mutate, and what should notice the mutants. */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { findMutants, type Mutant } from "./mutants.ts";

export interface Project {
  readonly root: string;
  /** Patterns of the files to mutate. Each must match something. */
  readonly targets: readonly string[];
  readonly tests: readonly string[];
  /** Folder of the simulation; undefined: none. */
  readonly simulation: string | undefined;
  /** Everything else that a test or a seed may read: a finding holds as long as these files are the same. */
  readonly code: readonly string[];
  readonly testCode: readonly string[];
  readonly simulationCode: readonly string[];
  /** The list of accepted survivors. */
  readonly survivors: string;
  /** A folder that is not under version control. */
  readonly cache: string;
}

/** The code that keeps the protocol: in each room the files that decide, or that determine when a rule applies. */
const shared = [
  "functions/shared/base/fields.ts",
  "functions/shared/groups/pod-disruption-budget.ts",
  "functions/shared/ledger/reservation.ts",
  "functions/shared/ledger/claim.ts",
  "functions/shared/ledger/claim-kinds.ts",
  "functions/shared/ledger/lease-name.ts",
  "functions/shared/ledger/contents.ts",
  "functions/shared/ledger/lease.ts",
  "functions/shared/ledger/settling.ts",
  "functions/shared/ledger/size.ts",
  "functions/shared/base/truncate.ts",
  "functions/shared/ledger/renewals.ts",
  "functions/shared/ledger/stamps.ts",
  "functions/shared/ledger/health-rule.ts",
  "functions/shared/health/answer.ts",
  "functions/shared/health/products.ts",
  "functions/shared/annotations/health.ts",
  "functions/shared/annotations/parse-health.ts",
  "functions/shared/groups/zones.ts",
  "functions/shared/groups/governing.ts",
  "functions/shared/groups/partitions.ts",
  "functions/shared/groups/refuse-claim.ts",
  "functions/shared/groups/pod-limit.ts",
  "functions/shared/workloads/group-key.ts",
  "functions/shared/groups/never-possible.ts",
  "functions/shared/scaling/size-changes.ts",
  "functions/shared/health/permit.ts",
  "functions/shared/cache/cache.ts",
  "functions/shared/cache/compare-with-list.ts",
  "functions/shared/cache/pod-store.ts",
  "functions/shared/cache/object-store.ts",
  "functions/shared/cache/reflector.ts",
  "functions/shared/cache/watching.ts",
  "functions/shared/cache/listing.ts",
  "functions/shared/cache/read-view.ts",
  "functions/shared/cache/shared-reads.ts",
  "functions/shared/cache/statefulset-store.ts",
  "functions/shared/cache/watch-progress.ts",
  "functions/shared/contract/keys.ts",
  "functions/shared/reconcile/perform.ts",
  "functions/shared/reconcile/conclude.ts",
  "functions/shared/reconcile/act.ts",
  "functions/shared/contract/verdict.ts",
  "functions/shared/reconcile/record.ts",
  "functions/shared/events/recorder.ts",
  "functions/shared/admission/refusal-events.ts",
  "functions/shared/transaction/claims.ts",
  "functions/shared/transaction/observe-group.ts",
  "functions/shared/transaction/ledger-copy.ts",
  "functions/shared/transaction/joining.ts",
  "functions/shared/transaction/ledger-age.ts",
  "functions/shared/transaction/claimed-objects.ts",
  "functions/shared/contract/definition.ts",
  "functions/shared/contract/memory.ts",
  "functions/evaluate-eviction/group-commit/commit.ts",
  "functions/shared/clock/deadlines.ts",
  "functions/evaluate-eviction/group-commit/granted.ts",
  "functions/evaluate-eviction/group-commit/sort-decisions.ts",
  "functions/shared/admission/answers.ts",
];

export const sluice: Project = {
  root: new URL("../..", import.meta.url).pathname.replace(/\/$/, ""),
  targets: [
    ...shared,
    "functions/*/decide*.ts",
    "functions/*/*/decide*.ts",
    "triggers/uninstall/decide.ts",
    "functions/keep-ledgers/act.ts",
  ],
  tests: ["test/unit/**/*.test.ts", "test/property/**/*.test.ts"],
  simulation: "test/simulation",
  code: ["functions/**/*.ts", "triggers/**/*.ts", "package-lock.json", "test/mutation/!(*.test).ts"],
  testCode: ["test/{unit,property,fake-cluster,support}/**/*.ts"],
  simulationCode: ["test/{simulation,fake-cluster}/**/*.ts"],
  survivors: "test/mutation/survivors.json",
  cache: "tmp/mutation",
};

/** The mutated files with the numbers of their mutants, which begin at 1. */
export interface Sources {
  readonly files: readonly { readonly file: string; readonly text: string; readonly first: number }[];
  readonly mutants: readonly Mutant[];
  readonly count: number;
  numberOf(mutant: Mutant): number;
}

/** Reads the files to mutate. Throws if a pattern matches none. */
export function readSources({ root, targets }: Project): Sources {
  const paths = targets.flatMap((pattern) => {
    const found = globSync(pattern, { cwd: root }).sort();
    if (found.length === 0) throw new Error(`${pattern} matches no file: what it meant has moved`);
    return found;
  });
  const files: { file: string; text: string; first: number }[] = [];
  const mutants: Mutant[] = [];
  for (const file of paths) {
    const text = readFileSync(join(root, file), "utf8");
    files.push({ file, text, first: mutants.length + 1 });
    mutants.push(...findMutants(file, text).mutants);
  }
  const numbers = new Map(mutants.map(({ id }, index) => [id, index + 1]));
  return { files, mutants, count: mutants.length, numberOf: ({ id }) => numbers.get(id) as number };
}

/** A hash of the files that the patterns match. */
export function hashOf(root: string, patterns: readonly string[]): string {
  const hash = createHash("sha256");
  for (const path of patterns.flatMap((pattern) => globSync(pattern, { cwd: root })).sort()) {
    hash.update(`${path}\0`).update(readFileSync(join(root, path)));
  }
  return hash.digest("hex").slice(0, 16);
}

/** The files of the working tree that differ from a commit, including new ones. Throws if git knows no such commit. */
export function changedSince(root: string, revision: string): Set<string> {
  const git = (...parameters: string[]) => execFileSync("git", parameters, { cwd: root, encoding: "utf8" });
  const lists = [
    git("diff", "--name-only", "--relative", revision, "--"),
    git("ls-files", "--others", "--exclude-standard"),
  ];
  return new Set(lists.flatMap((list) => list.split("\n")).filter(Boolean));
}
