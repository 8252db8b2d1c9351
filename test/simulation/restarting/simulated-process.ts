/** The process manager of a simulated pod: the shipped decisions over a process that takes its time to stop and to start. */
import type {
  AcceptedCall,
  decideCall,
  ProcessCall,
} from "../../../functions/advance-process-restart/process-manager/decide-call.ts";
import {
  decideState,
  type ManagedState,
  type RunnerReport,
} from "../../../functions/advance-process-restart/process-manager/decide-state.ts";
import type { Delivery } from "../../../functions/shared/http/calls.ts";
import type { PodReply } from "../../fake-cluster/pod-http.ts";
import type { Timeline } from "../../fake-cluster/timeline.ts";
import type { Draw } from "../draw.ts";

export type DecideCall = typeof decideCall;

/** What a checker learns of one process. */
export interface ProcessJournal {
  /** The runner begins to stop a process. `call`: the call that asked for it. */
  onStop(call: ProcessCall, processId: string | undefined): void;
  /** The runner has read the call, and will start the process. */
  onStart(call: ProcessCall): void;
  /** The process runs, with the files of `sum`. */
  onStarted(call: ProcessCall, sum: string | undefined): void;
  onState(): void;
}

export interface ManagerOptions {
  /** True: the process starts with the mounted files only if these are there and let it; false: it runs whatever they are. */
  readonly boots: boolean;
  readonly podUid: string;
  readonly timeline: Timeline;
  readonly draw: Draw;
  readonly decide: DecideCall;
  readonly journal: ProcessJournal;
  /** Whether a process starts with the files of this sum. */
  readonly isWhole: (sum: string) => boolean;
}

/** What a server reports as the sum where no file is mounted. */
export const noFiles = "unknown";
const drainMs = 5_000;
const secondStartMs = 2_000;

export class SimulatedManager {
  /** True while the server answers nothing. The runner goes on. */
  isSilent = false;
  readonly #options: ManagerOptions;
  #mounted: string;
  /** The files that were kept for a later start. */
  #kept: string | undefined;
  #last: AcceptedCall | undefined;
  #command: ProcessCall | undefined;
  #starts = 1;
  #report: RunnerReport;

  constructor(options: ManagerOptions, mounted: string) {
    this.#options = options;
    this.#mounted = mounted;
    const since = "2026-01-01T00:00:00Z";
    const none = { handledEpoch: undefined, attempts: 1, pid: 7 };
    this.#report = { ...none, state: "started", sum: mounted, since, processId: "7-1" };
    if (options.boots) this.#boot();
  }

  /** The sum of the files that the kubelet has brought. */
  get mounted(): string {
    return this.#mounted;
  }

