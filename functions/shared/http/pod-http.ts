/**
 * The second I/O surface, besides `Cluster`: what a function may ask of pods over HTTP.
 *
 * An answer is data, whatever its status. If there is none, or it is too large or too late, the call throws {@link PodHttpError}.
 */
import { withoutQuery } from "../base/ports-and-paths.ts";

/** One container port of one pod of a StatefulSet. It alone makes a host, because Sluice never calls a URL that a user wrote. */
export interface PodAddress {
  readonly scheme: "http" | "https";
  readonly pod: string;
  /** The StatefulSet's governing Service, `spec.serviceName`: without it the pod has no name in DNS. */
  readonly service: string;
  readonly namespace: string;
  /** The group of the pod. The number of calls to one group at once is limited. */
  readonly group: string;
  /** From 1 to 65535; see `parsePort`. */
  readonly port: number;
  /** The only authorities that are trusted over https, in PEM; absent: those that Node trusts. */
  readonly authorities?: string | undefined;
}

export interface PodRequest {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** With its query, as it is sent; see `parsePath`. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** The longest body of an answer, in bytes; 1 MiB unless told. No more than that is read. */
  readonly mostBytes?: number;
  /**
   * True if a second request does no harm after the first has had its effect, as for every GET. It is sent once more if the
   * connection ends before any answer, because a pod may close a kept connection just when it is used.
   */
  readonly repeatable?: boolean;
}

/** A caller's wishes for one call. */
export interface PodCallOptions {
  /** Gives the call up: it then rejects, although the pod may still act. */
  readonly signal?: AbortSignal;
  /** Nothing is sent after this moment of the client's clock (`monotonicMs`). What is under way is waited for. */
  readonly notAfterMs?: number;
  /** How long the call may take from its turn on, in milliseconds: at most 30 s. Absent: as the client has it. */
  readonly timeoutMs?: number;
}

export interface PodAnswer {
  readonly status: number;
  /** The header `content-type`; empty without it. */
  readonly contentType: string;
  /** The header `retry-after`, where it is a number of seconds; in milliseconds. */
  readonly retryAfterMs: number | undefined;
  /** UTF-8, and not longer than was allowed. */
  readonly body: string;
}

/**
 * HTTP to pods. Implementations: `connectPods` over the network, and the embedded world's in `test/fake-cluster`.
 */
export interface PodHttp {
  /**
   * Sends a request, and resolves to the answer, whatever its status; a redirect is such an answer, and is not followed.
   *
   * @throws PodHttpError and nothing else: when there is no answer in time, or none that may be read.
   */
  send(address: PodAddress, request: PodRequest, options?: PodCallOptions): Promise<PodAnswer>;
}

/**
 * What failed.
 *
 * - `request`: the address, the path or a header is invalid.
 * - `crowded`: too many calls wait for their turn, or the turn did not come in time.
 * - `time`: no whole answer in time, or it was too late to send it.
 * - `size`: the answer is longer than allowed, or its length cannot be known before it is read.
 * - `connection`: no such host, no listener, no trust, or the connection broke.
 * - `status`: it is an answer, and a refusal; see {@link refusal}.
 * - `aborted`: the caller gave it up.
 */
export type PodFailure = "request" | "crowded" | "time" | "size" | "connection" | "status" | "aborted";

interface PodErrorOptions {
  readonly sent: boolean;
  readonly status?: number | undefined;
  readonly isUntrusted?: boolean | undefined;
  readonly cause?: unknown;
}

export class PodHttpError extends Error {
  readonly failed: PodFailure;
  /** False: nothing went out, so that the pod cannot have acted. */
  readonly sent: boolean;
  /** Of an answer that began to come. */
  readonly status: number | undefined;
  /** True where the pod's certificate is of an authority that is not trusted. */
  readonly isUntrusted: boolean;

  constructor(failed: PodFailure, message: string, { sent, status, isUntrusted = false, cause }: PodErrorOptions) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "PodHttpError";
    this.failed = failed;
    this.sent = sent;
    this.status = status;
    this.isUntrusted = isUntrusted;
  }
}

/** True for 200 to 299. */
export function isSuccess({ status }: Pick<PodAnswer, "status">): boolean {
  return status >= 200 && status < 300;
}

/** What a caller that needs a success throws of any other answer: its status, and how its body begins. */
export function refusal(address: PodAddress, request: PodRequest, { status, body }: PodAnswer): PodHttpError {
  const excerpt = body.trim().slice(0, 300);
  const message = `${placeOf(address, request)}: HTTP ${status} ${excerpt}`.trimEnd();
  return new PodHttpError("status", message, { sent: true, status });
}

/** For messages: `POST web-0.web in ns, port 80, path /x`, even if that is no address. */
export function placeOf({ pod, service, namespace, port }: PodAddress, { method, path }: PodRequest): string {
  return `${method} ${pod}.${service} in ${namespace}, port ${port}, path ${withoutQuery(path)}`;
}
