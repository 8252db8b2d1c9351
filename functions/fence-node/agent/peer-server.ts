/**
 * Where an agent answers its peers, and shows its metrics: HTTP on a port of the host. The port is also the lock between an agent
 * and its successor.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { boundedOptions, closeServer, listenBounded } from "../../shared/base/bounded-server.ts";
import { metricsType } from "./metrics.ts";
import type { PeerVerdict } from "./outside.ts";
import type { PeerKey } from "./peer-key.ts";
import { formatHere, formatVerdict, type PeerQuestion, parseQuestion, signatureHeader } from "./peer-messages.ts";

/** Any further connection is closed at once. */
export const mostConnections = 64;
/** The most bytes of the path and the headers of a request. */
const mostHeaderBytes = 4096;
/** How long a request may take to arrive, and how long its connection may then be quiet, each in milliseconds. */
const connectionTimeMs = 5_000;

/** What the server asks the agent. */
export interface PeerQuestions {
  /** The Node of this machine. */
  readonly name: string;
  readonly key: PeerKey;
  /** For a node and a boot that parse. */
  answer(node: string, bootId: string): Promise<PeerVerdict>;
  /** The page of metrics. */
  metrics(): string;
}

export class PeerServer {
  /** The port that it listens on. */
  readonly port: number;
  readonly #server: Server;
  #questions: PeerQuestions | undefined;
  /** How many drills of peers it has answered. */
  drillsAnswered = 0;

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.port = port;
    server.on("request", (request, response) => void this.#answer(request, response));
  }

  /**
   * Listens on all addresses of the host, of both families, and answers 503 until {@link serve}. Rejects with the error of the
   * system: EADDRINUSE while another agent of this host listens.
   *
   * @param port 0 for any free one
   * @param timeMs how long a connection without progress is kept
   */
  static async listen(port: number, timeMs = connectionTimeMs): Promise<PeerServer> {
    const bounds = { mostConnections, mostHeaderBytes, timeMs };
    const server = createServer(boundedOptions(bounds));
    return new PeerServer(server, await listenBounded(server, { port }, bounds));
  }

  /** Answers questions from now on. */
  serve(questions: PeerQuestions): void {
    this.#questions = questions;
  }

  /** Ends all connections, and resolves once the port is free. */
  close(): Promise<void> {
    return closeServer(this.#server);
  }

  /** Never rejects. */
  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const question = parseQuestion(request.url ?? "");
    const questions = this.#questions;
    if (question.kind === "other-path") refuse(response, 404, "there are /v1/verdict/NODE, /v1/here and /metrics");
    else if (request.method !== "GET") refuse(response.setHeader("allow", "GET"), 405, "only GET is answered");
    else if (question.kind === "malformed") refuse(response, 400, question.message);
    else if (questions === undefined) refuse(response, 503, "this agent has not begun to answer");
    else if (question.kind === "metrics") this.#sendMetrics(response, questions);
    else {
      await reply(response, questions, question);
      if (question.kind === "here") this.drillsAnswered++;
    }
  }

  /** Not signed: no decision rests on it. */
  #sendMetrics(response: ServerResponse, questions: PeerQuestions): void {
    try {
      send(response, 200, Buffer.from(questions.metrics()), { "content-type": metricsType });
    } catch {
      refuse(response, 503, "this agent cannot answer now");
    }
  }
}

async function reply(
  response: ServerResponse,
  questions: PeerQuestions,
  question: Extract<PeerQuestion, { kind: "verdict" | "here" }>,
): Promise<void> {
  try {
    const body = await bodyOf(questions, question);
    const signature = questions.key.sign(body);
    send(response, 200, body, { "content-type": "application/json", [signatureHeader]: signature });
  } catch {
    refuse(response, 503, "this agent cannot answer now");
  }
}

async function bodyOf(
  questions: PeerQuestions,
  question: Extract<PeerQuestion, { kind: "verdict" | "here" }>,
): Promise<Buffer> {
  const { name: peer } = questions;
  const { nonce } = question;
  if (question.kind === "here") return formatHere({ peer, nonce });
  const { node, boot } = question;
  return formatVerdict({ ...(await questions.answer(node, boot)), node, boot, nonce, peer });
}

function refuse(response: ServerResponse, status: number, message: string): void {
  send(response, status, Buffer.from(`${message}\n`), { "content-type": "text/plain; charset=utf-8" });
}

/** Closes the connection after the answer: a peer never waits on one whose other end is dead. */
function send(
  response: ServerResponse,
  status: number,
  body: Buffer,
  headers: Readonly<Record<string, string | number>>,
): void {
  response.writeHead(status, { ...headers, "content-length": body.length, connection: "close" });
  response.end(body);
}
