/** HTTP to the API server: deadlines, what may be tried again, and errors that keep the server's own words. */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Dispatcher } from "undici";
import { messageOf } from "../base/error-message.ts";
import { callerHeaders, describeSpan, inSpan } from "../base/spans.ts";
import { sleep } from "../clock/process-clock.ts";
import type { ServerTime } from "../clock/server-time.ts";
import type { SteadyClock } from "../clock/steady-clock.ts";
import { ClusterError, isTransient } from "./cluster.ts";
import type { Access, AccessProvider } from "./configuration.ts";
import { aborted, afterTries, failure, refusal } from "./errors.ts";
import { type ApiAnswer, type ExchangeLimit, exchange, NotSentError } from "./exchange.ts";

const maxTries = 3;
const firstBackoffMs = 100;
/** The longest that a server's Retry-After is honoured here; beyond it the caller decides. */
const maxRetryAfterMs = 5_000;
/** To unpack a larger answer, to parse it and to use it takes milliseconds each: other work of the process goes on in between. */
const largeAnswerBytes = 256 * 1_024;

/** What one HTTP exchange was, for metrics. */
export interface RequestObservation {
  readonly method: string;
  /** As rollout-operator labels it: `apps/v1/statefulsets object`, `core/v1/pods collection`, `… object status subresource`. */
  readonly path: string;
  readonly statusCode: number | "error";
  /** Without the wait for a connection, until the last byte; of a watch, until its headers. */
  readonly seconds: number;
  /** Bytes of the body as they came, compressed or not; 0 for a watch. */
  readonly bytesReceived: number;
}

export interface ApiRequest {
  readonly verb: string;
  readonly resource: string;
  /** See {@link RequestObservation.path}. */
  readonly label: string;
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  /** With its query. */
  readonly path: string;
  readonly body?: string;
  readonly contentType?: string;
  /** Absent: `application/json`. */
  readonly accept?: string;
  /** True when a second try that meets the effect of the first does no harm. */
  readonly repeatable: boolean;
  /** No more of an answer is read; absent: all of it. */
  readonly bodyLimitBytes?: number;
}

export interface RequestsOptions {
  readonly access: AccessProvider;
  readonly clock: SteadyClock;
  readonly serverTime: ServerTime;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly onRequest: ((observation: RequestObservation) => void) | undefined;
}

/** A caller's wishes; see CallOptions. */
export interface CallLimits {
  readonly signal?: AbortSignal;
  readonly notAfterMs?: number;
  readonly aside?: boolean;
}

/** What ends one call: its deadline, the caller's signal, and for each try the moment after which none is sent. */
interface CallLimit extends ExchangeLimit {
  readonly endsMs: number;
}

/** `unsent`: nothing went out. `late`: and it is too late to send it now. */
type AttemptOutcome<T> =
  | { readonly value: T }
  | {
      readonly error: ClusterError;
      readonly unsent: boolean;
      readonly late: boolean;
      /** With which it was sent. */
      readonly access?: Access;
    };

export class Requests {
  readonly #options: RequestsOptions;

  constructor(options: RequestsOptions) {
    this.#options = options;
  }

