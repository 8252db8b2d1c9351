/** A proxy before the API server, whatever it makes of what passes. */
import { once } from "node:events";
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { type Dispatcher, Pool } from "undici";

/** Hop by hop: they are for one connection, and each side has its own. */
const hopHeaders = new Set(["connection", "keep-alive", "transfer-encoding", "host", "content-length"]);

export interface Upstream {
  readonly url: string;
  /** Who signed its certificate; not needed for plain HTTP. */
  readonly ca?: string;
}

/** A request that has come, whole. */
export interface Asked {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  /** Absent for a GET. */
  readonly body?: Buffer;
  /** What the API server says. A GET is cut off when its client has gone. */
  forward(headers?: Readonly<Record<string, string>>): Promise<Dispatcher.ResponseData>;
}

/** Serves an API server over plain HTTP on 127.0.0.1: how, its children say. Answers may take as long as they like. */
export abstract class ApiProxy {
  readonly #server: Server;
  readonly #upstream: Pool;

  protected constructor({ url, ca }: Upstream) {
    const connect = ca === undefined ? {} : { connect: { ca } };
    this.#upstream = new Pool(url, { ...connect, bodyTimeout: 0, headersTimeout: 0, allowH2: false });
    this.#server = createServer((request, response) => {
      this.#receive(request, response).catch(() => response.destroy());
    });
  }

  /** Answers one request; where it throws the connection is broken off. */
  protected abstract answer(asked: Asked, response: ServerResponse): Promise<void>;

  /** Resolves when it listens. */
  protected async listen(): Promise<this> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    return this;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Breaks every connection off. */
  async close(): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    this.#server.closeAllConnections();
    await this.#upstream.destroy();
    await closed;
  }

  async #receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "GET", url: path = "/" } = request;
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    const headers = headersOf(request);
    const rest = method === "GET" ? { signal: gone.signal } : { body: await buffer(request) };
    const options = { method: method as Dispatcher.HttpMethod, path, ...rest };
    const forward = (more = {}) => this.#upstream.request({ ...options, headers: { ...headers, ...more } });
    await this.answer({ method, path, ...rest, forward }, response);
  }
}

/** What passes on of a message's headers. */
export function headersOf({ headers }: { readonly headers: IncomingHttpHeaders }): Record<string, string | string[]> {
  const passing = Object.entries(headers).filter(([name]) => !hopHeaders.has(name));
  return Object.fromEntries(passing.map(([name, value]) => [name, value ?? ""]));
}

/** The resource that a path lists or watches; undefined for a path of one object, or of something else. */
export function kindOf(pathname: string): string | undefined {
  return /^\/(?:api|apis\/[^/]+)\/[^/]+(?:\/namespaces\/[^/]+)?\/([^/]+)$/.exec(pathname)?.[1];
}
