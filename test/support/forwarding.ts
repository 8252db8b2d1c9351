/** A proxy in front of the API server, which may change what it forwards. */
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

/** Headers of one connection, which a proxy does not forward. */
const hopHeaders = new Set(["connection", "keep-alive", "transfer-encoding", "host", "content-length"]);

export interface Upstream {
  readonly url: string;
  /** Authority of its certificate; not needed for plain HTTP. */
  readonly ca?: string;
}

/** A request, read completely. */
export interface Asked {
  readonly method: string;
  /** Path with the query. */
  readonly path: string;
  /** Absent for a GET. */
  readonly body?: Buffer;
  /** The API server's answer. A GET is aborted when its client has gone. */
  forward(headers?: Readonly<Record<string, string>>): Promise<Dispatcher.ResponseData>;
}

/** Where a proxy listens. */
export interface ProxyAddress {
  readonly host: string;
  readonly port: number;
}

const anyPort: ProxyAddress = { host: "127.0.0.1", port: 0 };

/** Serves an API server over plain HTTP. Subclasses decide how, and their answers may take any time. */
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

  /** Answers one request. If it throws, the connection is broken. */
  protected abstract answer(asked: Asked, response: ServerResponse): Promise<void>;

  /** Resolves when it listens. */
  protected async listen({ host, port }: ProxyAddress = anyPort): Promise<this> {
    this.#server.listen(port, host);
    await once(this.#server, "listening");
    return this;
  }

  get url(): string {
    const { address, port } = this.#server.address() as AddressInfo;
    return `http://${address}:${port}`;
  }

  /** Breaks every connection. */
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

/** The headers of a message that are forwarded. */
export function headersOf({ headers }: { readonly headers: IncomingHttpHeaders }): Record<string, string | string[]> {
  const passing = Object.entries(headers).filter(([name]) => !hopHeaders.has(name));
  return Object.fromEntries(passing.map(([name, value]) => [name, value ?? ""]));
}

/** The resource that a path lists or watches; undefined for a path of one object or of anything else. */
export function kindOf(pathname: string): string | undefined {
  return /^\/(?:api|apis\/[^/]+)\/[^/]+(?:\/namespaces\/[^/]+)?\/([^/]+)$/.exec(pathname)?.[1];
}
