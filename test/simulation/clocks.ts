/** Clocks that are all set by minutes, and put right again. */
import type { Actor } from "./actor.ts";
import type { Processes } from "./processes.ts";
import type { SeedRun } from "./seed.ts";

/**
 * They go forward once in this time at most. A process that comes and goes has only these clocks: it is misled where they go
 * forward once more, by minutes, after a reservation was sighted, while another process still acts on it (rule R10).
 */
const forwardEveryMs = 180_000;

export class Clocks implements Actor {
  readonly name = "clocks";
  readonly disturbances = { farClock: () => this.#stepFar() };
  readonly #run: SeedRun;
  readonly #processes: Processes;
  #forwardMs = Number.NEGATIVE_INFINITY;

  constructor(run: SeedRun, processes: Processes) {
    this.#run = run;
    this.#processes = processes;
  }

  /** Steps all clocks, also while a process acts: see `clocksMayJump` in draw-plan.ts for where they are left alone. */
  #stepFar(): void {
    const { draw, plan, world } = this.#run;
    const { farAheadMs } = plan;
    if (farAheadMs !== undefined && !this.#mayGoForward()) return;
    const byMs = farAheadMs ?? draw.between(100_000, 400_000) * (draw.chance(0.5) && this.#mayGoForward() ? 1 : -1);
    this.#step(byMs);
    world.timeline.after(draw.between(2_000, 40_000), () => this.#putRight(byMs));
  }

  /** A clock that was behind goes forward when it is put right. */
  #putRight(byMs: number): void {
    const { world } = this.#run;
    if (byMs > 0 || this.#mayGoForward()) this.#step(-byMs);
    else world.timeline.after(1_000, () => this.#putRight(byMs));
  }

  #mayGoForward(): boolean {
    return this.#run.world.timeline.nowMs() - this.#forwardMs >= forwardEveryMs;
  }

  #step(byMs: number): void {
    if (byMs > 0) this.#forwardMs = this.#run.world.timeline.nowMs();
    this.#processes.stepAllClocks(byMs);
  }
}
