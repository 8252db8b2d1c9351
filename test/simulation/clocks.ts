/** Sets all clocks wrong by minutes, and right again. */
import type { Actor } from "./actor.ts";
import type { Processes } from "./processes.ts";
import type { SeedRun } from "./seed.ts";

/**
 * Shortest time between two steps forward. A process without watches has no other clock than these. It would be misled by a
 * second step of minutes after it saw a reservation overdue, while another process still acts on it (rule R10).
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

  /** Sets all clocks, also while a process acts. `clocksMayJump` in draw-plan.ts says which seeds leave them alone. */
  #stepFar(): void {
    const { draw, plan, world } = this.#run;
    const { farAheadMs } = plan;
    if (farAheadMs !== undefined && !this.#mayGoForward()) return;
    const byMs = farAheadMs ?? draw.between(100_000, 400_000) * (draw.chance(0.5) && this.#mayGoForward() ? 1 : -1);
    this.#step(byMs);
    world.timeline.after(draw.between(2_000, 40_000), () => this.#putRight(byMs));
  }

  /** Undoes a step. A clock that was behind steps forward by that. */
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
