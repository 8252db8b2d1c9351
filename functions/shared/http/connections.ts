/** The real {@link Transport}: kept connections to pods, over undici. */
import type { LookupFunction } from "node:net";
import { Agent, buildConnector, type Dispatcher } from "undici";
import { SharedMemory } from "../base/growing-buffer.ts";
import { type ExchangeLimits, exchange, type HttpAnswer } from "../transport/exchange.ts";
import { type Delivery, defaultMostAtOnce, PodCalls, type PodCallsOptions, type Transport } from "./calls.ts";
import type { PodHttp } from "./pod-http.ts";

/** Milliseconds for which a connection is kept: not long, because the address of a pod's name may change. */
const keepAliveMs = 10_000;
/** Milliseconds after which an attempt to connect ends, even if its call was given up before. */
const connectTimeoutMs = 10_000;
const mostHeaderBytes = 16_384;
/** The most bytes of all answers together while they are received: as many as 32 of the usual limit. */
const mostAnswerBytes = 32 * 2 ** 20;

export interface ConnectPodsOptions extends Omit<PodCallsOptions, "transport"> {
  /** Finds the address of a host; absent: the machine's resolver. */
  readonly lookup?: LookupFunction;
}

export interface ConnectedPods extends PodHttp {
  /** Ends all connections, so that calls under way reject. */
  close(): Promise<void>;
}

/**
 * HTTP to pods over the network. Sends nothing yet, and reads no proxy's settings.
 *
 * @throws Error if the domain of the cluster is not a valid domain name.
 */
export function connectPods(options: ConnectPodsOptions): ConnectedPods {
  const { lookup, ...callOptions } = options;
  const connections = new PodConnections(options.mostAtOnce ?? defaultMostAtOnce, lookup);
  const calls = new PodCalls({ ...callOptions, transport: connections });
  return { send: (...call) => calls.send(...call), close: () => connections.close() };
}

/** The most authorities with connections of their own. Beyond it, the connections of the oldest are closed. */
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

  /** Each authority has connections of its own, so that no call uses one that another authority vouched for. */
  #agentFor(authorities: string | undefined): Agent {
    const known = this.#agents.get(authorities);
    if (known !== undefined) return known;
    const agent = makeAgent(authorities, this.#mostPerPod, this.#lookup);
    this.#agents.set(authorities, agent);
    const [oldest] = this.#agents;
    if (this.#agents.size > mostAuthorities && oldest !== undefined) {
      this.#agents.delete(oldest[0]);
      // Calls under way on it are answered first.
      void oldest[1].close();
    }
    return agent;
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
    // Names in a certificate, and so in a handshake, have no dot at the end.
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
