/** Where functions and the kubelet ask: HTTP, or HTTPS where a certificate is mounted, on the address of the pod. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer, type Server as TlsServer } from "node:https";
import { boundedOptions, closeServer, listenBounded } from "../../shared/base/bounded-server.ts";
import { messageOf } from "../../shared/base/error-message.ts";
import type { ProcessVerb } from "./decide-call.ts";
import type { ManagedProcess, ManagerLog } from "./managed-process.ts";
import { mostCallBytes, parseCall } from "./parse-call.ts";
import { hasToken } from "./token.ts";

/** Any further connection is closed at once. */
const mostConnections = 64;
/** The most bytes of the path and the headers of a request. A token may have some thousand. */
const mostHeaderBytes = 8192;
/** How long a request may take to arrive, and how long its connection may then be quiet, each in milliseconds. */
const connectionTimeMs = 5_000;

/** In PEM. */
export interface ServedCertificate {
  readonly cert: string;
  readonly key: string;
}

export interface ManagerServerOptions {
  readonly host: string;
  /** 0 for any free one. */
  readonly port: number;
  readonly tokenFile: string;
  /** Undefined for HTTP without TLS. */
  readonly certificate?: ServedCertificate | undefined;
  /** How long a connection without progress is kept, in milliseconds. */
  readonly timeMs?: number;
}

const verbs: Readonly<Record<string, ProcessVerb>> = { "/es/start": "start", "/es/stop": "stop", "/es/kill": "kill" };
const readable = ["/es/status", "/health", "/ready"];

export class ManagerServer {
  /** The port that it listens on. */
  readonly port: number;
  readonly #server: Server;
  readonly #manager: ManagedProcess;
  readonly #tokenFile: string;
  readonly #log: ManagerLog;

  private constructor(
    { server, port }: { readonly server: Server; readonly port: number },
    manager: ManagedProcess,
    tokenFile: string,
    log: ManagerLog,
  ) {
    this.#server = server;
    this.port = port;
    this.#manager = manager;
    this.#tokenFile = tokenFile;
    this.#log = log;
    server.on("request", (request, response) => void this.#answer(request, response));
  }

  /** Rejects with the error of the system, or with that of a certificate that cannot be used. */
  static async listen(options: ManagerServerOptions, manager: ManagedProcess, log: ManagerLog): Promise<ManagerServer> {
    const { host, port, certificate, timeMs = connectionTimeMs } = options;
    const bounds = { mostConnections, mostHeaderBytes, timeMs };
    const limits = boundedOptions(bounds);
    const server =
      certificate === undefined
        ? createServer(limits)
        : createTlsServer({ ...limits, ...certificate, handshakeTimeout: timeMs });
    const listened = { server, port: await listenBounded(server, { host, port }, bounds) };
    return new ManagerServer(listened, manager, options.tokenFile, log);
  }

  /** For connections from now on. Throws for a certificate that cannot be used. */
  replaceCertificate(certificate: ServedCertificate): void {
    (this.#server as TlsServer).setSecureContext(certificate);
  }

  /** Ends all connections, and resolves once the port is free. */
  close(): Promise<void> {
    return closeServer(this.#server);
  }

  /** Never rejects. */
  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const path = request.url ?? "";
      const verb = Object.hasOwn(verbs, path) ? verbs[path] : undefined;
      const method = verb === undefined ? "GET" : "POST";
      if (verb === undefined && !readable.includes(path)) {
        send(response, 404, { message: `there are ${[...Object.keys(verbs), ...readable].join(", ")}` });
      } else if (request.method !== method) {
        send(response.setHeader("allow", method), 405, { message: `only ${method} is answered` });
      } else if (path === "/health") send(response, 200, { message: "the server runs" });
      else if (path === "/ready") this.#answerReady(response);
      else await this.#answerFunction(verb, request, response);
    } catch (error) {
      // A client that has gone is no fault of this server, and gets no answer.
      if (response.destroyed) return;
      this.#log("warn", `a request was not answered: ${messageOf(error)}`);
      send(response, 500, { message: messageOf(error) });
    }
  }

  #answerReady(response: ServerResponse): void {
    const { isReady } = this.#manager;
    send(response, isReady ? 200 : 503, { message: isReady ? "the process runs" : "the process does not run" });
  }

  async #answerFunction(
    verb: ProcessVerb | undefined,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    if (!hasToken(request.headers.authorization, this.#tokenFile)) {
      return send(response.setHeader("www-authenticate", "Bearer"), 401, { message: "the token is missing or wrong" });
    }
    if (verb === undefined) return send(response, 200, this.#manager.status());
    const body = await readBody(request);
    const call = body === undefined ? `the body has more than ${mostCallBytes} bytes` : parseCall(verb, body);
    if (typeof call === "string") return send(response, 400, { message: call });
    const { status, message } = this.#manager.call(call);
    send(response, status, { ...this.#manager.status(), ...(message === undefined ? {} : { message }) });
  }
}

/**
 * Undefined for a body that is too long: the rest is read within the time of a request, and thrown away, so that an answer
 * arrives.
 */
async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes <= mostCallBytes) chunks.push(chunk);
  }
  return bytes <= mostCallBytes ? Buffer.concat(chunks).toString("utf8") : undefined;
}

/** Closes the connection after the answer: a client never waits on one whose other end is dead. */
function send(response: ServerResponse, status: number, body: object): void {
  const bytes = Buffer.from(`${JSON.stringify(body)}\n`);
  response.writeHead(status, {
    "content-type": "application/json",
    "content-length": bytes.length,
    connection: "close",
  });
  response.end(bytes);
}
