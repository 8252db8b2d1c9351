/**
 * Questions about health to pods: may this one go? A pod that is not reached has not said no, but it has not said yes either:
 * people see which it is, and neither permits anything.
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

/** Asks with a GET. Always resolves, and to `unknown` if no answer came or the caller aborted. */
export async function askHealth(http: PodHttp, question: HealthRequest, options?: PodCallOptions): Promise<Health> {
  const { address, path, headers = {}, read = healthByStatus, untrusted } = question;
  const request: PodRequest = { method: "GET", path, headers };
  let answer: PodAnswer;
  try {
    answer = await http.send(address, request, options);
  } catch (error) {
    if (!(error instanceof PodHttpError)) throw error;
    // The status of an answer that is too long still counts: a failed check needs no reader.
    const { failed, status, isUntrusted } = error;
    const message = isUntrusted && untrusted !== undefined ? `${untrusted}: ${error.message}` : error.message;
    if (failed !== "size" || status === undefined) return unknownHealth(message);
    if (read !== healthByStatus && status !== failedCheck) return unknownHealth(message);
    return healthByStatus({ status, body: message });
  }
  return read(answer);
}
