/** Connections of an attacker to a server: any bytes go out, and answers are read, or not. */
import { connect, type Socket } from "node:net";
import { connect as connectSecurely } from "node:tls";

export interface Endpoint {
  readonly port: number;
  /** Uses TLS, and trusts certificates of this authority. */
  readonly ca?: string;
}

export interface Answer {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

let opened = 0;

/**
 * Begins to connect. Without a given address it uses another address of loopback each time, because one alone has ports for a
 * few ten thousand connections a minute. Nothing is read until the caller listens, and errors are ignored.
 */
export function connectTo({ port, ca }: Endpoint, from?: string): Socket {
  opened++;
  const localAddress = from ?? `127.0.${1 + (Math.floor(opened / 200) % 200)}.${1 + (opened % 200)}`;
  const where = { host: "127.0.0.1", port, localAddress };
  const socket = ca === undefined ? connect({ ...where, noDelay: true }) : connectSecurely({ ...where, ca });
  return socket.on("error", () => undefined);
}

/** Resolves to true when the connection, including TLS, is open; to false if the server did not accept it. */
export function isConnected(socket: Socket): Promise<boolean> {
  return comes(socket, "encrypted" in socket ? "secureConnect" : "connect");
}

/** Resolves when there is room to write more, or the socket is closed. */
export async function hasRoom(socket: Socket): Promise<void> {
  if (!socket.destroyed) await comes(socket, "drain");
}

/** Resolves to true if the event came before the connection closed. */
function comes(socket: Socket, event: string): Promise<boolean> {
  return new Promise((resolve) => {
    const settle = (came: boolean) => {
      socket.off(event, onEvent);
      socket.off("close", onClose);
      resolve(came);
    };
    const onEvent = () => settle(true);
    const onClose = () => settle(false);
    socket.once(event, onEvent).once("close", onClose);
  });
}

/** Reads HTTP/1.1 answers one after the other. */
export class AnswerReader {
  readonly answers: Answer[] = [];
  #rest: Buffer = Buffer.alloc(0);
  readonly #methods: readonly string[];

  /** Methods of the answered requests in order, because the answer to HEAD has no body. */
  constructor(methods: readonly string[]) {
    this.#methods = methods;
  }

  /** Throws if the bytes are no HTTP. */
  read(bytes: Buffer): void {
    this.#rest = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    for (let answer = this.#next(false); answer !== undefined; answer = this.#next(false)) this.answers.push(answer);
  }

  /** Call it when the connection has ended. Returns true if nothing was cut off. */
  end(): boolean {
    const last = this.#next(true);
    if (last !== undefined) this.answers.push(last);
    return this.#rest.length === 0;
  }

  #next(ended: boolean): Answer | undefined {
    const text = this.#rest.toString("latin1");
    const headEnd = text.indexOf("\r\n\r\n");
    if (headEnd < 0) return undefined;
    const [first = "", ...lines] = text.slice(0, headEnd).split("\r\n");
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(first)?.[1]);
    if (Number.isNaN(status)) throw new Error(`no answer of HTTP: ${JSON.stringify(first.slice(0, 80))}`);
    const headers = new Map(
      lines.map((line): [string, string] => {
        const colon = line.indexOf(":");
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
      }),
    );
    const isBare = this.#methods[this.answers.length] === "HEAD" || status < 200 || status === 204 || status === 304;
    const body = isBare ? { text: "", end: headEnd + 4 } : bodyAt(text, headEnd + 4, headers, ended);
    if (body === undefined) return undefined;
    this.#rest = this.#rest.subarray(body.end);
    // An interim answer: the final one comes after it.
    if (status < 200) return this.#next(ended);
    return { status, headers, body: Buffer.from(body.text, "latin1").toString("utf8") };
  }
}

function bodyAt(
  text: string,
  start: number,
  headers: ReadonlyMap<string, string>,
  ended: boolean,
): { text: string; end: number } | undefined {
  const length = headers.get("content-length");
  if (headers.get("transfer-encoding") === "chunked") return chunksAt(text, start);
  if (length === undefined) return ended ? { text: text.slice(start), end: text.length } : undefined;
  const end = start + Number(length);
  return end <= text.length ? { text: text.slice(start, end), end } : undefined;
}

function chunksAt(text: string, start: number): { text: string; end: number } | undefined {
  let body = "";
  for (let at = start; ; ) {
    const lineEnd = text.indexOf("\r\n", at);
    if (lineEnd < 0) return undefined;
    const size = Number.parseInt(text.slice(at, lineEnd), 16);
    const end = lineEnd + 2 + size + 2;
    if (end > text.length) return undefined;
    if (size === 0) return { text: body, end };
    body += text.slice(lineEnd + 2, end - 2);
    at = end;
  }
}
