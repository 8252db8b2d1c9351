/**
 * What stands before a function: it keeps requests while the first instance starts, passes them on, and ends the instances when
 * there have been no requests for a while. It plays the part of Knative's activator and autoscaler for one revision.
 */
import { once } from "node:events";
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { Agent, request } from "undici";

/** A copy of the function that takes requests. */
export interface Instance {
  /** Of its queue-proxy. */
  readonly url: string;
  /** Resolves when it has ended by itself, to what a person should know of that. */
  readonly lost: Promise<string>;
  /** SIGTERM and a grace. */
  stop(): Promise<void>;
  /** To the function alone. */
  signal(name: NodeJS.Signals): void;
}

/** The bounds and settings of a Service, with the units of this file. */
export interface Scaling {
  /** So many start before there is a request. */
  readonly initialScale: number;
  readonly minScale: number;
  /** 0: no bound. */
  readonly maxScale: number;
  /** Requests in flight in one instance; 0: no bound. */
  readonly containerConcurrency: number;
  /** How long a request may wait for an instance. */
  readonly timeoutMs: number;
  /** Without a request for so long, there are `minScale` instances. */
  readonly stableWindowMs: number;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** What may happen to a request on its way; calls `deliver` as often, and when, it likes. `headers`: of the request. */
export type Interference = (deliver: () => Promise<Answer>, headers: IncomingHttpHeaders) => Promise<Answer>;

export interface ActivatorOptions {
  readonly scaling: Scaling;
  start(): Promise<Instance>;
  /** Is told each change of the number of instances, in words. */
  log(text: string): void;
}

interface Slot {
  readonly started: Promise<Instance>;
  instance: Instance | undefined;
  inFlight: number;
}

/** Milliseconds until an instance that `minScale` lacks is started again without a request. */
const restartAfterMs = 1_000;
/** As `container-concurrency-target-percentage` has it by default. */
const targetShare = 0.7;
/** Of one connection, or of one hop: the other side says its own. */
const ofHop = new Set(["connection", "keep-alive", "transfer-encoding", "content-length", "host", "expect"]);

export class Activator {
  readonly #options: ActivatorOptions;
  readonly #server: Server;
  readonly #agent = new Agent({ connections: 100, headersTimeout: 0, bodyTimeout: 0 });
  readonly #slots: Slot[] = [];
  readonly #ending = new Set<Promise<void>>();
  #interference: Interference = (deliver) => deliver();
  #inFlight = 0;
  #idle: NodeJS.Timeout | undefined;
  #closed = false;
  /** Instances that were started so far. */
  starts = 0;

  private constructor(options: ActivatorOptions) {
    this.#options = options;
    this.#server = createServer((incoming, response) => void this.#serve(incoming, response));
  }

