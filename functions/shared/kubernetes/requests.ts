/** HTTP to the API server: deadlines, which requests may be tried again, and errors that keep the server's own message. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { gunzipSync } from "node:zlib";
import type { Dispatcher } from "undici";
import { messageOf } from "../base/error-message.ts";
import { callerHeaders, describeSpan, inSpan } from "../base/spans.ts";
import { sleep, waitingTime } from "../clock/process-clock.ts";
import type { ServerTime } from "../clock/server-time.ts";
import type { SteadyClock } from "../clock/steady-clock.ts";
import { exchange, type HttpAnswer } from "../transport/exchange.ts";
import { withTimeout } from "../transport/timeout.ts";
import { type CallOptions, ClusterError } from "./cluster.ts";
import type { Access, AccessProvider } from "./configuration.ts";
import { aborted, afterTries, failure, refusal } from "./errors.ts";
import { type FailedTry, retryDecision } from "./retry.ts";

/** Larger answers take milliseconds to unpack, to parse and to use. Other work of the process goes on in between. */
const largeAnswerBytes = 256 * 1_024;

/** One HTTP exchange, for metrics. */
export interface RequestObservation {
  readonly method: string;
  /** As rollout-operator labels it: `apps/v1/statefulsets object`, `core/v1/pods collection`, `… object status subresource`. */
  readonly path: string;
  readonly statusCode: number | "error";
  /** Without the wait for a connection, until the last byte; of a watch, until its headers. */
  readonly seconds: number;
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
  /** True if a second try does no harm after the first has had its effect. */
  readonly repeatable: boolean;
  /** The most bytes of an answer that are read; absent: all. */
  readonly bodyLimitBytes?: number;
}

export interface RequestsOptions {
  readonly access: AccessProvider;
  readonly clock: SteadyClock;
  readonly serverTime: ServerTime;
  readonly userAgent: string;
  readonly timeoutMs: number;
  readonly onRequest: ((observation: RequestObservation) => void) | undefined;
}

/** What ends one call: its signal, its deadline, and for each try the moment after which none is sent (rule R9). */
interface CallLimit {
  readonly signal: AbortSignal;
  readonly endsMs: number;
  readonly notAfterMs: number;
}

/** One try: its credentials, and whether and when its first byte went out. */
interface Attempt {
  readonly access: Access;
  /** Ends the call. */
  readonly signal: AbortSignal;
  /** Throws when it is too late to send it. */
  readonly onSend: () => void;
  unsent: boolean;
  late: boolean;
  /** Monotonic time of the first byte: waiting for a free connection does not count. */
  sentMs: number;
}

export class Requests {
  readonly #options: RequestsOptions;

  constructor(options: RequestsOptions) {
    this.#options = options;
  }

