/** Sends reviews straight to a contender, with a given number in flight, over kept connections. */
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { Pool } from "undici";
import { parseAnswer, reviewOf } from "../../support/review.ts";
import { type Answer, type AnswerReport, Answers } from "./answers.ts";
import { type Pod, reviewPath, type Setting } from "./setting.ts";

export interface LoadOptions {
  readonly inFlight: number;
  /** True if the review with this number is a dry run. */
  readonly isDryRun: (number: number) => boolean;
  /** True once enough have been answered: then nothing more is sent. */
  readonly enough: (answered: number) => boolean;
}

/** Pause after a failed answer, so that a contender that has ended is not flooded. */
const pauseMs = 100;

export type LoadSetting = Pick<Setting, "reviewsUrl" | "ca" | "pods" | "signal">;

export class Load {
  readonly #setting: LoadSetting;
  readonly #pool: Pool;
  readonly #isPipelined: boolean;
  #sent = 0;

  /** Connects when needed, with at most `connections`: one for each review in flight, or for each `pipelining` of them. */
  constructor(setting: LoadSetting, connections: number, pipelining = 1) {
    this.#setting = setting;
    this.#isPipelined = pipelining > 1;
    const { reviewsUrl, ca } = setting;
    this.#pool = new Pool(reviewsUrl, { connections, pipelining, allowH2: false, connect: { ca } });
  }

  /** Reviews the group's pods in turn. Every answer to a sent review counts. */
  async run({ inFlight, isDryRun, enough }: LoadOptions): Promise<AnswerReport> {
    const { pods, signal } = this.#setting;
    const answers = new Answers();
    const startedMs = performance.now();
    const ask = async (): Promise<void> => {
      while (!enough(answers.count)) {
        signal.throwIfAborted();
        const number = this.#sent++;
        const pod = pods[number % pods.length] as Pod;
        const askedMs = performance.now();
        const answer = await this.#review(pod, isDryRun(number));
        answers.add(answer, performance.now() - askedMs);
        if (answer.kind === "error") await delay(pauseMs);
      }
    };
    await Promise.all(Array.from({ length: inFlight }, ask));
    return answers.report(performance.now() - startedMs);
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  async #review(pod: Pod, dryRun: boolean): Promise<Answer> {
    const uid = randomUUID();
    try {
      const { statusCode, body } = await this.#pool.request({
        method: "POST",
        idempotent: this.#isPipelined,
        path: `${reviewPath}?timeout=10s`,
        headers: { "content-type": "application/json" },
        body: reviewOf(pod, uid, dryRun),
      });
      const text = await body.text();
      if (statusCode !== 200) return { kind: "error", message: `${statusCode} ${text.slice(0, 200)}` };
      const answer = parseAnswer(text);
      if (answer.uid !== uid) return { kind: "error", message: "the answer to another review" };
      if (answer.allowed) return { kind: "allowed", zone: pod.zone, name: pod.name };
      if (answer.code === 429) return { kind: "refused", message: answer.message };
      return { kind: "error", message: `${answer.code} ${answer.message}` };
    } catch (error) {
      return { kind: "error", message: (error as Error).message };
    }
  }
}
