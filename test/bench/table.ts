/** The figures of several trials, side by side. */
import { against, type ContenderName } from "./contenders.ts";
import { spreadOf } from "./statistics.ts";
import type { Trial } from "./trial.ts";

export interface Row<Figures> {
  readonly label: string;
  /** Undefined if a trial has no such figure. */
  readonly value: (figures: Figures) => number | undefined;
  readonly digits: number;
  /** More than this breaks a promise. */
  readonly atMost?: number;
}

/** A heading for the rows below it. */
export interface Heading {
  readonly heading: string;
}

/** The figures of a contender's trials that ended. */
export function figuresOf<Figures>(name: ContenderName, trials: readonly Trial<Figures>[]): Figures[] {
  return trials.flatMap(({ contender, figures }) => (contender === name && figures !== undefined ? [figures] : []));
}

/**
 * The lines of a table with a column for each contender: medians, with the least and the most if they differ. If this Sluice
 * and another one took part, the last column has the ratio of their figures.
 */
export function compare<Figures>(
  rows: readonly (Row<Figures> | Heading)[],
  contenders: readonly ContenderName[],
  trials: readonly Trial<Figures>[],
): string[] {
  const pairs = contenders.includes("sluice") && contenders.includes(against) ? pairsOf(trials) : undefined;
  const lines = [
    ["", ...contenders, ...(pairs === undefined ? [] : [`sluice / ${against}`])],
    ...rows.map((row) => {
      if ("heading" in row) return [row.heading];
      const cells = contenders.map((name) => cell(row, figuresOf(name, trials)));
      return [row.label, ...cells, ...(pairs === undefined ? [] : [ratioCell(row, pairs)])];
    }),
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

/** The figures of the two Sluices in each round that both ended, because other load in a round slowed both. */
function pairsOf<Figures>(trials: readonly Trial<Figures>[]): (readonly [Figures, Figures])[] {
  const others = trials.filter(({ contender }) => contender === against);
  return trials
    .filter(({ contender }) => contender === "sluice")
    .flatMap(({ figures }, round) => {
      const other = others[round]?.figures;
      return figures === undefined || other === undefined ? [] : [[figures, other] as const];
    });
}

/** The median of the rounds' ratios; a dash if there is none, for example if a figure is 0. */
function ratioCell<Figures>({ value }: Row<Figures>, pairs: readonly (readonly [Figures, Figures])[]): string {
  const ratios = pairs.flatMap(([own, other]) => {
    const ratio = (value(own) ?? Number.NaN) / (value(other) ?? Number.NaN);
    return Number.isFinite(ratio) ? [ratio] : [];
  });
  return ratios.length === 0 ? "–" : spreadText(ratios, 2);
}

/** `!` marks a broken promise. */
function cell<Figures>({ value, digits, atMost }: Row<Figures>, figures: readonly Figures[]): string {
  const values = figures.flatMap((one) => value(one) ?? []);
  if (values.length === 0) return "–";
  const range = spreadText(values, digits);
  return atMost !== undefined && Math.max(...values) > atMost ? `! ${range}` : range;
}

/** The median, with the least and the most if they differ. */
export function spreadText(values: readonly number[], digits: number): string {
  const { median, least, most } = spreadOf(values);
  const [middle = "", low = "", high = ""] = [median, least, most].map((one) => one.toFixed(digits));
  return low === high ? middle : `${middle} (${low}–${high})`;
}

/** Pads the cells of a column to one width. */
export function aligned(lines: readonly (readonly string[])[]): string[] {
  const widths = (lines[0] ?? []).map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  return lines.map((line) =>
    line
      .map((text, column) => text.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}
