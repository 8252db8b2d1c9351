/** The clock of the servers in virtual time: minutes pass in microseconds, and in the same order in every run. */
import type { Clock } from "../../../../functions/shared/clock/clock.ts";
import { VirtualTimeline } from "../../../fake-cluster/timeline.ts";

export interface VirtualClock extends Clock {
  /** Lets time pass until `ms` after the start, with everything that happens until then. */
  goTo(ms: number): Promise<void>;
  /** Number of sleeps that have not ended. */
  readonly pending: number;
}

/** Node's timers fire at once if the time is too long, or missing. */
const longestTimerMs = 2 ** 31 - 1;

export function createVirtualClock(): VirtualClock {
  const timeline = new VirtualTimeline(0);
  return {
    monotonicMs: () => timeline.nowMs(),
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted) return resolve();
        const resume = () => {
          cancel();
          signal?.removeEventListener("abort", resume);
          resolve();
        };
        const cancel = timeline.after(ms <= longestTimerMs ? ms : 1, resume);
        signal?.addEventListener("abort", resume, { once: true });
      }),
    get pending() {
      return timeline.pending;
    },
    async goTo(ms) {
      let arrived = false;
      timeline.after(ms - timeline.nowMs(), () => {
        arrived = true;
      });
      await timeline.run(() => arrived);
    },
  };
}
