/** Controllers that are stopped for a while, at times, as on a machine that is too busy. */
import { setTimeout as delay } from "node:timers/promises";
import type { ControlPlane } from "../../controlplane/controlplane.ts";
import { seededRandom } from "../../fake-cluster/random.ts";

const name = "kube-controller-manager";

export interface Pauses {
  /** Stops them now, if they run: what is taken in this moment stays away for a while. */
  now(): void;
  /** Lets the controllers run, and resolves to how often they were stopped. */
  end(): Promise<number>;
}

/** Stops them for 1.5 to 4 s, with 4 to 15 s between or less where `now` is called, drawn from a seed, until `end`. */
export function pauseControllers(controlPlane: ControlPlane, seed: number): Pauses {
  const random = seededRandom(seed);
  const over = new AbortController();
  let running = new AbortController();
  const wait = (leastMs: number, mostMs: number, signal: AbortSignal) =>
    delay(leastMs + random() * (mostMs - leastMs), undefined, { signal }).catch(() => {});
  const send = (signal: NodeJS.Signals): void => {
    const pid = controlPlane.pids()[name];
    if (!pid) throw new Error(`${name} does not run`);
    // It leads a process group of its own, because a shell that holds it on its leash is also in it.
    process.kill(-pid, signal);
  };
  const pausing = (async () => {
    let count = 0;
    while (!over.signal.aborted) {
      running = new AbortController();
      // However often a test calls `now`, the controllers run for a second in between.
      await wait(1_000, 1_000, over.signal);
      await wait(3_000, 14_000, AbortSignal.any([running.signal, over.signal]));
      if (over.signal.aborted) break;
      send("SIGSTOP");
      count++;
      await wait(1_500, 4_000, over.signal);
      send("SIGCONT");
    }
    return count;
  })();
  return {
    now: () => running.abort(),
    end() {
      over.abort();
      return pausing;
    },
  };
}
