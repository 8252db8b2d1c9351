import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type Command, programEnvironment } from "./commands.ts";
import { type Launched, launch, tail } from "./processes.ts";

/** A child that ended by itself. */
export interface LostProcess {
  readonly name: string;
  /** For people: how it ended and the last lines of its log. */
  readonly explanation: string;
}

const TAIL_LINES = 15;

/** Starts a few named processes, one each, and ends them by process id, last started first. */
export class Supervisor {
  readonly #logs: string;
  readonly #running = new Map<string, Launched>();
  /** The processes that ended by themselves. */
  readonly #explanations = new Map<string, string>();
  readonly #lost = Promise.withResolvers<LostProcess>();

  /** @param logs the folder for the processes' logs */
  constructor(logs: string) {
    this.#logs = logs;
  }

  /** Resolves when the first process ends by itself. */
  get lost(): Promise<LostProcess> {
    return this.#lost.promise;
  }

  logOf(name: string): string {
    return join(this.#logs, `${name}.log`);
  }

  /** Process ids of the running processes, by name. */
  pids(): Record<string, number> {
    const entries = [...this.#running].map(([name, { pid }]) => [name, pid ?? 0] as const);
    return Object.fromEntries(entries);
  }

  start(name: string, command: Command): void {
    if (this.#running.has(name)) throw new Error(`${name} runs already`);
    const child = launch(command.file, command.args, {
      env: programEnvironment(),
      output: { file: this.logOf(name) },
    });
    this.#running.set(name, child);
    this.#explanations.delete(name);
    void child.ended.then(async ({ summary }) => {
      const last = await tail(this.logOf(name), TAIL_LINES);
      if (this.#running.get(name) !== child) return;
      this.#running.delete(name);
      const explanation = `${name} ended (${summary}). The end of ${this.logOf(name)}:\n${last}`;
      this.#explanations.set(name, explanation);
      this.#lost.resolve({ name, explanation });
    });
  }

  /**
   * Asks until `ask` answers true. Throws if the process ends meanwhile, with the end of its log, or after `timeoutMs`, or if
   * `signal` is aborted.
   */
  async waitFor(name: string, timeoutMs: number, ask: () => Promise<boolean>, signal?: AbortSignal): Promise<void> {
    const deadline = Date.now() + timeoutMs;
    while (!(await ask().catch(() => false))) {
      signal?.throwIfAborted();
      if (!this.#running.has(name)) throw new Error(this.#explanations.get(name) ?? `${name} was ended`);
      if (Date.now() > deadline) {
        const last = await tail(this.logOf(name), TAIL_LINES);
        throw new Error(`${name} is not ready after ${timeoutMs} ms. The end of ${this.logOf(name)}:\n${last}`);
      }
      await delay(20);
    }
  }

  /** Ends one process and resolves when it is gone; does nothing if it does not run. */
  async end(name: string, signal: NodeJS.Signals, graceMs: number): Promise<void> {
    const child = this.#running.get(name);
    if (!child) return;
    this.#running.delete(name);
    if (signal !== "SIGTERM") child.signal(signal);
    await child.stop(graceMs);
  }

  /** After a loss the other processes are not asked to end, because some would wait for the lost one. */
  async endAll(wanted: NodeJS.Signals, graceMs: number): Promise<void> {
    const signal = this.#explanations.size > 0 ? "SIGKILL" : wanted;
    for (const name of [...this.#running.keys()].reverse()) await this.end(name, signal, graceMs);
  }
}