  set mounted(sum: string) {
    this.#mounted = sum;
    // A runner that found no file waits for one.
    if (this.#report.sum === undefined && this.#command === undefined) this.#boot();
  }

  get processId(): string | undefined {
    return this.#report.processId;
  }

  #boot(): void {
    const { isWhole } = this.#options;
    const [sum, processId] = [this.#mounted, "7-1"];
    if (isWhole(sum)) this.#note({ state: "started", sum, processId });
    else if (sum === noFiles) this.#note({ state: "waiting", sum: undefined, processId: undefined });
    else this.#note({ state: "startFailed", sum, processId: undefined });
  }

  /** The sum of the files with which the process was started. */
  get runningSum(): string | undefined {
    return this.#report.sum;
  }

  /** Whether a process can start with the files of this sum, wherever they are. */
  hasFiles(sum: string | undefined): boolean {
    return sum === this.mounted || sum === this.#kept || sum === this.#report.sum;
  }

  /** True while a process runs in the pod, also one whose clients leave or that stops. */
  get isRunning(): boolean {
    return this.#report.processId !== undefined;
  }

  get state(): ManagedState {
    const isDraining = this.#last?.step === "draining";
    return decideState({ report: this.#report, isBeating: true, isDraining, command: this.#command });
  }

  answer({ method, path, headers, body }: Delivery): PodReply {
    if (this.isSilent) return "hang";
    if (headers.authorization !== "Bearer secret") return { status: 401, body: '{"message":"wrong token"}' };
    if (method === "GET") return this.#reply(200);
    const { podUid, restartId, epoch, configChecksum: sum } = JSON.parse(body ?? "{}");
    const verb = path.replace("/es/", "") as ProcessCall["verb"];
    return this.#reply(this.#take({ verb, podUid, restartId, epoch, ...(sum === undefined ? {} : { sum }) }));
  }

  #take(call: ProcessCall): number {
    const { podUid, decide, journal, timeline } = this.#options;
    const hasFiles = this.hasFiles(call.sum);
    const view = { podUid, last: this.#last, state: this.state, commanded: this.#command?.verb, hasFiles };
    const decided = decide(call, view);
    if (decided.kind !== "accepted") return decided.status;
    const accepted = { ...call, step: decided.step };
    this.#last = accepted;
    if (call.verb === "stop" && (call.sum === undefined || hasFiles)) this.#kept = call.sum ?? this.mounted;
    if (decided.step === "sent") this.#send(call);
    if (decided.step === "draining") {
      timeline.after(drainMs, () => {
        if (this.#last !== accepted) return;
        this.#last = { ...accepted, step: "sent" };
        this.#send(call);
      });
    }
    journal.onState();
    return decided.status;
  }

  #send(command: ProcessCall): void {
    const { timeline, draw } = this.#options;
    this.#command = command;
    timeline.after(draw.between(100, 1_000), () => {
      if (this.#command !== command) return;
      if (command.verb === "start") this.#begin(command);
      else this.#end(command);
    });
  }

  #end(command: ProcessCall): void {
    const { timeline, draw, journal } = this.#options;
    const isStop = command.verb === "stop";
    journal.onStop(command, this.#report.processId);
    this.#note({ state: isStop ? "stopping" : "killing", handledEpoch: command.epoch });
    // Some processes do not end by themselves.
    if (isStop && draw.chance(0.1)) return;
    timeline.after(draw.between(200, isStop ? 8_000 : 500), () => {
      if (this.#command !== command) return;
      this.#note({ state: isStop ? "stopped" : "killed", processId: undefined });
    });
  }

  #begin(command: ProcessCall): void {
    this.#options.journal.onStart(command);
    this.#note({ handledEpoch: command.epoch, attempts: 0, state: "waiting" });
    this.#attempt(command);
  }

  #attempt(command: ProcessCall): void {
    const { timeline, draw, journal, isWhole } = this.#options;
    const attempts = this.#report.attempts + 1;
    timeline.after(draw.between(500, 4_000), () => {
      if (this.#command !== command) return;
      const sum = command.sum ?? this.#report.sum ?? this.mounted;
      if (isWhole(sum)) {
        this.#note({ state: "started", attempts, sum, processId: `7-${++this.#starts}` });
        journal.onStarted(command, sum);
        return;
      }
      this.#note({ state: "startFailed", attempts });
      timeline.after(secondStartMs, () => {
        if (this.#command === command) this.#attempt(command);
      });
    });
  }

  #note(changes: Partial<RunnerReport>): void {
    this.#report = { ...this.#report, ...changes };
    this.#options.journal.onState();
  }

  #reply(status: number): PodReply {
    const { state, attempts, sum, processId } = { ...this.#report, state: this.state };
    const body = JSON.stringify({
      ...{ podUid: this.#options.podUid, state, attempts, configChecksum: this.mounted },
      ...{ processId: state === "started" ? processId : null, lastEpoch: this.#last?.epoch ?? null },
      ...{ restartId: this.#last?.restartId ?? null, lastCommand: this.#command?.verb ?? null },
      ...{ stagedChecksum: this.#kept ?? null, runningChecksum: sum ?? null },
    });
    return { status, body };
  }
}
