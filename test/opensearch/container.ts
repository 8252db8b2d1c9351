/** The container of a played pod. It starts again whenever it has ended, as the kubelet has it. */
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { eventually } from "../controlplane/api.ts";
import type { Launched } from "../controlplane/processes.ts";
import { type PlayedPod, patienceMs } from "../process-manager/pod.ts";

/** A kubelet waits longer from one time to the next. */
const backOffMs = 500;

export class Container {
  readonly #stopping = new AbortController();
  readonly #last: Promise<Launched>;
  #current: Launched | undefined;

  private constructor(pod: PlayedPod) {
    this.#last = this.#keepRunning(pod);
  }

  static start(pod: PlayedPod): Container {
    return new Container(pod);
  }

  async #keepRunning(pod: PlayedPod): Promise<Launched> {
    const { signal } = this.#stopping;
    for (;;) {
      const launched = pod.start();
      this.#current = launched;
      const ended = launched.ended.then(() => delay(backOffMs, undefined, { signal }));
      await Promise.race([ended, once(signal, "abort")]).catch(() => {});
      if (signal.aborted) return launched;
    }
  }

  /** Ends it as `kill -9` does. Resolves when it has started again. */
  async restart(): Promise<void> {
    const before = this.#current;
    before?.signal("SIGKILL");
    await eventually("another container", patienceMs, async () => this.#current !== before || undefined);
  }

  /** Ends it for good, by SIGTERM, and by SIGKILL after the grace period. Resolves when it has ended. */
  async stop(graceMs: number): Promise<void> {
    this.#stopping.abort();
    const launched = await this.#last;
    await launched.stop(graceMs);
  }
}
