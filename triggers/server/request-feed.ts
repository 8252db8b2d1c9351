/**
 * Hands the requests of a connection to Node one by one. Node itself reads all requests in one piece of the stream, thousands
 * of them, before it answers the first, and each of them is then some kilobytes of objects.
 */
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { release } from "./release-buffer.ts";

const endOfHead = Buffer.from("\r\n\r\n");

export class RequestFeed {
  readonly #socket: Socket;
  readonly #mayRead: () => boolean;
  readonly #parse: (piece: Buffer) => void;
  /** Bytes that have come and were not read yet: at most as many as one read of a socket brings. */
  #buffered: Buffer | undefined;
  #isFeeding = false;
  /** True while this feed, and not Node, has paused the socket. */
  #isPausing = false;

  /** Stands between a connection of an HTTP server and its parser: another request is read only while `mayRead`. */
  constructor(socket: Socket, mayRead: () => boolean) {
    this.#socket = socket;
    this.#mayRead = mayRead;
    const [parse, ...others] = socket.listeners("data");
    if (parse === undefined || others.length > 0) throw new Error("the connection is not read by one HTTP parser");
    this.#parse = (piece) => {
      try {
        parse.call(socket, piece);
        // Node has copies of the bodies.
        release(piece);
      } catch (error) {
        // Whatever a client has sent, an error ends the connection, and not the process.
        socket.destroy(error as Error);
      }
    };
    socket.off("data", parse as (piece: Buffer) => void);
    socket.on("data", (piece: Buffer) => {
      if (this.#buffered !== undefined) this.#buffered = Buffer.concat([this.#buffered, piece]);
      else this.#buffered = piece;
      this.feed();
    });
    // Node pauses the socket while answers or bodies are not read, and resumes it by itself.
    socket.on("resume", () => {
      // The event comes one turn of the event loop later: by then this feed may have paused the socket again.
      if (!socket.isPaused()) this.#isPausing = false;
      this.feed();
    });
  }

  /** Hands on as many requests as `mayRead` allows. The caller calls it after the answer to a request. */
  feed(): void {
    if (this.#isFeeding) return;
    const socket = this.#socket;
    // The parked bytes are read when the stream goes on, before any later ones.
    if (this.#isPausing && this.#mayRead()) {
      this.#isPausing = false;
      socket.resume();
    }
    this.#isFeeding = true;
    // While Node has paused, it must not be given more.
    while (this.#buffered !== undefined && this.#mayRead() && !socket.isPaused() && !socket.destroyed) {
      this.#parse(this.#take(this.#buffered));
    }
    this.#isFeeding = false;
    if (this.#buffered === undefined || socket.isPaused() || socket.destroyed) return;
    this.#isPausing = true;
    socket.pause();
  }

  /** One head at most; or everything, if no second head ends in it, which is nearly always so. */
  #take(buffered: Buffer): Buffer {
    this.#buffered = undefined;
    const at = buffered.indexOf(endOfHead);
    if (at < 0) return buffered;
    const end = at + endOfHead.length;
    if (buffered.indexOf(endOfHead, end) < 0) return buffered;
    this.#buffered = buffered.subarray(end);
    return buffered.subarray(0, end);
  }
}

/** True for a request without a body: it has come whole with its head. */
export function isBare({ method, headers }: Pick<IncomingMessage, "method" | "headers">): boolean {
  const isWithout = headers["content-length"] === undefined && headers["transfer-encoding"] === undefined;
  return isWithout && (method === "GET" || method === "HEAD");
}
