/** The target of the API server's reviews: each goes to another process, by chance, as no Service does and many replicas may. */
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { Agent, request } from "undici";
import type { Random } from "../../fake-cluster/random.ts";
import type { Presented } from "../../support/drain-webhook.ts";

export class ReviewProxy {
  readonly #server: Server;
  readonly #random: Random;
  readonly #agent: Agent;
  readonly #ports: readonly number[];

  private constructor(pair: { cert: string; key: string }, ca: string, ports: readonly number[], random: Random) {
    this.#ports = ports;
    this.#random = random;
    this.#agent = new Agent({ connect: { ca } });
    this.#server = createServer(pair, (asked, response) => {
      // The API server takes a broken connection for a webhook that failed, as it would without this server.
      this.#forward(asked, response).catch(() => response.destroy());
    });
  }

  /**
   * Resolves when it listens on 127.0.0.1.
   *
   * @param ports of the processes, as they are when a review comes: they may change. All present the same certificate
   */
  static async open({ ca, settings }: Presented, ports: readonly number[], random: Random): Promise<ReviewProxy> {
    const { TLS_CERT_FILE: cert = "", TLS_KEY_FILE: key = "" } = settings;
    const pair = { cert: await readFile(cert, "utf8"), key: await readFile(key, "utf8") };
    const proxy = new ReviewProxy(pair, ca, ports, random);
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Aborts the requests under way. */
  async close(): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    this.#server.closeAllConnections();
    await this.#agent.destroy();
    await closed;
  }

  async #forward(asked: IncomingMessage, response: ServerResponse): Promise<void> {
    const port = this.#ports[Math.floor(this.#random() * this.#ports.length)];
    const answer = await request(`https://127.0.0.1:${port}${asked.url}`, {
      method: "POST",
      headers: { "content-type": asked.headers["content-type"] ?? "" },
      body: await buffer(asked),
      dispatcher: this.#agent,
    });
    response.writeHead(answer.statusCode, { "content-type": String(answer.headers["content-type"] ?? "") });
    response.end(await answer.body.text());
  }
}
