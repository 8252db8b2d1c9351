/** {@link PodHttp} over a transport: slots, deadlines, one more try, spans, and errors that say what failed. */

import { withoutQuery } from "../base/ports-and-paths.ts";
import { Semaphore } from "../base/semaphore.ts";
import { callerHeaders, inSpan } from "../base/spans.ts";
import type { Clock } from "../clock/clock.ts";
import { ExchangeError, type ExchangeLimits, type HttpAnswer } from "../transport/exchange.ts";
import { withTimeout } from "../transport/timeout.ts";
import {
  type PodAddress,
  type PodAnswer,
  type PodCallOptions,
  type PodFailure,
  type PodHttp,
  PodHttpError,
  type PodRequest,
  placeOf,
} from "./pod-http.ts";
import { isClusterDomain, type PodUrl, targetOf } from "./target.ts";

/** As rollout-operator asks pods: `-pods.client-timeout`, and 32 in parallel. */
const defaultCallTimeoutMs = 5_000;
/** The most that a caller may ask for. A pod is asked one thing at a time, so that other callers wait for as long. */
const longestCallMs = 30_000;
export const defaultMostAtOnce = 32;
/** A quarter of these calls, so that a group whose pods never answer leaves most of the calls to other groups. */
export const defaultMostPerGroup = 8;
/** One pod of each group may be asked at once. An open connection costs some 30 KB, and answers have their memory together. */
const defaultMostGroups = 1_000;
const defaultMostWaiting = 1_000;
const defaultLongestWaitMs = 10_000;
const defaultMostBytes = 2 ** 20;
/** With a dot at its end, so that the resolver tries no search list. */
const defaultClusterDomain = "cluster.local.";

/** What carries one request to a pod and its answer back: connections, or the embedded world. It rejects as an exchange does. */
export interface Transport {
  deliver(delivery: Delivery, limits: ExchangeLimits): Promise<HttpAnswer>;
}

export interface Delivery extends PodUrl {
  readonly address: PodAddress;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
}

/** One HTTP exchange with a pod, for metrics. */
export interface PodObservation {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly statusCode: number | "error";
  /** From its turn to the last byte. */
  readonly seconds: number;
}

export interface PodCallsOptions {
  readonly clock: Clock;
  readonly transport: Transport;
  /** `sluice/VERSION (FUNCTION)`. */
  readonly userAgent: string;
  /** Absent: `cluster.local.`. */
  readonly clusterDomain?: string;
  /** How long one call may take from its turn on, with both tries, in milliseconds: 5 s unless told. */
  readonly timeoutMs?: number;
  /** How many calls are under way at once besides the first one of each group, at most: 32 unless told. */
  readonly mostAtOnce?: number;
  /** How many groups have a call that needs none of these turns, at most: 1,000 unless told. */
  readonly mostGroups?: number;
  /** How many calls are to pods of one group, at most: 8 unless told. One pod is asked one thing at a time. */
  readonly mostPerGroup?: number;
  /** How many wait for their turn, at most: 1,000 unless told. Beyond it, the group with the most has one refused. */
  readonly mostWaiting?: number;
  /** How long one waits for its turn, at most, in milliseconds: 10 s unless told. */
  readonly longestWaitMs?: number;
  /** Called after every exchange, failed tries included. It must not throw. */
  readonly onRequest?: ((observation: PodObservation) => void) | undefined;
}

/** One call, and the tries that it has left. */
interface PodCall {
  readonly address: PodAddress;
  readonly request: PodRequest;
  readonly target: PodUrl;
  readonly options: PodCallOptions;
  /** Whether any byte of it went out. */
  sent: boolean;
}

/** HTTP to pods over a transport. */
export class PodCalls implements PodHttp {
  readonly #options: PodCallsOptions;
  readonly #clusterDomain: string;
  readonly #semaphore: Semaphore;

