/** The watchdog of a played machine: the reader of a FIFO. */
import { closeSync, constants, openSync, readSync } from "node:fs";

const pollMs = 10;
const stop = "V".charCodeAt(0);

/**
 * Opening arms it and any byte feeds it. It fires when it has not been fed for its time, and a close without `V` does not stop
 * it. It reads before it decides, so that a busy test process makes it late and never early.
 */
export class WatchdogHardware {
  readonly #descriptor: number;
  readonly #timeMs: number;
  readonly #fire: () => void;
  readonly #timer: NodeJS.Timeout;
  readonly #bytes = Buffer.alloc(256);
  #isConnected = true;
  /** Nothing stops it once it runs. */
  isNoWayOut = false;
  #hasWriter = false;
  #lastByte: number | undefined;
  #fedMs: number | undefined;
  /** Bytes that have fed it, since the test began. */
  feeds = 0;

  constructor(path: string, timeMs: number, fire: () => void) {
    this.#descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    this.#timeMs = timeMs;
    this.#fire = fire;
    this.#timer = setInterval(() => this.#poll(), pollMs);
  }

  /** True from its opening to a close after `V`, or to the reset of the machine. */
  get isRunning(): boolean {
    return this.#fedMs !== undefined;
  }

  /** False: it lies, and never fires. */
  setConnected(isConnected: boolean): void {
    this.#isConnected = isConnected;
  }

  /** The machine was reset, which stops it. */
  reset(): void {
    for (let read = this.#read(); read !== "closed"; read = this.#read()) if (read === "waiting") break;
    this.#hasWriter = false;
    this.#lastByte = undefined;
    this.#fedMs = undefined;
  }

  close(): void {
    clearInterval(this.#timer);
    closeSync(this.#descriptor);
  }

  #poll(): void {
    let read = this.#read();
    while (typeof read === "number") {
      this.#open();
      this.#lastByte = this.#bytes[read - 1];
      this.#fedMs = performance.now();
      this.feeds += read;
      read = this.#read();
    }
    if (read === "waiting") this.#open();
    else if (this.#hasWriter) {
      this.#hasWriter = false;
      if (this.#lastByte === stop && !this.isNoWayOut) this.#fedMs = undefined;
    }
    if (this.#fedMs === undefined || performance.now() - this.#fedMs < this.#timeMs) return;
    this.#fedMs = undefined;
    if (this.#isConnected) this.#fire();
  }

  #open(): void {
    if (this.#hasWriter) return;
    this.#hasWriter = true;
    this.#lastByte = undefined;
    this.#fedMs = performance.now();
  }

  /** The number of bytes, or what a FIFO without any shows: a writer that waits, or none. */
  #read(): number | "waiting" | "closed" {
    try {
      return readSync(this.#descriptor, this.#bytes) || "closed";
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EAGAIN") return "waiting";
      throw error;
    }
  }
}
