/** The real {@link Transport}: kept connections to pods, over undici. */
import type { LookupFunction } from "node:net";
import { Agent, buildConnector, type Dispatcher, errors } from "undici";
import { messageOf } from "../kubernetes/errors.ts";
import { createPodCalls, defaultMostAtOnce, type PodCallsOptions } from "./calls.ts";
import type { PodHttp } from "./pod-http.ts";
import { type Delivered, type Delivery, DeliveryError, type DeliveryLimits, type Transport } from "./transport.ts";

/** Pods come and go, and their names with other addresses: nothing is kept for long. In milliseconds. */
const keepAliveMs = 10_000;
/** A call that was given up meanwhile leaves its attempt to connect behind, for no longer than this. */
const connectTimeoutMs = 10_000;
const mostHeaderBytes = 16_384;

export interface ConnectPodsOptions extends Omit<PodCallsOptions, "transport"> {
  /** Whose certificates are trusted over https, in PEM; absent: those that Node trusts. */
  readonly authorities?: string;
  /** Finds the address of a host; absent: the machine's resolver. */
  readonly lookup?: LookupFunction;
}

export interface ConnectedPods extends PodHttp {
  /** Ends all connections; what is under way rejects. */
  close(): Promise<void>;
}

/**
 * HTTP to pods over the network. Sends nothing yet, and reads no proxy's settings.
 *
 * @throws Error when the cluster's domain is none.
 */
export function connectPods(options: ConnectPodsOptions): ConnectedPods {
  const { authorities, lookup, ...callOptions } = options;
  const connections = new Connections({ authorities, lookup, mostPerPod: options.mostAtOnce ?? defaultMostAtOnce });
  const calls = createPodCalls({ ...callOptions, transport: connections });
  return { send: (...call) => calls.send(...call), close: () => connections.close() };
}

interface ConnectionsOptions {
  readonly authorities: string | undefined;
  readonly lookup: LookupFunction | undefined;
  readonly mostPerPod: number;
}

class Connections implements Transport {
  readonly #agent: Agent;

  constructor({ authorities, lookup, mostPerPod }: ConnectionsOptions) {
    const connector = buildConnector({
      allowH2: false,
      timeout: connectTimeoutMs,
      ...(authorities === undefined ? {} : { ca: authorities }),
      ...(lookup === undefined ? {} : { lookup }),
    } as buildConnector.BuildOptions);
    this.#agent = new Agent({
      // A certificate has no dot at the end of a name, and neither has what is asked for in a handshake.
      connect: (options, callback) =>
        connector({ ...options, servername: options.hostname.replace(/\.$/, "") }, callback),
      connections: mostPerPod,
      keepAliveTimeout: keepAliveMs,
      keepAliveMaxTimeout: keepAliveMs,
      maxHeaderSize: mostHeaderBytes,
      // Every call has a deadline of its own.
      headersTimeout: 0,
      bodyTimeout: 0,
      allowH2: false,
    });
  }

  deliver({ origin, path, method, headers, body }: Delivery, limits: DeliveryLimits): Promise<Delivered> {
    return new Promise((resolve, reject) => {
      const options: Dispatcher.DispatchOptions = {
        origin,
        path,
        method,
        headers,
        body: body ?? null,
        // Otherwise undici closes the connection after a DELETE with a body.
        reset: false,
      };
      this.#agent.dispatch(options, new DeliveryHandler(limits, resolve, reject));
    });
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }
}

/**
 * Gathers an answer, and stops to read where it is longer than allowed. Below undici's `request`, because only a handler learns
 * when the request is really sent.
 */
class DeliveryHandler implements Dispatcher.DispatchHandler {
  readonly #limits: DeliveryLimits;
  readonly #resolve: (delivered: Delivered) => void;
  readonly #reject: (error: Error) => void;
  #controller: Dispatcher.DispatchController | undefined;
  /** Why it was not sent when its turn came. */
  #unsent: unknown;
  #status: number | undefined;
  #headers: Delivered["headers"] = {};
  #bytes = 0;
  #chunks: Buffer[] = [];

  constructor(limits: DeliveryLimits, resolve: (delivered: Delivered) => void, reject: (error: Error) => void) {
    this.#limits = limits;
    this.#resolve = resolve;
    this.#reject = reject;
    limits.signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // What is thrown here keeps the request from being written, and leaves the connection to others.
    try {
      if (this.#limits.signal.aborted) throw new DeliveryError("connection", "given up before it was sent", undefined);
      this.#limits.onSend();
    } catch (error) {
      this.#unsent = error;
      throw error;
    }
    this.#controller = controller;
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: Delivered["headers"]): void {
    // What comes before the answer, such as 103, is none.
    if (status < 200) return;
    this.#status = status;
    this.#headers = headers;
    if (Number(headers["content-length"]) > this.#limits.mostBytes) this.#stop(controller);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (this.#bytes > this.#limits.mostBytes) this.#stop(controller);
    else this.#chunks.push(chunk);
  }

  onResponseEnd(): void {
    this.#limits.signal.removeEventListener("abort", this.#onAbort);
    if (this.#status === undefined) return;
    this.#resolve({ status: this.#status, headers: this.#headers, body: Buffer.concat(this.#chunks) });
  }

  onResponseError(_controller: unknown, error: Error): void {
    this.#limits.signal.removeEventListener("abort", this.#onAbort);
    this.#chunks = [];
    const isOurs = error instanceof DeliveryError || error === this.#unsent;
    this.#reject(
      isOurs ? error : new DeliveryError(failureOf(error), messageOf(error), this.#status, { cause: error }),
    );
  }

  #stop(controller: Dispatcher.DispatchController): void {
    this.#chunks = [];
    const message = `the answer has more than ${this.#limits.mostBytes} bytes`;
    controller.abort(new DeliveryError("size", message, this.#status));
  }

  readonly #onAbort = (): void => {
    const error = new DeliveryError("connection", "given up while waiting for the answer", this.#status);
    if (this.#controller !== undefined) this.#controller.abort(error);
    // It still waits for a connection: onRequestStart refuses it when its turn comes.
    else this.#reject(error);
  };
}

function failureOf(error: Error): DeliveryError["failed"] {
  if (error instanceof errors.HeadersOverflowError) return "size";
  return error instanceof errors.InvalidArgumentError ? "request" : "connection";
}