  /** Sends a request, again where that is safe, and parses the JSON answer. Rejects with a {@link ClusterError} only. */
  async send<T>(request: ApiRequest, limits: CallLimits = {}): Promise<T> {
    return await this.#limited(request, limits, (limit) =>
      this.#retried(request, limit, async (access) => {
        const { statusCode, headers, body, bytesReceived, sentMs } = await exchange(
          limits.aside === true ? access.aside : access.calls,
          // The server compresses from 128 KiB on. It is no slower on loopback, where encryption of 20 times the bytes costs
          // both sides as much, and much faster elsewhere. Watches are never compressed.
          this.#dispatchOptions(request, access, { "accept-encoding": "gzip" }),
          limit,
        );
        this.#learnTime(headers, sentMs);
        this.#observe(request, statusCode, sentMs, bytesReceived);
        const isLarge = body.length > largeAnswerBytes;
        if (isLarge) await nextTurn();
        const text = body.toString("utf8");
        if (statusCode >= 300) throw refusal(request, statusCode, text, headers["retry-after"]);
        const parsed = parse<T>(request, text);
        if (isLarge) await nextTurn();
        return parsed;
      }),
    );
  }

  /** Opens a stream: only the wait for its headers is limited, and `signal` no longer counts once they came. */
  async open(request: ApiRequest, limits: CallLimits): Promise<Dispatcher.ResponseData["body"]> {
    return await this.#limited(request, limits, (limit) =>
      this.#retried(request, limit, async (access) => {
        const sentMs = this.#options.clock.nowMs();
        const options = { ...this.#dispatchOptions(request, access, {}), signal: limit.signal };
        const { statusCode, headers, body } = await access.watches.request(options);
        this.#learnTime(headers, sentMs);
        this.#observe(request, statusCode, sentMs, 0);
        if (statusCode < 300) return body;
        throw refusal(request, statusCode, await body.text(), headers["retry-after"]);
      }),
    );
  }

  async #limited<T>(request: ApiRequest, limits: CallLimits, work: (limit: CallLimit) => Promise<T>): Promise<T> {
    const { timeoutMs } = this.#options;
    const { signal, notAfterMs } = limits;
    if (signal?.aborted) throw aborted(request);
    // Not AbortSignal.any: with a signal that lives as long as the process, that is much slower than one listener.
    const controller = new AbortController();
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      controller.abort();
    }, timeoutMs);
    const onAbort = () => controller.abort();
    signal?.addEventListener("abort", onAbort, { once: true });
    try {
      const { clock } = this.#options;
      const endsMs = clock.nowMs() + timeoutMs;
      const { bodyLimitBytes } = request;
      return await work({ signal: controller.signal, endsMs, notAfterMs, clock, bodyLimitBytes });
    } catch (error) {
      if (signal?.aborted) throw aborted(request);
      if (timedOut) throw failure(request, "Timeout", `no answer within ${timeoutMs} ms`);
      throw error;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
    }
  }

  async #retried<T>(request: ApiRequest, limit: CallLimit, attempt: (access: Access) => Promise<T>): Promise<T> {
    let renewed = false;
    // Earlier tries that may still be carried out: what was answered with 429 was not, nor will it be.
    let open = 0;
    for (let tries = 1; ; tries++) {
      const outcome = await this.#tried(request, limit, (access) => inRequestSpan(request, access, tries, attempt));
      if ("value" in outcome) return outcome.value;
      const { unsent, late, access } = outcome;
      const error = afterTries(outcome.error, open + (unsent ? 0 : 1));
      if (limit.signal.aborted || late) throw error;
      if (error.code === 401) {
        // The credentials may have been renewed behind our back; a refused request was not carried out.
        if (renewed || access === undefined) throw error;
        renewed = true;
        this.#options.access.renew(access);
        continue;
      }
      const delayMs = this.#delayMs(request, limit, outcome, tries);
      if (delayMs === undefined) throw error;
      if (!unsent && error.code !== 429) open++;
      await sleep(delayMs, limit.signal);
    }
  }

  /** How long the next try waits, in milliseconds; undefined where none may follow, or it would come too late. */
  #delayMs(
    { repeatable }: ApiRequest,
    { endsMs, notAfterMs = endsMs }: CallLimit,
    { error, unsent }: { readonly error: ClusterError; readonly unsent: boolean },
    tries: number,
  ): number | undefined {
    const isSafe = error.code === 429 || unsent || (repeatable && isTransient(error) && !isViewTooOld(error));
    if (!isSafe || tries >= maxTries) return undefined;
    const { retryAfterMs = 0 } = error;
    const delayMs = Math.max(retryAfterMs, firstBackoffMs * 2 ** (tries - 1)) * (1 + Math.random() / 2);
    const isTooLate = this.#options.clock.nowMs() + delayMs > Math.min(endsMs, notAfterMs);
    return retryAfterMs > maxRetryAfterMs || isTooLate ? undefined : delayMs;
  }

  async #tried<T>(
    request: ApiRequest,
    limit: CallLimit,
    attempt: (access: Access) => Promise<T>,
  ): Promise<AttemptOutcome<T>> {
    let access: Access;
    try {
      access = await this.#options.access.current();
    } catch (error) {
      return { error: failure(request, "NoCredentials", messageOf(error)), unsent: false, late: false };
    }
    const startMs = this.#options.clock.nowMs();
    if (limit.notAfterMs !== undefined && startMs > limit.notAfterMs) {
      return { error: failure(request, "TooLate", "too late to send it"), unsent: true, late: true };
    }
    try {
      return { value: await attempt(access) };
    } catch (error) {
      if (error instanceof ClusterError) return { error, unsent: false, late: false, access };
      this.#observe(request, "error", startMs, 0);
      const unsent = error instanceof NotSentError;
      const late = unsent && error.late;
      return { error: failure(request, late ? "TooLate" : "ConnectionFailed", messageOf(error)), unsent, late };
    }
  }

  #dispatchOptions(
    request: ApiRequest,
    access: Access,
    headers: Readonly<Record<string, string>>,
  ): Dispatcher.DispatchOptions {
    return {
      origin: access.origin,
      path: access.pathPrefix + request.path,
      method: request.method,
      headers: {
        ...access.headers,
        ...this.#options.headers,
        ...headers,
        ...callerHeaders(),
        accept: request.accept ?? "application/json",
        ...(request.contentType === undefined ? {} : { "content-type": request.contentType }),
      },
      // Otherwise undici closes the connection after a DELETE with a body: a handshake each, four times the CPU.
      reset: false,
      body: request.body ?? null,
    };
  }

  #learnTime(headers: ApiAnswer["headers"], sentMs: number): void {
    const { clock, serverTime } = this.#options;
    if (typeof headers.date === "string") serverTime.observe(headers.date, sentMs, clock.nowMs(), clock.skippedMs());
  }

  #observe(request: ApiRequest, statusCode: number | "error", sentMs: number, bytesReceived: number): void {
    const seconds = (this.#options.clock.nowMs() - sentMs) / 1000;
    if (statusCode !== "error") describeSpan({ "http.response.status_code": statusCode });
    this.#options.onRequest?.({ method: request.method, path: request.label, statusCode, seconds, bytesReceived });
  }
}

