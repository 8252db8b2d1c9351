/** Several pods are told the same thing, and each answer counts: a pod that has not said that it heard has not heard. */

import { messageOf } from "../base/error-message.ts";
import { mapLimit } from "../base/map-limit.ts";
import type { Clock } from "../clock/clock.ts";
import { defaultMostPerGroup } from "./calls.ts";
import { type PodAddress, type PodHttp, PodHttpError, type PodRequest, refusal } from "./pod-http.ts";

/** How one pod took it. */
export interface PodAnswered {
  readonly pod: string;
  readonly heard: boolean;
  /** False: nothing went out to it, so that it cannot have acted. */
  readonly sent: boolean;
  /** It was given up, for another one's failure or for want of time, and says nothing of the pod. */
  readonly isGivenUp: boolean;
  /** Of one that has not heard. */
  readonly why: string;
  /** What it answered; absent where it gave no answer. */
  readonly status?: number;
}

export interface Notification {
  readonly pods: PodHttp;
  readonly clock: Clock;
  readonly addresses: readonly PodAddress[];
  readonly request: PodRequest;
  /** Which answers say that the pod has heard. */
  readonly isHeard: (answer: { readonly status: number }) => boolean;
  /** All that is still under way at this moment of the monotonic clock is given up. */
  readonly deadlineMs: number;
  /** True: the first failure gives the others up. */
  readonly isAllOrNone: boolean;
}

/** Tells them in their order, at most 8 at once: they are of one group. Never throws for what a pod, or the way to it, does. */
export async function notifyPods(telling: Notification): Promise<readonly PodAnswered[]> {
  const { addresses, clock, deadlineMs } = telling;
  const over = new AbortController();
  const timer = new AbortController();
  void clock.sleep(Math.max(0, deadlineMs - clock.monotonicMs()), timer.signal).then(() => {
    if (!timer.signal.aborted) over.abort();
  });
  const told = await mapLimit(addresses, defaultMostPerGroup, async (address) => {
    const one = await tell(telling, address, over.signal);
    if (!one.heard && telling.isAllOrNone) over.abort();
    return one;
  });
  timer.abort();
  return told;
}

async function tell(
  { pods, request, isHeard, deadlineMs }: Notification,
  address: PodAddress,
  signal: AbortSignal,
): Promise<PodAnswered> {
  const { pod } = address;
  if (signal.aborted)
    return { pod, heard: false, sent: false, isGivenUp: true, why: "it was given up before its turn" };
  try {
    const answer = await pods.send(address, request, { signal, notAfterMs: deadlineMs });
    const { status } = answer;
    if (isHeard(answer)) return { pod, heard: true, sent: true, isGivenUp: false, why: "", status };
    return { pod, heard: false, sent: true, isGivenUp: false, why: refusal(address, request, answer).message, status };
  } catch (error) {
    if (!(error instanceof PodHttpError)) throw error;
    return { pod, heard: false, sent: error.sent, isGivenUp: error.failed === "aborted", why: messageOf(error) };
  }
}
