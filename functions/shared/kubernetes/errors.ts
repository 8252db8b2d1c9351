/** The errors with which calls reject, after a refusal and without an answer. */
import { parseFields } from "../base/fields.ts";
import { ClusterError, type StatusCause } from "./cluster.ts";

/** The parts of a request that its errors name. */
interface RequestInfo {
  readonly verb: string;
  readonly resource: string;
  readonly path: string;
}

/** The same error, with the number of tries that went out. */
export function afterTries(error: ClusterError, attempts: number): ClusterError {
  return attempts > 1 ? new ClusterError({ ...error, message: error.message, attempts }) : error;
}

/** An error without an answer. The server may still have acted. */
export function failure(request: RequestInfo, reason: string, detail: string): ClusterError {
  const { verb, resource, path } = request;
  return new ClusterError({ code: 0, reason, message: `${verb} ${path}: ${detail}`, verb, resource });
}

/** An error of a call that its caller aborted. The server may still have acted. */
export function aborted(request: RequestInfo): ClusterError {
  return failure(request, "Aborted", "given up by the caller");
}

interface ApiStatus {
  readonly kind?: string;
  readonly reason?: string;
  readonly message?: string;
  readonly details?: { readonly retryAfterSeconds?: number; readonly causes?: readonly StatusCause[] };
}

const reasons: Readonly<Record<number, string>> = {
  400: "BadRequest",
  401: "Unauthorized",
  403: "Forbidden",
  404: "NotFound",
  408: "Timeout",
  409: "Conflict",
  410: "Gone",
  413: "RequestEntityTooLarge",
  422: "Invalid",
  429: "TooManyRequests",
  500: "InternalError",
  503: "ServiceUnavailable",
  504: "Timeout",
};

/** The error of an answer: the API server's `Status`, or what a proxy in between sent instead. */
export function refusal(
  request: RequestInfo,
  code: number,
  body: string,
  retryAfter?: string | string[],
): ClusterError {
  const { verb, resource, path } = request;
  const parsed = parseFields(body) as ApiStatus | undefined;
  const status = parsed?.kind === "Status" ? parsed : undefined;
  const seconds = Number.parseInt(String(retryAfter ?? status?.details?.retryAfterSeconds ?? ""), 10);
  return new ClusterError({
    code,
    reason: status?.reason || (reasons[code] ?? "Unknown"),
    message: status?.message || `${verb} ${path}: HTTP ${code} ${body.trim().slice(0, 300)}`.trimEnd(),
    verb,
    resource,
    causes: status?.details?.causes ?? [],
    ...(seconds >= 0 ? { retryAfterMs: seconds * 1000 } : {}),
  });
}
