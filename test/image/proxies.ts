/** Proxies as kubeconfigs name them in `proxy-url`: they count connections and forward them unchanged. */
import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

export interface Proxy {
  readonly url: string;
  /** Number of requested connections. */
  connections(): number;
  /** Disconnects every client. */
  stop(): Promise<void>;
}

/** Speaks HTTP, but only `CONNECT`. */
export function startHttpProxy(): Promise<Proxy> {
  return serve("http", (count) => {
    const server = createHttpServer();
    server.on("connect", (request, client: Socket) => {
      const [host = "", port = ""] = (request.url ?? "").split(":");
      join(client, { host, port: Number(port) }, "HTTP/1.1 200 Connection established\r\n\r\n");
      count();
    });
    return server;
  });
}

/** Speaks SOCKS 5 without authentication, as far as a client needs that requests one connection. */
export function startSocksProxy(): Promise<Proxy> {
  return serve("socks5", (count) =>
    createServer((client) => {
      client.once("data", () => {
        // Version 5, and no authentication.
        client.write(Buffer.from([5, 0]));
        client.once("data", (asked) => {
          join(client, addressOf(asked), Buffer.from([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]));
          count();
        });
      });
    }),
  );
}

interface Address {
  readonly host: string;
  readonly port: number;
}

/**
 * Parses version, command, a reserved byte, and the address: its type (1: four bytes of IPv4, 3: a name after its length), and
 * the port.
 */
function addressOf(asked: Buffer): Address {
  const isName = asked[3] === 3;
  const start = isName ? 5 : 4;
  const end = isName ? start + (asked[4] ?? 0) : start + 4;
  const bytes = asked.subarray(start, end);
  return { host: isName ? bytes.toString("latin1") : [...bytes].join("."), port: asked.readUInt16BE(end) };
}

function join(client: Socket, to: Address, greeting: string | Buffer): void {
  const server = connect(to, () => {
    client.write(greeting);
    client.pipe(server).pipe(client);
  });
  for (const [one, other] of [
    [client, server],
    [server, client],
  ] as const) {
    one.on("error", () => other.destroy());
    one.on("close", () => other.destroy());
  }
}

async function serve(scheme: string, create: (count: () => void) => Server): Promise<Proxy> {
  let connections = 0;
  const server = create(() => {
    connections += 1;
  });
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    connections: () => connections,
    async stop() {
      const closed = once(server, "close");
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
