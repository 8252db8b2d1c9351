/** The outcome of a run: counts, times, and which files are flaky. */

/** The outcome of one file in one run. */
export interface Outcome {
  readonly file: string;
  readonly passed: number;
  readonly skipped: number;
  /** Number of passed tests that used a real API server. */
  readonly real: number;
  /** Names of the failed tests. */
  readonly failures: readonly string[];
  readonly tookMs: number;
  /** Processor time of its process, and of children that ended before it; undefined: not measured. */
  readonly cpuMs: number | undefined;
}

export interface Summary {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  readonly real: number;
  /** `FILE: TEST` for each test that failed for good. */
  readonly failures: readonly string[];
  /** `FILE: TEST` for each failed test whose file passed when it ran once more, alone. */
  readonly flaky: readonly string[];
  readonly isGreen: boolean;
}

/** More flaky files than this fail the run. */
const mostFlaky = 2;

export const isFailed = ({ failures }: Outcome): boolean => failures.length > 0;

/** A second run in which fewer tests pass, for example because they are skipped, proves nothing. */
function isRecovered(first: Outcome, other: Outcome | undefined): boolean {
  return other !== undefined && !isFailed(other) && other.passed >= first.passed;
}

/** @param again outcomes of the files that ran once more because they had failed */
export function summarize(outcomes: readonly Outcome[], again: readonly Outcome[] = []): Summary {
  const second = new Map(again.map((outcome) => [outcome.file, outcome]));
  const last = outcomes.map((outcome) => {
    const other = second.get(outcome.file);
    return other !== undefined && (isFailed(other) || isRecovered(outcome, other)) ? other : outcome;
  });
  const namesOf = ({ file, failures }: Outcome) => failures.map((name) => `${file}: ${name}`);
  const recovered = outcomes.filter((one) => isFailed(one) && isRecovered(one, second.get(one.file)));
  const sum = (count: (outcome: Outcome) => number) => last.reduce((total, outcome) => total + count(outcome), 0);
  const failed = sum(({ failures }) => failures.length);
  const passed = sum((outcome) => outcome.passed);
  return {
    passed,
    failed,
    skipped: sum(({ skipped }) => skipped),
    real: sum(({ real }) => real),
    failures: last.flatMap(namesOf),
    flaky: recovered.flatMap(namesOf),
    isGreen: failed === 0 && passed > 0 && recovered.length <= mostFlaky,
  };
}

/** The slowest files first. */
export function slowest(outcomes: readonly Outcome[], count: number): readonly Outcome[] {
  return outcomes.toSorted((one, other) => other.tookMs - one.tookMs).slice(0, count);
}
