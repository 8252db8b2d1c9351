/** Clocks that are all set by minutes, and put right again. */
import type { Actor } from "./actor.ts";
import type { Processes } from "./processes.ts";
import type { SeedRun } from "./seed.ts";

/** A reservation that was written this long ago is nobody's to act on any more: rule R9, and ten seconds for an answer. */
const actedMs = 20_000;

export class Clocks implements Actor {
  readonly name = "clocks";
  readonly disturbances = { farClock: () => this.#stepFar() };
  readonly #run: SeedRun;
  readonly #processes: Processes;

  constructor(run: SeedRun, processes: Processes) {
    this.#run = run;
    this.#processes = processes;
  }

  /** They go back by minutes at any time, and forward only where the protocol can bear it: see `clocksMayJump` in plan.ts. */
  #stepFar(): void {
    const { draw, world } = this.#run;
    const byMs = draw.between(100_000, 400_000) * (this.#isQuiet() && draw.chance(0.5) ? 1 : -1);
    this.#processes.stepAllClocks(byMs);
    world.timeline.after(draw.between(2_000, 40_000), () => this.#stepBack(byMs));
  }

  #stepBack(byMs: number): void {
    const { world, isFaulty } = this.#run;
    // A clock that was behind goes forward when it is put right: the same holds for that.
    if (byMs < 0 && isFaulty() && !this.#isQuiet()) world.timeline.after(1_000, () => this.#stepBack(byMs));
    else this.#processes.stepAllClocks(-byMs);
  }

  /** Nobody acts on a reservation any more. */
  #isQuiet(): boolean {
    const { world, checkers } = this.#run;
    return world.timeline.nowMs() - checkers.lastMadeMs > actedMs;
  }
}
