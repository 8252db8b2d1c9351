/** The real {@link Transport}: kept connections to pods, over undici. */
import type { LookupFunction } from "node:net";
import { Agent, buildConnector, type Dispatcher, errors } from "undici";
import { messageOf } from "../base/error-message.ts";
import { GrowingBuffer, type Holder, SharedMemory } from "../base/growing-buffer.ts";
import { createPodCalls, defaultMostAtOnce, type PodCallsOptions } from "./calls.ts";
import type { PodHttp } from "./pod-http.ts";
import { type Delivered, type Delivery, DeliveryError, type DeliveryLimits, type Transport } from "./transport.ts";

/** Pods come and go, and their names with other addresses: nothing is kept for long. In milliseconds. */
const keepAliveMs = 10_000;
/** A call that was given up meanwhile leaves its attempt to connect behind, for no longer than this. */
const connectTimeoutMs = 10_000;
const mostHeaderBytes = 16_384;
/** Such as 103, before the answer itself. HTTP allows any number, and each of them may have as many headers as an answer. */
const mostEarlyAnswers = 10;
/** Of all answers together while they come, in bytes: as much as 32 of the usual length limit take. */
const mostAnswerBytes = 32 * 2 ** 20;

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
  const connections = new PodConnections({ authorities, lookup, mostPerPod: options.mostAtOnce ?? defaultMostAtOnce });
  const calls = createPodCalls({ ...callOptions, transport: connections });
  return { send: (...call) => calls.send(...call), close: () => connections.close() };
}

interface ConnectionsOptions {
  readonly authorities: string | undefined;
  readonly lookup: LookupFunction | undefined;
  readonly mostPerPod: number;
}

/** Authorities with connections of their own, at most: those that came first are closed beyond that. */
const mostAuthorities = 32;

class PodConnections implements Transport {
  readonly #options: ConnectionsOptions;
  /** By the authorities that are trusted. */
  readonly #agents = new Map<string | undefined, Agent>();
  readonly #memory = new SharedMemory(mostAnswerBytes);

  constructor(options: ConnectionsOptions) {
    this.#options = options;
  }

  deliver({ origin, path, method, headers, body, address }: Delivery, limits: DeliveryLimits): Promise<Delivered> {
    const agent = this.#agentFor(address.authorities ?? this.#options.authorities);
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
      agent.dispatch(options, new DeliveryHandler(limits, this.#memory, resolve, reject));
    });
  }

  async close(): Promise<void> {
    await Promise.all([...this.#agents.values()].map((agent) => agent.destroy()));
  }

  /** Over a connection to a pod that an authority vouched for, nothing goes to a pod that another one is to vouch for. */
  #agentFor(authorities: string | undefined): Agent {
    const known = this.#agents.get(authorities);
    if (known !== undefined) return known;
    const made = makeAgent({ ...this.#options, authorities });
    this.#agents.set(authorities, made);
    const [oldest] = this.#agents;
    if (this.#agents.size > mostAuthorities && oldest !== undefined) {
      this.#agents.delete(oldest[0]);
      // What is under way on it is answered first.
      void oldest[1].close();
    }
    return made;
  }
}

function makeAgent({ authorities, lookup, mostPerPod }: ConnectionsOptions): Agent {
  const connector = buildConnector({
    allowH2: false,
    timeout: connectTimeoutMs,
    ...(authorities === undefined ? {} : { ca: authorities }),
    ...(lookup === undefined ? {} : { lookup }),
  } as buildConnector.BuildOptions);
  return new Agent({
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

/**
 * Gathers an answer, and stops to read where it is longer than allowed. Below undici's `request`, because only a handler learns
 * when the request is really sent.
 */
class DeliveryHandler implements Dispatcher.DispatchHandler, Holder {
  bytes = 0;
  readonly #limits: DeliveryLimits;
  readonly #memory: SharedMemory;
  readonly #resolve: (delivered: Delivered) => void;
  readonly #reject: (error: Error) => void;
  #controller: Dispatcher.DispatchController | undefined;
  /** Why it was not sent when its turn came. */
  #unsent: unknown;
  #status: number | undefined;
  #headers: Delivered["headers"] = {};
  #earlyAnswers = 0;
  readonly #body: GrowingBuffer;

  constructor(
    limits: DeliveryLimits,
    memory: SharedMemory,
    resolve: (delivered: Delivered) => void,
    reject: (error: Error) => void,
  ) {
    this.#limits = limits;
    this.#memory = memory;
    this.#body = new GrowingBuffer(limits.mostBytes);
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
    if (status < 200) {
      this.#earlyAnswers += 1;
      if (this.#earlyAnswers > mostEarlyAnswers)
        this.#stop(controller, `has more than ${mostEarlyAnswers} answers before it`);
      return;
    }
    this.#status = status;
    this.#headers = headers;
    if (Number(headers["content-length"]) > this.#limits.mostBytes) this.#stopBody(controller);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const growth = this.#body.growthFor(chunk.length);
    if (growth === undefined) this.#stopBody(controller);
    else if (growth === 0 || this.#memory.take(this, growth)) this.#body.append(chunk);
  }

  giveUp(): void {
    if (this.#controller !== undefined) this.#stop(this.#controller, "is the largest of too many that come at once");
  }

  onResponseEnd(): void {
    this.#memory.leave(this);
    this.#limits.signal.removeEventListener("abort", this.#onAbort);
    if (this.#status === undefined) return;
    this.#resolve({ status: this.#status, headers: this.#headers, body: this.#body.whole() });
  }

  onResponseError(_controller: unknown, error: Error): void {
    this.#limits.signal.removeEventListener("abort", this.#onAbort);
    this.#free();
    const isOurs = error instanceof DeliveryError || error === this.#unsent;
    const options = { cause: error, isUntrusted: isOfStranger(error) };
    this.#reject(isOurs ? error : new DeliveryError(failureOf(error), messageOf(error), this.#status, options));
  }

  #stopBody(controller: Dispatcher.DispatchController): void {
    this.#stop(controller, `has more than ${this.#limits.mostBytes} bytes`);
  }

  #stop(controller: Dispatcher.DispatchController, why: string): void {
    this.#free();
    controller.abort(new DeliveryError("size", `the answer ${why}`, this.#status));
  }

  #free(): void {
    this.#memory.leave(this);
    this.#body.free();
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

/** Codes of OpenSSL for a certificate that no trusted authority has signed. */
const strangers: ReadonlySet<unknown> = new Set([
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "CERT_SIGNATURE_FAILURE",
]);

function isOfStranger(error: Error): boolean {
  return strangers.has((error as NodeJS.ErrnoException).code);
}
