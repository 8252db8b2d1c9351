/** Clients that load the page of the status as browsers do: each over a connection of its own, which it keeps. */
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "undici";
import { percentile } from "../eviction/answers.ts";

export interface ViewersReport {
  /** Pages that came whole. */
  readonly pages: number;
  /** Answers with another code than 200, and answers that did not come. */
  readonly errors: number;
  /** Time until a page was whole; undefined without any. */
  readonly p50Ms: number | undefined;
  readonly p99Ms: number | undefined;
}

export const viewers = 64;
/** As the script of the page does. */
export const loadEveryMs = 2_000;

export interface ViewersOptions {
  /** http://HOST:PORT */
  readonly url: string;
  readonly count: number;
  readonly everyMs: number;
}

/** Runs `work` once every viewer has seen the page, and has them go on until it has ended. */
export async function besideViewers<T>(
  { url, count, everyMs }: ViewersOptions,
  work: () => Promise<T>,
): Promise<{ readonly result: T; readonly seen: ViewersReport }> {
  const clients = Array.from({ length: count }, () => new Client(url, { pipelining: 1 }));
  const ended = new AbortController();
  const tookMs: number[] = [];
  let errors = 0;
  const load = async (client: Client): Promise<void> => {
    const askedMs = performance.now();
    try {
      const { statusCode, body } = await client.request({
        ...{ method: "GET", path: "/", headers: { "accept-encoding": "gzip" }, signal: ended.signal },
      });
      await body.dump({ limit: Number.POSITIVE_INFINITY });
      if (statusCode === 200) tookMs.push(performance.now() - askedMs);
      else errors++;
    } catch {
      if (!ended.signal.aborted) errors++;
    }
  };
  /** They begin one after the other, so that requests come evenly. */
  const view = async (client: Client, at: number, onFirst: () => void): Promise<void> => {
    await pause((at * everyMs) / count, ended.signal);
    for (; !ended.signal.aborted; onFirst()) {
      const nextMs = performance.now() + everyMs;
      await load(client);
      await pause(nextMs - performance.now(), ended.signal);
    }
  };
  const viewing: Promise<void>[] = [];
  const first = clients.map(
    (client, at) => new Promise<void>((resolve) => void viewing.push(view(client, at, resolve))),
  );
  try {
    await Promise.all(first);
    if (errors > 0) throw new Error(`${errors} of ${count} viewers did not get the page`);
    const result = await work();
    ended.abort();
    await Promise.all(viewing);
    return { result, seen: reportOf(tookMs, errors) };
  } finally {
    ended.abort();
    await Promise.all(viewing);
    await Promise.all(clients.map((client) => client.destroy()));
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(Math.max(0, ms), undefined, { signal }).catch(() => {});
}

function reportOf(tookMs: readonly number[], errors: number): ViewersReport {
  const sorted = tookMs.toSorted((one, other) => one - other);
  return { pages: sorted.length, errors, p50Ms: percentile(sorted, 0.5), p99Ms: percentile(sorted, 0.99) };
}