  /** Resolves when it listens on 127.0.0.1. Instances up to `initialScale`, and to `minScale`, start by themselves. */
  static async start(options: ActivatorOptions): Promise<Activator> {
    const activator = new Activator(options);
    activator.#server.listen(0, "127.0.0.1");
    await once(activator.#server, "listening");
    activator.#scaleUp(options.scaling.initialScale);
    return activator;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Instances that run or start. */
  get scale(): number {
    return this.#slots.length;
  }

  /** Requests that wait for an instance, or are in one. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /** Those that take requests. */
  get instances(): readonly Instance[] {
    return this.#slots.flatMap(({ instance }) => instance ?? []);
  }

  /** Has something happen to every request from now on. */
  interfere(interference: Interference): void {
    this.#interference = interference;
  }

  /** Ends everything, and breaks off what is under way. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#idle);
    this.#server.close();
    this.#server.closeAllConnections();
    this.#scaleDownTo(0, "it is taken away");
    await Promise.all(this.#ending);
    await this.#agent.destroy();
  }

  async #serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const body = await buffer(incoming);
      const answer = await this.#interference(() => this.#deliver(incoming, body), incoming.headers);
      response.writeHead(answer.status, withoutHop(answer.headers));
      response.end(answer.body);
    } catch (error) {
      const { message } = error as Error;
      // As Knative's proxies say it when the instance is gone, so that senders try again.
      if (!response.headersSent) response.writeHead(502);
      response.end(`${message}\n`);
    }
  }

  async #deliver(incoming: IncomingMessage, body: Buffer): Promise<Answer> {
    this.#inFlight++;
    clearTimeout(this.#idle);
    try {
      return await this.#forward(await this.#slotToUse(), incoming, body);
    } finally {
      this.#inFlight--;
      if (this.#inFlight === 0) this.#expectIdle();
    }
  }

  async #forward(slot: Slot, incoming: IncomingMessage, body: Buffer): Promise<Answer> {
    const { method = "GET", url = "/", headers } = incoming;
    slot.inFlight++;
    try {
      const answer = await request(`${slot.instance?.url}${url}`, {
        method: method as "POST",
        headers: withoutHop(headers),
        body: body.length === 0 ? null : body,
        dispatcher: this.#agent,
      });
      return {
        status: answer.statusCode,
        headers: answer.headers,
        body: Buffer.from(await answer.body.arrayBuffer()),
      };
    } finally {
      slot.inFlight--;
    }
  }

  /** The least busy of those that are ready, or the first that is. Rejects when none is within the time. */
  async #slotToUse(): Promise<Slot> {
    this.#scaleUp();
    const ready = this.#slots.filter(({ instance }) => instance !== undefined);
    const leastBusy = ready.sort((one, other) => one.inFlight - other.inFlight)[0];
    if (leastBusy !== undefined) return leastBusy;
    const late = Promise.withResolvers<never>();
    const { timeoutMs } = this.#options.scaling;
    const timer = setTimeout(() => late.reject(new Error(`no instance within ${timeoutMs} ms`)), timeoutMs);
    const first = Promise.any(this.#slots.map((slot) => slot.started.then(() => slot)));
    try {
      return await Promise.race([first, late.promise]);
    } catch (error) {
      const [cause] = error instanceof AggregateError ? error.errors : [error];
      throw cause;
    } finally {
      clearTimeout(timer);
    }
  }

  /** What requests in flight ask for, within the bounds; 1 where there is any. */
  #wanted(): number {
    const { minScale, maxScale, containerConcurrency } = this.#options.scaling;
    const each = containerConcurrency === 0 ? Number.POSITIVE_INFINITY : containerConcurrency * targetShare;
    const asked = this.#inFlight === 0 ? 0 : Math.max(1, Math.ceil(this.#inFlight / each));
    return Math.max(minScale, Math.min(asked, maxScale === 0 ? asked : maxScale));
  }

  #scaleUp(atLeast = 0): void {
    const wanted = Math.max(atLeast, this.#wanted());
    if (this.#closed || this.#slots.length >= wanted) return;
    this.#options.log(`${this.#slots.length} -> ${wanted}: ${this.#inFlight} in flight`);
    while (this.#slots.length < wanted) this.#startOne();
  }

  #startOne(): void {
    const startedMs = performance.now();
    const started = this.#options.start();
    const slot: Slot = { started, instance: undefined, inFlight: 0 };
    this.#slots.push(slot);
    this.starts++;
    const drop = (because: string): void => {
      const at = this.#slots.indexOf(slot);
      if (at < 0) return;
      this.#slots.splice(at, 1);
      this.#options.log(`${this.#slots.length + 1} -> ${this.#slots.length}: ${because}`);
      if (this.#slots.length < this.#options.scaling.minScale)
        setTimeout(() => this.#scaleUp(), restartAfterMs).unref();
    };
    const watch = async (): Promise<void> => {
      slot.instance = await started;
      this.#options.log(`is ready after ${((performance.now() - startedMs) / 1_000).toFixed(2)} s`);
      if (this.#inFlight === 0) this.#expectIdle();
      drop(await slot.instance.lost);
    };
    watch().catch((error: Error) => drop(error.message));
  }

  #expectIdle(): void {
    if (this.#closed) return;
    clearTimeout(this.#idle);
    const { stableWindowMs, minScale } = this.#options.scaling;
    this.#idle = setTimeout(
      () => this.#scaleDownTo(minScale, `no request for ${stableWindowMs / 1_000} s`),
      stableWindowMs,
    );
  }

  #scaleDownTo(count: number, because: string): void {
    if (this.#slots.length <= count) return;
    this.#options.log(`${this.#slots.length} -> ${count}: ${because}`);
    for (const { started } of this.#slots.splice(count)) {
      const ended = started.then((instance) => instance.stop()).catch(() => {});
      this.#ending.add(ended);
      void ended.then(() => this.#ending.delete(ended));
    }
  }
}

function withoutHop(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !ofHop.has(name)));
}
