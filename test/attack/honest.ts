/** Honest clients of the attacked server: an API server with reviews, a source with events, a kubelet with probes. */
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { Pool } from "undici";
import { changed } from "../support/posted.ts";
import { parseAnswer, reviewOf } from "../support/review.ts";

/** Addresses of the server, and the pods to ask about. */
export interface Asked {
  readonly plainPort: number;
  readonly tlsPort: number;
  readonly ca: string;
  readonly namespace: string;
  readonly pods: readonly string[];
}

export interface HonestReport {
  readonly asked: number;
  /** Time within which 99 of 100 reviews were answered, in milliseconds. */
  readonly reviewP99Ms: number;
  readonly slowestMs: number;
  /** How often each failure occurred. */
  readonly failures: Readonly<Record<string, number>>;
}

/** Honest clients, which ask until they are stopped. */
export interface Honest {
  /** Earlier requests count only for failures from now on, and not for latencies. */
  mark(): void;
  /** The report since the last one. */
  take(): HonestReport;
  stop(): Promise<void>;
}

/** Time that an API server waits for a webhook by default. */
const patienceMs = 10_000;
const everyMs = 50;
const probeEveryMs = 1_000;
/** A kubelet probes three times before it restarts a container, and waits longer in between. */
const probesInARow = 3;
const probeAgainMs = 3_000;

/** Begins to ask. Reviews and events use kept connections, and each probe opens a new one. */
export function askHonestly({ plainPort, tlsPort, ca, namespace, pods }: Asked): Honest {
  const reviews = new Pool(`https://127.0.0.1:${tlsPort}`, {
    ...{ connections: 2, pipelining: 1, allowH2: false, headersTimeout: patienceMs, bodyTimeout: patienceMs },
    connect: { ca },
  });
  const plain = `http://127.0.0.1:${plainPort}`;
  const events = new Pool(plain, { connections: 2, headersTimeout: patienceMs, bodyTimeout: patienceMs });
  const tookMs = { review: [] as number[], other: [] as number[] };
  let failures: Record<string, number> = {};
  const ended = new AbortController();
  const repeat = async (pauseMs: number, kind: keyof typeof tookMs, ask: () => Promise<void>): Promise<void> => {
    while (!ended.signal.aborted) {
      const startedMs = performance.now();
      await ask().catch(({ message }: Error) => {
        failures[message] = (failures[message] ?? 0) + 1;
      });
      tookMs[kind].push(performance.now() - startedMs);
      await delay(pauseMs, undefined, { signal: ended.signal }).catch(() => undefined);
    }
  };
  const asking = Promise.all([
    ...pods.map((name) => repeat(everyMs, "review", () => review(reviews, namespace, name))),
    repeat(everyMs, "other", () => event(events, namespace)),
    repeat(probeEveryMs, "other", () => probe(plain)),
  ]);
  const mark = () => {
    tookMs.review = [];
    tookMs.other = [];
  };
  return {
    mark,
    take() {
      const sorted = tookMs.review.toSorted((one, other) => one - other);
      const all = [...tookMs.review, ...tookMs.other];
      const reviewP99Ms = sorted[Math.ceil(0.99 * sorted.length) - 1] ?? 0;
      const report = { asked: all.length, reviewP99Ms, slowestMs: Math.max(0, ...all), failures };
      mark();
      failures = {};
      return report;
    },
    async stop() {
      ended.abort();
      await asking;
      await Promise.all([reviews.destroy(), events.destroy()]);
    },
  };
}

/** Throws if the answer is malformed, or anything but an allowance or a request to retry. */
async function review(pool: Pool, namespace: string, name: string): Promise<void> {
  const uid = randomUUID();
  const { statusCode, body } = await pool.request({
    method: "POST",
    path: "/admission/pod-eviction?timeout=10s",
    headers: { "content-type": "application/json" },
    body: reviewOf({ namespace, name }, uid, true),
  });
  const text = await body.text();
  if (statusCode !== 200) throw new Error(`an honest review was answered ${statusCode}: ${text.slice(0, 120)}`);
  const { uid: answered, allowed, code, message: reason } = parseAnswer(text);
  if (answered !== uid) throw new Error("an honest review was given another one's answer");
  if (!allowed && code !== 429) throw new Error(`an honest review was refused with ${code}: ${reason}`);
}

async function event(pool: Pool, namespace: string): Promise<void> {
  const headers = changed("StatefulSet", namespace, "db-zone-a");
  const { statusCode, body } = await pool.request({ method: "POST", path: "/", headers, body: "{}" });
  const text = await body.text();
  if (statusCode !== 204) throw new Error(`an honest event was answered ${statusCode}: ${text.slice(0, 120)}`);
}

/** Probes over a connection of its own. A single failure is harmless, but three in a row end a pod. */
async function probe(plain: string): Promise<void> {
  for (let left = probesInARow; ; left--) {
    try {
      const options = { headers: { connection: "close" }, signal: AbortSignal.timeout(patienceMs) };
      const answer = await fetch(`${plain}/healthz`, options);
      await answer.text();
      if (answer.ok) return;
      throw new Error(`a probe was answered ${answer.status}`);
    } catch (error) {
      if (left > 1) {
        await delay(probeAgainMs);
        continue;
      }
      const { message, cause } = error as Error;
      throw new Error(`three probes in a row were not answered: ${message} ${(cause as Error)?.message ?? ""}`.trim());
    }
  }
}
