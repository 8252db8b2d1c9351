/** Servers that die in the middle of their work. */
import { setTimeout as delay } from "node:timers/promises";
import type { Server } from "./server.ts";

export interface KillOptions {
  /** Starts the one that takes a killed server's place. */
  readonly start: () => Promise<Server>;
  readonly everyMs: number;
  /** How many kills in a row are of the same server; absent: one. */
  readonly inARow?: number;
  /** After so many milliseconds none is killed any more; absent: until the end. */
  readonly forMs?: number;
}

/**
 * SIGKILL for one of the servers every so often, in turn; another one starts in its place at once, also in the list. `end`
 * resolves to the number of kills, when the last one has its successor.
 */
export function killInTurn(
  servers: Server[],
  { start, everyMs, inARow = 1, forMs = Number.POSITIVE_INFINITY }: KillOptions,
): { end(): Promise<number> } {
  const ending = new AbortController();
  const untilMs = Date.now() + forMs;
  const run = async (): Promise<number> => {
    let kills = 0;
    while (!ending.signal.aborted && Date.now() < untilMs) {
      const turn = Math.floor(kills++ / inARow) % servers.length;
      await servers[turn]?.kill();
      const started = start();
      await delay(everyMs, undefined, { signal: ending.signal }).catch(() => {});
      servers[turn] = await started;
    }
    return kills;
  };
  const ended = run();
  return {
    end: () => {
      ending.abort();
      return ended;
    },
  };
}
