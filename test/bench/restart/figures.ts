/** What the trials of restarts measure, what they promise, and their table. */
import { spreadOf } from "../statistics.ts";
import { aligned, spreadText } from "../table.ts";

/**
 * - `in-place`: Sluice restarts each process inside its pod, in its turn.
 * - `deleted`: a user deletes one pod after the other, and goes on when it is Ready and the database is green.
 */
export const ways = ["in-place", "deleted"] as const;
export type Way = (typeof ways)[number];

/** Time from the creation of a pod to the start of its containers, in seconds: binding, volumes and images. */
export const startDelays = [0, 10] as const;
export type StartDelay = (typeof startDelays)[number];

export interface RestartFigures {
  /** From the wish to the end of the last restart, with a green database. */
  readonly wholeMs: number;
  /** How long each pod had no process, by the journals of the processes. */
  readonly downMs: readonly number[];
  /** Reads of a client that failed. */
  readonly readErrors: number;
}

export interface RestartTrial {
  readonly way: Way;
  readonly startDelay: StartDelay;
  /** Load of the machine in the minute before it began. */
  readonly load: number;
  readonly figures: RestartFigures | undefined;
  /** Why there are no figures. */
  readonly failure: string | undefined;
}

/** By how many seconds a process in place may be down longer than that of a deleted pod: less than 0 is shorter. */
export const mostLonger: Readonly<Record<StartDelay, number>> = { 0: 2, 10: -8 };

const limits = [
  "The machine is one, so that all processes share its processors. The wait for clients before a stop in place (5 s for",
  "each process) is in the whole time, and in no time that a process is down: until it has ended the process runs.",
];

function figuresOf(trials: readonly RestartTrial[], way: Way, startDelay: StartDelay): RestartFigures[] {
  return trials.flatMap((trial) =>
    trial.way === way && trial.startDelay === startDelay && trial.figures !== undefined ? [trial.figures] : [],
  );
}

const downIn = (figures: readonly RestartFigures[], pod: number): number[] =>
  figures.flatMap(({ downMs }) => downMs[pod] ?? []).map((ms) => ms / 1_000);

/** For each pod by how many seconds its process is down longer in place, by the medians. Empty without trials of both ways. */
export function longerInPlace(trials: readonly RestartTrial[], startDelay: StartDelay): number[] {
  const [own, other] = ways.map((way) => figuresOf(trials, way, startDelay));
  const pods = [...(own?.[0]?.downMs.keys() ?? [])];
  if (own === undefined || other === undefined || other.length === 0) return [];
  return pods.map((pod) => spreadOf(downIn(own, pod)).median - spreadOf(downIn(other, pod)).median);
}

/** A line for each promise that is broken. */
export function brokenPromises(trials: readonly RestartTrial[]): string[] {
  return startDelays.flatMap((startDelay) => {
    const longest = Math.max(...longerInPlace(trials, startDelay));
    const atMost = mostLonger[startDelay];
    const what = `with pods that start after ${startDelay} s, a process is down ${longest.toFixed(1)} s longer in place`;
    return longest > atMost ? [`${what}, and at most ${atMost} s are promised`] : [];
  });
}

/** One table for people: a column for each way and delay. */
export function restartTable(trials: readonly RestartTrial[], names: readonly string[]): string {
  const cases = startDelays.flatMap((startDelay) => ways.map((way) => ({ way, startDelay })));
  const row = (label: string, value: (figures: readonly RestartFigures[]) => readonly number[], digits = 1) => [
    label,
    ...cases.map(({ way, startDelay }) => {
      const values = value(figuresOf(trials, way, startDelay));
      return values.length === 0 ? "–" : spreadText(values, digits);
    }),
  ];
  const lines = [
    ["seconds", ...cases.map(({ way, startDelay }) => `${way}, ${startDelay} s`)],
    row("whole time", (figures) => figures.map(({ wholeMs }) => wholeMs / 1_000)),
    ...names.map((name, pod) => row(`${name} has no process`, (figures) => downIn(figures, pod))),
    row("reads that failed", (figures) => figures.map(({ readErrors }) => readErrors), 0),
    [
      "trials that ended",
      ...cases.map(({ way, startDelay }) => {
        const all = trials.filter((trial) => trial.way === way && trial.startDelay === startDelay);
        return `${figuresOf(trials, way, startDelay).length} of ${all.length}`;
      }),
    ],
  ];
  const longer = startDelays.map((startDelay) => {
    const seconds = longerInPlace(trials, startDelay).map((one) => one.toFixed(1));
    return `  ${startDelay} s: a process is down ${seconds.join(", ") || "–"} s longer in place (at most ${mostLonger[startDelay]} s)`;
  });
  const heading = "A rolling restart of three OpenSearch nodes, by the time after which a new pod starts:";
  return [heading, "", ...aligned(lines).map((line) => `  ${line}`), "", ...longer, "", ...limits].join("\n");
}
