/** The watchdog as Linux has it: a device that is opened, and files of sysfs that describe it. */
import { closeSync, constants, openSync, readFileSync, statSync, writeSync } from "node:fs";
import { basename, join } from "node:path";
import type { ExplicitOnlyReason } from "./decide-mode.ts";
import type { Watchdog } from "./outside.ts";

const sysfs = "/sys/class/watchdog";
/** The bit of `bootstatus` by which a driver reports that its device has reset the machine (`WDIOF_CARDRESET`). */
const resetBit = 0x20;
/** Any byte feeds the device, but for the `V` that lets it be stopped. */
const feedByte = "\0";
const stopByte = "V";

/** A character device, or a FIFO with a reader in its place. Any other file never resets a machine. */
export class WatchdogDevice implements Watchdog {
  readonly #path: string;
  readonly #givenMs: number | undefined;
  #descriptor: number | undefined;

  /** @param givenMs the time of the device where sysfs does not know it */
  constructor(path: string, givenMs: number | undefined) {
    this.#path = path;
    this.#givenMs = givenMs;
  }

  check(): number | ExplicitOnlyReason {
    const kind = kindOf(this.#path);
    if (kind === "other") return "no-watchdog";
    const seconds = kind === "device" ? Number(this.#attribute("timeout")) : Number.NaN;
    if (seconds > 0) return seconds * 1000;
    return this.#givenMs ?? "watchdog-time-unknown";
  }

  isNoWayOut(): boolean {
    return kindOf(this.#path) === "device" && this.#attribute("nowayout") === "1";
  }

  /** Whether it has reset the machine before this boot; undefined if sysfs does not show that. */
  hasResetMachine(): boolean | undefined {
    return kindOf(this.#path) === "device" ? hasResetBit(this.#attribute("bootstatus")) : undefined;
  }

  open(): void {
    // Without O_CREAT, which would make a plain file, and without a wait for the reader of a FIFO.
    this.#descriptor = openSync(this.#path, constants.O_WRONLY | constants.O_NONBLOCK);
  }

  feed(): void {
    this.#write(feedByte);
  }

  disarm(): void {
    this.#write(stopByte);
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }

  #write(byte: string): void {
    if (this.#descriptor !== undefined) writeSync(this.#descriptor, byte);
  }

  /** The first device is also called /dev/watchdog. */
  #attribute(name: string): string | undefined {
    const device = basename(this.#path) === "watchdog" ? "watchdog0" : basename(this.#path);
    try {
      return readFileSync(join(sysfs, device, name), "utf8").trim();
    } catch {
      return undefined;
    }
  }
}

/** What the text of `bootstatus`, a decimal number, shows of a reset; undefined for any other text. */
export function hasResetBit(bootStatus: string | undefined): boolean | undefined {
  return /^\d+$/.test(bootStatus ?? "") ? (Number(bootStatus) & resetBit) !== 0 : undefined;
}

function kindOf(path: string): "device" | "fifo" | "other" {
  const status = statSync(path, { throwIfNoEntry: false });
  if (status?.isCharacterDevice()) return "device";
  return status?.isFIFO() ? "fifo" : "other";
}
