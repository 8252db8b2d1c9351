/** The half of the process manager that functions talk to: it remembers calls, keeps files, and gives the runner its commands. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "../../shared/base/error-message.ts";
import { type AcceptedCall, decideCall, type ProcessCall, type ProcessVerb } from "./decide-call.ts";
import { decideAttempts, decideState, type ManagedState } from "./decide-state.ts";
import { isSum, KeptFiles, readMounted, type SecretFiles, sumOf } from "./kept-files.ts";
import { StateFiles } from "./state-files.ts";

/** A runner that shows nothing for so long is away. It shows itself each second. */
const awayAfterMs = 5_000;

export interface ManagerSettings {
  readonly podUid: string;
  readonly stateFolder: string;
  readonly filesFolder: string;
  readonly mountedFolder: string;
  readonly drainMs: number;
}

export type ManagerLog = (level: "info" | "warn", message: string) => void;

/** The body of each answer. */
export interface StatusBody {
  readonly podUid: string;
  readonly state: ManagedState;
  readonly since: string | null;
  readonly pid: number | null;
  readonly processId: string | null;
  readonly attempts: number;
  /** Sum of what is mounted now; `unknown` where it cannot be read. */
  readonly configChecksum: string;
  /** Sum of what the process started with; `unknown` where the runner cannot compute it. */
  readonly runningChecksum: string | null;
  /** Sum of the last call, if files of it are kept. */
  readonly stagedChecksum: string | null;
  readonly lastEpoch: number | null;
  readonly restartId: string | null;
  /** What the runner was last asked for, whether it has read that or not. */
  readonly lastCommand: ProcessVerb | null;
}

export interface ManagerAnswer {
  readonly status: number;
  readonly message?: string;
}

export class ManagedProcess {
  readonly #settings: ManagerSettings;
  readonly #nowMs: () => number;
  readonly #log: ManagerLog;
  readonly #files: StateFiles;
  readonly #kept: KeptFiles;
  #last: AcceptedCall | undefined;
  /** Monotonic time from which the clients of the process have left; undefined while no stop waits for them. */
  #drainedMs: number | undefined;
  /** Last text of the file in which the runner counts, and the monotonic time at which it was first seen. */
  #beat: string | undefined;
  #beatMs = Number.NEGATIVE_INFINITY;
  readonly #startedMs: number;

  /** Throws if what an earlier server has left cannot be read. */
  constructor(settings: ManagerSettings, nowMs: () => number, log: ManagerLog) {
    this.#settings = settings;
    this.#nowMs = nowMs;
    this.#startedMs = nowMs();
    this.#log = log;
    this.#files = new StateFiles(settings.stateFolder);
    this.#kept = new KeptFiles(settings.filesFolder);
    this.#beat = this.#readBeat();
    this.#last = this.#files.readCall();
    this.#noteDraining();
  }

  /** Whether clients may use the process. */
  get isReady(): boolean {
    return this.#state() === "started";
  }