  /** Sends a request, again where that is safe, and parses the JSON answer. Rejects with a {@link ClusterError} only. */
  async send<T>(request: ApiRequest, limits: CallOptions = {}): Promise<T> {
    return await this.#call(request, limits, async (attempt) => {
      const { access, onSend, signal } = attempt;
      const answer = await exchange(
        limits.aside === true ? access.aside : access.calls,
        // The server compresses from 128 KiB on. It is no slower on loopback, where encryption of 20 times the bytes costs
        // both sides as much, and much faster elsewhere. Watches are never compressed.
        this.#dispatchOptions(request, access, { "accept-encoding": "gzip" }),
        { signal, maxBodyBytes: request.bodyLimitBytes, onSend },
      );
      const { status, headers } = answer;
      const body = unpacked(answer, request.bodyLimitBytes);
      this.#learnTime(headers, attempt.sentMs);
      this.#observe(request, status, attempt.sentMs);
      const isLarge = body.length > largeAnswerBytes;
      if (isLarge) await nextTurn();
      const text = body.toString("utf8");
      if (status >= 300) throw refusal(request, status, text, headers["retry-after"]);
      const parsed = parse<T>(request, text);
      if (isLarge) await nextTurn();
      return parsed;
    });
  }

  /** Opens a stream: only the wait for its headers is limited, and `signal` no longer counts once they came. */
  async open(request: ApiRequest, limits: CallOptions): Promise<Dispatcher.ResponseData["body"]> {
    return await this.#call(request, limits, async (attempt) => {
      attempt.onSend();
      const { access, sentMs, signal } = attempt;
      const options = { ...this.#dispatchOptions(request, access, {}), signal };
      const { statusCode, headers, body } = await access.watches.request(options);
      this.#learnTime(headers, sentMs);
      this.#observe(request, statusCode, sentMs);
      if (statusCode < 300) return body;
      throw refusal(request, statusCode, await body.text(), headers["retry-after"]);
    });
  }

  /** Runs `work` for each try of a request, until the call's time is over. */
  #call<T>(
    request: ApiRequest,
    { signal, notAfterMs = Number.POSITIVE_INFINITY }: CallOptions,
    work: (attempt: Attempt) => Promise<T>,
  ): Promise<T> {
    const { timeoutMs, clock } = this.#options;
    const errorOf = (error: unknown, why?: "aborted" | "time") => {
      if (why === undefined) return error;
      return why === "time" ? failure(request, "Timeout", `no answer within ${timeoutMs} ms`) : aborted(request);
    };
    return withTimeout({ clock: waitingTime, timeoutMs, signal, errorOf }, (ending) =>
      this.#retried(request, { signal: ending, endsMs: clock.nowMs() + timeoutMs, notAfterMs }, work),
    );
  }

  async #retried<T>(request: ApiRequest, limit: CallLimit, work: (attempt: Attempt) => Promise<T>): Promise<T> {
    let renewed = false;
    // Earlier tries that the server may still carry out. It does not carry out what it answers with 429.
    let open = 0;
    for (let tries = 1; ; tries++) {
      const outcome = await this.#tried(request, limit, (attempt) => inRequestSpan(request, attempt, tries, work));
      if ("value" in outcome) return outcome.value;
      const { error, unsent } = outcome;
      const notAfterMs = Math.min(limit.endsMs, limit.notAfterMs);
      const now = { ended: limit.signal.aborted, nowMs: this.#options.clock.nowMs(), jitter: Math.random() };
      const decision = retryDecision(outcome, { ...request, ...now, tries, renewed, notAfterMs });
      if (decision === "give-up") throw afterTries(error, open + (unsent ? 0 : 1));
      if ("renew" in decision) {
        renewed = true;
        this.#options.access.renew(decision.renew);
        continue;
      }
      if (!unsent && error.code !== 429) open++;
      await sleep(decision.delayMs, limit.signal);
    }
  }

  async #tried<T>(
    request: ApiRequest,
    { signal, notAfterMs }: CallLimit,
    work: (attempt: Attempt) => Promise<T>,
  ): Promise<{ readonly value: T } | FailedTry> {
    const { clock } = this.#options;
    let access: Access;
    try {
      access = await this.#options.access.current();
    } catch (error) {
      return { error: failure(request, "NoCredentials", messageOf(error)), unsent: false, late: false };
    }
    const onSend = () => {
      attempt.sentMs = clock.nowMs();
      attempt.late = attempt.sentMs > notAfterMs;
      if (attempt.late) throw new Error("too late to send it");
      attempt.unsent = false;
    };
    const startMs = clock.nowMs();
    const attempt: Attempt = { access, signal, onSend, unsent: true, late: startMs > notAfterMs, sentMs: startMs };
    if (attempt.late) return { error: failure(request, "TooLate", "too late to send it"), unsent: true, late: true };
    try {
      return { value: await work(attempt) };
    } catch (error) {
      if (error instanceof ClusterError) return { error, unsent: false, late: false, access };
      this.#observe(request, "error", startMs);
      const { unsent, late } = attempt;
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
        "user-agent": this.#options.userAgent,
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

  #learnTime(headers: HttpAnswer["headers"], sentMs: number): void {
    const { clock, serverTime } = this.#options;
    if (typeof headers.date === "string") serverTime.observe(headers.date, sentMs, clock.nowMs(), clock.skippedMs());
  }

  #observe(request: ApiRequest, statusCode: number | "error", sentMs: number): void {
    const seconds = (this.#options.clock.nowMs() - sentMs) / 1000;
    if (statusCode !== "error") describeSpan({ "http.response.status_code": statusCode });
    this.#options.onRequest?.({ method: request.method, path: request.label, statusCode, seconds });
  }
}

/** Runs one try of a request in a span, with the attributes that OpenTelemetry has for HTTP clients. */
function inRequestSpan<T>(
  { method, path, label }: ApiRequest,
  attempt: Attempt,
  tries: number,
  work: (attempt: Attempt) => Promise<T>,
): Promise<T> {
  return inSpan(
    `${method} ${label}`,
    () => ({ kind: "client" }),
    (span) => {
      if (span.isRecording()) {
        const url = new URL(attempt.access.pathPrefix + path, attempt.access.origin);
        span.setAttributes({
          "http.request.method": method,
          "url.full": url.href,
          "url.path": url.pathname,
          "server.address": url.hostname,
          "server.port": Number(url.port) || (url.protocol === "https:" ? 443 : 80),
          ...(tries > 1 ? { "http.request.resend_count": tries - 1 } : {}),
        });
      }
      return work(attempt);
    },
  );
}

/** The body of an answer as the server wrote it. */
function unpacked({ headers, body }: HttpAnswer, maxOutputLength: number | undefined): Buffer {
  if (headers["content-encoding"] !== "gzip") return body;
  try {
    return gunzipSync(body, { maxOutputLength });
  } catch (error) {
    throw new Error(`the answer cannot be decompressed: ${messageOf(error)}`, { cause: error });
  }
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