  /** @throws Error if the domain of the cluster is not a valid domain name. */
  constructor(options: PodCallsOptions) {
    this.#options = options;
    this.#clusterDomain = options.clusterDomain ?? defaultClusterDomain;
    if (!isClusterDomain(this.#clusterDomain)) throw new Error(`"${this.#clusterDomain}" is no domain of a cluster`);
    const { clock, mostAtOnce = defaultMostAtOnce, mostPerGroup = defaultMostPerGroup } = options;
    const { mostWaiting = defaultMostWaiting, mostGroups = defaultMostGroups } = options;
    this.#semaphore = new Semaphore({ clock, mostAtOnce, mostGroups, mostPerGroup, mostWaiting });
  }

  async send(address: PodAddress, request: PodRequest, options: PodCallOptions = {}): Promise<PodAnswer> {
    const target = targetOf(address, request, this.#clusterDomain);
    const call: PodCall = { address, request, target, options, sent: false };
    const { clock, longestWaitMs = defaultLongestWaitMs } = this.#options;
    const leftMs = (options.notAfterMs ?? Number.POSITIVE_INFINITY) - clock.monotonicMs();
    const { namespace, group, pod } = address;
    const asked = { group: `${namespace} ${group}`, pod: `${namespace} ${pod}` };
    const slot = await this.#semaphore.take(asked, Math.min(longestWaitMs, leftMs), options.signal);
    if (slot === "aborted") throw failure(call, "aborted", "given up by the caller");
    if (slot === "full") throw failure(call, "crowded", "too many others wait for their turn");
    if (slot === "late") {
      throw leftMs <= longestWaitMs ? tooLate(call) : failure(call, "crowded", `no turn within ${longestWaitMs} ms`);
    }
    try {
      return await this.#limited(call);
    } finally {
      slot.end();
    }
  }

  #limited(call: PodCall): Promise<PodAnswer> {
    const { clock } = this.#options;
    const { signal } = call.options;
    const wantedMs = call.options.timeoutMs ?? this.#options.timeoutMs ?? defaultCallTimeoutMs;
    const timeoutMs = Math.min(wantedMs, longestCallMs);
    const errorOf = (error: unknown, why?: "aborted" | "time") => {
      const { status, isUntrusted } = error instanceof ExchangeError ? error : {};
      const options = { status, isUntrusted, cause: error };
      if (why === "aborted") return failure(call, "aborted", "given up by the caller", options);
      if (why === "time") return failure(call, "time", `no answer within ${timeoutMs} ms`, options);
      return error instanceof ExchangeError ? failure(call, error.failed, error.message, options) : error;
    };
    const work = async (ending: AbortSignal) => answerOf(await this.#retried(call, ending));
    return withTimeout({ clock, timeoutMs, signal, errorOf }, work);
  }

  async #retried(call: PodCall, signal: AbortSignal): Promise<HttpAnswer> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#once(call, signal, tries);
      } catch (error) {
        if (signal.aborted || retryDecision(call, error, tries) === "give-up") throw error;
      }
    }
  }

  #once(call: PodCall, signal: AbortSignal, tries: number): Promise<HttpAnswer> {
    const { clock, onRequest } = this.#options;
    const { address, request, target } = call;
    const { method } = request;
    const path = withoutQuery(request.path);
    const startMs = clock.monotonicMs();
    const observe = (statusCode: number | "error") =>
      onRequest?.({ method, path, statusCode, seconds: (clock.monotonicMs() - startMs) / 1000 });
    return inSpan(
      `${method} pod`,
      () => ({ kind: "client" }),
      async (span) => {
        if (span.isRecording()) {
          span.setAttributes({
            "http.request.method": method,
            // A query may hold a secret, which a span must not show.
            "url.full": target.origin + path,
            "url.path": path,
            "server.address": target.host,
            "server.port": target.port,
            "k8s.namespace.name": address.namespace,
            "k8s.pod.name": address.pod,
            ...(tries > 1 ? { "http.request.resend_count": tries - 1 } : {}),
          });
        }
        try {
          const delivered = await this.#deliver(call, signal);
          observe(delivered.status);
          span.setAttribute("http.response.status_code", delivered.status);
          return delivered;
        } catch (error) {
          observe("error");
          throw error;
        }
      },
    );
  }

  #deliver(call: PodCall, signal: AbortSignal): Promise<HttpAnswer> {
    const { clock, transport, userAgent } = this.#options;
    const { address, request, target, options } = call;
    const { method, path, body, mostBytes = defaultMostBytes } = request;
    const asked = Object.entries(request.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]);
    const headers = {
      ...Object.fromEntries(asked),
      // A proxy between, such as a mesh's, knows no name with a dot at its end.
      host: target.hostHeader,
      "user-agent": userAgent,
      // Mimir and its like compare it with their own.
      "x-cluster": address.namespace,
      // A compressed body has no bound before it is unpacked.
      "accept-encoding": "identity",
      ...callerHeaders(),
    };
    const onSend = () => {
      if (clock.monotonicMs() > (options.notAfterMs ?? Number.POSITIVE_INFINITY)) throw tooLate(call);
      call.sent = true;
    };
    return transport.deliver(
      { ...target, address, method, path, headers, body },
      { signal, maxBodyBytes: mostBytes, onSend },
    );
  }
}

/** Whether a call that failed is sent again: once, where a kept connection ended at the moment at which it was used. Pure. */
function retryDecision({ request, sent }: PodCall, error: unknown, tries: number): "give-up" | "at once" {
  const isEarly = error instanceof ExchangeError && error.failed === "connection" && error.status === undefined;
  const { method, repeatable = method === "GET" } = request;
  // If nothing was sent, there was no connection, and another try would find none either.
  return isEarly && repeatable && sent && tries === 1 ? "at once" : "give-up";
}

function answerOf({ status, headers, body }: HttpAnswer): PodAnswer {
  const header = (name: string): string => String(headers[name] ?? "");
  const encoding = header("content-encoding");
  if (encoding !== "" && encoding !== "identity") {
    throw new ExchangeError("size", `the answer is compressed (${encoding}), which was not asked for`, status);
  }
  const retryAfter = header("retry-after");
  return {
    status,
    contentType: header("content-type"),
    retryAfterMs: /^\d{1,9}$/.test(retryAfter) ? Number(retryAfter) * 1000 : undefined,
    body: body.toString("utf8"),
  };
}

function failure(
  { address, request, sent }: PodCall,
  failed: PodFailure,
  detail: string,
  options: Omit<ConstructorParameters<typeof PodHttpError>[2], "sent"> = {},
): PodHttpError {
  return new PodHttpError(failed, `${placeOf(address, request)}: ${detail}`, { ...options, sent });
}

function tooLate(call: PodCall): PodHttpError {
  return failure(call, "time", "too late to send it");
}
