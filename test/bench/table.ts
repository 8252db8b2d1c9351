/** The figures of all trials, side by side. */
import type { ContenderName } from "./contenders.ts";
import { limitMs, type Size } from "./sizes.ts";
import { spreadOf } from "./statistics.ts";
import type { Figures, Trial } from "./trial.ts";

interface Row {
  readonly label: string;
  readonly value: (figures: Figures) => number;
  readonly digits: number;
  /** More than this breaks a promise. */
  readonly atMost?: (size: Size) => number;
}

const megabyte = 1_000_000;

const rows: readonly Row[] = [
  { label: "time / limit", value: ({ timeOverLimit }) => timeOverLimit, digits: 2 },
  {
    label: "pods of a zone down at once, worst",
    value: ({ mostDown }) => mostDown,
    digits: 0,
    atMost: ({ budget }) => budget,
  },
  { label: "zones down at once, worst", value: ({ mostZonesDown }) => mostZonesDown, digits: 0, atMost: () => 1 },
  { label: "API requests per pod, Events included", value: ({ requestsPerPod }) => requestsPerPod, digits: 2 },
  { label: "watches opened meanwhile", value: ({ watches }) => watches, digits: 0 },
  { label: "KB received per pod, watches included", value: ({ bytesPerPod }) => bytesPerPod / 1000, digits: 1 },
  { label: "CPU, seconds", value: ({ cpuSeconds }) => cpuSeconds, digits: 2 },
  { label: "resident memory, peak, MB", value: (figures) => figures.peakResidentBytes / megabyte, digits: 0 },
  { label: "resident memory, at the end, MB", value: (figures) => figures.residentBytes / megabyte, digits: 0 },
  { label: "CPU of the control plane, seconds", value: (figures) => figures.controlPlaneCpuSeconds, digits: 1 },
  { label: "CPU of kubelets and observer, seconds", value: (figures) => figures.harnessCpuSeconds, digits: 1 },
];

/** A cell: the median, and from least to most where they differ; `!` marks a broken promise. */
function cell(row: Row, size: Size, figures: readonly Figures[]): string {
  if (figures.length === 0) return "–";
  const { median, least, most } = spreadOf(figures.map(row.value));
  const [middle = "", low = "", high = ""] = [median, least, most].map((value) => value.toFixed(row.digits));
  const range = low === high ? middle : `${middle} (${low}–${high})`;
  return row.atMost !== undefined && most > row.atMost(size) ? `! ${range}` : range;
}

/** The table of one size, with the requests of each contender under it. */
export function tableOf(size: Size, contenders: readonly ContenderName[], trials: readonly Trial[]): string {
  const own = trials.filter((trial) => trial.size === size.label);
  const figuresOf = (name: ContenderName) =>
    own.flatMap(({ contender, figures }) => (contender === name && figures !== undefined ? [figures] : []));
  const lines = [
    ["", ...contenders],
    ...rows.map((row) => [row.label, ...contenders.map((name) => cell(row, size, figuresOf(name)))]),
    [
      "trials that ended",
      ...contenders.map((name) => {
        const count = own.filter(({ contender }) => contender === name).length;
        return `${figuresOf(name).length} of ${count}`;
      }),
    ],
  ];
  return [
    `${size.zones} zones of ${size.pods} pods, budget ${size.budget}: the limit is ${limitMs(size) / 1000} s`,
    ...aligned(lines).map((line) => `  ${line}`),
    ...contenders.flatMap((name) => {
      const [first] = figuresOf(name);
      return first === undefined ? [] : [`  ${name}, first trial, requests per pod: ${requestsOf(first, size)}`];
    }),
  ].join("\n");
}

function requestsOf({ requestCounts }: Figures, size: Size): string {
  const all = size.zones * size.pods;
  return requestCounts
    .map(
      ({ verb, resource, requests }) => `${verb} ${resource} ${(requests / all).toFixed(requests < all / 20 ? 3 : 2)}`,
    )
    .join(", ");
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
