/** The results of all attacks as a table in Markdown. */
import { inMebibytes, type Result } from "./campaign.ts";

/** One line for the terminal. */
export function inBrief({ name, before, most, after, honestBefore, honest, failures, seconds, seen }: Result): string {
  const memory = `${inMebibytes(before)}, ${inMebibytes(most)}, ${after === undefined ? "gone" : inMebibytes(after)} MiB`;
  const p99 = `${honestBefore.reviewP99Ms.toFixed(0)} -> ${honest.reviewP99Ms.toFixed(0)} ms`;
  const line = `${failures.length === 0 ? "held  " : "FAILED"} ${name.padEnd(20)} ${memory}; reviews ${p99}; ${seconds.toFixed(1)} s; ${seen}`;
  return [line, ...failures.map((failure) => `         ${failure}`)].join("\n");
}

/** `heading` says what ran, and where. */
export function tableOf(results: readonly Result[], heading: string): string {
  const limits = [...new Set(results.map(({ limit }) => limit))];
  const rows = results.map(({ description, seen, before, most, after, honestBefore, honest, failures }) => [
    description,
    inMebibytes(before),
    inMebibytes(most),
    after === undefined ? "ended" : inMebibytes(after),
    `${honestBefore.reviewP99Ms.toFixed(0)}, ${honest.reviewP99Ms.toFixed(0)}`,
    seen,
    failures.length === 0 ? "held" : `**failed**: ${failures.join("; ")}`,
  ]);
  const titles = [
    "attack",
    "before, MiB",
    "most, MiB",
    "after, MiB",
    "honest reviews p99, ms: before, beside it",
    "seen",
    "",
  ];
  const lines = [titles, titles.map(() => "---"), ...rows];
  const escaped = lines.map(
    (cells) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|").replaceAll("\n", " ")).join(" | ")} |`,
  );
  return [heading, "", ...limits.map((limit) => `Limit: ${limit}.`), "", ...escaped, ""].join("\n");
}
