/** Decides in which state the process is, by what the runner has written. Pure. */

/** What the runner reports in its file. */
const runnerStates = [
  "waiting",
  "started",
  "startFailed",
  "stopping",
  "stopped",
  "stopFailed",
  "killing",
  "killed",
  "killFailed",
  "failed",
] as const;

export type RunnerState = (typeof runnerStates)[number];

/** `away`: the runner has not shown for five seconds that it is there. */
export type ManagedState = RunnerState | "away";

/** The last line of the runner. */
export interface RunnerReport {
  readonly state: RunnerState;
  /** Epoch of the last command that it has read; undefined before the first one. */
  readonly handledEpoch: number | undefined;
  /** How often it has tried to start the process since it was asked to. */
  readonly attempts: number;
  /** Sum of the files with which the process started; undefined where no file is Sluice's. */
  readonly sum: string | undefined;
  /** Time of the state, in RFC 3339. */
  readonly since: string;
  readonly pid: number | undefined;
  /** Names one start of the process: the system gives the same pid out again. */
  readonly processId: string | undefined;
}

/** The fields stand in one line, with `-` for what is undefined. Undefined for any other text. */
export function parseReport(text: string): RunnerReport | undefined {
  const [state, handled, attempts, sum, since, pid, processId, ...more] = text.trimEnd().split(" ");
  const known = runnerStates.find((one) => one === state);
  if (known === undefined || processId === undefined || more.length > 0) return undefined;
  const counts = [handled, attempts, pid].map((field) => (/^\d{1,15}$/.test(field ?? "") ? Number(field) : undefined));
  return {
    state: known,
    handledEpoch: counts[0],
    attempts: counts[1] ?? 0,
    sum: sum === "-" ? undefined : sum,
    since: since ?? "",
    pid: counts[2],
    processId: processId === "-" ? undefined : processId,
  };
}

export interface StateView {
  readonly report: RunnerReport | undefined;
  /** Whether the runner has shown within five seconds that it is there. */
  readonly isBeating: boolean;
  /** Whether a stop waits for clients to leave. */
  readonly isDraining: boolean;
  /** What the runner was last asked for. */
  readonly command: { readonly verb: "start" | "stop" | "kill"; readonly epoch: number } | undefined;
}

/** A report counts only with the command that it has read: what stopped before that may run again by now. */
export function decideState({ report, isBeating, isDraining, command }: StateView): ManagedState {
  if (!isBeating) return "away";
  if (report === undefined) return "waiting";
  if (isDraining && report.state === "started") return "stopping";
  if (isUnread(report, command)) {
    if (command?.verb === "stop") return "stopping";
    if (command?.verb === "kill") return "killing";
  }
  return report.state;
}

/** How often a start was tried for the last command. One that was just sent must not inherit the failures before it. */
export function decideAttempts({ report, command }: Pick<StateView, "report" | "command">): number {
  return report === undefined || isUnread(report, command) ? 0 : report.attempts;
}

function isUnread({ handledEpoch }: RunnerReport, command: StateView["command"]): boolean {
  return command !== undefined && handledEpoch !== command.epoch;
}

const stoppingStates: readonly ManagedState[] = ["stopping", "stopFailed", "killing", "killFailed"];

/** Whether a stop is under way. */
export const isStopping = (state: ManagedState): boolean => stoppingStates.includes(state);
