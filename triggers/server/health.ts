/** Whether the API server has answered lately: events are worth accepting only while their objects can be read. */

import { messageOf } from "../../functions/shared/base/error-message.ts";
import type { Clock } from "../../functions/shared/clock/clock.ts";
import type { RequestObservation } from "../../functions/shared/kubernetes/client.ts";
import { ClusterError } from "../../functions/shared/kubernetes/cluster.ts";

/** The API server counts as away once every call has failed for this long, in milliseconds. */
const awayAfterMs = 10_000;
/** How often the API server is asked whether it is back, while calls fail, in milliseconds. */
const probeEveryMs = 2_000;

export interface ApiServerHealth {
  /** Called for every exchange with the API server. */
  observe(observation: Pick<RequestObservation, "statusCode">): void;
  /** Why the API server counts as away; undefined while it does not. */
  away(): string | undefined;
  /** Asks the API server while calls fail, until stopped. Resolves, never rejects. */
  probe(ready: () => Promise<unknown>, stopped: AbortSignal): Promise<void>;
  /**
   * Asks the API server until it answers, and resolves to its answer. Rejects with the ClusterError of an answer that stays as
   * it is, however often it is asked: a missing right, or no such path.
   */
  firstAnswer<Answer>(ready: () => Promise<Answer>): Promise<Answer>;
}

/** `onChange` is called once when the API server stops answering, and once when it answers again. */
export function createHealth(clock: Clock, onChange: (message: string, isTrouble: boolean) => void): ApiServerHealth {
  let answered = false;
  let failingSinceMs: number | undefined;
  let complained = false;
  const succeed = () => {
    answered = true;
    failingSinceMs = undefined;
    if (complained) onChange("the API server answers again", false);
    complained = false;
  };
  const fail = () => {
    failingSinceMs ??= clock.monotonicMs();
  };
  const complain = (error: unknown, stopped: AbortSignal) => {
    fail();
    if (stopped.aborted || complained) return;
    complained = true;
    onChange(`${messageFor(error)}; trying again every ${probeEveryMs / 1000} s`, true);
  };
  return {
    observe({ statusCode }) {
      // 401: it answers, but rejects us. 429: it is busy, and not away.
      const works = statusCode !== "error" && statusCode < 500 && statusCode !== 401;
      if (works) succeed();
      else fail();
    },
    away() {
      if (!answered) return "the API server has not answered yet";
      const isAway = failingSinceMs !== undefined && clock.monotonicMs() - failingSinceMs >= awayAfterMs;
      return isAway ? `the API server has not answered for ${awayAfterMs / 1000} s` : undefined;
    },
    async probe(ready, stopped) {
      while (!stopped.aborted) {
        if (!answered || failingSinceMs !== undefined) await ready().then(succeed, (error) => complain(error, stopped));
        await clock.sleep(probeEveryMs, stopped);
      }
    },
    async firstAnswer(ready) {
      const never = new AbortController().signal;
      for (;;) {
        try {
          const answer = await ready();
          succeed();
          return answer;
        } catch (error) {
          if (isFinal(error)) throw error;
          complain(error, never);
        }
        await clock.sleep(probeEveryMs, never);
      }
    },
  };
}

/** 401 and 429 may end without a change of this process: the credentials are read anew, and a busy API server has time again. */
function isFinal(error: unknown): boolean {
  if (!(error instanceof ClusterError) || error.code === undefined) return false;
  return error.code >= 400 && error.code < 500 && error.code !== 401 && error.code !== 429;
}

function messageFor(error: unknown): string {
  if (error instanceof ClusterError && error.code === 401) {
    return `the API server does not accept our credentials: ${error.message}`;
  }
  return `the API server does not answer: ${messageOf(error)}`;
}
