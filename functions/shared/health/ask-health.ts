/**
 * Questions about health that are put to pods: may this one go? A pod that is not reached has not said no, but neither has it
 * said yes: the two are told apart for people, and neither permits anything.
 */

import {
  type PodAddress,
  type PodAnswer,
  type PodCallOptions,
  type PodHttp,
  PodHttpError,
  type PodRequest,
} from "../http/pod-http.ts";
import type { Health } from "../ledger/health-rule.ts";
import { failedCheck, healthByStatus, unknownHealth } from "./answer.ts";

export interface HealthRequest {
  readonly address: PodAddress;
  /** With its query; see `parsePath`. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** What an answer says. Absent: {@link healthByStatus}. Pure; what it throws is a fault of its author. */
  readonly read?: (answer: PodAnswer) => Health;
  /** For people: what to do where the pod's certificate is of an authority that is not trusted. */
  readonly untrusted?: string;
}

/** Asks with a GET. Resolves always, to `unknown` where no answer came or the caller gave it up. */
export async function askHealth(http: PodHttp, question: HealthRequest, options?: PodCallOptions): Promise<Health> {
  const { address, path, headers = {}, read = healthByStatus, untrusted } = question;
  const request: PodRequest = { method: "GET", path, headers };
  let answer: PodAnswer;
  try {
    answer = await http.send(address, request, options);
  } catch (error) {
    if (!(error instanceof PodHttpError)) throw error;
    // An answer that is too long has still said its status: that a check failed counts, whichever reader the rest was for.
    const { failed, status, isUntrusted } = error;
    const message = isUntrusted && untrusted !== undefined ? `${untrusted}: ${error.message}` : error.message;
    if (failed !== "size" || status === undefined) return unknownHealth(message);
    if (read !== healthByStatus && status !== failedCheck) return unknownHealth(message);
    return healthByStatus({ status, body: message });
  }
  return read(answer);
}
