import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { type Dispatcher, Pool } from "undici";

/** The access to an API server as its administrator. A `ControlPlane` has it. */
export interface ApiAccess {
  readonly url: string;
  readonly token: string;
  readonly caFile: string;
}

/** An answer that was not 2xx. */
export class ApiError extends Error {
  readonly status: number;
  /** The Status object that the API server sent, or its text. */
  readonly body: unknown;

  constructor(method: string, path: string, status: number, body: unknown) {
    const message = (body as { message?: string } | undefined)?.message ?? JSON.stringify(body);
    super(`${method} ${path}: ${status} ${message}`);
    this.name = "ApiError";
    this.status = status;
    this.body = body;
  }
}

export interface ApiOptions {
  /** What the audit log knows the caller by. */
  readonly userAgent: string;
  /** Requests in flight at once, watches included; each has a connection of its own. Default 8. */
  readonly connections?: number;
}

/** Raw JSON over a few kept connections: enough for tests, and so cheap that it does not distort their measurements. */
export class Api {
  readonly #pool: Pool;
  readonly #headers: Record<string, string>;

  private constructor(access: ApiAccess, ca: string, options: ApiOptions) {
    this.#pool = new Pool(access.url, {
      connections: options.connections ?? 8,
      allowH2: false,
      bodyTimeout: 0,
      headersTimeout: 0,
      connect: { ca },
    });
    this.#headers = {
      authorization: `Bearer ${access.token}`,
      "user-agent": options.userAgent,
      accept: "application/json",
    };
  }

  /** Reads the CA file; connects at the first request. */
  static async open(access: ApiAccess, options: ApiOptions): Promise<Api> {
    return new Api(access, await readFile(access.caFile, "utf8"), options);
  }

  /** The raw answer, whatever its status; `more` are headers. Throws only without an answer. */
  send(
    method: string,
    path: string,
    body?: unknown,
    contentType?: string,
    more: Readonly<Record<string, string>> = {},
  ): Promise<Dispatcher.ResponseData> {
    // Otherwise undici closes the connection after a DELETE with a body, and a TLS handshake costs more than that.
    const options = { method: method as Dispatcher.HttpMethod, path, reset: false };
    if (body === undefined) return this.#pool.request({ ...options, headers: { ...this.#headers, ...more } });
    const headers = { ...this.#headers, "content-type": contentType ?? "application/json", ...more };
    return this.#pool.request({ ...options, headers, body: JSON.stringify(body) });
  }

  /** The parsed answer. Throws an `ApiError` when it is not 2xx. */
  async request<T = unknown>(method: string, path: string, body?: unknown, contentType?: string): Promise<T> {
    const answer = await this.send(method, path, body, contentType);
    const text = await answer.body.text();
    const parsed = parse(text);
    if (answer.statusCode >= 300) throw new ApiError(method, path, answer.statusCode, parsed);
    return parsed as T;
  }

  get<T = unknown>(path: string): Promise<T> {
    return this.request<T>("GET", path);
  }

  post<T = unknown>(path: string, body: unknown): Promise<T> {
    return this.request<T>("POST", path, body);
  }

  /** A JSON merge patch: lists are replaced whole. */
  patch<T = unknown>(path: string, body: unknown): Promise<T> {
    return this.request<T>("PATCH", path, body, "application/merge-patch+json");
  }

  delete<T = unknown>(path: string, body?: unknown): Promise<T> {
    return this.request<T>("DELETE", path, body);
  }

  /** Aborts requests and forgets the connections. */
  async close(): Promise<void> {
    await this.#pool.destroy();
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** A call that took less time needs no server, so that repeating it costs nothing. */
const cheapMs = 1;
const oftenMs = 50;
const seldomMs = 200;

/**
 * A condition that does not hold at once is checked less and less often, and its success is noticed a twentieth of its time
 * late at most.
 */
const pauseMs = (waitedMs: number, askedMs: number): number =>
  askedMs < cheapMs ? oftenMs : Math.max(oftenMs, Math.min(waitedMs / 20, seldomMs));

/**
 * Asks until the answer is not undefined.
 *
 * @param everyMs default: every 50 ms, and after some seconds every 200 ms where a server has to answer
 * @param what names what is waited for, in the error
 * @throws after `timeoutMs`, with the last error that `ask` threw, if any
 */
export async function eventually<T>(
  what: string,
  timeoutMs: number,
  ask: () => Promise<T | undefined>,
  everyMs?: number,
): Promise<T> {
  const startedMs = performance.now();
  const deadline = Date.now() + timeoutMs;
  let failure: unknown;
  for (;;) {
    const askedMs = performance.now();
    try {
      const answer = await ask();
      failure = undefined;
      if (answer !== undefined) return answer;
    } catch (error) {
      failure = error;
    }
    if (Date.now() >= deadline) break;
    await delay(everyMs ?? pauseMs(askedMs - startedMs, performance.now() - askedMs));
  }
  throw new Error(`${what}: not within ${timeoutMs} ms`, failure === undefined ? {} : { cause: failure });
}
