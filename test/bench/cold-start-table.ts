/** The figures of cold starts, side by side. */
import { spreadOf } from "./statistics.ts";

/** From what a function is started. */
export const forms = ["sources", "bundle", "compiled"] as const;

export interface ColdStart {
  readonly name: string;
  /**
   * `bare`: a Node that does nothing. `least`: one that does what Node must do for an event, without packages. `whole`: one
   * that loads all of client-node. `configuration`: one that loads only its kubeconfig code. The last two end after loading.
   */
  readonly form: "bare" | "least" | "whole" | "configuration" | (typeof forms)[number];
  /**
   * Time from the start of the process to the answer to its first event, or to the end of a process that gets none, in
   * milliseconds.
   */
  readonly ms: number;
  /** Resident memory then; 0 for a bare Node, which has ended. */
  readonly residentBytes: number;
}

/** The shipped form may take this many times as long as a bare Node. */
const atMostTimes = 3;

/** Rows that are no functions of ours. */
const libraries: ReadonlySet<string> = new Set(["node", "client-node"]);

/** A Markdown table with a row for each function. `!` marks a start that takes longer than it may. */
export function coldStartTable(starts: readonly ColdStart[]): string[] {
  const of = (name: string, form: ColdStart["form"]) =>
    starts.filter((start) => start.name === name && start.form === form);
  const bareMs = spreadOf(of("node", "bare").map(({ ms }) => ms)).median;
  const cell = (name: string, form: ColdStart["form"]) => {
    const { median, least, most } = spreadOf(of(name, form).map(({ ms }) => ms));
    const resident = spreadOf(of(name, form).map(({ residentBytes }) => residentBytes)).median;
    const times = median / bareMs;
    const mark = form === "compiled" && times > atMostTimes ? "! " : "";
    const spread = `${median.toFixed(0)} (${least.toFixed(0)}–${most.toFixed(0)})`;
    return form === "bare" ? spread : `${mark}${spread}, ${times.toFixed(2)} x, ${(resident / 1e6).toFixed(0)} MB`;
  };
  const names = [...new Set(starts.map(({ name }) => name))].filter((name) => !libraries.has(name));
  const rows = names.map((name) => [name, ...forms.map((form) => cell(name, form))]);
  return [
    `A bare Node: ${cell("node", "bare")}`,
    `Node's own HTTP and TLS, and no package: ${cell("node", "least")}`,
    `All of client-node, loaded and no more: ${cell("client-node", "whole")}`,
    `Its kubeconfig alone, as Sluice loads it: ${cell("client-node", "configuration")}`,
    "",
    `| | ${forms.join(" | ")} |`,
    `|---|${forms.map(() => "---|").join("")}`,
    ...rows.map((cells) => `| ${cells.join(" | ")} |`),
  ];
}
