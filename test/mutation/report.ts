/** The result of a run: the score, and every survivor. */
import type { Mutant } from "./mutants.ts";
import type { AcceptedSurvivor } from "./survivors.ts";

export interface Result {
  readonly mutant: Mutant;
  /** What killed it; undefined if it survived. */
  readonly by: string | undefined;
  /** False if nothing that ran would have felt the change. */
  readonly felt: boolean;
}

export interface Report {
  readonly results: readonly Result[];
  readonly accepted: ReadonlyMap<string, AcceptedSurvivor>;
  /** Accepted survivors of completely read files that match no mutant any more. */
  readonly gone: readonly AcceptedSurvivor[];
  readonly seconds: number;
}

/** At least this many of 100 mutants must be killed. */
export const leastScore = 95;

/** Killed mutants of 100, rounded down to a tenth. */
export function scoreOf(results: readonly Result[]): number {
  const killed = results.filter(({ by }) => by !== undefined).length;
  return results.length === 0 ? 100 : Math.floor((killed / results.length) * 1_000) / 10;
}

/** True if enough mutants are killed, and each survivor is accepted. */
export function isGood({ results, accepted }: Report): boolean {
  return scoreOf(results) >= leastScore && survivorsOf(results).every(({ mutant }) => accepted.has(mutant.id));
}

export function survivorsOf(results: readonly Result[]): Result[] {
  return results.filter(({ by }) => by === undefined);
}

/** A line for a reader: place, change and id. */
export function describeMutant({ file, line, within, original, replacement, id }: Mutant): string {
  const changed = replacement === "" ? "left out" : `→ ${shorten(replacement)}`;
  return `${file}:${line} ${within}: ${shorten(original)} ${changed} [${id}]`;
}

function shorten(text: string): string {
  const line = text.replace(/\s+/g, " ");
  return line.length > 90 ? `${line.slice(0, 88)} …` : line;
}

/** The report for a terminal. */
export function textOf(report: Report): string[] {
  const { results, accepted, gone, seconds } = report;
  const lines: string[] = [];
  const survivors = survivorsOf(results);
  for (const { mutant, felt } of survivors.filter(({ mutant }) => !accepted.has(mutant.id))) {
    lines.push(`survived: ${describeMutant(mutant)}${felt ? "" : ", and nothing feels it"}`);
  }
  for (const { mutant } of results.filter(({ mutant, by }) => by !== undefined && accepted.has(mutant.id))) {
    lines.push(`accepted as a survivor, but killed: ${describeMutant(mutant)}`);
  }
  for (const { id, file, within, change } of gone) {
    lines.push(`accepted as a survivor, but gone: ${file} ${within}: ${change} [${id}]`);
  }
  for (const [file, own] of Map.groupBy(results, ({ mutant }) => mutant.file)) {
    lines.push(`${String(scoreOf(own)).padStart(5)} of 100  ${survivorsOf(own).length} of ${own.length} live  ${file}`);
  }
  const killed = results.length - survivors.length;
  const excused = survivors.filter(({ mutant }) => accepted.has(mutant.id)).length;
  lines.push(
    `${killed} of ${results.length} mutants killed, ${scoreOf(results)} of 100, in ${seconds.toFixed(0)} s; ${excused} survivors are accepted, ${survivors.length - excused} are not`,
  );
  return lines;
}

/** The report as a Markdown table of files and a list of survivors. */
export function markdownOf({ results, accepted }: Report): string {
  const cell = (text: string) => `\`${shorten(text).replaceAll("|", "\\|").replaceAll("`", "'")}\``;
  const rows = [...Map.groupBy(results, ({ mutant }) => mutant.file)].map(
    ([file, own]) => `| \`${file}\` | ${own.length} | ${own.length - survivorsOf(own).length} | ${scoreOf(own)} |`,
  );
  const killed = results.length - survivorsOf(results).length;
  const all = `| all | ${results.length} | ${killed} | ${scoreOf(results)} |`;
  const list = survivorsOf(results).map(({ mutant }) => {
    const { file, within, original, replacement, id } = mutant;
    const why = accepted.get(id)?.why ?? "not accepted";
    return `| \`${file}\` ${within} | ${cell(original)} | ${replacement === "" ? "left out" : cell(replacement)} | ${why} |`;
  });
  const head = ["| file | mutants | killed | of 100 |", "|---|---|---|---|", ...rows, all];
  const survivors = ["| where | what | becomes | why it lives |", "|---|---|---|---|", ...list];
  return `${[...head, "", ...(list.length > 0 ? survivors : ["Nothing survives."])].join("\n")}\n`;
}
