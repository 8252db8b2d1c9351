/** Servers that are killed in the middle of their work. */
import { setTimeout as delay } from "node:timers/promises";
import type { Server } from "./server.ts";

export interface KillOptions {
  /** Starts the replacement of a killed server. */
  readonly start: () => Promise<Server>;
  readonly everyMs: number;
  /** How many kills in a row hit the same server; absent: one. */
  readonly inARow?: number;
  /** Time after which no server is killed any more, in milliseconds; absent: until the end. */
  readonly forMs?: number;
}

/**
 * Kills one of the servers at each interval, in turn, and starts a replacement at once, also in the list. `end` resolves to
 * the number of kills when the last replacement runs.
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
