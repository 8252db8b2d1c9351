/** The files through which the server and the runner speak, and the call that the server remembers. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseFields } from "../../shared/base/fields.ts";
import { replaceFile } from "../../shared/base/replace-file.ts";
import type { AcceptedCall, CallStep, ProcessVerb } from "./decide-call.ts";
import { parseReport, type RunnerReport } from "./decide-state.ts";
import { parseCall } from "./parse-call.ts";

/** What the runner is asked for. */
export interface RunnerCommand {
  readonly verb: ProcessVerb;
  readonly epoch: number;
  readonly sum: string | undefined;
}

const steps: readonly CallStep[] = ["draining", "sent", "none"];
const verbs: readonly ProcessVerb[] = ["start", "stop", "kill"];

/** The folder is on disk, so that what is stopped stays stopped after the node has booted. */
export class StateFiles {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Undefined before the runner has written, and for a line of another version. */
  readReport(): RunnerReport | undefined {
    const text = this.#read("runner");
    return text === undefined ? undefined : parseReport(text);
  }

  /** Undefined while the runner has none. */
  readCommand(): RunnerCommand | undefined {
    const [verb, epoch, sum] = (this.#read("command") ?? "").trimEnd().split(" ");
    const known = verbs.find((one) => one === verb);
    if (known === undefined) return undefined;
    return { verb: known, epoch: Number(epoch), sum: sum === "-" ? undefined : sum };
  }

  /** Returns when it is on disk. Throws if it cannot be written. */
  writeCommand({ verb, epoch, sum = "-" }: RunnerCommand): void {
    this.#writeDurably("command", `${verb} ${epoch} ${sum}\n`);
  }

  /** Undefined before the first call. Throws if the file is no call: without its epoch late calls could not be refused. */
  readCall(): AcceptedCall | undefined {
    const text = this.#read("call");
    if (text === undefined) return undefined;
    const { verb, step } = parseFields(text) ?? {};
    const knownVerb = verbs.find((one) => one === verb);
    const knownStep = steps.find((one) => one === step);
    const call = knownVerb === undefined ? "" : parseCall(knownVerb, text);
    if (typeof call === "string" || knownStep === undefined) {
      throw new Error(
        `${join(this.#folder, "call")} is no call of this server: remove the pod, or the file if no restart runs`,
      );
    }
    return { ...call, step: knownStep };
  }

  /** Returns when it is on disk. Throws if it cannot be written. */
  writeCall({ sum, ...call }: AcceptedCall): void {
    this.#writeDurably("call", `${JSON.stringify({ ...call, configChecksum: sum })}\n`);
  }

  #read(name: string): string | undefined {
    try {
      return readFileSync(join(this.#folder, name), "utf8");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw error;
    }
  }

  #writeDurably(name: string, text: string): void {
    replaceFile(join(this.#folder, name), text, { mode: 0o640, isDurable: true });
  }
}