  status(): StatusBody {
    const report = this.#files.readReport();
    const mounted = readMounted(this.#settings.mountedFolder);
    const { sum, epoch, restartId } = this.#last ?? {};
    const command = this.#files.readCommand();
    return {
      podUid: this.#settings.podUid,
      state: this.#state(),
      since: report?.since ?? null,
      pid: report?.pid ?? null,
      processId: report?.processId ?? null,
      attempts: decideAttempts({ report, command }),
      configChecksum: mounted === undefined ? "unknown" : sumOf(mounted),
      runningChecksum: report?.sum ?? null,
      stagedChecksum: sum !== undefined && this.#kept.has(sum) ? sum : null,
      lastEpoch: epoch ?? null,
      restartId: restartId ?? null,
      lastCommand: command?.verb ?? null,
    };
  }

  /** Does what the call asks, once. Returns when that is on disk; throws if it cannot be written. */
  call(call: ProcessCall): ManagerAnswer {
    const mounted = this.#mountedWith(call.sum);
    const hasFiles = call.sum !== undefined && (mounted !== undefined || this.#kept.has(call.sum));
    const decision = decideCall(call, {
      podUid: this.#settings.podUid,
      last: this.#last,
      state: this.#state(),
      commanded: this.#files.readCommand()?.verb,
      hasFiles,
    });
    if (decision.kind !== "accepted") return decision;
    const { status, step } = decision;
    this.#keep(call.sum, mounted);
    const accepted = { ...call, step };
    this.#files.writeCall(accepted);
    this.#last = accepted;
    this.#noteDraining();
    if (step === "sent") this.#files.writeCommand(commandOf(call));
    this.#log("info", `${call.verb} of ${call.restartId}, epoch ${call.epoch}: ${step}`);
    return { status };
  }

  /** To be called each second: it notes that the runner is there, ends the wait for clients, and brings files that were lost. */
  tick(): void {
    const beat = this.#readBeat();
    if (beat !== undefined && beat !== this.#beat) [this.#beat, this.#beatMs] = [beat, this.#nowMs()];
    try {
      this.#endDraining();
      this.#sendAgain();
      this.#restoreFiles();
    } catch (error) {
      this.#log("warn", `the state of the pod cannot be written: ${messageOf(error)}`);
    }
  }

  #state(): ManagedState {
    return decideState({
      report: this.#files.readReport(),
      isBeating: this.#nowMs() - this.#beatMs < awayAfterMs,
      isDraining: this.#last?.step === "draining",
      command: this.#files.readCommand(),
    });
  }

  #readBeat(): string | undefined {
    try {
      return readFileSync(join(this.#settings.filesFolder, "beat"), "utf8");
    } catch {
      return undefined;
    }
  }

  /** A stop that replaces another does not begin the wait anew; a server that starts does. */
  #noteDraining(): void {
    const isDraining = this.#last?.step === "draining";
    this.#drainedMs = isDraining ? (this.#drainedMs ?? this.#nowMs() + this.#settings.drainMs) : undefined;
  }

  /** A process that has failed has no clients. Its runner must have the command before it starts the process again. */
  #endDraining(): void {
    if (this.#last?.step !== "draining") return;
    const isBeating = this.#nowMs() - Math.max(this.#beatMs, this.#startedMs) < awayAfterMs;
    if (isBeating && this.#files.readReport()?.state === "started" && this.#nowMs() < (this.#drainedMs ?? 0)) return;
    const sent = { ...this.#last, step: "sent" as const };
    this.#files.writeCall(sent);
    this.#last = sent;
    this.#noteDraining();
    this.#files.writeCommand(commandOf(sent));
  }

  /** Writes the command of the last call if an earlier server has noted the call, and ended before it wrote the command. */
  #sendAgain(): void {
    const last = this.#last;
    if (last?.step === "sent" && this.#files.readCommand()?.epoch !== last.epoch)
      this.#files.writeCommand(commandOf(last));
  }

  /** The memory of a pod is empty after its node has booted. The runner then waits for the files of its sum. */
  #restoreFiles(): void {
    const sums = new Set([this.#files.readReport()?.sum, this.#last?.sum]);
    for (const sum of sums) this.#keep(sum, this.#mountedWith(sum));
  }

  /** The mounted files if they have the sum and are not kept yet. */
  #mountedWith(sum: string | undefined): SecretFiles | undefined {
    if (sum === undefined || !isSum(sum) || this.#kept.has(sum)) return undefined;
    const files = readMounted(this.#settings.mountedFolder);
    return files !== undefined && sumOf(files) === sum ? files : undefined;
  }

  #keep(sum: string | undefined, files: SecretFiles | undefined): void {
    if (sum === undefined || files === undefined) return;
    const report = this.#files.readReport();
    // A runner that has not started anything yet may be copying.
    if (report !== undefined && report.state !== "waiting") this.#kept.removeOthers([report.sum, sum, this.#last?.sum]);
    this.#kept.keep(sum, files);
  }
}

const commandOf = ({ verb, epoch, sum }: ProcessCall) => ({ verb, epoch, sum });
