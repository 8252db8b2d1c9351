/** The real {@link Transport}: kept connections to pods, over undici. */
import type { LookupFunction } from "node:net";
import { Agent, buildConnector, type Dispatcher } from "undici";
import { SharedMemory } from "../base/growing-buffer.ts";
import { type ExchangeLimits, exchange, type HttpAnswer } from "../transport/exchange.ts";
import { type Delivery, defaultMostAtOnce, PodCalls, type PodCallsOptions, type Transport } from "./calls.ts";
import type { PodHttp } from "./pod-http.ts";

/** Pods come and go, and their names with other addresses: nothing is kept for long. In milliseconds. */
const keepAliveMs = 10_000;
/** A call that was given up meanwhile leaves its attempt to connect behind, for no longer than this. */
const connectTimeoutMs = 10_000;
const mostHeaderBytes = 16_384;
/** Of all answers together while they come, in bytes: as much as 32 of the usual length limit take. */
const mostAnswerBytes = 32 * 2 ** 20;

export interface ConnectPodsOptions extends Omit<PodCallsOptions, "transport"> {
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
  const { lookup, ...callOptions } = options;
  const connections = new PodConnections(options.mostAtOnce ?? defaultMostAtOnce, lookup);
  const calls = new PodCalls({ ...callOptions, transport: connections });
  return { send: (...call) => calls.send(...call), close: () => connections.close() };
}

/** Authorities with connections of their own, at most: those that came first are closed beyond that. */
const mostAuthorities = 32;

class PodConnections implements Transport {
  readonly #mostPerPod: number;
  readonly #lookup: LookupFunction | undefined;
  /** By the authorities that are trusted; undefined for those that Node trusts. */
  readonly #agents = new Map<string | undefined, Agent>();
  readonly #memory = new SharedMemory(mostAnswerBytes);

  constructor(mostPerPod: number, lookup: LookupFunction | undefined) {
    this.#mostPerPod = mostPerPod;
    this.#lookup = lookup;
  }

  deliver({ origin, path, method, headers, body, address }: Delivery, limits: ExchangeLimits): Promise<HttpAnswer> {
    const agent = this.#agentFor(address.authorities);
    // Without `reset: false` undici closes the connection after a DELETE with a body.
    const options: Dispatcher.DispatchOptions = { origin, path, method, headers, body: body ?? null, reset: false };
    return exchange(agent, options, limits, this.#memory);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#agents.values()].map((agent) => agent.destroy()));
  }

  /** Over a connection to a pod that an authority vouched for, nothing goes to a pod that another one is to vouch for. */
  #agentFor(authorities: string | undefined): Agent {
    const known = this.#agents.get(authorities);
    if (known !== undefined) return known;
    const made = makeAgent(authorities, this.#mostPerPod, this.#lookup);
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

function makeAgent(authorities: string | undefined, connections: number, lookup: LookupFunction | undefined): Agent {
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
    connections,
    keepAliveTimeout: keepAliveMs,
    keepAliveMaxTimeout: keepAliveMs,
    maxHeaderSize: mostHeaderBytes,
    // Every call has a deadline of its own.
    headersTimeout: 0,
    bodyTimeout: 0,
    allowH2: false,
  });
}