/** Runs one try of a request in a span, with the attributes that OpenTelemetry has for HTTP clients. */
function inRequestSpan<T>(
  { method, path, label }: ApiRequest,
  access: Access,
  tries: number,
  attempt: (access: Access) => Promise<T>,
): Promise<T> {
  return inSpan(
    `${method} ${label}`,
    () => ({ kind: "client" }),
    (span) => {
      if (span.isRecording()) {
        const url = new URL(access.pathPrefix + path, access.origin);
        span.setAttributes({
          "http.request.method": method,
          "url.full": url.href,
          "url.path": url.pathname,
          "server.address": url.hostname,
          "server.port": Number(url.port) || (url.protocol === "https:" ? 443 : 80),
          ...(tries > 1 ? { "http.request.resend_count": tries - 1 } : {}),
        });
      }
      return attempt(access);
    },
  );
}

function parse<T>(request: ApiRequest, text: string): T {
  try {
    return JSON.parse(text) as T;
  } catch {
    const { verb, resource, path } = request;
    const message = `${verb} ${path}: the answer is not JSON: ${text.trim().slice(0, 300)}`;
    throw new ClusterError({ code: 502, reason: "NotJson", message, verb, resource });
  }
}

/** The server has waited three seconds already for that revision; whether to go on is the caller's choice. */
function isViewTooOld(error: ClusterError): boolean {
  return error.code === 504 && error.message.includes("Too large resource version");
}
