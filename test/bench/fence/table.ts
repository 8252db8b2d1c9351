/** The figures of fences, and what the original waits for in the same cases. */
import { aligned, spreadText } from "../table.ts";
import { type FenceCase, type FenceRow, type FenceTrial, fenceCases, fenceRows } from "./figures.ts";
import { originalSeconds } from "./original.ts";
import type { SimulatedFence } from "./simulated.ts";

/** Of all machines, in seconds. */
export const watchdogSeconds = 10;
export const nodesOfTrials = 3;

const meanings: Readonly<Record<FenceCase, string>> = {
  silent: "the node is cut off from all, and marked once its Node is Unknown, as a health checker does it",
  "silent-at-once": "the node is cut off from all, and marked in the same moment",
  returning: "the node is marked while it can be reached; it resets itself, and starts again",
};

const limits = [
  "The machines are namespaces that start within a second, and the watchdog is played. Function, agents, API server",
  "and controllers are the real ones, with their defaults. The pod has no volume and no image to pull, it is Ready",
  "when its kubelet starts it, and a played scheduler binds it at once: what these take in a cluster comes on top.",
];

/** The worst value of a row in a case, in seconds, if that is more than it may be. */
export interface BrokenBound {
  readonly fenceCase: FenceCase;
  readonly label: string;
  readonly seconds: number;
  readonly atMost: number;
}

/** The values of one row in one case, in seconds. */
function valuesOf(trials: readonly FenceTrial[], fenceCase: FenceCase, { value }: FenceRow): number[] {
  return trials
    .filter((trial) => trial.fenceCase === fenceCase)
    .flatMap(({ figures }) => {
      const ms = figures && value(figures);
      return ms === undefined ? [] : [ms / 1_000];
    });
}

/** Each bound that the worst trial of a case breaks. */
export function brokenBounds(trials: readonly FenceTrial[]): BrokenBound[] {
  return fenceRows.flatMap((row) =>
    fenceCases.flatMap((fenceCase) => {
      const { label, atMost = Number.POSITIVE_INFINITY } = row;
      const seconds = Math.max(...valuesOf(trials, fenceCase, row));
      return seconds > atMost ? [{ fenceCase, label, seconds, atMost }] : [];
    }),
  );
}

/** One table for people: a column for each case that took part, and what the original waits for in it. */
export function fenceTable(trials: readonly FenceTrial[]): string {
  const cases = fenceCases.filter((fenceCase) => trials.some((trial) => trial.fenceCase === fenceCase));
  const rows = fenceRows.flatMap((row) => {
    const cells = cases.map((fenceCase) => cellOf(valuesOf(trials, fenceCase, row), row));
    if (cells.every((cell) => cell === "")) return [];
    return [[row.label, ...cells, row.atMost === undefined ? "" : String(row.atMost)]];
  });
  const original = String(originalSeconds(nodesOfTrials, watchdogSeconds));
  const lines = [
    ["seconds", ...cases, "at most"],
    ...rows,
    ["trials that ended", ...cases.map((fenceCase) => endedOf(trials, fenceCase)), ""],
    ["load of this machine before each trial", ...cases.map((fenceCase) => loadOf(trials, fenceCase)), ""],
    ["self-node-remediation waits, by its own formula", ...cases.map(() => original), ""],
  ];
  const described = cases.map((fenceCase) => `  ${fenceCase}: ${meanings[fenceCase]}`);
  const heading = `Fences of one of ${nodesOfTrials} nodes, watchdog ${watchdogSeconds} s:`;
  return [heading, ...described, "", ...indented(lines), "", ...limits].join("\n");
}

/** `!` marks a broken bound. */
function cellOf(seconds: readonly number[], { atMost = Number.POSITIVE_INFINITY }: FenceRow): string {
  if (seconds.length === 0) return "";
  return `${Math.max(...seconds) > atMost ? "! " : ""}${spreadText(seconds, 1)}`;
}

function endedOf(trials: readonly FenceTrial[], fenceCase: FenceCase): string {
  const all = trials.filter((trial) => trial.fenceCase === fenceCase);
  return `${all.filter(({ figures }) => figures !== undefined).length} of ${all.length}`;
}

function loadOf(trials: readonly FenceTrial[], fenceCase: FenceCase): string {
  const loads = trials.filter((trial) => trial.fenceCase === fenceCase).map(({ load }) => load);
  return spreadText(loads, 1);
}

/** The same at other sizes: by the original's formula, and of ours in virtual time. */
export function sizesTable(fences: readonly SimulatedFence[]): string {
  const lines = [
    ["nodes", ...fences.map(({ nodes }) => String(nodes))],
    [
      "self-node-remediation waits, by its own formula",
      ...fences.map(({ nodes }) => String(originalSeconds(nodes, watchdogSeconds))),
    ],
    [
      "a silent node: from armed until time is evidence",
      ...fences.map(({ armedToEvidenceMs }) => (armedToEvidenceMs / 1_000).toFixed(1)),
    ],
    [
      "from the mark until the taint out-of-service",
      ...fences.map(({ markToTaintMs }) => (markToTaintMs / 1_000).toFixed(1)),
    ],
    ["peers of the node", ...fences.map(({ peers }) => String(peers))],
  ];
  const heading = "Seconds at other sizes. Ours are of the shipped function in virtual time, with played agents:";
  return [heading, "", ...indented(lines)].join("\n");
}

const indented = (lines: readonly (readonly string[])[]): string[] => aligned(lines).map((line) => `  ${line}`);
