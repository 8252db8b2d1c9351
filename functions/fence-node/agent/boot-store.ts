/** Keeps in a file what the agent knows of this boot. The folder is of memory, so that a boot leaves nothing to the next one. */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { messageOf } from "../../shared/base/error-message.ts";
import { type Fields, parseFields } from "../../shared/base/fields.ts";
import type { AgentLog, BootMemory, BootStore } from "./outside.ts";

export class BootFile implements BootStore {
  readonly #path: string;
  readonly #log: AgentLog;
  #hasFailed = false;

  constructor(path: string, log: AgentLog) {
    this.#path = path;
    this.#log = log;
  }

  read(): BootMemory | undefined {
    try {
      const memory = memoryOf(parseFields(readFileSync(this.#path, "utf8")));
      if (memory === undefined)
        this.#log("warn", `${this.#path} cannot be read as what an agent has left, and is ignored`);
      return memory;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") {
        this.#log("warn", `${this.#path} cannot be read, and is ignored: ${messageOf(error)}`);
      }
      return undefined;
    }
  }

  /** Replaces the file at once, so that a process that is killed leaves the old one or the new one. */
  write(memory: BootMemory): void {
    try {
      mkdirSync(dirname(this.#path), { recursive: true });
      writeFileSync(`${this.#path}.new`, JSON.stringify(memory), { mode: 0o600 });
      renameSync(`${this.#path}.new`, this.#path);
      this.#hasFailed = false;
    } catch (error) {
      const message = `an agent that is started again in this boot needs the API first, because ${this.#path} cannot be written`;
      if (!this.#hasFailed) this.#log("warn", `${message}: ${messageOf(error)}`);
      this.#hasFailed = true;
    }
  }
}

/** Undefined for what no agent has written. */
function memoryOf(fields: Fields | undefined): BootMemory | undefined {
  const { bootId, permitMs, renewals, armed, isTainted, isDeviceStarted } = fields ?? {};
  const isCount = (value: unknown) => value === undefined || (Number.isFinite(value) && Number(value) >= 0);
  const isFlag = (value: unknown) => value === undefined || typeof value === "boolean";
  const isText = armed === undefined || typeof armed === "string";
  const isWhole = [permitMs, renewals].every(isCount) && [isTainted, isDeviceStarted].every(isFlag) && isText;
  return typeof bootId === "string" && isWhole ? (fields as unknown as BootMemory) : undefined;
}
