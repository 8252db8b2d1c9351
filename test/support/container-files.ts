/**
 * A kubelet's server for `exec` that can only `cat` one file, and to which a real API server connects. It speaks version v4 of
 * the WebSocket protocol.
 */
import { createHash } from "node:crypto";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { createAuthority } from "./certificates.ts";

/** A file that was read. */
export interface ReadFile {
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
  readonly path: string;
}

export interface ContainerFiles {
  readonly port: number;
  readonly reads: readonly ReadFile[];
  close(): Promise<void>;
}

/** A message of a server: short, and not masked. */
export function webSocketMessage(channel: number, text: string): Buffer {
  const payload = Buffer.from(`${String.fromCharCode(channel)}${text}`);
  return Buffer.concat([Buffer.from([0x82, payload.length]), payload]);
}

/** Accepts a client's WebSocket. */
export function acceptWebSocket(request: IncomingMessage, socket: Duplex): void {
  const key = `${request.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
  const accept = createHash("sha1").update(key).digest("base64");
  const head = ["HTTP/1.1 101 Switching Protocols", "upgrade: websocket", "connection: Upgrade"];
  const chosen = [`sec-websocket-accept: ${accept}`, "sec-websocket-protocol: v4.channel.k8s.io"];
  socket.write(`${[...head, ...chosen].join("\r\n")}\r\n\r\n`);
}

/** Resolves when it listens on 127.0.0.1. `textOf`: contents of a file; undefined if it does not exist. */
export async function serveContainerFiles(
  textOf: (file: ReadFile) => Promise<string | undefined>,
): Promise<ContainerFiles> {
  const reads: ReadFile[] = [];
  const sockets = new Set<Duplex>();
  const server = createServer(await (await createAuthority()).issue());
  server.on("upgrade", async (request: IncomingMessage, socket: Duplex) => {
    sockets.add(socket);
    socket.on("error", () => {});
    const { pathname, searchParams } = new URL(request.url ?? "", "https://kubelet");
    const [, , namespace = "", pod = "", container = ""] = pathname.split("/");
    const [, path = ""] = searchParams.getAll("command");
    reads.push({ namespace, pod, container, path });
    const text = await textOf({ namespace, pod, container, path });
    acceptWebSocket(request, socket);
    if (text !== undefined) socket.write(webSocketMessage(1, text));
    const status = text === undefined ? "Failure" : "Success";
    socket.end(webSocketMessage(3, JSON.stringify({ metadata: {}, status })));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    reads,
    async close() {
      for (const socket of sockets) socket.destroy();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
