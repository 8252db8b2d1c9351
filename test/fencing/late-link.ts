/** The way of the agents to the API server, on which what a machine has sent may wait, and arrive long after it was given up. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

interface Way {
  readonly from: string;
  readonly there: Socket;
  /** What has not been passed on, in order. */
  readonly waiting: Buffer[];
}

/** Listens on all addresses of this machine. A cut of the way to one of them cuts this as well. */
export class LateLink {
  readonly #server: Server;
  readonly #ways = new Set<Way>();
  readonly #sockets = new Set<Socket>();
  readonly #detained = new Set<string>();
  /** Of the API server. */
  upstream: { readonly host: string; readonly port: number } | undefined;

  private constructor() {
    this.#server = createServer((socket) => this.#accept(socket));
  }

  static async start(): Promise<LateLink> {
    const link = new LateLink();
    link.#server.listen(0, "0.0.0.0");
    await once(link.#server, "listening");
    return link;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** From now on what this machine sends waits here. What it has sent before is still answered. */
  detain(address: string): void {
    this.#detained.add(address);
  }

  /** Passes on what waits on connections that the API server had accepted before: a request that the machine has given up. */
  deliver(address: string): void {
    for (const way of this.#ways) if (way.from === address) this.#flush(way);
  }

  /** Nothing of this machine waits any more. What has waited is lost, as where a network is repaired. */
  release(address: string): void {
    this.#detained.delete(address);
    for (const way of [...this.#ways]) if (way.from === address) way.there.destroy();
  }

  async close(): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    for (const socket of [...this.#sockets, ...[...this.#ways].map(({ there }) => there)]) socket.destroy();
    await closed;
  }

  #accept(here: Socket): void {
    const from = here.remoteAddress ?? "";
    this.#sockets.add(here);
    here.on("error", () => undefined).on("close", () => this.#sockets.delete(here));
    if (this.upstream === undefined || this.#detained.has(from)) {
      here.resume();
      return;
    }
    const there = connect(this.upstream);
    const way: Way = { from, there, waiting: [] };
    this.#ways.add(way);
    here.on("data", (bytes: Buffer) => {
      way.waiting.push(bytes);
      if (!this.#detained.has(from)) this.#flush(way);
    });
    there.on("data", (bytes: Buffer) => {
      const isAnswered = !this.#detained.has(from) || way.waiting.length === 0;
      if (isAnswered && here.writable) here.write(bytes);
    });
    here.on("close", () => {
      if (!this.#detained.has(from)) there.destroy();
    });
    there
      .on("error", () => undefined)
      .on("close", () => {
        this.#ways.delete(way);
        here.destroy();
      });
  }

  #flush({ there, waiting }: Way): void {
    for (const bytes of waiting.splice(0)) there.write(bytes);
  }
}
