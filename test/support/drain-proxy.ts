/** A TCP proxy in front of several replicas, like a Service: each new connection goes to a replica that is alive. */
import { EventEmitter, once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";

export class TcpProxy {
  readonly #server: Server;
  readonly #ports = new Set<number>();
  readonly #sockets = new Set<Socket>();
  readonly #traffic = new EventEmitter<{ asked: [port: number] }>();
  #connections = 0;

  private constructor(server: Server) {
    this.#server = server;
  }

  /** Resolves when it listens on 127.0.0.1. */
  static async start(): Promise<TcpProxy> {
    const server = createServer();
    const proxy = new TcpProxy(server);
    server.on("connection", (client) => proxy.#serve(client));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port;
  }

  /** From now on, new connections may go to this port of 127.0.0.1. */
  add(port: number): void {
    this.#ports.add(port);
  }

  /** New connections no longer go there. Open ones end with the replica. */
  remove(port: number): void {
    this.#ports.delete(port);
  }

  /** How many connections clients have made, those that no replica took among them. */
  get connections(): number {
    return this.#connections;
  }

  /** Resolves to the port of the replica that gets the next request. Rejects when `signal` is aborted. */
  async nextAsked(signal: AbortSignal): Promise<number> {
    const [port] = await once(this.#traffic, "asked", { signal });
    return port as number;
  }

  /** Breaks every connection. */
  async close(): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #serve(client: Socket): void {
    this.#connections++;
    this.#keep(client);
    const ports = [...this.#ports];
    const first = Math.floor(Math.random() * ports.length);
    this.#reconcile(client, [...ports.slice(first), ...ports.slice(0, first)]);
  }

  /** Connects the client to the first of the ports that accepts it; closes it if none does. */
  #reconcile(client: Socket, [port, ...others]: readonly number[]): void {
    if (port === undefined) {
      client.destroy();
      return;
    }
    const replica = connect(port, "127.0.0.1");
    this.#keep(replica);
    const refused = (): void => this.#reconcile(client, others);
    replica.once("error", refused);
    replica.once("connect", () => {
      replica.off("error", refused);
      client.pipe(replica).pipe(client);
      client.on("data", () => this.#traffic.emit("asked", port));
      // A killed replica breaks its connections, with whatever they were carrying.
      replica.once("close", () => client.destroy());
      client.once("close", () => replica.destroy());
      if (client.destroyed) replica.destroy();
    });
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("error", () => {});
    socket.once("close", () => this.#sockets.delete(socket));
  }
}
