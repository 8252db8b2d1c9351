/** Stands for the names of Services, which no DNS resolves: `URL/NAME.NAMESPACE.svc:PORT/path` goes to what has the name. */
import { once } from "node:events";
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export class Gateway {
  readonly #ports = new Map<string, number>();
  readonly #server: Server = createServer((incoming, response) => this.#serve(incoming, response));

  static async start(): Promise<Gateway> {
    const gateway = new Gateway();
    gateway.#server.listen(0, "127.0.0.1");
    await once(gateway.#server, "listening");
    return gateway;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Gives a name to a port of 127.0.0.1. @param host with its port, as it stands in URLs */
  name(host: string, port: number): void {
    this.#ports.set(host, port);
  }

  /** What a URL with such a name is here; any other one stays as it is. */
  here(url: string): string {
    const { host, pathname, search } = new URL(url);
    return this.#ports.has(host) ? `http://127.0.0.1:${this.port}/${host}${pathname}${search}` : url;
  }

  async close(): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  #serve(incoming: IncomingMessage, response: ServerResponse): void {
    const [, host = "", path = "/"] = /^\/([^/]+)(\/.*)$/.exec(incoming.url ?? "") ?? [];
    const unreachable = (): void => void (response.headersSent ? response.destroy() : response.writeHead(502).end());
    const port = this.#ports.get(host);
    if (port === undefined) {
      unreachable();
      return;
    }
    const { method, headers } = incoming;
    const outgoing = request({ host: "127.0.0.1", port, path, method, headers: { ...headers, host } }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    outgoing.once("error", unreachable);
    incoming.pipe(outgoing);
  }
}
