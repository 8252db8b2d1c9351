import { createServer } from "node:net";

/** Below what systems hand out to outgoing connections, so that a port stays free while its owner restarts. */
const LOWEST = 20_000;
const HIGHEST = 31_999;

/** Whether `port` of 127.0.0.1 can be listened on. */
export function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen({ host: "127.0.0.1", port, exclusive: true }, () => server.close(() => resolve(true)));
  });
}

/** A free port of 127.0.0.1, at random: two who ask at once hardly get the same. Throws when there is none. */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 200; attempt++) {
    const port = LOWEST + Math.floor(Math.random() * (HIGHEST - LOWEST + 1));
    if (await isFree(port)) return port;
  }
  throw new Error(`no free port from ${LOWEST} to ${HIGHEST} on 127.0.0.1`);
}
