/** A subscriber that remembers what it gets and answers as a test wants it to. */
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { eventually } from "../../controlplane/api.ts";

export interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export class Sink {
  readonly received: Received[] = [];
  /** The status to answer with, and never a body. Default 204. */
  answer: (received: Received) => number | Promise<number> = () => 204;
  readonly #server = createServer(async (request, response) => {
    const received = { path: request.url ?? "", headers: request.headers, body: await text(request) };
    this.received.push(received);
    response.writeHead(await this.answer(received)).end();
  });

  /** Listens on 127.0.0.1. */
  static async start(port = 0): Promise<Sink> {
    const sink = new Sink();
    sink.#server.listen(port, "127.0.0.1");
    await once(sink.#server, "listening");
    return sink;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** The first that fits, once it is there. Throws after a minute, with the paths and subjects of those that are. */
  async until(what: string, fits: (received: Received) => boolean): Promise<Received> {
    return eventually(what, 60_000, async () => this.received.find(fits)).catch((error: Error) => {
      const seen = this.received.map(({ path, headers }) => `${path} ${headers["ce-type"]} ${headers["ce-name"]}`);
      throw new Error(`${error.message}; there were ${seen.join(", ") || "none"}`, { cause: error });
    });
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }
}
