/** The figures of several trials, side by side. */
import type { ContenderName } from "./contenders.ts";
import { spreadOf } from "./statistics.ts";
import type { Trial } from "./trial.ts";

export interface Row<Figures> {
  readonly label: string;
  /** Undefined where a trial has no such figure. */
  readonly value: (figures: Figures) => number | undefined;
  readonly digits: number;
  /** More than this breaks a promise. */
  readonly atMost?: number;
}

/** A line that says what the rows below it are of. */
export interface Heading {
  readonly heading: string;
}

/** The figures of a contender's trials that ended. */
export function figuresOf<Figures>(name: ContenderName, trials: readonly Trial<Figures>[]): Figures[] {
  return trials.flatMap(({ contender, figures }) => (contender === name && figures !== undefined ? [figures] : []));
}

/** The lines of a table with a column for each contender: medians, and from least to most where they differ. */
export function compare<Figures>(
  rows: readonly (Row<Figures> | Heading)[],
  contenders: readonly ContenderName[],
  trials: readonly Trial<Figures>[],
): string[] {
  const lines = [
    ["", ...contenders],
    ...rows.map((row) =>
      "heading" in row ? [row.heading] : [row.label, ...contenders.map((name) => cell(row, figuresOf(name, trials)))],
    ),
    [
      "trials that ended",
      ...contenders.map((name) => {
        const count = trials.filter(({ contender }) => contender === name).length;
        return `${figuresOf(name, trials).length} of ${count}`;
      }),
    ],
  ];
  return aligned(lines).map((line) => `  ${line}`);
}

/** `!` marks a broken promise. */
function cell<Figures>({ value, digits, atMost }: Row<Figures>, figures: readonly Figures[]): string {
  const values = figures.flatMap((one) => value(one) ?? []);
  if (values.length === 0) return "–";
  const { median, least, most } = spreadOf(values);
  const [middle = "", low = "", high = ""] = [median, least, most].map((one) => one.toFixed(digits));
  const range = low === high ? middle : `${middle} (${low}–${high})`;
  return atMost !== undefined && most > atMost ? `! ${range}` : range;
}

/** Pads the cells of a column to one width. */
function aligned(lines: readonly (readonly string[])[]): string[] {
  const widths = (lines[0] ?? []).map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  return lines.map((line) =>
    line
      .map((text, column) => text.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}
