/**
 * Questions about health that are put to pods: may this one go? A pod that is not reached has not said no, but neither has it
 * said yes: the two are told apart for people, and neither permits anything.
 */
import {
  isSuccess,
  type PodAddress,
  type PodAnswer,
  type PodCallOptions,
  type PodHttp,
  PodHttpError,
  type PodRequest,
} from "./pod-http.ts";

export interface HealthQuestion {
  readonly address: PodAddress;
  /** With its query; see `parsePath`. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** What an answer says. Absent: {@link healthByStatus}. Pure; what it throws is a fault of its author. */
  readonly read?: (answer: PodAnswer) => Health;
}

/**
 * `good` permits. `bad`: the pod answered, and said no. `unknown`: it gave no answer, or none to this question. A password that
 * is wrong, or a path that is not there, is never taken for a yes or a no.
 */
export interface Health {
  readonly state: "good" | "bad" | "unknown";
  /** For people, on one line or several; at most some hundred characters. Others wrote it: escape it where it is shown. */
  readonly words: string;
}

/** A check that failed says 503, as readiness checks and RabbitMQ's do. */
const failedCheck = 503;
const longestWords = 300;

/** Asks with a GET. Resolves always, to `unknown` where no answer came or the caller gave it up. */
export async function askHealth(http: PodHttp, question: HealthQuestion, options?: PodCallOptions): Promise<Health> {
  const { address, path, headers = {}, read = healthByStatus } = question;
  const request: PodRequest = { method: "GET", path, headers };
  let answer: PodAnswer;
  try {
    answer = await http.send(address, request, options);
  } catch (error) {
    if (!(error instanceof PodHttpError)) throw error;
    // An answer that is too long to be read has still said its status.
    const { failed, status, message } = error;
    if (failed !== "size" || status === undefined || read !== healthByStatus) return unknown(message);
    return healthByStatus({ status, body: message });
  }
  return read(answer);
}

/** 200 to 299 is good, and 503 is bad; the rest is no answer to the question. */
export function healthByStatus({ status, body }: Pick<PodAnswer, "status" | "body">): Health {
  const words = `HTTP ${status} ${body.trim()}`.trimEnd().slice(0, longestWords);
  if (isSuccess({ status })) return { state: "good", words };
  return status === failedCheck ? { state: "bad", words } : unknown(words);
}

function unknown(words: string): Health {
  return { state: "unknown", words: words.slice(0, longestWords) };
}
