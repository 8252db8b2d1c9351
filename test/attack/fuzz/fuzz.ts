/** Sends malformed requests, and checks the answers. */
import { setTimeout as delay } from "node:timers/promises";
import type { Attack, Outcome, Scene } from "../attack.ts";
import type { Target } from "../target.ts";
import { type Answer, AnswerReader, connectTo, hasRoom, isConnected } from "../wire.ts";
import { type Exchange, exchangeOf, type Malformed } from "./requests.ts";

const requests = { short: 3_000, long: 100_000 } as const;
const connections = 64;
/** Longer than the server lets a client send, and than an API server waits. */
const patienceMs = 15_000;
/** After this many different failures, further ones are hardly new. */
const mostFailures = 20;

/** Requests of all kinds that are malformed: each must be answered with a message, or its connection closed. */
export const malformedRequests: Attack = {
  name: "malformed",
  description: (size) => `${requests[size]} malformed requests`,
  // After this time the server must answer or close a request that was cut off.
  settings: { REQUEST_TIMEOUT: "2s" },
  mayTurnEventsAway: true,
  run: fuzz,
};

interface Tally {
  sent: number;
  readonly statuses: Record<number, number>;
  /** Failures: how often each occurred, and where first. */
  readonly failures: Map<string, { count: number; readonly first: string }>;
}

async function fuzz({ target, size, seed, signal, atHeight }: Scene): Promise<Outcome> {
  const tally: Tally = { sent: 0, statuses: {}, failures: new Map() };
  let next = 0;
  atHeight();
  const work = async (): Promise<void> => {
    while (tally.sent < requests[size] && tally.failures.size < mostFailures) {
      signal.throwIfAborted();
      const number = next++;
      const exchange = exchangeOf(seed, number);
      tally.sent += exchange.requests.length;
      for (const { what, description } of check(exchange, await send(target, exchange), tally)) {
        const known = tally.failures.get(what);
        if (known !== undefined) known.count++;
        else tally.failures.set(what, { count: 1, first: `${description}, on connection ${number} of seed ${seed}` });
      }
      if (target.end() !== undefined) throw new Error(`the server ended at connection ${number} of seed ${seed}`);
    }
  };
  await Promise.all(Array.from({ length: connections }, work));
  const seen = Object.entries(tally.statuses).map(([status, count]) => `${count} x ${status}`);
  const failures = [...tally.failures].map(([what, { count, first }]) => `${count} times: ${what}; first: ${first}`);
  return { seen: `${tally.sent} in ${next} connections: ${seen.join(", ")}`, failures };
}

/** What came back on a connection. */
interface Received {
  readonly answers: readonly Answer[];
  /** Undefined if the connection is still open, and nothing more came. */
  readonly closed: "clean" | "cut" | undefined;
  readonly mistake: string | undefined;
}

async function send(target: Target, { endpoint, requests: sent, pieceBytes, ending }: Exchange): Promise<Received> {
  const socket = connectTo(target[endpoint]);
  const reader = new AnswerReader(sent.map(({ method }) => method));
  if (!(await isConnected(socket))) return { answers: [], closed: "clean", mistake: "the port was closed" };
  let mistake: string | undefined;
  let isFinished = false;
  const finished = new Promise<void>((settle) => {
    const resolve = () => {
      isFinished = true;
      settle();
    };
    socket.on("close", resolve);
    socket.on("end", resolve);
    socket.on("data", (bytes: Buffer) => {
      try {
        reader.read(bytes);
      } catch (error) {
        mistake = (error as Error).message;
      }
      if (mistake !== undefined || reader.answers.length >= sent.length) resolve();
    });
  });
  const bytes = Buffer.concat(sent.map((request) => request.bytes));
  for (let at = 0; at < bytes.length && !isFinished; at += pieceBytes) {
    const isTaken = socket.write(bytes.subarray(at, Math.min(bytes.length, at + pieceBytes)));
    if (isTaken) await new Promise((piece) => setImmediate(piece));
    else await Promise.race([hasRoom(socket), finished]);
  }
  if (ending === "aborts") {
    socket.destroy();
    return { answers: reader.answers, closed: "cut", mistake };
  }
  if (ending === "half-closes") socket.end();
  const isOver = new AbortController();
  await Promise.race([finished, delay(patienceMs, undefined, { signal: isOver.signal }).catch(() => {})]);
  isOver.abort();
  const isClosed = socket.destroyed || socket.readableEnded;
  const isClean = reader.end();
  socket.destroy();
  return { answers: reader.answers, closed: isClosed ? (isClean ? "clean" : "cut") : undefined, mistake };
}

interface Mistake {
  readonly what: string;
  /** Description of its request. */
  readonly description: string;
}

function check({ requests: sent, ending }: Exchange, { answers, closed, mistake }: Received, tally: Tally): Mistake[] {
  const mistakes: Mistake[] = [];
  const note = (what: string | undefined, request: Malformed | undefined) => {
    if (what !== undefined) mistakes.push({ what, description: request?.description ?? "nothing that was asked" });
  };
  note(mistake, sent[answers.length]);
  for (const [index, answer] of answers.entries()) {
    tally.statuses[answer.status] = (tally.statuses[answer.status] ?? 0) + 1;
    note(wrongWith(answer, sent[index]?.method), sent[index]);
  }
  const missing = sent[answers.length];
  if (missing === undefined || ending === "aborts") return mistakes;
  if (closed === undefined) note(`neither answered nor closed in ${patienceMs} ms`, missing);
  else if (!isExcused(sent, answers) && ending !== "half-closes") note("closed without an answer", missing);
  return mistakes;
}

/**
 * True if a missing answer is allowed: after an answer that ends the connection (413, or `Connection: close`), and after bytes
 * that are no HTTP, which end the connection together with the answers on their way.
 */
function isExcused(sent: readonly Malformed[], answers: readonly Answer[]): boolean {
  const last = answers.at(-1);
  const isClosing = last?.status === 413 || last?.headers.get("connection")?.toLowerCase() === "close";
  return isClosing || sent.at(-1)?.isWhole === false;
}

function wrongWith({ status, headers, body }: Answer, method: string | undefined): string | undefined {
  if (!(status < 300 || (status >= 400 && status < 500) || status === 503))
    return `answered ${status}: ${body.slice(0, 200)}`;
  if (method !== "HEAD" && status !== 204 && body.trim() === "") return `answered ${status} without a message`;
  if (status !== 200 || headers.get("content-type") !== "application/json") return undefined;
  const { response } = JSON.parse(body) as { response?: { status?: { code?: number; message?: string } } };
  const { code = 0, message = "" } = response?.status ?? {};
  return code >= 500 && code !== 503 ? `its review was answered ${code}: ${message.slice(0, 200)}` : undefined;
}
