/** The threads that try mutants. One that hangs or breaks is ended and replaced. */
import { Worker } from "node:worker_threads";
import type { Killed, Order, ThreadData, WorkerMessage } from "./worker.ts";

/** The result of an order. */
export type Ended =
  | { readonly kind: "passed" }
  | { readonly kind: "failed"; readonly killed: Killed }
  /** The thread no longer responded, or died. */
  | { readonly kind: "lost"; readonly why: string };

const watchEveryMs = 200;

/** One thread at a time, started when needed. */
export class Thread {
  readonly #data: Omit<ThreadData, "deadline" | "baseMs">;
  readonly #onMessage: (message: WorkerMessage) => void;
  readonly #deadline = new Int32Array(new SharedArrayBuffer(4));
  readonly #baseMs = Date.now();
  #worker: Worker | undefined;

  constructor(
    data: Omit<ThreadData, "deadline" | "baseMs">,
    onMessage: (message: WorkerMessage) => void = () => undefined,
  ) {
    this.#data = data;
    this.#onMessage = onMessage;
  }

  /**
   * Carries out an order. Afterwards the thread is in its initial state, or a new one. Throws if the order cannot be carried
   * out.
   */
  async follow(order: Order): Promise<Ended> {
    const worker = this.#start();
    const { promise, resolve, reject } = Promise.withResolvers<Ended>();
    const onMessage = (message: WorkerMessage) => {
      if (message.kind === "unable") reject(new Error(message.why));
      else if (message.kind !== "end") this.#onMessage(message);
      else resolve(message.killed === undefined ? { kind: "passed" } : { kind: "failed", killed: message.killed });
    };
    const lose = (why: string) => resolve({ kind: "lost", why });
    const die = (error: Error) => lose(`the thread broke: ${error.message}`);
    const exit = () => lose("the thread ended");
    worker.on("message", onMessage).on("error", die).on("exit", exit);
    const watch = setInterval(() => {
      const deadlineMs = Atomics.load(this.#deadline, 0);
      if (deadlineMs > 0 && Date.now() - this.#baseMs > deadlineMs) lose("no end in sight");
    }, watchEveryMs);
    worker.postMessage(order);
    const ended = await promise.finally(() => {
      clearInterval(watch);
      worker.off("message", onMessage).off("error", die).off("exit", exit);
    });
    if (ended.kind === "lost" || (ended.kind === "failed" && !ended.killed.isClean)) await this.end();
    return ended;
  }

  async end(): Promise<void> {
    const worker = this.#worker;
    this.#worker = undefined;
    worker?.on("error", () => undefined);
    await worker?.terminate();
  }

  #start(): Worker {
    Atomics.store(this.#deadline, 0, 0);
    const { buffer } = this.#deadline;
    this.#worker ??= new Worker(new URL("./worker.ts", import.meta.url), {
      workerData: { ...this.#data, deadline: buffer, baseMs: this.#baseMs } satisfies ThreadData,
      stdout: true,
      stderr: true,
    });
    return this.#worker;
  }
}
