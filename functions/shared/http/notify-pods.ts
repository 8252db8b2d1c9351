/** Sends one request to several pods. A pod counts as notified only if `isHeard` accepts its answer. */

import { messageOf } from "../base/error-message.ts";
import { mapLimit } from "../base/map-limit.ts";
import type { Clock } from "../clock/clock.ts";
import { defaultMostPerGroup } from "./calls.ts";
import { type PodAddress, type PodHttp, PodHttpError, type PodRequest, refusal } from "./pod-http.ts";

/** The answer of one pod. */
export interface PodAnswered {
  readonly pod: string;
  readonly accepted: boolean;
  /** False: nothing went out to it, so that it cannot have acted. */
  readonly sent: boolean;
  /** True if the call was given up, for the failure of another one or for want of time, so that it says nothing about the pod. */
  readonly isGivenUp: boolean;
  /** Why the pod has not confirmed; empty if it has. */
  readonly why: string;
  /** Status of its answer; absent if there was none. */
  readonly status?: number;
}

export interface Notification {
  readonly pods: PodHttp;
  readonly clock: Clock;
  readonly addresses: readonly PodAddress[];
  readonly request: PodRequest;
  /** Which answers confirm that the pod knows. */
  readonly isAccepted: (answer: { readonly status: number }) => boolean;
  /** All that is still under way at this moment of the monotonic clock is given up. */
  readonly deadlineMs: number;
  /** True: the first failure gives the others up. */
  readonly isAllOrNone: boolean;
}

/** Notifies pods of one group in their order, at most 8 at once. Never throws for a failure of a pod or of the way to it. */
export async function notifyPods(notification: Notification): Promise<readonly PodAnswered[]> {
  const { addresses, clock, deadlineMs } = notification;
  const over = new AbortController();
  const timer = new AbortController();
  void clock.sleep(Math.max(0, deadlineMs - clock.monotonicMs()), timer.signal).then(() => {
    if (!timer.signal.aborted) over.abort();
  });
  const notified = await mapLimit(addresses, defaultMostPerGroup, async (address) => {
    const one = await notify(notification, address, over.signal);
    if (!one.accepted && notification.isAllOrNone) over.abort();
    return one;
  });
  timer.abort();
  return notified;
}

async function notify(
  { pods, request, isAccepted, deadlineMs }: Notification,
  address: PodAddress,
  signal: AbortSignal,
): Promise<PodAnswered> {
  const { pod } = address;
  if (signal.aborted)
    return { pod, accepted: false, sent: false, isGivenUp: true, why: "it was given up before its turn" };
  try {
    const answer = await pods.send(address, request, { signal, notAfterMs: deadlineMs });
    const { status } = answer;
    if (isAccepted(answer)) return { pod, accepted: true, sent: true, isGivenUp: false, why: "", status };
    return {
      pod,
      accepted: false,
      sent: true,
      isGivenUp: false,
      why: refusal(address, request, answer).message,
      status,
    };
  } catch (error) {
    if (!(error instanceof PodHttpError)) throw error;
    return { pod, accepted: false, sent: error.sent, isGivenUp: error.failed === "aborted", why: messageOf(error) };
  }
}
