/** The figures of cold starts, side by side. */
import { spreadOf } from "./statistics.ts";

/** What a function is started from. */
export const forms = ["sources", "bundle", "compiled"] as const;

export interface ColdStart {
  readonly name: string;
  readonly form: "bare" | (typeof forms)[number];
  /** From the start of the process to the answer to its first event; for a bare Node to its end. */
  readonly ms: number;
}

/** So many times as long as a bare Node may take what is shipped. */
const atMostTimes = 3;

/** A Markdown table with a row for each function. `!` marks what takes longer than it may. */
export function coldStartTable(starts: readonly ColdStart[]): string[] {
  const spread = (name: string, form: ColdStart["form"]) =>
    spreadOf(starts.flatMap((start) => (start.name === name && start.form === form ? [start.ms] : [])));
  const bare = spread("node", "bare");
  const names = [...new Set(starts.filter(({ form }) => form !== "bare").map(({ name }) => name))];
  const rows = names.map((name) => [
    name,
    ...forms.map((form) => {
      const { median, least, most } = spread(name, form);
      const times = median / bare.median;
      const mark = form === "compiled" && times > atMostTimes ? "! " : "";
      return `${mark}${median.toFixed(0)} (${least.toFixed(0)}–${most.toFixed(0)}), ${times.toFixed(2)} x`;
    }),
  ]);
  return [
    `A bare Node: ${bare.median.toFixed(0)} (${bare.least.toFixed(0)}–${bare.most.toFixed(0)})`,
    "",
    `| | ${forms.join(" | ")} |`,
    `|---|${forms.map(() => "---|").join("")}`,
    ...rows.map((cells) => `| ${cells.join(" | ")} |`),
  ];
}
