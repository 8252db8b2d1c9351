/** What stands between a function and a node: it passes connections on, and sees what goes without TLS. */
import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";

/** The first byte of a TLS connection. */
const handshake = 0x16;

export class Wire {
  /** What clients have sent on connections that did not begin with TLS. */
  plain = "";
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(address: string, to: number) {
    this.#server = createServer((client) => this.#forward(client, connect(to, address)));
  }

  /** Listens at one port of an address, and connects to another one there. */
  static async open(address: string, from: number, to: number): Promise<Wire> {
    const wire = new Wire(address, to);
    wire.#server.listen(from, address);
    await once(wire.#server, "listening");
    return wire;
  }

  #forward(client: Socket, node: Socket): void {
    for (const [socket, other] of [
      [client, node],
      [node, client],
    ] as const) {
      this.#sockets.add(socket);
      socket.on("error", () => other.destroy());
      socket.on("close", () => {
        other.destroy();
        this.#sockets.delete(socket);
      });
    }
    client.once("data", (first: Buffer) => {
      if (first[0] === handshake) return;
      this.#note(first);
      client.on("data", (more: Buffer) => this.#note(more));
    });
    client.pipe(node);
    node.pipe(client);
  }

  #note(bytes: Buffer): void {
    this.plain += bytes.toString("latin1");
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, "close");
  }
}
