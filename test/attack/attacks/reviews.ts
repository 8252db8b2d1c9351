/** Reviews that no API server has sent. */
import { randomUUID } from "node:crypto";
import type { Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { Pool } from "undici";
import { parseAnswer, reviewOf } from "../../support/review.ts";
import type { Attack, Outcome } from "../attack.ts";
import type { Target } from "../target.ts";
import { AnswerReader } from "../wire.ts";
import { closeAll, openMany } from "./sockets.ts";

const path = "/admission/pod-eviction?timeout=10s";
const headers = { "content-type": "application/json" };
const short = { namespace: "short", name: "db-0" };
/** Lengths of the namespace: one fills the largest review that the server once read, the other one is plausible today. */
const namespaceLengths = [8 * 2 ** 20 - 2_000, 200_000];
const longNamespaces = { short: 60, long: 160 } as const;
const distinct = { short: 3_000, long: 40_000 } as const;
const inFlight = { short: 300, long: 6_000 } as const;
const measuredMs = { short: 4_000, long: 12_000 } as const;
/** kubectl drain asks again after five seconds. */
const againMs = { short: 1_000, long: 5_000 } as const;
/** Requests to the API server that reviews of unknown pods may cost: this many at once, and then this many a second. */
const lookUps = { atOnce: 200, aSecond: 100 } as const;
const mostAnswerBytes = 64 * 1024;
const mostLogBytes = 2 ** 20;

interface AnsweredReview {
  readonly status: number;
  readonly text: string;
}

function poolOf({ tls }: Target, connections: number): Pool {
  return new Pool(`https://127.0.0.1:${tls.port}`, { connections, allowH2: false, connect: { ca: tls.ca ?? "" } });
}

/** A connection that breaks before the answer counts as status 0. */
async function post(pool: Pool, body: string): Promise<AnsweredReview> {
  try {
    const answer = await pool.request({ method: "POST", path, headers, body });
    return { status: answer.statusCode, text: await answer.body.text() };
  } catch {
    return { status: 0, text: "" };
  }
}

/** Refused reviews whose namespace has megabytes: it must not appear in memory, in answers or in the log. */
export const longNamespace: Attack = {
  name: "namespaces-of-8-MiB",
  description: (size) => `${longNamespaces[size]} reviews of a namespace of 8 MiB, or of 200 KB`,
  async run({ target, size, signal, atHeight }) {
    const pool = poolOf(target, 2);
    const count = longNamespaces[size];
    const logBefore = await target.logBytes();
    let answerBytes = 0;
    const statuses: number[] = [];
    atHeight();
    try {
      for (let number = 0; number < count; number++) {
        signal.throwIfAborted();
        const namespace = `${number}`.padEnd(namespaceLengths[number % 2] ?? 0, "n");
        const { request, ...rest } = JSON.parse(reviewOf(short, randomUUID(), number % 4 < 2));
        const { status, text } = await post(pool, JSON.stringify({ ...rest, request: { ...request, namespace } }));
        statuses.push(status);
        answerBytes += text.length;
      }
    } finally {
      await pool.destroy();
    }
    const logBytes = (await target.logBytes()) - logBefore;
    const failures = [
      ...(answerBytes > mostAnswerBytes ? [`${answerBytes} bytes of answers, more than ${mostAnswerBytes}`] : []),
      ...(logBytes > mostLogBytes ? [`${logBytes} bytes of log, more than ${mostLogBytes}`] : []),
    ];
    return { seen: `${tallyOf(statuses)}; ${answerBytes} bytes of answers, ${logBytes} of log`, failures };
  },
};

/** Refused reviews whose names never repeat: what the server remembers of them is bounded. */
export const manyNames: Attack = {
  name: "names-that-differ",
  description: (size) => `${distinct[size]} reviews, each of another namespace and name`,
  async run({ target, size, signal, atHeight }) {
    const pool = poolOf(target, 16);
    const statuses: number[] = [];
    let next = 0;
    const work = async (): Promise<void> => {
      while (next < distinct[size]) {
        signal.throwIfAborted();
        const number = next++;
        const pod = { namespace: `n-${number}`.padEnd(63, "x"), name: `p-${number}-0`.padStart(250, "x") };
        statuses.push((await post(pool, reviewOf(pod, `${randomUUID()}${"u".repeat(200)}`, false))).status);
      }
    };
    atHeight();
    try {
      await Promise.all(Array.from({ length: 32 }, work));
    } finally {
      await pool.destroy();
    }
    const lost = statuses.filter((status) => status === 0 || status >= 500).length;
    return { seen: tallyOf(statuses), failures: lost > 0 ? [`${lost} reviews were not answered, or with 5xx`] : [] };
  },
};

/** Reviews on the plain port, which every pod can reach. They must not reserve anything, so that a real drain can go on. */
export const forgedOnPlain: Attack = {
  name: "reviews-on-PORT",
  description: () => "2 forged reviews on PORT, and then a real drain in another zone",
  async run({ target, atHeight }) {
    atHeight();
    const { namespace, podName } = target;
    const statuses: number[] = [];
    for (const ordinal of [0, 1]) {
      for (const forged of ["/admission/pod-eviction", "/pods/eviction"]) {
        const body = reviewOf({ namespace, name: podName("c", ordinal) }, randomUUID(), false);
        const answer = await fetch(`http://127.0.0.1:${target.plain.port}${forged}`, { method: "POST", headers, body });
        await answer.text();
        statuses.push(answer.status);
      }
    }
    const reserved = target.reservedZones().includes("c");
    const pool = poolOf(target, 1);
    const real = await post(pool, reviewOf({ namespace, name: podName("a", 3) }, randomUUID(), false));
    await pool.destroy();
    return checkForged(statuses, reserved, real);
  },
};

function checkForged(statuses: readonly number[], reserved: boolean, { status, text }: AnsweredReview): Outcome {
  const answer = status === 200 ? parseAnswer(text) : undefined;
  const isRefused = answer?.allowed !== true;
  const outcome =
    answer === undefined ? `answered ${status}` : answer.allowed ? "let go" : `refused: ${answer.message}`;
  const failures = [
    ...(statuses.some((one) => one < 300) ? ["a review on PORT was decided"] : []),
    ...(reserved ? ["the ledger holds a pod that was reviewed on PORT"] : []),
    ...(isRefused ? [`the pod of the real drain was ${outcome}`] : []),
  ];
  return { seen: `${tallyOf(statuses)}; the pod of the real drain was ${outcome}`, failures };
}

/** Reviews of pods that do not exist, each of which could cost a request to the API server. */
export const unknownPods: Attack = {
  name: "unknown-pods",
  description: (size) =>
    `${inFlight[size]} connections that each have a pod reviewed that there is not, every ${againMs[size] / 1000} s`,
  async run({ target, size, signal, atHeight }) {
    const sockets = await openMany(target.tls, inFlight[size], signal);
    const statuses: number[] = [];
    const before = target.podLookUps();
    atHeight();
    const asking = { namespace: target.namespace, endMs: performance.now() + measuredMs[size], everyMs: againMs[size] };
    await Promise.all(
      sockets.map((socket, number) => {
        const startMs = (againMs[size] * number) / sockets.length;
        return reviewAgain(socket, `ghost-zone-a-${number}`, { ...asking, startMs }, statuses);
      }),
    );
    signal.throwIfAborted();
    const asked = target.podLookUps() - before;
    closeAll(sockets);
    const most = lookUps.atOnce + (lookUps.aSecond * measuredMs[size]) / 1000;
    const broken = statuses.filter((code) => code >= 500).length;
    const failures = [
      ...(broken > 0 ? [`${broken} were answered with 5xx`] : []),
      ...(asked > most ? [`they cost ${asked} requests to the API server, more than ${most}`] : []),
    ];
    const seen = `${sockets.length} connections taken; ${tallyOf(statuses)}; ${asked} requests to the API server`;
    return { seen, failures };
  },
};

interface Asking {
  readonly namespace: string;
  /** Time of the first review, from now on: no drain sends all of them at once. */
  readonly startMs: number;
  readonly everyMs: number;
  readonly endMs: number;
}

/** Notes the status of each answer: the one in the review, if it has one. */
async function reviewAgain(socket: Socket, name: string, asking: Asking, statuses: number[]): Promise<void> {
  const { namespace, startMs, everyMs, endMs } = asking;
  const body = reviewOf({ namespace, name }, `forged-${name}`, false);
  const head = `POST ${path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`;
  const reader = new AnswerReader([]);
  let seen = 0;
  socket.on("data", (bytes: Buffer) => {
    reader.read(bytes);
    for (const { status, body: text } of reader.answers.slice(seen))
      statuses.push(status === 200 ? parseAnswer(text).code : status);
    seen = reader.answers.length;
  });
  await delay(startMs);
  while (!socket.destroyed && performance.now() < endMs) {
    socket.write(head + body);
    await delay(Math.max(0, Math.min(everyMs, endMs - performance.now())));
  }
}

/** "3 x 400, 1 x 429"; 0 is an answer that never came. */
export function tallyOf(statuses: readonly number[]): string {
  const counts = new Map<number, number>();
  for (const status of statuses) counts.set(status, (counts.get(status) ?? 0) + 1);
  return (
    [...counts]
      .sort(([one], [other]) => one - other)
      .map(([status, count]) => `${count} x ${status}`)
      .join(", ") || "none"
  );
}
