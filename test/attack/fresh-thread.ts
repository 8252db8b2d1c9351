/** Honest clients that keep no connection: each review and each probe opens a new one, on a thread of its own. */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { type RequestOptions, request } from "node:http";
import { request as requestSecurely } from "node:https";
import { setTimeout as delay } from "node:timers/promises";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { reviewOf } from "../support/review.ts";
import type { Target } from "./target.ts";

/** Number of requests, and of answers that came in time. */
export interface Tally {
  readonly reviews: number;
  readonly reviewsAnswered: number;
  readonly probes: number;
  readonly probesAnswered: number;
  /** Milliseconds within which 99 of 100 answers came. */
  readonly p99Ms: number;
}

interface Asked {
  readonly tlsPort: number;
  readonly plainPort: number;
  readonly ca: string;
  readonly namespace: string;
  readonly pod: string;
  readonly localAddress: string;
}

/** Time that an API server waits for a webhook, and a kubelet for the liveness probe of the manifests. */
const patienceMs = { review: 10_000, probe: 5_000 } as const;
const everyMs = { review: 200, probe: 250 } as const;

/** Begins to ask from that address of loopback. `stop` waits for outstanding answers. */
export function askAfresh({ plain, tls, namespace, podName }: Target, localAddress: string) {
  const where = { tlsPort: tls.port, plainPort: plain.port, ca: tls.ca ?? "" };
  const asked: Asked = { ...where, namespace, pod: podName("a", 0), localAddress };
  const thread = new Worker(new URL(import.meta.url), { workerData: asked });
  return {
    async stop(): Promise<Tally> {
      const [[tally]] = await Promise.all([once(thread, "message"), thread.postMessage("stop")]);
      await thread.terminate();
      return tally as Tally;
    },
  };
}

/** Resolves to true if the status is 200 and the answer comes in time. */
async function isAnswered(
  send: typeof request,
  options: RequestOptions,
  withinMs: number,
  body = "",
): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const usual = { host: "127.0.0.1", agent: false, signal: AbortSignal.timeout(withinMs) };
  const sent = send({ ...usual, ...options }, (answer) => {
    answer.resume().once("end", () => resolve(answer.statusCode === 200));
  });
  sent.once("close", () => resolve(false)).once("error", () => resolve(false));
  sent.end(body);
  return promise;
}

async function askUntil(stopped: AbortSignal, asked: Asked): Promise<Tally> {
  const { tlsPort, plainPort, ca, namespace, pod, localAddress } = asked;
  const tookMs: number[] = [];
  const repeat = async (kind: keyof typeof everyMs, ask: () => Promise<boolean>) => {
    const pending: Promise<boolean>[] = [];
    while (!stopped.aborted) {
      const startedMs = performance.now();
      const one = ask();
      pending.push(one);
      void one.then(() => tookMs.push(performance.now() - startedMs));
      await delay(everyMs[kind]);
    }
    const answers = await Promise.all(pending);
    return { all: answers.length, answered: answers.filter(Boolean).length };
  };
  const headers = { "content-type": "application/json" };
  const post = {
    method: "POST",
    path: "/admission/pod-eviction?timeout=10s",
    headers,
    port: tlsPort,
    ca,
    localAddress,
  };
  const [reviews, probes] = await Promise.all([
    repeat("review", () =>
      isAnswered(requestSecurely, post, patienceMs.review, reviewOf({ namespace, name: pod }, randomUUID(), true)),
    ),
    repeat("probe", () => isAnswered(request, { path: "/healthz", port: plainPort, localAddress }, patienceMs.probe)),
  ]);
  tookMs.sort((one, other) => one - other);
  return {
    ...{ reviews: reviews.all, reviewsAnswered: reviews.answered },
    ...{ probes: probes.all, probesAnswered: probes.answered },
    p99Ms: tookMs[Math.ceil(0.99 * tookMs.length) - 1] ?? 0,
  };
}

if (!isMainThread && parentPort !== null) {
  const port = parentPort;
  const stopped = new AbortController();
  const asking = askUntil(stopped.signal, workerData as Asked);
  port.once("message", async () => {
    stopped.abort();
    port.postMessage(await asking);
  });
}
