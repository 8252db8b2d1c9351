import { createSocket, type Socket } from "node:dgram";
import { createServer } from "node:net";

/** Below the ports that systems use for outgoing connections, so that a port stays free while its owner restarts. */
const LOWEST = 20_000;
const HIGHEST = 31_999;

/**
 * The ports that this process has reserved, each by a UDP socket of the same number. The kernel gives that number to one
 * process at a time, and takes it back when the process ends, however it ends: a lock file would outlive its process.
 */
const reserved = new Map<number, Socket>();

/** Whether `port` of 127.0.0.1 can be listened on. */
export function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen({ host: "127.0.0.1", port, exclusive: true }, () => server.close(() => resolve(true)));
  });
}

/**
 * Reserves `port` of 127.0.0.1 until `releasePorts` or the end of this process. False when a process listens there, or
 * one of this project's has reserved it. The order matters: to try a port that another process has reserved would take it
 * away for a moment, in which that process's server may start.
 */
export async function reservePort(port: number): Promise<boolean> {
  const socket = await bind(port);
  if (socket === undefined) return false;
  reserved.set(port, socket);
  if (await isFree(port)) return true;
  releasePorts(port);
  return false;
}

/** A free port of 127.0.0.1, reserved as by `reservePort`: no two processes get the same. Throws if there is none. */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 200; attempt++) {
    const port = LOWEST + Math.floor(Math.random() * (HIGHEST - LOWEST + 1));
    if (await reservePort(port)) return port;
  }
  throw new Error(`no free port from ${LOWEST} to ${HIGHEST} on 127.0.0.1`);
}

/** Ends the reservations of this process for these ports; those that it has not reserved are left alone. */
export function releasePorts(...ports: readonly number[]): void {
  for (const port of ports) {
    reserved.get(port)?.close();
    reserved.delete(port);
  }
}

/** A UDP socket that keeps no process alive; undefined when another one has the number. */
function bind(port: number): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const socket = createSocket("udp4");
    socket.once("error", () => {
      socket.close();
      resolve(undefined);
    });
    socket.bind({ address: "127.0.0.1", port, exclusive: true }, () => resolve(socket.unref()));
  });
}
