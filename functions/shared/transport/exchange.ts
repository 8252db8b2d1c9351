/** One HTTP exchange, from the moment its first byte goes out to the last byte of the answer. */
import { type Dispatcher, errors } from "undici";
import { messageOf } from "../base/error-message.ts";
import { GrowingBuffer, type Holder, type SharedMemory } from "../base/growing-buffer.ts";

/** The most answers such as 103 before the final one. HTTP allows any number, each with as many headers as an answer. */
const mostEarlyAnswers = 10;

export interface ExchangeLimits {
  /** Ends the exchange, which then rejects soon, with any error. */
  readonly signal: AbortSignal;
  /** The longest body of an answer, in bytes; absent: any. Beyond it, reading stops. */
  readonly maxBodyBytes?: number | undefined;
  /** Called before the first byte is sent. If it throws, nothing is sent, and the exchange rejects with that error. */
  readonly onSend: () => void;
}

export interface HttpAnswer {
  readonly status: number;
  /** By name in lower case. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** As it came, compressed or not. */
  readonly body: Buffer<ArrayBufferLike>;
}

/** An exchange that failed by itself, and was not ended by its signal. */
export class ExchangeError extends Error {
  readonly failed: "request" | "size" | "connection";
  /** Status of an answer that began to come. Without one the connection may have been an old one that broke. */
  readonly status: number | undefined;
  /** True if no trusted authority has signed the certificate. */
  readonly isUntrusted: boolean;

  constructor(
    failed: ExchangeError["failed"],
    message: string,
    status: number | undefined,
    options?: ErrorOptions & { readonly isUntrusted?: boolean },
  ) {
    super(message, options);
    this.name = "ExchangeError";
    this.failed = failed;
    this.status = status;
    this.isUntrusted = options?.isUntrusted ?? false;
  }
}

/**
 * Sends a request and gathers the answer. Below undici's `request`, because only a handler learns when the request is really
 * sent; it also saves a stream per call. Answers that share a `memory` have a bound together.
 *
 * @throws ExchangeError, unless it was ended, or `onSend` threw.
 */
export function exchange(
  dispatcher: Dispatcher,
  options: Dispatcher.DispatchOptions,
  limits: ExchangeLimits,
  memory?: SharedMemory,
): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
    dispatcher.dispatch(options, new AnswerCollector(limits, memory, resolve, reject));
  });
}

class AnswerCollector implements Dispatcher.DispatchHandler, Holder {
  bytes = 0;
  readonly #limits: ExchangeLimits;
  readonly #memory: SharedMemory | undefined;
  readonly #resolve: (answer: HttpAnswer) => void;
  readonly #reject: (error: Error) => void;
  #controller: Dispatcher.DispatchController | undefined;
  /** The error that kept it from being sent. */
  #unsent: unknown;
  #status: number | undefined;
  #headers: HttpAnswer["headers"] = {};
  #earlyAnswers = 0;
  readonly #body: GrowingBuffer;

  constructor(
    limits: ExchangeLimits,
    memory: SharedMemory | undefined,
    resolve: (answer: HttpAnswer) => void,
    reject: (error: Error) => void,
  ) {
    this.#limits = limits;
    this.#memory = memory;
    this.#body = new GrowingBuffer(limits.maxBodyBytes ?? Number.POSITIVE_INFINITY);
    this.#resolve = resolve;
    this.#reject = reject;
    limits.signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // An error here keeps the request from being written, and leaves the connection to other requests.
    try {
      if (this.#limits.signal.aborted) throw new ExchangeError("connection", "given up before it was sent", undefined);
      this.#limits.onSend();
    } catch (error) {
      this.#unsent = error;
      throw error;
    }
    this.#controller = controller;
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: HttpAnswer["headers"]): void {
    // An early answer, such as 103, is not the answer.
    if (status < 200) {
      this.#earlyAnswers += 1;
      if (this.#earlyAnswers > mostEarlyAnswers)
        this.#stop(controller, `has more than ${mostEarlyAnswers} answers before it`);
      return;
    }
    this.#status = status;
    this.#headers = headers;
    const { maxBodyBytes = Number.POSITIVE_INFINITY } = this.#limits;
    if (Number(headers["content-length"]) > maxBodyBytes) this.#stopBody(controller);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const growth = this.#body.growthFor(chunk.length);
    if (growth === undefined) this.#stopBody(controller);
    else if (growth === 0 || (this.#memory?.take(this, growth) ?? true)) this.#body.append(chunk);
  }

  giveUp(): void {
    if (this.#controller !== undefined) this.#stop(this.#controller, "is the largest of too many that come at once");
  }

  onResponseEnd(): void {
    this.#memory?.leave(this);
    this.#limits.signal.removeEventListener("abort", this.#onAbort);
    if (this.#status === undefined) return;
    this.#resolve({ status: this.#status, headers: this.#headers, body: this.#body.whole() });
  }

  onResponseError(_controller: unknown, error: Error): void {
    this.#limits.signal.removeEventListener("abort", this.#onAbort);
    this.#free();
    const isOurs = error instanceof ExchangeError || error === this.#unsent;
    const options = { cause: error, isUntrusted: isUntrustedError(error) };
    this.#reject(isOurs ? error : new ExchangeError(failureOf(error), messageOf(error), this.#status, options));
  }

  #stopBody(controller: Dispatcher.DispatchController): void {
    this.#stop(controller, `has more than ${this.#limits.maxBodyBytes} bytes`);
  }

  #stop(controller: Dispatcher.DispatchController, why: string): void {
    this.#free();
    controller.abort(new ExchangeError("size", `the answer ${why}`, this.#status));
  }

  #free(): void {
    this.#memory?.leave(this);
    this.#body.free();
  }

  readonly #onAbort = (): void => {
    const error = new ExchangeError("connection", "given up while waiting for the answer", this.#status);
    if (this.#controller !== undefined) this.#controller.abort(error);
    // It still waits for a connection: onRequestStart refuses it when its turn comes.
    else this.#reject(error);
  };
}

function failureOf(error: Error): ExchangeError["failed"] {
  if (error instanceof errors.HeadersOverflowError) return "size";
  return error instanceof errors.InvalidArgumentError ? "request" : "connection";
}

/** Codes of OpenSSL for a certificate that no trusted authority has signed. */
const untrustedCodes: ReadonlySet<unknown> = new Set([
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "CERT_SIGNATURE_FAILURE",
]);

function isUntrustedError(error: Error): boolean {
  return untrustedCodes.has((error as NodeJS.ErrnoException).code);
}
