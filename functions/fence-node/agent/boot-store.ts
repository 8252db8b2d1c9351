/**
 * Keeps in files what the agent knows: of this boot, in a folder of memory, so that a boot leaves nothing to the next one; and
 * of the boots before it.
 */
import { mkdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { messageOf } from "../../shared/base/error-message.ts";
import { type Fields, fieldsOf, parseFields } from "../../shared/base/fields.ts";
import { replaceFile } from "../../shared/base/replace-file.ts";
import type { BootHistory } from "./decide-boots.ts";
import type { AgentLog, BootMemory, BootStore } from "./outside.ts";

/** What stands in a file, and what it means that the file cannot be written. */
export interface StoredFile<T> {
  /** Undefined for what no agent has written. */
  parse(fields: Fields | undefined): T | undefined;
  readonly unwritten: string;
}

export class BootFile<T> implements BootStore<T> {
  readonly #path: string;
  readonly #stored: StoredFile<T>;
  readonly #log: AgentLog;
  #hasFailed = false;

  constructor(path: string, stored: StoredFile<T>, log: AgentLog) {
    this.#path = path;
    this.#stored = stored;
    this.#log = log;
  }

  read(): T | undefined {
    try {
      const memory = this.#stored.parse(parseFields(readFileSync(this.#path, "utf8")));
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
  write(memory: T, isDurable = false): void {
    try {
      mkdirSync(dirname(this.#path), { recursive: true });
      replaceFile(this.#path, JSON.stringify(memory), { mode: 0o600, isDurable });
      this.#hasFailed = false;
    } catch (error) {
      const message = `${this.#stored.unwritten}, because ${this.#path} cannot be written`;
      if (!this.#hasFailed) this.#log("warn", `${message}: ${messageOf(error)}`);
      this.#hasFailed = true;
    }
  }
}

const isCount = (value: unknown) => value === undefined || (Number.isFinite(value) && Number(value) >= 0);
const isFlag = (value: unknown) => value === undefined || typeof value === "boolean";
const isText = (value: unknown) => value === undefined || typeof value === "string";

/** Of this boot. It has the secret key of the agent. */
export const storedMemory: StoredFile<BootMemory> = {
  unwritten: "an agent that is started again in this boot needs the API first",
  parse(fields) {
    const { bootId, permitMs, renewals, storedTimes = {}, ...more } = fields ?? {};
    const { armed, peers, wantedPeers, publicKey, secret, isTainted, isDeviceStarted, isArmed } = more;
    const isWhole =
      [permitMs, renewals, ...Object.values(fieldsOf(storedTimes) ?? { storedTimes: "no fields" })].every(isCount) &&
      [isTainted, isDeviceStarted, isArmed].every(isFlag) &&
      [armed, peers, wantedPeers, publicKey, secret].every(isText);
    return typeof bootId === "string" && isWhole ? (fields as unknown as BootMemory) : undefined;
  },
};

/** Of the boots before this one. */
export const storedHistory: StoredFile<BootHistory> = {
  unwritten: "boots that end soon are not counted",
  parse(fields) {
    const { bootId, shortBoots, state } = fields ?? {};
    const isWhole = typeof bootId === "string" && shortBoots !== undefined && isCount(shortBoots);
    const isKnown = state === "idle" || state === "running" || state === "over";
    return isWhole && isKnown ? (fields as unknown as BootHistory) : undefined;
  },
};
