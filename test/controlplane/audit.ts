import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { createInterface } from "node:readline";

/** One request, as the API server logged it. A watch is logged when it starts, every other request when it ends. */
export interface AuditEntry {
  readonly userAgent: string;
  readonly user: string;
  readonly verb: string;
  /** "pods", "pods/status", "statefulsets", ..., or the path of a request for no resource, such as "/readyz". */
  readonly resource: string;
  readonly namespace: string | undefined;
  readonly name: string | undefined;
  /** HTTP status; undefined when the client went away before there was one. */
  readonly code: number | undefined;
  /** Of an answer that is a failure, or empty. */
  readonly message: string;
  /** Milliseconds since the epoch, and how long it took. */
  readonly at: number;
  readonly tookMs: number;
  /** Of the object as it was answered, where the log holds answers: see `ControlPlaneOptions.auditAnswersOf`. */
  readonly resourceVersion: string | undefined;
}

/** Requests of one client to one resource with one verb. */
export interface RequestCount {
  /** The prefix that was asked for, or for everybody else the user agent up to its first space or slash. */
  readonly client: string;
  readonly verb: string;
  readonly resource: string;
  readonly requests: number;
}

/** The requests in a part of an audit log: every line of it is in one of the counts. */
export interface AuditSummary {
  /** Without watches, most frequent first. */
  readonly requests: readonly RequestCount[];
  readonly watches: readonly RequestCount[];
  /** Sums by client. */
  readonly clients: Readonly<Record<string, { readonly requests: number; readonly watches: number }>>;
  /** Lines that could not be read. Not 0 means that the log was cut or that two processes wrote it. */
  readonly unreadable: number;
}

interface RawEvent {
  readonly userAgent?: string;
  readonly user?: { readonly username?: string };
  readonly verb: string;
  readonly requestURI: string;
  readonly objectRef?: {
    readonly resource?: string;
    readonly subresource?: string;
    readonly namespace?: string;
    readonly name?: string;
  };
  readonly responseStatus?: { readonly code?: number; readonly message?: string };
  readonly responseObject?: { readonly metadata?: { readonly resourceVersion?: string } };
  readonly requestReceivedTimestamp: string;
  readonly stageTimestamp: string;
}

/** The present end of an audit log in bytes: pass it as `from` to read later requests. */
export async function auditPosition(auditLog: string): Promise<number> {
  return (await stat(auditLog)).size;
}

/**
 * Reads the requests that were logged from byte `from` on, to byte `to` or the end. The API server logs a request just
 * after it has answered it: wait a moment before reading what has just been done.
 *
 * @param unreadable is called with each line that is no audit event; the default throws
 */
export async function* readAudit(
  auditLog: string,
  range: { from?: number; to?: number } = {},
  unreadable: (line: string) => void = throwUnreadable,
): AsyncGenerator<AuditEntry> {
  const from = range.from ?? 0;
  if (range.to !== undefined && range.to <= from) return;
  const end = range.to === undefined ? {} : { end: range.to - 1 };
  const lines = createInterface({ input: createReadStream(auditLog, { start: from, ...end }) });
  for await (const line of lines) {
    const entry = parseEntry(line);
    if (entry) yield entry;
    else unreadable(line);
  }
}

/** Counts requests by client, verb and resource. A client is a prefix of the user agent; others go by their own names. */
export async function summariseAudit(
  auditLog: string,
  userAgents: readonly string[] = [],
  range: { from?: number; to?: number } = {},
): Promise<AuditSummary> {
  const counts = new Map<string, { client: string; verb: string; resource: string; requests: number }>();
  const clients: Record<string, { requests: number; watches: number }> = {};
  let unreadable = 0;
  const skip = (): void => {
    unreadable++;
  };
  for await (const { userAgent, verb, resource } of readAudit(auditLog, range, skip)) {
    const client = userAgents.find((prefix) => userAgent.startsWith(prefix)) ?? shortName(userAgent);
    const key = `${client}\n${verb}\n${resource}`;
    const count = counts.get(key) ?? { client, verb, resource, requests: 0 };
    counts.set(key, count);
    count.requests++;
    clients[client] ??= { requests: 0, watches: 0 };
    clients[client][verb === "watch" ? "watches" : "requests"]++;
  }
  const sorted = [...counts.values()].sort((one, other) => other.requests - one.requests);
  return {
    requests: sorted.filter(({ verb }) => verb !== "watch"),
    watches: sorted.filter(({ verb }) => verb === "watch"),
    clients,
    unreadable,
  };
}

function throwUnreadable(line: string): void {
  throw new Error(`no audit event: ${line.slice(0, 200)}`);
}

function shortName(userAgent: string): string {
  return userAgent.split(/[ /]/, 1)[0] || "(none)";
}

function parseEntry(line: string): AuditEntry | undefined {
  let event: RawEvent;
  try {
    event = JSON.parse(line) as RawEvent;
  } catch {
    return undefined;
  }
  const { resource, subresource, namespace, name } = event.objectRef ?? {};
  const at = Date.parse(event.requestReceivedTimestamp);
  return {
    userAgent: event.userAgent ?? "",
    user: event.user?.username ?? "",
    verb: event.verb,
    resource: resource ? [resource, subresource].filter(Boolean).join("/") : (event.requestURI.split("?")[0] ?? ""),
    namespace,
    name,
    code: event.responseStatus?.code,
    message: event.responseStatus?.message ?? "",
    at,
    tookMs: Date.parse(event.stageTimestamp) - at,
    resourceVersion: event.responseObject?.metadata?.resourceVersion,
  };
}
